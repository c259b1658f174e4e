"""What a file of verdicts comes to: all that a fit and its report need, and all that adds up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from canopy.domain.errors import InputError
from policy.arrays import FloatArray
from training.preferences.comparisons import Comparisons, ScaleKind
from training.preferences.pair_table import PairTable
from training.preferences.swaps import CODES, NOT_JUDGED, TIE, UNPARSED, A, B, SwapCode


@dataclass(frozen=True, slots=True)
class JudgeTally:
    """What one judge's verdicts come to.

    Attributes:
        judge: Its name.
        family: Who trained it, or `human`; None where nobody said.
        counts: Pairs by code.
        first_both: Pairs in which the side shown first won in both orders.
        second_both: Pairs in which the side shown second did.
        unparsed: Verdicts that could not be read, by order: item a first, item b first.
        judged: Verdicts given, by order.
    """

    judge: str
    family: str | None
    counts: Mapping[SwapCode, int]
    first_both: int
    second_both: int
    unparsed: tuple[int, int]
    judged: tuple[int, int]

    @property
    def survival(self) -> float | None:
        """Share of pairs readable in both orders whose winner survived; None without such pairs."""
        survived = self.counts[SwapCode.A] + self.counts[SwapCode.B]
        readable = survived + self.counts[SwapCode.SWAP_TIE] + self.counts[SwapCode.JUDGE_TIE]
        return survived / readable if readable else None

    @property
    def unparsed_share(self) -> tuple[float | None, float | None]:
        """Share of unreadable verdicts in each order; None where that order was not judged."""
        first, second = (
            lost / given if given else None
            for lost, given in zip(self.unparsed, self.judged, strict=True)
        )
        return first, second

    @classmethod
    def of(cls, pairs: PairTable, judge: str, family: str | None) -> "JudgeTally":
        """What the pairs of a table come to.

        Args:
            pairs: One judge's pairs.
            judge: Its name.
            family: Its family.
        """
        swaps = pairs.swaps

        def given(verdict: int) -> tuple[int, int]:
            counts = pairs.count(verdict, None), pairs.count(None, verdict)
            return int(counts[0].sum()), int(counts[1].sum())

        absent = given(NOT_JUDGED)
        return cls(
            judge, family, swaps.counts, swaps.first_both, swaps.second_both,
            given(UNPARSED), (len(pairs) - absent[0], len(pairs) - absent[1]),
        )  # fmt: skip

    def document(self) -> dict[str, Any]:
        """As JSON carries it."""
        return {
            "judge": self.judge,
            "family": self.family,
            "counts": {code.value: self.counts[code] for code in CODES},
            "survival": self.survival,
            "first_both": self.first_both,
            "second_both": self.second_both,
            "unparsed": list(self.unparsed),
            "judged": list(self.judged),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "JudgeTally":
        """What `document` wrote."""
        unparsed, judged = document["unparsed"], document["judged"]
        return cls(
            judge=document["judge"],
            family=document["family"],
            counts={code: document["counts"][code.value] for code in CODES},
            first_both=document["first_both"],
            second_both=document["second_both"],
            unparsed=(unparsed[0], unparsed[1]),
            judged=(judged[0], judged[1]),
        )


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of a whole file, or of several.

    Attributes:
        scale_kind: What a win is.
        items: The distinct items.
        wins: Shape (n, n). Row i, column j: how often i beat j.
        swap_ties: Shape (n, n), symmetric. Pairs whose winner changed with its side.
        judge_ties: Shape (n, n), symmetric. Pairs that the judge called a tie.
        judges: What each judge's verdicts come to.
        sources: Content hashes of the verdicts counted.
    """

    scale_kind: ScaleKind
    items: tuple[str, ...]
    wins: FloatArray
    swap_ties: FloatArray
    judge_ties: FloatArray
    judges: tuple[JudgeTally, ...]
    sources: tuple[str, ...]

    @property
    def survival(self) -> FloatArray:
        """Shape (n,). Share of each item's readable pairs that are decisive; NaN without any."""
        won = (self.wins + self.wins.T).sum(axis=1)
        readable = won + (self.swap_ties + self.judge_ties).sum(axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray(won / readable)

    def aligned(self, items: Sequence[str]) -> "Tally":
        """The same counts over more items, or in another order.

        Args:
            items: All items of this tally, and others.
        """
        place = {item: number for number, item in enumerate(items)}
        rows = np.array([place[item] for item in self.items], dtype=np.intp)
        square = np.ix_(rows, rows)

        def grown(table: FloatArray) -> FloatArray:
            whole = np.zeros((len(items), len(items)))
            whole[square] = table
            return whole

        return replace(
            self,
            items=tuple(items),
            wins=grown(self.wins),
            swap_ties=grown(self.swap_ties),
            judge_ties=grown(self.judge_ties),
        )

    def __add__(self, other: "Tally") -> "Tally":
        """Counts of both.

        Raises:
            InputError: If they are of different scale kinds, which are not one scale, or hold
                the same verdicts.
        """
        if self.scale_kind is not other.scale_kind:
            raise InputError(
                "scale kind",
                f"is {self.scale_kind} here and {other.scale_kind} there.",
                "Fit each by itself: differences of one are not log-odds of the other.",
            )
        twice = sorted(set(self.sources) & set(other.sources))
        if twice:
            raise InputError(
                "verdicts", f"{twice[0]} are in both.", "Count the same verdicts once."
            )
        items = tuple(sorted({*self.items, *other.items}))
        one, two = self.aligned(items), other.aligned(items)
        return Tally(
            scale_kind=self.scale_kind,
            items=items,
            wins=one.wins + two.wins,
            swap_ties=one.swap_ties + two.swap_ties,
            judge_ties=one.judge_ties + two.judge_ties,
            judges=self.judges + other.judges,
            sources=tuple(sorted({*self.sources, *other.sources})),
        )


def tally(
    pairs: PairTable, comparisons: Comparisons, families: Mapping[str, str], source: str
) -> Tally:
    """Count a table of pairs.

    Args:
        pairs: What was judged.
        comparisons: What of it is decisive.
        families: Family of each judge that has one.
        source: Content hash of the verdicts.
    """
    judges = sorted(pairs.judge.used())
    swap_ties, judge_ties = _ties(pairs, comparisons.scale_kind)
    return Tally(
        scale_kind=comparisons.scale_kind,
        items=comparisons.items,
        wins=comparisons.wins,
        swap_ties=swap_ties,
        judge_ties=judge_ties,
        judges=tuple(
            JudgeTally.of(
                pairs if len(judges) == 1 else pairs.of_judge(judge), judge, families.get(judge)
            )
            for judge in judges
        ),
        sources=(source,),
    )


def _ties(pairs: PairTable, scale_kind: ScaleKind) -> tuple[FloatArray, FloatArray]:
    """Swap ties and judge ties, each by item and symmetric."""
    if scale_kind is ScaleKind.SINGLE_VERDICT:
        swap = np.zeros((len(pairs.items),) * 2)
        judge = pairs.count(TIE, NOT_JUDGED) + pairs.count(NOT_JUDGED, TIE)
    else:
        both = (A, B, TIE)
        swap = np.zeros((len(pairs.items),) * 2)
        for ab in both:
            for ba in both:
                if ab != ba:
                    swap += pairs.count(ab, ba)
        judge = pairs.count(TIE, TIE)
    return swap + swap.T, judge + judge.T
