"""`canopy judge agreement` and `canopy judge plan`: may a judge be trusted, and what it takes."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canopy.domain.errors import EXIT_REFUSED, InputError
from canopy.output import cell, emit_facts, emit_json, json_option, note

if TYPE_CHECKING:
    from canopy.domain.clearance import DimensionClearance
    from eval.agreement.admission import Admission
    from eval.agreement.gold import Provenance
    from eval.agreement.rating_files import RatingFile

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
@click.option(
    "--second-human", metavar="COLUMN",
    help="Another person's labels: the bound must come within --delta of how people agree.",
)  # fmt: skip
@click.option("--delta", default=0.1, show_default=True, help="How far under people is allowed.")
@click.option(
    "--length", metavar="COLUMN",
    help="Length of each text (pairs: the first's less the second's): the bound must beat a rater "
    "who looks at nothing else.",
)  # fmt: skip
@click.option(
    "--record", type=click.Path(path_type=Path), metavar="FILE",
    help="Add the verdict to these clearances, which reward specs read. Counts only labels that "
    "people gave: COLUMN_source (human), COLUMN_rater and COLUMN_date stand beside --rater-b.",
)  # fmt: skip
@click.option("--discipline", help="Record: whose rubric.")
@click.option("--dimension", help="Record: what is rated.")
@click.option("--rubric", help="Record: by which rubric.")
@click.option("--judge", help="Record: the judge, with its version.")
@click.option("--family", help="Record: who trained the judge.")
@click.option("--golden-set", help="Record: the golden set, as discipline/version/part.")
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
    second_human: str | None,
    delta: float,
    length: str | None,
    record: Path | None,
    discipline: str | None,
    dimension: str | None,
    rubric: str | None,
    judge: str | None,
    family: str | None,
    golden_set: str | None,
    as_json: bool,
) -> None:
    """Hold a judge's agreement in FILE (CSV) to a floor, by its lower bound.

    The bound must also beat every rater that gives one label only, a length-only one where
    --length is named, and come near the agreement of people where --second-human is named.

    Exit 3 when it is not cleared; with --record it is written down either way.

    Raises:
        Exit: With code 3 where it is not cleared.
        InputError: If a column is named twice, or a record would say too little.
    """
    import numpy as np  # noqa: PLC0415 - only this command computes

    from eval.agreement.admission import admission  # noqa: PLC0415 - as above
    from eval.agreement.clearances import clearance  # noqa: PLC0415 - as above
    from eval.agreement.gold import append_clearance  # noqa: PLC0415 - as above
    from eval.agreement.named import coefficient_named  # noqa: PLC0415 - as above
    from eval.agreement.rating_files import (  # noqa: PLC0415 - as above
        read_numbers,
        read_ratings,
        scale_labels,
    )

    asked = {
        "--discipline": discipline, "--dimension": dimension, "--rubric": rubric,
        "--judge": judge, "--family": family, "--golden-set": golden_set,
        "--second-human": second_human, "--length": length,
    }  # fmt: skip
    _check_record(record, asked)
    if len({rater_a, rater_b, second_human}) < 3:  # noqa: PLR2004 - a judge and two people
        raise InputError(
            "--rater-a, --rater-b, --second-human", "name a column twice.", "Name different ones."
        )
    labels = scale_labels(scale)
    chosen = coefficient_named(coefficient, labels)
    columns = [rater_a, rater_b, *([second_human] if second_human else [])]
    read = read_ratings(file, columns, labels, cluster)
    ratings, provenance = _counted(file, columns, list(read.ratings), is_recorded=bool(record))
    found = clearance(
        chosen,
        ratings[:2],
        floor=floor,
        rng=np.random.default_rng(seed),
        cluster=read.cluster,
        level=level,
        n_resamples=resamples,
        min_clusters=min_clusters,
        min_per_label=min_per_label,
    )
    verdict = admission(
        chosen, found, ratings[0], ratings[1],
        second=ratings[2] if second_human else None,
        length=read_numbers(file, length) if length else None,
        delta=delta,
    )  # fmt: skip
    document = _agreement_document(verdict)
    if record is not None and provenance is not None:
        row = _clearance_row(verdict, provenance, ratings[1], read, asked)
        append_clearance(record, row)
        document |= {"clearance_id": row.clearance_id, "n_not_human": row.n_not_human}
        note(f"Recorded in {record}.")
    if as_json:
        emit_json(document)
    else:
        shown = document["baselines"]
        emit_facts(
            f"{rater_a} against {rater_b}",
            document | {"baselines": ", ".join(f"{n} {cell(v)}" for n, v in shown.items())},
        )
    if not verdict.is_admitted:
        raise click.exceptions.Exit(EXIT_REFUSED)


def _check_record(record: Path | None, asked: dict[str, str | None]) -> None:
    """Everything a clearance must say is there, if one is recorded.

    Raises:
        InputError: If something is missing.
    """
    missing = [name for name, value in asked.items() if not value]
    if record is not None and missing:
        raise InputError(
            "--record", f"wants {', '.join(missing)} too.",
            "A clearance says who was cleared for what, against people and null baselines.",
        )  # fmt: skip


def _counted(
    file: Path, columns: list[str], ratings: list[list[Any]], *, is_recorded: bool
) -> tuple[list[list[Any]], "Provenance | None"]:
    """The labels that count: for a record, those that people gave.

    Raises:
        InputError: If one person gave the labels of both columns.
    """
    from eval.agreement.gold import human_only, read_provenance  # noqa: PLC0415 - as above

    if not is_recorded:
        return ratings, None
    found = [read_provenance(file, column) for column in columns[1:]]
    both = sorted(set(found[0].raters) & set(found[1].raters))
    if both:
        raise InputError(
            f"{file}, column {columns[2]}_rater", f"names {both[0]!r}, who gave {columns[1]} too.",
            "How far people agree takes two of them.",
        )  # fmt: skip
    people = [human_only(given, p) for given, p in zip(ratings[1:], found, strict=True)]
    return [ratings[0], *people], found[0]


def _clearance_row(
    verdict: "Admission",
    provenance: "Provenance",
    gold: list[Any],
    read: "RatingFile",
    asked: dict[str, str | None],
) -> "DimensionClearance":
    from canopy.domain.clearance import DimensionClearance  # noqa: PLC0415 - as above
    from canopy.domain.clock import now  # noqa: PLC0415 - as above
    from eval.agreement.gold import gold_hash  # noqa: PLC0415 - as above

    found = verdict.clearance
    said = {name: value or "" for name, value in asked.items()}
    given = sum(label is not None for label in read.ratings[1])
    return DimensionClearance(
        discipline=said["--discipline"],
        dimension=said["--dimension"],
        rubric=said["--rubric"],
        judge=said["--judge"],
        family=said["--family"],
        golden_set=said["--golden-set"],
        gold_hash=gold_hash(gold, read.cluster),
        raters=provenance.raters,
        dated_from=provenance.dated_from or "",
        dated_to=provenance.dated_to or "",
        n=found.agreement.n,
        n_clusters=found.bound.n_clusters,
        n_not_human=given - sum(label is not None for label in gold),
        coefficient=found.coefficient,
        value=found.agreement.value,
        lower_bound=found.bound.value,
        level=found.bound.level,
        floor=found.floor,
        ceiling=None if verdict.ceiling is None else verdict.ceiling.value,
        delta=verdict.delta,
        baselines={baseline.name: baseline.value for baseline in verdict.baselines},
        is_cleared=verdict.is_admitted,
        reason=None if verdict.reason is None else verdict.reason.value,
        recorded_at=now(),
    )


def _agreement_document(verdict: "Admission") -> dict[str, Any]:
    found = verdict.clearance
    caution = found.agreement.reason
    return {
        "coefficient": found.coefficient,
        "value": found.agreement.value,
        "lower_bound": found.bound.value,
        "level": found.bound.level,
        "method": found.bound.method,
        "floor": found.floor,
        "cleared": verdict.is_admitted,
        "reason": None if verdict.reason is None else verdict.reason.value,
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
        "baselines": {baseline.name: baseline.value for baseline in verdict.baselines},
        "ceiling": None if verdict.ceiling is None else verdict.ceiling.value,
        "delta": None if verdict.ceiling is None else verdict.delta,
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
