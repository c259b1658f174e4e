"""Gate files: what a policy must show before a mode, read into the domain's typed gate."""

from dataclasses import replace
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from canopy.domain.decision import Mode
from canopy.domain.errors import GateFileError, InputError
from canopy.domain.evidence import FactBound, Gate, GateRequirement, Tier

SHIPPED: Final = Path(str(files("configs") / "gates"))
"""Folder of the gates that hold for everybody, one file per mode."""

FAILED_CHECKS: Final = "failed_checks"
GOLDEN_CASES: Final = "golden_cases"
UNITS: Final = "units"
UNIT_ESS: Final = "unit_ess"
UNSUPPORTED_MASS: Final = "unsupported_mass"
MEAN_WEIGHT_ERRORS: Final = "mean_weight_errors"
ESTIMATORS_AGREE: Final = "estimators_agree"
DISCIPLINE: Final = "discipline"
"""Names of the facts that gates set limits on; the tiers record them under these names."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Verifiers(_Strict):
    max_age_days: float = Field(gt=0)
    golden: Literal["required", "if_present"]

    def requirement(self) -> GateRequirement:
        """The demand on verifier evidence."""
        bounds = [FactBound(fact=FAILED_CHECKS, at_most=0, remedy="see the evidence's reasons.")]
        if self.golden == "required":
            remedy = "write a golden set for the discipline."
            bounds.append(FactBound(fact=GOLDEN_CASES, at_least=1, remedy=remedy))
        return GateRequirement(
            tier=Tier.VERIFIERS, max_age=timedelta(days=self.max_age_days), bounds=tuple(bounds)
        )


class _Backtest(_Strict):
    max_age_days: float = Field(gt=0)
    hypothesis: Literal["superiority", "non-inferiority"]
    allowed_loss: float | None = Field(default=None, gt=0)
    level: float = Field(ge=0.5, lt=1)
    min_units: int = Field(ge=2)
    min_unit_ess: float = Field(ge=10)
    max_unsupported_mass: float = Field(ge=0, le=0.01)
    max_mean_weight_errors: float = Field(gt=0, le=4)
    estimators_agree: bool

    @model_validator(mode="after")
    def _loss_fits_the_hypothesis(self) -> Self:
        if (self.hypothesis == "non-inferiority") != (self.allowed_loss is not None):
            # pydantic turns it into an error of the gate file.
            raise ValueError("allowed_loss belongs to non-inferiority, and only there")
        return self

    def requirement(self) -> GateRequirement:
        """The demand on backtest evidence."""
        more = "backtest on a log with more reserved units."
        overlap = "the log says little about this policy: log a policy closer to it."
        bounds = [
            FactBound(fact=UNITS, at_least=self.min_units, remedy=more),
            FactBound(fact=UNIT_ESS, at_least=self.min_unit_ess, remedy=overlap),
            FactBound(fact=UNSUPPORTED_MASS, at_most=self.max_unsupported_mass, remedy=overlap),
            FactBound(
                fact=MEAN_WEIGHT_ERRORS,
                at_most=self.max_mean_weight_errors,
                remedy="the logged propensities do not fit what was drawn.",
            ),
        ]
        if self.estimators_agree:
            remedy = "SNIPS and doubly robust must agree: where they differ, find out why."
            bounds.append(FactBound(fact=ESTIMATORS_AGREE, equals=True, remedy=remedy))
        return GateRequirement(
            tier=Tier.BACKTEST,
            max_age=timedelta(days=self.max_age_days),
            level=self.level,
            allowed_loss=self.allowed_loss or 0.0,
            bounds=tuple(bounds),
        )


class _Requires(_Strict):
    # Tiers that no command of this version can give evidence for are refused like a typing error:
    # a gate that demands them could never pass.
    verifiers: _Verifiers | None = None
    backtest: _Backtest | None = None


class _GateFile(_Strict):
    mode: Mode
    requires: _Requires

    @field_validator("mode", mode="before")
    @classmethod
    def _unquoted(cls, mode: object) -> object:
        # YAML reads a bare `on` as true.
        return Mode.ON if mode is True else mode


class _UniqueKeys(yaml.SafeLoader):
    """YAML in which a key given twice is an error, not a choice of the last."""


def _mapping(loader: _UniqueKeys, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise yaml.YAMLError(f"the key {twice!r} stands twice")
    return {key: loader.construct_object(value, deep=True) for key, (_, value) in
            zip(keys, node.value, strict=True)}  # fmt: skip


_UniqueKeys.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def gate_for(gate: Gate, discipline: str) -> Gate:
    """The gate with backtests held to the discipline: other traffic proves nothing here."""
    bound = FactBound(
        fact=DISCIPLINE,
        equals=discipline,
        remedy="backtest on a log of the discipline it is to serve.",
    )
    return replace(
        gate,
        requirements=tuple(
            replace(r, bounds=(*r.bounds, bound)) if r.tier is Tier.BACKTEST else r
            for r in gate.requirements
        ),
    )


def load_gate(path: Path) -> Gate:
    """Read a gate file.

    Raises:
        GateFileError: If it cannot be read, is not YAML, or demands something impossible; the
            place is file:key.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)  # noqa: S506 - a SafeLoader
    except (OSError, UnicodeDecodeError) as error:
        raise GateFileError(f"{path}", f"cannot be read: {error}.", "Name a gate file.") from error
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise GateFileError(f"{path}", f"not YAML: {problem}.", "Correct the file.") from error
    try:
        parsed = _GateFile.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise GateFileError(
            f"{path}:{key}", f"{first['msg']}.", f"See {SHIPPED / 'on.yaml'} for an example."
        ) from error
    demands = (parsed.requires.verifiers, parsed.requires.backtest)
    requirements = tuple(demand.requirement() for demand in demands if demand is not None)
    if not requirements:
        raise GateFileError(f"{path}:requires", "demands nothing.", "Name at least one tier.")
    return Gate(mode=parsed.mode, requirements=requirements)


def shipped_modes() -> tuple[Mode, ...]:
    """Modes that this version has a gate for."""
    return tuple(mode for mode in Mode if (SHIPPED / f"{mode}.yaml").is_file())


def shipped_gate(mode: Mode) -> Gate:
    """The gate that everybody passes through on the way to a mode.

    Raises:
        InputError: If this version has none.
    """
    path = SHIPPED / f"{mode}.yaml"
    if not path.is_file():
        modes = ", ".join(shipped_modes())
        raise InputError(
            f"--to {mode}", f"this version gates {modes} only.", "Name one of these modes."
        )
    return load_gate(path)
