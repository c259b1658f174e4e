"""What a training run may be told, typed; Hydra checks every override against these classes.

The shipped values live in `configs/`, one folder per group. Members of enumerations are in lower
case because Hydra reads them by name.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from omegaconf import MISSING


class Print(StrEnum):
    """What a finished run says on standard output."""

    table = "table"
    """A summary for people."""
    json = "json"
    """One JSON document for scripts."""


class Tracking(StrEnum):
    """Where a run is recorded."""

    mlflow = "mlflow"
    """In MLflow, as a run and a version of a registered model."""
    off = "off"
    """Nowhere: no server is started and the artifact names no run."""


class Device(StrEnum):
    """What computes."""

    auto = "auto"
    """An accelerator where there is one, else the processor."""
    cpu = "cpu"
    """The processor: the same seed gives the same bits."""
    cuda = "cuda"


class Pairs(StrEnum):
    """Which pairs of factors interact in the head."""

    auto = "auto"
    """All of them while their parameters stay under the head's limit, else none."""
    all = "all"
    none = "none"


class SplitBy(StrEnum):
    """What tells validation from training."""

    unit = "unit"
    """A hash of the unit: nobody who trains also chooses."""
    time = "time"
    """The log's end chooses, by units that were not there before: what drifts shows."""


@dataclass
class DataConfig:
    """Where the decisions are.

    Attributes:
        path: The decision log: Parquet, a folder of it, or CSV.
        catalog: Plan catalog in YAML; None takes the one in the log's metadata.
        split: What tells validation from training.
        validation_share: Share of units (or of the time) that choose and never train.
        most_validation_rows: Long logs need no such share: it is lowered to about so many rows,
            and the others train.
    """

    path: str = MISSING
    catalog: str | None = None
    split: SplitBy = SplitBy.unit
    validation_share: float = 0.2
    most_validation_rows: int = 50_000


@dataclass
class HeadConfig:
    """The factored scorer.

    Attributes:
        pairs: Which pairs of factors interact.
        most_pair_parameters: With `pairs: auto`, pairs are left out where they would need more.
        l2: Penalties on every parameter to try, at the best of `pair_l2`; likewise.
        pair_l2: Penalties on the context part of pairs to try; the loss on validation units
            chooses.
        tenant: Context key whose categories are tenants; None where there are none.
        tenant_l2: Penalties on the tenants' part to try, added to the others; likewise.
    """

    pairs: Pairs = Pairs.auto
    most_pair_parameters: int = 50_000
    l2: list[float] = field(default_factory=lambda: [1e-5, 1e-4, 1e-3, 1e-2])
    pair_l2: list[float] = field(default_factory=lambda: [0.001, 0.01, 0.1])
    tenant: str | None = None
    tenant_l2: list[float] = field(default_factory=lambda: [1e-4, 1e-3, 1e-2])


@dataclass
class OptimConfig:
    """Adam with a cosine schedule.

    Attributes:
        learning_rate: At the start; falls to 0 along a half cosine.
        batch_size: Rows per step.
        epochs: Passes over the rows; None chooses 15 to 60, more for smaller logs.
        patience: Passes without a better validation loss before it stops.
    """

    learning_rate: float = 0.02
    batch_size: int = 1024
    epochs: int | None = None
    patience: int = 5


@dataclass
class ComponentConfig:
    """One component of a reward.

    Attributes:
        column: Column of the log that holds it; None for `r_` and its own name.
        weight: Its share of the blend, beside the others' weights.
        low: Least value that can occur; None for 0, or for the log's range where it is the reward.
        high: Greatest value.
        unit: What it is counted in, in words.
        judge: Rubric dimensions: who rated, with version, as the clearance names it.
        rubric: Rubric dimensions: by which rubric.
    """

    column: str | None = None
    weight: float = 1.0
    low: float | None = None
    high: float | None = None
    unit: str = ""
    judge: str | None = None
    rubric: str | None = None


@dataclass
class RewardConfig:
    """What is trained on.

    Attributes:
        name: Name of the specification, kept in the artifact.
        components: By name: `reward`, `settlement`, `performance`, `scorer:NAME`, `gate:NAME`,
            `rubric:DIMENSION`, `verifier:NAME`; none for the log's own reward.
        clearances: File of clearances, without which no rubric dimension has weight.
    """

    name: str = "logged"
    components: dict[str, ComponentConfig] = field(default_factory=dict)
    clearances: str | None = None


@dataclass
class ServingConfig:
    """How the policy will be served; the temperature is chosen on validation units.

    Attributes:
        floor: Exploration floor mixed over the feasible plans.
        temperatures: Temperatures to try.
        least_ess: A temperature whose validation weights have a smaller effective sample size is
            out: its estimated value would be luck.
    """

    floor: float = 0.05
    temperatures: list[float] = field(
        default_factory=lambda: [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0]
    )
    least_ess: float = 30.0


@dataclass
class RuntimeConfig:
    """How the run is carried out.

    Attributes:
        device: What computes the fits.
        threads: Threads of the numeric library; results are the same to the bit for the same
            number, on the processor.
        progress: Whether to show progress on standard error where that is a terminal.
        tracking: Where the run is recorded.
    """

    device: Device = Device.auto
    threads: int = 1
    progress: bool = True
    tracking: Tracking = Tracking.mlflow


@dataclass
class TrainConfig:
    """One training run.

    Attributes:
        seed: Of everything random.
        out: Folder below which the artifact gets a folder of its own; None takes `policies` in
            Canopy's home.
        name: Name of the registered model and of the artifact's folder; None takes the
            catalog's discipline.
        print: What to say on standard output.
        objective: What is maximised; its class is the objective's own, see `training.objectives`.
    """

    seed: int = 0
    out: str | None = None
    name: str | None = None
    print: Print = Print.table
    data: DataConfig = field(default_factory=DataConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    objective: Any = MISSING
    optim: OptimConfig = field(default_factory=OptimConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    serving: ServingConfig = field(default_factory=ServingConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
