"""The objectives by name, and the classes that Hydra checks a configuration against."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from torch import Tensor

from canopy.domain.errors import ConfigError
from training.awr import learner as awr
from training.awr.config import AwrConfig
from training.bc import learner as bc
from training.bc.config import BcConfig
from training.config import (
    DataConfig,
    HeadConfig,
    OptimConfig,
    RewardConfig,
    RuntimeConfig,
    TrainConfig,
)
from training.problem import Problem, Weighting
from training.progress import Tick

Loss: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective: how rows are weighed, and what is minimised on a batch.

    Attributes:
        config: Class of its configuration.
        weigh: How much each row counts, from the problem, the configuration, and the optimiser's.
        loss: Of scores, feasible plans, actions and row weights.
    """

    config: type[Any]
    weigh: Callable[[Problem, Any, OptimConfig, Tick], Weighting]
    loss: Loss


OBJECTIVES: Final[Mapping[str, Objective]] = {
    "bc": Objective(BcConfig, bc.weigh, bc.loss),
    "awr": Objective(AwrConfig, awr.weigh, awr.loss),
}


def objective_named(name: str) -> Objective:
    """The objective of a name.

    Raises:
        ConfigError: If there is none.
    """
    if name not in OBJECTIVES:
        raise ConfigError(
            "objective.name", f"{name!r} is no objective.", f"Known: {', '.join(OBJECTIVES)}."
        )
    return OBJECTIVES[name]


def register() -> None:
    """Make the classes known to Hydra, as the schemas that the YAML files start from."""
    from hydra.core.config_store import ConfigStore  # noqa: PLC0415 - only the command needs it

    store = ConfigStore.instance()
    store.store(name="train_schema", node=TrainConfig)
    for name, objective in OBJECTIVES.items():
        store.store(group="objective", name=f"{name}_schema", node=objective.config)
    for group, node in (
        ("data", DataConfig),
        ("head", HeadConfig),
        ("optim", OptimConfig),
        ("reward", RewardConfig),
        ("runtime", RuntimeConfig),
    ):
        store.store(group=group, name=f"{group}_schema", node=node)
