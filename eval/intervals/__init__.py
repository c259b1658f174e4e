"""Intervals: how far an estimate may be from the value, at one look or at every one.

Fixed numbers of units: `unit_interval`, `bootstrap`, `empirical_bernstein`, `clopper_pearson`,
`improvement_bound`, `srm`. Looked at as units come in: the sequences.
"""

from eval.intervals.bootstrap import Bootstrap, bootstrap
from eval.intervals.bounds import Bound, RateInterval, clopper_pearson, empirical_bernstein
from eval.intervals.gain import Improvement, error_of_look, gain_sequence, improvement_bound
from eval.intervals.missing_outcomes import TwoArmWithMissing, two_arm_with_missing
from eval.intervals.off_policy import OffPolicySequence, off_policy_sequence
from eval.intervals.sample_ratio import SampleRatio, SampleRatioSequence, srm, srm_sequence
from eval.intervals.sequences import ConfidenceSequence, betting_sequence, prpl_eb_sequence
from eval.intervals.two_arm import TwoArmSequence, two_arm_sequence
from eval.intervals.unit_t import UnitInterval, unit_ess, unit_interval

__all__ = [
    "Bootstrap",
    "Bound",
    "ConfidenceSequence",
    "Improvement",
    "OffPolicySequence",
    "RateInterval",
    "SampleRatio",
    "SampleRatioSequence",
    "TwoArmSequence",
    "TwoArmWithMissing",
    "UnitInterval",
    "betting_sequence",
    "bootstrap",
    "clopper_pearson",
    "empirical_bernstein",
    "error_of_look",
    "gain_sequence",
    "improvement_bound",
    "off_policy_sequence",
    "prpl_eb_sequence",
    "srm",
    "srm_sequence",
    "two_arm_sequence",
    "two_arm_with_missing",
    "unit_ess",
    "unit_interval",
]
