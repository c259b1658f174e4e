"""Preferences from pairwise verdicts: what survives the swap of sides, and the scores it gives."""

from training.preferences.bradley_terry import BradleyTerry, fit_bradley_terry
from training.preferences.order_bias import OrderBias, order_bias
from training.preferences.swaps import SwapCode, SwapCounts, count_swaps, swap_check

__all__ = [
    "BradleyTerry",
    "OrderBias",
    "SwapCode",
    "SwapCounts",
    "count_swaps",
    "fit_bradley_terry",
    "order_bias",
    "swap_check",
]
