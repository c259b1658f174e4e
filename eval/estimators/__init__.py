"""Off-policy estimators: arrays in, an `Estimate` out, which may be a refusal.

Each takes `weight` (the target policy's probability of the plan taken over its propensity, and
over the row's keep probability where rows were dropped) and gives the value per decision.
"""

from eval.estimators.distributions import expected_reward, importance_weight, renormalized
from eval.estimators.estimate import Basis, Estimate
from eval.estimators.inverse_propensity import clipped_ips, ips, snips
from eval.estimators.marginal import (
    marginal_dr,
    marginal_weight,
    marginalized_ips,
    unsupported_mass,
)
from eval.estimators.model_based import direct_method, doubly_robust, self_normalized_dr
from eval.estimators.multi_logger import balanced_weight, classifier_balanced, classifier_weight
from eval.estimators.ratios import Ratios
from eval.estimators.shrinkage import dr_shrinkage, sub_gaussian_ips, switch, switch_dr
from eval.estimators.tuning import Candidate, JudgedCandidate, Tuned, least_error_bound, slope

__all__ = [
    "Basis",
    "Candidate",
    "Estimate",
    "JudgedCandidate",
    "Ratios",
    "Tuned",
    "balanced_weight",
    "classifier_balanced",
    "classifier_weight",
    "clipped_ips",
    "direct_method",
    "doubly_robust",
    "dr_shrinkage",
    "expected_reward",
    "importance_weight",
    "ips",
    "least_error_bound",
    "marginal_dr",
    "marginal_weight",
    "marginalized_ips",
    "renormalized",
    "self_normalized_dr",
    "slope",
    "snips",
    "sub_gaussian_ips",
    "switch",
    "switch_dr",
    "unsupported_mass",
]
