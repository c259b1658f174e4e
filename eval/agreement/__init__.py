"""Agreement beyond chance: ratings in, an `Agreement` out, which may say why there is none.

Every coefficient is 1 minus observed over expected disagreement, and both follow from sums over
units, so `lower_bound` resamples any of them by cluster. The scale is the declared label domain,
never the labels that happened to be seen.
"""

from eval.agreement.agreement import Agreement, AgreementReason
from eval.agreement.clearances import Clearance, clearance
from eval.agreement.coefficients import Coefficient
from eval.agreement.krippendorff import krippendorff_alpha
from eval.agreement.lower_bounds import LowerBound, lower_bound
from eval.agreement.many_raters import fleiss_kappa, gwet_ac_raters
from eval.agreement.named import COEFFICIENTS, coefficient_named
from eval.agreement.sample_size import (
    ExactPairs,
    ItemPlan,
    PairPlan,
    chance_agreement,
    decisive_pairs,
    design_effect,
    exact_decisive_pairs,
    kappa_items,
    plan_items,
    plan_pairs,
)
from eval.agreement.two_raters import gwet_ac, kappa

__all__ = [
    "COEFFICIENTS",
    "Agreement",
    "AgreementReason",
    "Clearance",
    "Coefficient",
    "ExactPairs",
    "ItemPlan",
    "LowerBound",
    "PairPlan",
    "chance_agreement",
    "clearance",
    "coefficient_named",
    "decisive_pairs",
    "design_effect",
    "exact_decisive_pairs",
    "fleiss_kappa",
    "gwet_ac",
    "gwet_ac_raters",
    "kappa",
    "kappa_items",
    "krippendorff_alpha",
    "lower_bound",
    "plan_items",
    "plan_pairs",
]
