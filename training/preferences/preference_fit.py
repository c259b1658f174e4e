"""Everything found about verdicts on pairs."""

from dataclasses import dataclass

from training.preferences.bradley_terry import BradleyTerry
from training.preferences.clustered import ClusteredVariance, Intervals
from training.preferences.comparisons import Ties
from training.preferences.covariates import ControlledScores
from training.preferences.davidson import Davidson
from training.preferences.factored import FactoredScores
from training.preferences.order_effect import OrderEffect
from training.preferences.resampled import ResampledIntervals
from training.preferences.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceFit:
    """Everything found about a file of verdicts.

    Attributes:
        tally: The counts.
        fit: The scores.
        level: Coverage of every interval.
        ties: What single verdicts' ties count for.
        fisher: Intervals as if comparisons were independent.
        clustered: Clustered variances; None for counts without clusters.
        intervals: Clustered intervals; None likewise.
        resampled: Bootstrap intervals; None where none were drawn.
        order_effect: Scores and order bias on all verdicts; None where not fitted.
        davidson: Scores with the judge's own ties; None where not fitted.
        controlled: Scores at equal covariates; None without covariates.
        factored: Scores by levels; None without levels.
        n_clusters: Clusters with a comparison; None for counts without clusters.
    """

    tally: Tally
    fit: BradleyTerry
    level: float
    ties: Ties
    fisher: Intervals
    clustered: ClusteredVariance | None = None
    intervals: Intervals | None = None
    resampled: ResampledIntervals | None = None
    order_effect: OrderEffect | None = None
    davidson: Davidson | None = None
    controlled: ControlledScores | None = None
    factored: FactoredScores | None = None
    n_clusters: int | None = None
