"""`canopy judge agreement` and `canopy judge plan`: may a judge be trusted, and what it takes."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canopy.domain.errors import EXIT_REFUSED, InputError
from canopy.output import emit_facts, emit_json, json_option

if TYPE_CHECKING:
    from eval.agreement.clearances import Clearance

# Written out, so that `canopy --help` needs no scipy; a test holds it to the code.
COEFFICIENT_NAMES = (
    "kappa", "kappa-linear", "kappa-quadratic", "ac1", "ac2", "ac2-linear", "fleiss",
    "alpha-nominal", "alpha-ordinal", "alpha-interval", "alpha-ratio",
)  # fmt: skip


@click.command("agreement")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--rater-a", required=True, metavar="COLUMN", help="The judge's labels.")
@click.option("--rater-b", required=True, metavar="COLUMN", help="The labels held against it.")
@click.option(
    "--scale", required=True, metavar="LABELS",
    help="Every label a rater may give, in order, comma-separated: 1,2,3,4,5.",
)  # fmt: skip
@click.option(
    "--coefficient", default="kappa", show_default=True, type=click.Choice(COEFFICIENT_NAMES)
)
@click.option(
    "--floor", type=float, required=True, help="What the lower bound must reach; fix it first."
)
@click.option("--cluster", metavar="COLUMN", help="What is independent, such as the document.")
@click.option("--level", default=0.95, show_default=True, help="One-sided coverage of the bound.")
@click.option("--resamples", default=1_000, show_default=True, help="Bootstrap replicates.")
@click.option("--min-clusters", default=10, show_default=True, help="Least independent items.")
@click.option("--min-per-label", default=0, show_default=True, help="Least ratings of each label.")
@click.option("--seed", default=12345, show_default=True, help="Of the bootstrap.")
@json_option
def judge_agreement(
    *,
    file: Path,
    rater_a: str,
    rater_b: str,
    scale: str,
    coefficient: str,
    floor: float,
    cluster: str | None,
    level: float,
    resamples: int,
    min_clusters: int,
    min_per_label: int,
    seed: int,
    as_json: bool,
) -> None:
    """Hold a judge's agreement in FILE (CSV) to a floor, by its lower bound.

    Exit 3 when it is not cleared.

    Raises:
        Exit: With code 3 where it is not cleared.
    """
    import numpy as np  # noqa: PLC0415 - only this command computes

    from eval.agreement.clearances import clearance  # noqa: PLC0415 - as above
    from eval.agreement.named import coefficient_named  # noqa: PLC0415 - as above
    from eval.agreement.rating_files import read_ratings, scale_labels  # noqa: PLC0415 - as above

    labels = scale_labels(scale)
    chosen = coefficient_named(coefficient, labels)
    read = read_ratings(file, (rater_a, rater_b), labels, cluster)
    found = clearance(
        chosen,
        read.ratings,
        floor=floor,
        rng=np.random.default_rng(seed),
        cluster=read.cluster,
        level=level,
        n_resamples=resamples,
        min_clusters=min_clusters,
        min_per_label=min_per_label,
    )
    document = _agreement_document(found)
    if as_json:
        emit_json(document)
    else:
        emit_facts(f"{rater_a} against {rater_b}", document)
    if not found.is_cleared:
        raise click.exceptions.Exit(EXIT_REFUSED)


def _agreement_document(found: "Clearance") -> dict[str, Any]:
    caution = found.agreement.reason
    return {
        "coefficient": found.coefficient,
        "value": found.agreement.value,
        "lower_bound": found.bound.value,
        "level": found.bound.level,
        "method": found.bound.method,
        "floor": found.floor,
        "cleared": found.is_cleared,
        "reason": None if found.reason is None else found.reason.value,
        "caution": None if caution is None else caution.value,
        "n": found.agreement.n,
        "n_left_out": found.agreement.n_left_out,
        "n_clusters": found.bound.n_clusters,
        "n_resamples": found.bound.n_resamples,
        "share_undefined": found.bound.share_undefined,
        "raw_agreement": found.raw_agreement,
        "ac1": found.ac1,
        "prevalence": found.agreement.prevalence,
        "fewest_per_label": found.fewest,
    }


@click.command("plan")
@click.option("--win-rate", type=float, help="Pairs: true share of wins to tell from 1/2.")
@click.option(
    "--survival", type=float, default=1.0, show_default=True,
    help="Pairs: share whose winner survives the swap.",
)  # fmt: skip
@click.option("--two-sided", is_flag=True, help="Pairs: either direction counts.")
@click.option("--kappa", type=float, help="Items: true agreement of the judge.")
@click.option("--floor", type=float, help="Items: what the lower bound must reach.")
@click.option(
    "--minority", type=float, default=0.5, show_default=True,
    help="Items: share of the rarer of two labels.",
)  # fmt: skip
@click.option(
    "--cluster-size", type=float, default=1.0, show_default=True,
    help="Rows of one document or tenant on average.",
)  # fmt: skip
@click.option("--icc", type=float, default=0.0, show_default=True, help="Their correlation.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error allowed.")
@click.option("--power", type=float, default=0.8, show_default=True, help="Chance of telling.")
@json_option
def judge_plan(
    *,
    win_rate: float | None,
    survival: float,
    two_sided: bool,
    kappa: float | None,
    floor: float | None,
    minority: float,
    cluster_size: float,
    icc: float,
    alpha: float,
    power: float,
    as_json: bool,
) -> None:
    """Say how many pairs tell a win rate from 1/2, or how many items clear a floor on kappa.

    Raises:
        InputError: If neither question, or both, are asked.
    """
    from eval.agreement.sample_size import (  # noqa: PLC0415 - only this command computes
        chance_agreement,
        plan_items,
        plan_pairs,
    )

    asks_items = kappa is not None and floor is not None
    if (win_rate is not None) == asks_items or (kappa is None) != (floor is None):
        raise InputError(
            "canopy judge plan",
            "one question at a time.",
            "Give --win-rate for pairs, or --kappa and --floor for items.",
        )
    shared: dict[str, Any] = {
        "cluster_size": cluster_size, "icc": icc, "alpha": alpha, "power": power,
    }  # fmt: skip
    if win_rate is not None:
        pairs = plan_pairs(win_rate, survival=survival, is_two_sided=two_sided, **shared)
        document: dict[str, Any] = {"question": "pairs", "win_rate": win_rate} | asdict(pairs)
        exact = document.pop("exact")
        document |= {
            "decisive_pairs": exact["n"],
            "critical_wins": exact["critical_wins"],
            "power": exact["power"],
        }
        document["decisive_pairs_by_normal_approximation"] = document.pop("approximate")
    else:
        # Both are given here; the check above saw to it.
        items = plan_items(kappa or 0.0, floor or 0.0, chance=chance_agreement(minority), **shared)
        document = {"question": "items", "kappa": kappa, "floor": floor} | asdict(items)
    if as_json:
        emit_json(document)
    else:
        emit_facts("What it takes", document)
