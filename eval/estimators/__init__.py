"""Off-policy estimators: arrays in, an `Estimate` out, which may be a refusal.

Each takes `weight` (the target policy's probability of the plan taken over its propensity, and
over the row's keep probability where rows were dropped) and gives the value per decision.
"""

from eval.estimators.estimate import Estimate
from eval.estimators.inverse_propensity import clipped_ips, ips, snips
from eval.estimators.model_based import direct_method, doubly_robust, self_normalized_dr
from eval.estimators.ratios import Ratios

__all__ = [
    "Estimate",
    "Ratios",
    "clipped_ips",
    "direct_method",
    "doubly_robust",
    "ips",
    "self_normalized_dr",
    "snips",
]
