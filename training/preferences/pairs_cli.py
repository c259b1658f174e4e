"""`canopy judge pairs`: what verdicts in both orders are worth, judge by judge."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from canopy.output import emit_json, emit_table, json_option

if TYPE_CHECKING:
    from training.preferences.pair_table import PairTable

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
    documents = [
        judge_document(judge, pairs.of_judge(judge), level) for judge in sorted(pairs.judge.names)
    ]
    if len(documents) > 1:
        documents.append(judge_document(ALL, pairs, level))
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


def judge_document(judge: str, pairs: "PairTable", level: float) -> dict[str, Any]:
    """What a judge's pairs come to, as JSON carries it.

    Args:
        judge: Its name.
        pairs: Its pairs.
        level: Coverage of the interval of the order bias.

    Raises:
        RangeError: If the level is none.
    """
    from training.preferences.order_bias import order_bias  # noqa: PLC0415 - brings scipy

    found = pairs.swaps
    bias = order_bias(found.first_both, found.second_both, level=level)
    return {
        "judge": judge,
        "n_pairs": len(pairs),
        "n_clusters": pairs.n_clusters,
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
