"""One training run: from a log to a verified artifact, recorded where runs are recorded."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from canopy.domain.episode import RESERVE_SALT, RESERVE_SHARE, EpisodeKind
from canopy.domain.errors import ConfigError
from canopy.domain.evidence import Lineage, train_corpus
from canopy.domain.ids import canonical_json, content_hash
from canopy.settings import Settings
from policy.artifact import Artifact
from policy.scoring import target_rows
from training.artifact_export import ProbeBatch, export_policy
from training.checkpoints import Checkpoints
from training.config import Device, RuntimeConfig, TrainConfig
from training.data.intake import take_in
from training.fitting import Fitted, fit_policy, numpy_head
from training.head import head_shape, tenant_columns
from training.loop import Fitter
from training.objectives import terms_of
from training.outcome import Prepared, TrainingRun
from training.problem import Problem
from training.progress import progress_bar
from training.recording import Recorder
from training.report import LevelShare, Reliability, imitation, level_shares, reliability
from training.terms import Term

_PROBE_ROWS = 256


def train(config: TrainConfig, settings: Settings) -> TrainingRun:
    """Train a policy on a log and write its artifact.

    Args:
        config: What to do.
        settings: The installation: where artifacts and runs go.

    Returns:
        The run; its artifact is verified.

    Raises:
        CanopyError: If the log, the catalog or the configuration is wrong, the run is refused,
            or a server is unreachable; the message says which.
    """
    check(config)
    started = time.perf_counter()
    prepared = prepare(config, settings.home / "runs")
    name = config.name or prepared.taken.catalog.discipline
    out = Path(config.out) if config.out else settings.home / "policies"
    with Recorder.open(config, settings, name) as recorder, _repeatable(config.runtime):
        checkpoints = Checkpoints(
            settings.home / "runs" / "checkpoints" / fingerprint(prepared, config)
        )
        terms, fitted = learn(prepared.problem, config, checkpoints)
        lineage = lineage_of(prepared, terms)
        artifact = _export(prepared, fitted, config, out, name, recorder.run_id, lineage)
        shares, calibration = _report(prepared, fitted, terms, artifact)
        run = TrainingRun(
            artifact=artifact,
            prepared=prepared,
            terms=terms,
            lineage=lineage,
            fitted=fitted,
            shares=shares,
            calibration=calibration,
            run_id=recorder.run_id,
            model=None,
            seconds=time.perf_counter() - started,
        )
        done = recorder.record(run)
        checkpoints.clear()
        return done


def fingerprint(prepared: Prepared, config: TrainConfig) -> str:
    """What decides a run's weights: the same again goes on where a kill left it.

    Args:
        prepared: The data.
        config: The configuration.
    """
    told = asdict(config)
    for key in ("out", "name", "print", "runtime"):
        del told[key]
    told["threads"] = config.runtime.threads
    told["device"] = prepared.problem.device.type
    told["data"] = prepared.taken.log_hash
    told["catalog"] = prepared.taken.catalog.content_hash
    told["torch"] = str(torch.__version__)
    return content_hash(canonical_json(told))


def check(config: TrainConfig) -> None:
    """Refuse settings that no log can satisfy.

    Raises:
        ConfigError: Naming the key.
    """
    data, serving, optim = config.data, config.serving, config.optim
    bounds: dict[str, tuple[object, bool]] = {
        "data.validation_share": (data.validation_share, 0 < data.validation_share < 1),
        "serving.floor": (serving.floor, 0 <= serving.floor < 1),
        "serving.temperatures": (serving.temperatures, all(t > 0 for t in serving.temperatures)),
        "data.most_validation_rows": (data.most_validation_rows, data.most_validation_rows >= 1),
        "optim.batch_size": (optim.batch_size, optim.batch_size >= 1),
        "optim.learning_rate": (optim.learning_rate, optim.learning_rate > 0),
        "optim.epochs": (optim.epochs, optim.epochs is None or optim.epochs > 0),
        "head.l2": (config.head.l2, all(p >= 0 for p in config.head.l2)),
        "head.tenant_l2": (config.head.tenant_l2, all(p >= 0 for p in config.head.tenant_l2)),
        "head.pair_l2": (config.head.pair_l2, all(p >= 0 for p in config.head.pair_l2)),
        "runtime.threads": (config.runtime.threads, config.runtime.threads >= 1),
    }
    for key, (value, is_fine) in bounds.items():
        if not is_fine:
            raise ConfigError(key, f"{value} is out of range.", "See configs/ for its meaning.")


def prepare(config: TrainConfig, folder: Path, *, window: int | None = None) -> Prepared:
    """Rows, features and head of a log; reserved units stay outside.

    Args:
        config: Which log, and what of it.
        folder: Where rows are put that memory shall not hold.
        window: Most training rows held at once; None for what fits.

    Raises:
        CanopyError: As for `take_in`.
    """
    taken = take_in(config.data, config.reward, folder, window=window)
    schema, catalog, beyond = taken.schema, taken.catalog, taken.validation
    problem = Problem(
        catalog=catalog,
        shape=head_shape(
            catalog, schema.width, config.head, tenant_columns(schema, config.head.tenant)
        ),
        train=taken.train,
        validation=beyond,
        validation_features=schema.encode_many(beyond.context, n_rows=len(beyond)),
        seed=config.seed,
        device=_device(config.runtime.device),
    )
    return Prepared(taken, problem)


def _device(asked: Device) -> torch.device:
    """What computes.

    Raises:
        ConfigError: If there is no such accelerator.
    """
    has_one = torch.cuda.is_available()
    if asked is Device.cuda and not has_one:
        raise ConfigError(
            "runtime.device", "torch finds no accelerator here.", "Write runtime.device=auto."
        )
    return torch.device("cuda" if has_one and asked is not Device.cpu else "cpu")


def learn(
    problem: Problem, config: TrainConfig, checkpoints: Checkpoints | None = None
) -> tuple[tuple[Term, ...], Fitted]:
    """Set up what is minimised, fit the heads, choose the best and how to serve it.

    Args:
        problem: The rows.
        config: The configuration.
        checkpoints: Where fits are kept; None where they are not.
    """
    with progress_bar(is_wanted=config.runtime.progress) as tick:
        fitter = Fitter(config.optim, tick, checkpoints)
        terms = terms_of(problem, config.objective, fitter)
        fitted = fit_policy(problem, terms, head=config.head, serving=config.serving, fitter=fitter)
    return terms, fitted


def lineage_of(prepared: Prepared, terms: tuple[Term, ...]) -> Lineage:
    """Everything that touched a policy: the log's open part, rewards, and terms.

    Args:
        prepared: The log, with its rewards.
        terms: What was minimised.
    """
    lineage = Lineage(corpora=frozenset({train_corpus(prepared.taken.log_hash)}))
    lineage |= prepared.taken.reward.lineage
    for term in terms:
        lineage |= term.lineage
    return lineage


def _export(
    prepared: Prepared,
    fitted: Fitted,
    config: TrainConfig,
    out: Path,
    name: str,
    run_id: str | None,
    lineage: Lineage,
) -> Artifact:
    validation = prepared.problem.validation
    n_probe = min(_PROBE_ROWS, len(validation))
    chosen = fitted.chosen
    facts: dict[str, Any] = {
        "training_run_id": run_id,
        "data_hash": prepared.taken.log_hash,
        "objective": {name: asdict(chosen) for name, chosen in config.objective.items()},
        "reward_spec": config.reward.name,
        "reward_components": prepared.taken.reward.document(),
        "lineage": lineage.document(),
        "n_rows": prepared.n_train + len(validation),
        "synthetic": prepared.taken.kind is EpisodeKind.SYNTHETIC,
        "reserve": {"salt": RESERVE_SALT, "share": RESERVE_SHARE},
        "counts": asdict(prepared.taken.counts),
        "seed": config.seed,
        "validation": {
            "share": config.data.validation_share,
            "n": chosen.served.n,
            "served_value": chosen.served.value,
            "served_ess": chosen.served.ess,
            "greedy_value": fitted.greedy.value,
            "greedy_ess": fitted.greedy.ess,
        },
    }
    return export_policy(
        fitted.head,
        out,
        name=name.replace("/", "-"),
        catalog=prepared.taken.catalog,
        schema=prepared.taken.schema,
        temperature=chosen.temperature,
        floor=config.serving.floor,
        facts=facts,
        probe=ProbeBatch(
            {key: column[:n_probe] for key, column in validation.context.items()},
            validation.feasible[:n_probe],
        ),
    )


def _report(
    prepared: Prepared, fitted: Fitted, terms: tuple[Term, ...], artifact: Artifact
) -> tuple[tuple[LevelShare, ...], Reliability]:
    problem = prepared.problem
    per_plan = np.zeros(prepared.taken.catalog.n_plans)
    for rows, features in problem.validation_parts():
        served = target_rows(
            artifact.head, features, rows.feasible,
            temperature=artifact.temperature, floor=artifact.floor,
        )  # fmt: skip
        per_plan += (1.0 / rows.keep_prob) @ served
    shares = level_shares(prepared.taken.catalog, per_plan, problem.validation)
    forecast = next((term.forecast for term in terms if term.forecast is not None), None)
    if forecast is not None:
        told = forecast(fitted.head)
        return shares, reliability(told.predicted, told.observed, told.what)
    rows, features = next(problem.validation_parts())
    plain = target_rows(
        numpy_head(fitted.head), features, rows.feasible, temperature=1.0, floor=0.0
    )
    return shares, imitation(plain, rows)


@contextmanager
def _repeatable(runtime: RuntimeConfig) -> Iterator[None]:
    """Fix what decides the last bits: the number of threads, and deterministic kernels."""
    before = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    torch.set_num_threads(runtime.threads)
    if _device(runtime.device).type == "cpu":
        # The same switch as `use_deterministic_algorithms`, without its four seconds of imports.
        torch.set_deterministic_debug_mode("error")
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_deterministic_debug_mode(before[1])
