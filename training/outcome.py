"""What a training run made, and what it says of itself."""

from dataclasses import asdict, dataclass
from typing import Any

from canopy.domain.episode import EpisodeKind
from canopy.logs.weights import effective_sample_size
from policy.artifact import Artifact
from policy.catalog import Catalog
from policy.features import FeatureSchema
from training.config import TrainConfig
from training.data.rows import Counts
from training.fitting import Fitted
from training.problem import Problem, Weighting
from training.report import LevelShare, Reliability


@dataclass(frozen=True, slots=True)
class Prepared:
    """A log ready to be learnt from.

    Attributes:
        log_hash: Identity of the log's content.
        kind: Where its episodes came from.
        catalog: Its plans.
        schema: Features, fitted on training rows alone.
        problem: The learning problem.
        counts: What was left out of the log.
    """

    log_hash: str
    kind: EpisodeKind
    catalog: Catalog
    schema: FeatureSchema
    problem: Problem
    counts: Counts


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """What came of a run.

    Attributes:
        artifact: The policy.
        prepared: What it was learnt from.
        weighting: How much each row counted.
        fitted: The head, how it serves, and what else was tried.
        shares: Where the policy moves share, on validation rows.
        calibration: Forecasts against outcomes.
        run_id: Its id in MLflow; None where it was not recorded.
        model: Registered model with its version; None where it was not recorded.
        seconds: From the log to the artifact.
    """

    artifact: Artifact
    prepared: Prepared
    weighting: Weighting
    fitted: Fitted
    shares: tuple[LevelShare, ...]
    calibration: Reliability
    run_id: str | None
    model: str | None
    seconds: float


def summary(run: TrainingRun, config: TrainConfig) -> dict[str, Any]:
    """What a run came to, as JSON carries it."""
    prepared, fitted, counts = run.prepared, run.fitted, run.prepared.counts
    validation = prepared.problem.validation
    stands_for = 1.0 / validation.keep_prob
    return {
        "policy_id": run.artifact.policy_id,
        "artifact": str(run.artifact.folder.absolute()),
        "run_id": run.run_id,
        "model": run.model,
        "objective": config.objective.name,
        "seed": config.seed,
        "n_rows": len(prepared.problem.train) + len(validation),
        "n_train": len(prepared.problem.train),
        "n_validation": len(validation),
        "n_reserved": counts.n_reserved,
        "n_not_drawn": counts.n_not_drawn,
        "n_null_reward": counts.n_null_reward,
        "n_single_feasible": counts.n_single_feasible,
        "n_plans": prepared.catalog.n_plans,
        "n_features": prepared.schema.width,
        "pairs": len(prepared.problem.shape.pairs),
        "ess": effective_sample_size(run.weighting.train),
        "weights": dict(run.weighting.facts),
        "temperature": fitted.chosen.temperature,
        "pair_l2": fitted.chosen.pair_l2,
        "floor": config.serving.floor,
        "logged_value": float(stands_for @ validation.reward / stands_for.sum()),
        "served_value": fitted.chosen.served.value,
        "served_ess": fitted.chosen.served.ess,
        "greedy_value": fitted.greedy.value,
        "greedy_ess": fitted.greedy.ess,
        "curve": asdict(fitted.curve),
        "tried": [asdict(candidate) for candidate in fitted.candidates],
        "shares": [asdict(share) for share in run.shares],
        "calibration_error": run.calibration.error,
        "data_hash": prepared.log_hash,
        "synthetic": prepared.kind is EpisodeKind.SYNTHETIC,
        "seconds": run.seconds,
    }
