"""`canopy judge fit`: verdicts in, preferences out."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canopy.domain.errors import EXIT_REFUSED, InputError
from canopy.output import cell, emit_facts, emit_json, emit_table, json_option, note

if TYPE_CHECKING:
    from policy.arrays import IntArray
    from training.preferences.artifact import Preferences
    from training.preferences.pair_table import PairTable

_PATH = click.Path(path_type=Path)

SCALES = {"survivors": "swap_survivor", "single": "single_verdict"}
"""What the command calls the kinds of scale it fits."""


@click.command("fit")
@click.argument("file", type=_PATH)
@click.option("--out", type=_PATH, required=True, help="Folder of the artifact; new or the same.")
@click.option("--html", "html_out", type=_PATH, help="Write a self-contained page here.")
@click.option(
    "--scale", default="survivors", show_default=True, type=click.Choice(list(SCALES)),
    help="Fit winners that survive the swap, or pairs judged in one order only.",
)  # fmt: skip
@click.option(
    "--ties", default="drop", show_default=True, type=click.Choice(["drop", "half"]),
    help="Single verdicts: leave ties out, or count them as half wins.",
)  # fmt: skip
@click.option("--judge", help="Fit this judge's verdicts only.")
@click.option("--prior", default=0.0, show_default=True, help="Precision of a prior on each score.")
@click.option("--level", default=0.95, show_default=True, help="Coverage of every interval.")
@click.option(
    "--resamples", type=int,
    help="Bootstrap replicates of whole clusters; 1000 for up to 100 items, else 0.",
)  # fmt: skip
@click.option("--seed", default=12345, show_default=True, help="Of the bootstrap.")
@click.option(
    "--max-unparsed", default=0.05, show_default=True,
    help="Refuse when a judge's unreadable verdicts exceed this share in an order.",
)  # fmt: skip
@click.option(
    "--covariate", multiple=True, metavar="NAME",
    help="Hold equal what the columns NAME_a and NAME_b measure, such as length; repeatable.",
)  # fmt: skip
@click.option("--catalog", type=_PATH, help="Items are plans of it: fit their levels too.")
@click.option(
    "--family", multiple=True, metavar="JUDGE=FAMILY",
    help="Who trained a judge, or human; repeatable. Evidence of its family is not independent.",
)  # fmt: skip
@click.option("--rubric", multiple=True, help="Rubric the judges went by; repeatable.")
@click.option("--corpus", multiple=True, help="Log that the items come from; repeatable.")
@click.option("--golden-set", multiple=True, help="Golden set that cleared a judge; repeatable.")
@json_option
def judge_fit(
    *,
    file: Path,
    out: Path,
    html_out: Path | None,
    scale: str,
    ties: Any,
    judge: str | None,
    prior: float,
    level: float,
    resamples: int | None,
    seed: int,
    max_unparsed: float,
    covariate: tuple[str, ...],
    catalog: Path | None,
    family: tuple[str, ...],
    rubric: tuple[str, ...],
    corpus: tuple[str, ...],
    golden_set: tuple[str, ...],
    as_json: bool,
) -> None:
    """Fit Bradley-Terry scores to FILE's verdicts and write them as an artifact.

    FILE is CSV or Parquet, as for `canopy judge pairs`. A winner counts if it survives the swap
    of sides; ties, and verdicts that could not be read, count for nobody.

    Exit 3 when too many verdicts could not be read; then nothing is written.

    Raises:
        Exit: With code 3 where it is refused.
    """
    from training.preferences.artifact import save_preferences  # noqa: PLC0415 - brings scipy
    from training.preferences.comparisons import ScaleKind  # noqa: PLC0415 - as above
    from training.preferences.fitting import (  # noqa: PLC0415 - as above
        FitSettings,
        Origin,
        fit_preferences,
        parse_objection,
        preferences_of,
    )
    from training.preferences.pair_files import read_pairs  # noqa: PLC0415 - as above

    settings = FitSettings(
        scale_kind=ScaleKind(SCALES[scale]), ties=ties, prior=prior, level=level,
        n_resamples=resamples, seed=seed, max_unparsed=max_unparsed,
    )  # fmt: skip
    families = _families(family)
    origin = Origin(rubrics=rubric, corpora=corpus, golden_sets=golden_set)
    pairs = read_pairs(file, covariate)
    if judge is not None:
        pairs = pairs.of_judge(judge)
    levels = None if catalog is None else _levels(pairs, catalog)
    found = fit_preferences(pairs, settings, families=families, levels=levels)
    objection = parse_objection(found.tally, max_unparsed)
    if objection is not None:
        if as_json:
            emit_json({"status": "refused", "reason": objection})
        else:
            note(f"Refused: {objection}. Nothing was written.")
        raise click.exceptions.Exit(EXIT_REFUSED)
    preferences = preferences_of(found, origin)
    save_preferences(preferences, out)
    if html_out is not None:
        from training.preferences.report_html import write_page  # noqa: PLC0415 - matplotlib

        write_page(preferences, html_out)
        note(f"Wrote {html_out}.")
    if as_json:
        emit_json({"folder": str(out)} | dict(preferences.document))
    else:
        _print(preferences, out)


def _families(entries: tuple[str, ...]) -> dict[str, str]:
    """Families by judge.

    Raises:
        InputError: If an entry is not JUDGE=FAMILY, or a judge has two.
    """
    found: dict[str, str] = {}
    for entry in entries:
        judge, _, family = entry.rpartition("=")
        if not judge.strip() or not family.strip():
            raise InputError("--family", f"{entry!r} names no family.", "Write JUDGE=FAMILY.")
        if found.setdefault(judge.strip(), family.strip()) != family.strip():
            raise InputError("--family", f"{judge!r} has two families.", "Keep one of them.")
    return found


def _levels(pairs: "PairTable", catalog: Path) -> "IntArray":
    """Level positions of the items, shape (n_items, n_factors).

    Raises:
        InputError: If an item is no plan of the catalog.
    """
    from policy.catalog import load_catalog  # noqa: PLC0415 - for this option only

    plans = load_catalog(catalog)
    actions = []
    for item in pairs.items:
        action = plans.find(item)
        if action is None:
            raise InputError(
                f"item {item!r}", f"is no plan of {catalog}.",
                "Compare plans by their ids, or leave --catalog out.",
            )  # fmt: skip
        actions.append(action)
    return plans.levels[actions]


def _print(preferences: "Preferences", out: Path) -> None:
    from training.preferences.wording import (  # noqa: PLC0415 - with the rest of the fit
        STATUS_MEANING,
        interval_text,
        rank_text,
        survival_text,
    )

    document = preferences.document
    level = f"{document['level']:.0%}"
    emit_table(
        f"Preferences ({document['scale_kind']})",
        ("item", "score", level, "rank", "won-lost-tied", "survival"),
        [
            (
                facts["item"],
                cell(None) if facts["score"] is None else f"{facts['score']:.3f}",
                interval_text(facts["interval"] or facts["fisher_interval"]),
                rank_text(facts["rank_range"]),
                f"{facts['wins']:g}-{facts['losses']:g}-{facts['ties']:g}",
                survival_text(facts),
            )
            for facts in document["items"]
        ],
        caption=f"{document['status']}: {STATUS_MEANING[document['status']]}",
    )
    bias = document["order_bias"]
    emit_facts(
        "What it rests on",
        {
            "pairs": document["n_pairs"],
            "decisive": document["n_comparisons"],
            "clusters": document["n_clusters"],
            "survival of the swap": document["survival"],
            f"order bias, {level}": None
            if bias is None
            else f"{bias['b']:.3f} {interval_text(bias['interval'])}",
            "judges": ", ".join(judge["judge"] for judge in document["judges"]),
            "artifact": document["artifact_id"],
            "folder": str(out),
        },
    )
    if len(document["components"]) > 1:
        note("Components: " + " | ".join(", ".join(m) for m in document["components"]))
    elif len(document["groups"]) > 1:
        note("From the strongest group: " + " > ".join(", ".join(m) for m in document["groups"]))
    for name in preferences.lineage.judges:
        if name.startswith("unknown:"):
            note(f"The family of judge {name.removeprefix('unknown:')!r} is not said: --family.")
