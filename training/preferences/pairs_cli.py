"""`canopy judge pairs`: what verdicts in both orders are worth, judge by judge."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from canopy.output import emit_json, emit_table, json_option

if TYPE_CHECKING:
    from training.preferences.pair_files import Pair

ALL: Final = "(all)"


@click.command("pairs")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--level", default=0.95, show_default=True, help="Coverage of the interval.")
@json_option
def judge_pairs(*, file: Path, level: float, as_json: bool) -> None:
    """Count what FILE's pairs come to: survival of the swap and order bias, per judge.

    FILE is CSV with the columns item_a, item_b, judge, verdict_ab, verdict_ba and cluster. A
    verdict names the winning item, a or b, or tie; it is blank where it could not be read, and
    none where that order was not judged.
    """
    from training.preferences.pair_files import read_pairs  # noqa: PLC0415 - for this command only

    pairs = read_pairs(file)
    judges = sorted({pair.judge for pair in pairs})
    documents = [
        _document(judge, [p for p in pairs if judge in {p.judge, ALL}], level)
        for judge in (*judges, *([ALL] if len(judges) > 1 else []))
    ]
    if as_json:
        emit_json({"n_pairs": len(pairs), "level": level, "judges": documents})
        return
    emit_table(
        "Pairs in both orders",
        ("judge", "a", "b", "swap tie", "judge tie", "unparsed", "incomplete"),
        [(d["judge"], *d["counts"].values()) for d in documents],
    )
    emit_table(
        "Survival of the swap, and order bias",
        ("judge", "survival", "bias", f"{level:.0%} interval", "p"),
        [
            (
                d["judge"],
                d["survival"],
                d["order_bias"]["b"],
                "[{:.3g}, {:.3g}]".format(*d["order_bias"]["interval"]),
                d["order_bias"]["p_value"],
            )
            for d in documents
        ],
        caption="A bias above 0 favours the item shown first. Survival is no accuracy.",
    )


def _document(judge: str, pairs: "Iterable[Pair]", level: float) -> dict[str, Any]:
    from training.preferences.order_bias import order_bias  # noqa: PLC0415 - brings scipy
    from training.preferences.swaps import count_swaps  # noqa: PLC0415 - as above

    mine = list(pairs)
    found = count_swaps([p.verdict_ab for p in mine], [p.verdict_ba for p in mine])
    bias = order_bias(found.first_both, found.second_both, level=level)
    return {
        "judge": judge,
        "n_pairs": len(mine),
        "n_clusters": len({p.cluster for p in mine}),
        "counts": {code.value: n for code, n in found.counts.items()},
        "survival": found.survival,
        "order_bias": {
            "b": bias.b,
            "std_err": bias.std_err,
            "interval": list(bias.interval),
            "p_value": bias.p_value,
            "first_both": found.first_both,
            "second_both": found.second_both,
        },
    }
