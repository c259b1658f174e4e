"""Write the table of measured figures into the README, or check that it is current.

`python docs/benchmarks.py` rewrites the region between the two markers from
`docs/benchmarks.json`, which `make bench` writes; `--check` exits 1 where they differ.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent
FIGURES: Final = ROOT / "benchmarks.json"
README: Final = ROOT.parent / "README.md"
BEGIN: Final = "<!-- benchmarks: begin -->"
END: Final = "<!-- benchmarks: end -->"

_WHOLE: Final = 100.0


def table(figures: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the table, the budgets that were missed among them.

    Args:
        figures: What `make bench` wrote: `machine` and `rows`.
    """
    machine, rows = figures["machine"], figures["rows"]
    yield "| what | here | against | ratio | budget | held |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        peer = row["peer"] or ""
        if row["against"] is not None:
            peer = f"{peer}: {quantity(row['against'], row['unit'])}".removeprefix(": ")
        ratio = "" if row["ratio"] is None else f"{number(row['ratio'])}x"
        held = "yes" if row["holds"] else "**missed**"
        ours = quantity(row["ours"], row["unit"])
        cells = (row["name"], ours, peer, ratio, row["budget"] or "", held)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    n_missed = sum(not row["holds"] for row in rows)
    dates = sorted({row["measured"] for row in rows})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    yield ""
    yield (
        f"{len(rows)} figures, {n_missed} missed. {machine['cores']} cores of {machine['cpu']}, "
        f"{'with' if machine['has_avx512'] else 'without'} AVX-512, Python {machine['python']}, "
        f"numpy {machine['numpy']}, {when}."
    )


def quantity(value: float | None, unit: str | None) -> str:
    """A figure with its unit; empty where there is none."""
    return "" if value is None else f"{number(value)} {unit or ''}".rstrip()


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if abs(value) >= _WHOLE:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def renewed(readme: str, figures: Mapping[str, Any]) -> str:
    """The README with its table made anew.

    Raises:
        ValueError: If it lacks the two markers.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"README.md: expected {BEGIN} and {END}. Put both lines back.")
    return f"{before}{BEGIN}\n" + "\n".join(table(figures)) + f"\n{END}{after}"


def is_current(*, rewrite: bool) -> bool:
    """Whether the README shows the figures on file; true where none were ever recorded.

    Args:
        rewrite: Make it so where it is not.

    Raises:
        ValueError: If the README lacks the two markers.
    """
    if not FIGURES.exists():
        return True
    readme = README.read_text(encoding="utf-8")
    wanted = renewed(readme, json.loads(FIGURES.read_text(encoding="utf-8")))
    if wanted == readme:
        return True
    if rewrite:
        README.write_text(wanted, encoding="utf-8")
    return False


def main() -> int:
    """Rewrite the table, or with `--check` say whether it is stale."""
    check = "--check" in sys.argv[1:]
    if not is_current(rewrite=not check) and check:
        sys.stderr.write("the README's benchmarks are stale. Run `make docs` and commit.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
