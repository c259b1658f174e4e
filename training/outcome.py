"""What a training run made, and what it says of itself."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from canopy.domain.episode import EpisodeKind
from canopy.domain.evidence import Lineage
from policy.artifact import Artifact
from training.config import TrainConfig
from training.data.intake import Intake
from training.fitting import Fitted
from training.problem import Problem
from training.report import LevelShare, Reliability
from training.terms import Term


@dataclass(frozen=True, slots=True)
class Prepared:
    """A log ready to be learnt from.

    Attributes:
        taken: The log as it was taken in.
        problem: The learning problem that it sets.
    """

    taken: Intake
    problem: Problem

    @property
    def n_train(self) -> int:
        """Training rows, those without a choice among them."""
        return len(self.problem.train) + self.problem.train.n_single


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """What came of a run.

    Attributes:
        artifact: The policy.
        prepared: What it was learnt from.
        terms: What was minimised.
        lineage: Everything that touched the policy.
        fitted: The head, how it serves, and what else was tried.
        shares: Where the policy moves share, on validation rows.
        calibration: Forecasts against outcomes.
        run_id: Its id in MLflow; None where it was not recorded.
        model: Registered model with its version; None where it was not recorded.
        seconds: From the log to the artifact.
    """

    artifact: Artifact
    prepared: Prepared
    terms: tuple[Term, ...]
    lineage: Lineage
    fitted: Fitted
    shares: tuple[LevelShare, ...]
    calibration: Reliability
    run_id: str | None
    model: str | None
    seconds: float


def flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Nested settings by dotted name."""
    found: dict[str, object] = {}
    for key, value in nested.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found.update(flat(value, f"{name}."))
        else:
            found[name] = value
    return found


def objective_name(config: TrainConfig) -> str:
    """The objectives of a configuration, as one name."""
    return "+".join(config.objective)


def _facts(terms: tuple[Term, ...]) -> dict[str, Any]:
    """What terms report; with their names where there are several."""
    if len(terms) == 1:
        return dict(terms[0].facts)
    return {f"{term.name}.{key}": fact for term in terms for key, fact in term.facts.items()}


def summary(run: TrainingRun, config: TrainConfig) -> dict[str, Any]:
    """What a run came to, as JSON carries it."""
    prepared, fitted, counts = run.prepared, run.fitted, run.prepared.taken.counts
    validation = prepared.problem.validation
    stands_for = 1.0 / validation.keep_prob
    return {
        "policy_id": run.artifact.policy_id,
        "artifact": str(run.artifact.folder.absolute()),
        "run_id": run.run_id,
        "model": run.model,
        "objective": objective_name(config),
        "reward": run.prepared.taken.reward.document(),
        "seed": config.seed,
        "n_rows": prepared.n_train + len(validation),
        "n_train": prepared.n_train,
        "n_validation": len(validation),
        "n_reserved": counts.n_reserved,
        "n_not_drawn": counts.n_not_drawn,
        "n_null_reward": counts.n_null_reward,
        "n_single_feasible": counts.n_single_feasible,
        "n_known_units": counts.n_known_units,
        "n_plans": prepared.taken.catalog.n_plans,
        "n_features": prepared.taken.schema.width,
        "pairs": len(prepared.problem.shape.pairs),
        "ess": min(term.ess for term in run.terms),
        "weights": _facts(run.terms),
        "temperature": fitted.chosen.temperature,
        **fitted.chosen.penalty._asdict(),
        "floor": config.serving.floor,
        "logged_value": float(stands_for @ validation.reward / stands_for.sum()),
        "served_value": fitted.chosen.served.value,
        "served_ess": fitted.chosen.served.ess,
        "greedy_value": fitted.greedy.value,
        "greedy_ess": fitted.greedy.ess,
        "curve": asdict(fitted.curve),
        "penalties": [
            {**penalty._asdict(), "validation_loss": loss} for penalty, loss in fitted.penalties
        ],
        "tried": [
            {"temperature": one.temperature, **asdict(one.served)} for one in fitted.candidates
        ],
        "shares": [asdict(share) for share in run.shares],
        "calibration_error": run.calibration.error,
        "data_hash": prepared.taken.log_hash,
        "catalog_hash": prepared.taken.catalog.content_hash,
        "synthetic": prepared.taken.kind is EpisodeKind.SYNTHETIC,
        "lineage": run.lineage.document(),
        "calibration": {
            "what": run.calibration.what,
            "predicted": run.calibration.predicted.tolist(),
            "observed": run.calibration.observed.tolist(),
        },
        "settings": flat(asdict(config)),
        "seconds": run.seconds,
    }
