"""The objectives by name, and the classes that Hydra checks a configuration against."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final

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
from training.direct import learner as direct
from training.direct.config import DirectConfig
from training.doubly_robust import learner as doubly_robust
from training.doubly_robust.config import DoublyRobustConfig
from training.importance_weighted import learner as importance_weighted
from training.importance_weighted.config import ImportanceWeightedConfig
from training.loop import Fitter
from training.preference import learner as preference
from training.preference.config import PreferenceConfig
from training.problem import Problem
from training.terms import Term


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective.

    Attributes:
        config: Class of its configuration.
        term: What it minimises, from the problem and its configuration.
    """

    config: type[Any]
    term: Callable[[Problem, Any, Fitter], Term]


OBJECTIVES: Final[Mapping[str, Objective]] = {
    "bc": Objective(BcConfig, bc.term),
    "awr": Objective(AwrConfig, awr.term),
    "direct": Objective(DirectConfig, direct.term),
    "doubly_robust": Objective(DoublyRobustConfig, doubly_robust.term),
    "importance_weighted": Objective(ImportanceWeightedConfig, importance_weighted.term),
    "preference": Objective(PreferenceConfig, preference.term),
}


def terms_of(problem: Problem, configs: Mapping[str, Any], fitter: Fitter) -> tuple[Term, ...]:
    """What is minimised: a term per objective, in the order of `OBJECTIVES`.

    Args:
        problem: The rows.
        configs: Configuration of each objective asked for, by name.
        fitter: Fits what has to be fitted first.

    Raises:
        ConfigError: If there is none, an objective is unknown, or a weight is not positive.
    """
    unknown = [name for name in configs if name not in OBJECTIVES]
    if unknown or not configs:
        raise ConfigError(
            "objective", f"{', '.join(unknown) or 'nothing'} is no objective.",
            f"Known: {', '.join(OBJECTIVES)}.",
        )  # fmt: skip
    for name, config in configs.items():
        if not 0 < config.weight < inf:
            raise ConfigError(
                f"objective.{name}.weight", f"expected a positive number, got {config.weight}.",
                "Leave out an objective that shall not count.",
            )  # fmt: skip
    return tuple(
        objective.term(problem, configs[name], fitter)
        for name, objective in OBJECTIVES.items()
        if name in configs
    )


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
