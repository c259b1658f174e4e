"""Recording a run in MLflow, or nowhere."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from canopy.settings import Settings
from canopy.tracking import TrackedRun, Tracker, open_tracker
from training.config import Tracking, TrainConfig
from training.outcome import TrainingRun, flat, objective_name, summary
from training.plots import (
    calibration_picture,
    curve_picture,
    penalty_picture,
    share_picture,
    temperature_picture,
)


@dataclass(frozen=True, slots=True)
class Recorder:
    """Where one run is written down.

    Attributes:
        config: What the run was told.
        name: Of the experiment and of the registered model.
        tracker: None where nothing is recorded.
        run: The open run; None where nothing is recorded.
    """

    config: TrainConfig
    name: str
    tracker: Tracker | None
    run: TrackedRun | None

    @classmethod
    @contextmanager
    def open(cls, config: TrainConfig, settings: Settings, name: str) -> "Iterator[Recorder]":
        """Open the place of record before anything is learnt: a run has its id from the start."""
        if config.runtime.tracking is Tracking.off:
            yield cls(config, name, None, None)
            return
        tracker = open_tracker(settings)
        with tracker.run(name, f"{objective_name(config)}-seed{config.seed}") as run:
            run.log_params(flat(asdict(config)))
            yield cls(config, name, tracker, run)

    @property
    def run_id(self) -> str | None:
        """The run's id; None where nothing is recorded."""
        return None if self.run is None else self.run.run_id

    def record(self, done: TrainingRun) -> TrainingRun:
        """Write a finished run down and register its artifact.

        Returns:
            The run with its registered model.
        """
        if self.run is None or self.tracker is None:
            return done
        self._numbers(self.run, done)
        self._pictures(self.run, done)
        policy_id = done.artifact.policy_id
        made = self.tracker.register(
            self.name, done.artifact.folder, run=self.run, tags={"policy_id": policy_id}
        )
        done = replace(done, model=f"{made.name}/{made.version}")
        document = json.dumps(summary(done, self.config), indent=1)
        self.run.log_bytes("summary.json", document.encode())
        return done

    def _numbers(self, run: TrackedRun, done: TrainingRun) -> None:
        run.set_tags({
            "policy_id": done.artifact.policy_id,
            "data_hash": done.prepared.taken.log_hash,
            "lineage": json.dumps(done.lineage.document()),
            "catalog_hash": done.prepared.taken.catalog.content_hash,
            "feature_hash": done.prepared.taken.schema.content_hash,
            "synthetic": done.prepared.taken.kind.value,
        })
        document = summary(done, self.config)
        numbers = {
            key: float(value)
            for key, value in {**document, **document["weights"]}.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        run.log_metrics(numbers)
        run.log_curve("loss_train", done.fitted.curve.train)
        run.log_curve("loss_validation", done.fitted.curve.validation)

    def _pictures(self, run: TrackedRun, done: TrainingRun) -> None:
        for name, picture in (
            ("loss", curve_picture(done.fitted.curve)),
            ("plan_share", share_picture(done.shares)),
            ("calibration", calibration_picture(done.calibration)),
            ("penalty", penalty_picture(done.fitted.penalties)),
            ("temperature", temperature_picture(done.fitted.candidates)),
        ):
            run.log_bytes(f"plots/{name}.png", picture)
