"""`canopy train compare`: what two training runs differ in."""

import json
from pathlib import Path
from typing import Any

import click

from canopy.domain.errors import InputError
from canopy.output import emit_json, json_option, note

SUMMARY = "summary.json"


@click.command("compare")
@click.argument("first")
@click.argument("second")
@click.option(
    "--html", "html_out", required=True, type=click.Path(path_type=Path),
    help="Write the page here.",
)  # fmt: skip
@json_option
def train_compare(*, first: str, second: str, html_out: Path, as_json: bool) -> None:
    """Compare two training runs on one page: values, settings, curves, plan shares, lineage.

    FIRST and SECOND are ids of runs in MLflow, or files that hold what `canopy-train print=json`
    printed. The page is recorded with each run that is in MLflow, too.
    """
    from training.comparison import comparison_html  # noqa: PLC0415 - brings matplotlib

    runs = [_summary(name) for name in (first, second)]
    text = comparison_html(*runs)
    html_out.parent.mkdir(parents=True, exist_ok=True)
    html_out.write_text(text, encoding="utf-8")
    recorded = []
    for name, other in ((first, runs[1]), (second, runs[0])):
        if not Path(name).is_file():
            page_name = f"comparisons/{other['policy_id'][:12]}.html"
            _tracker().finished(name).log_bytes(page_name, text.encode())
            recorded.append(name)
    if as_json:
        differing = {
            key: [run["settings"].get(key) for run in runs]
            for key in sorted({*runs[0]["settings"], *runs[1]["settings"]})
            if runs[0]["settings"].get(key) != runs[1]["settings"].get(key)
        }
        emit_json({"page": str(html_out), "recorded_with": recorded, "settings": differing})
    else:
        note(f"Wrote {html_out}.")


def _summary(name: str) -> dict[str, Any]:
    """The summary of a run.

    Raises:
        InputError: If a file holds none.
    """
    path = Path(name)
    raw = path.read_bytes() if path.is_file() else _tracker().finished(name).read_bytes(SUMMARY)
    try:
        found: dict[str, Any] = json.loads(raw)
        missing = sorted({"settings", "curve", "shares", "lineage", "calibration"} - found.keys())
    except (ValueError, AttributeError) as error:
        raise InputError(
            name,
            "holds no summary of a run.",
            "Name a run, or a file of `canopy-train print=json`.",
        ) from error
    if missing:
        raise InputError(name, f"lacks {', '.join(missing)}.", "Train the policy again.")
    return found


def _tracker() -> Any:
    from canopy.settings import load_settings  # noqa: PLC0415 - only where runs are in MLflow
    from canopy.tracking import open_tracker  # noqa: PLC0415 - as above

    return open_tracker(load_settings().settings)
