"""Intervals: how far an estimate may be from the value, by the unit that was resampled."""

from eval.intervals.bootstrap import Bootstrap, bootstrap
from eval.intervals.unit_t import UnitInterval, unit_interval

__all__ = ["Bootstrap", "UnitInterval", "bootstrap", "unit_interval"]
