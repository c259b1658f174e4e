"""Acts two and three: two synthetic worlds whose truth is known."""

from pathlib import Path
from typing import Final

from canopy.demo.stage import VERDICT_COLUMNS, Stage, verdict_rows
from canopy.demo.story import Learnt, Verdict, learn, prove

SMALL: Final = "3x3x3"
LARGE: Final = "4x4x4x4"
ROWS: Final = 20_000
TRUTH_ROWS: Final = 4_000


def play(stage: Stage, levels: str, discipline: str) -> tuple[Verdict, Learnt]:
    """Learn from a synthetic log, judge it on reserved units, and show the truth beside."""
    log = stage.folder / f"{discipline}.parquet"
    stage.run("log", "template", log, "--world", levels, "--rows", ROWS, "--seed", 1)
    stage.run("log", "check", log)
    stage.run(
        "log", "import", log, "--tenant", stage.tenant, "--discipline", discipline,
        "--kind", "synthetic",
    )  # fmt: skip
    policy = learn(stage, discipline)
    judged = stage.run("evaluate", policy.log, "--policy", policy.artifact, "--split", "reserve")
    stage.table(
        "The policy on reserved units, as it would be served (exploration floor included)",
        VERDICT_COLUMNS,
        verdict_rows(judged.document["verdicts"]),
    )
    _show_truth(stage, levels, discipline, policy)
    return prove(stage, discipline, policy), policy


def _show_truth(stage: Stage, levels: str, discipline: str, policy: Learnt) -> None:
    """With the true reward probabilities as its model, the direct method is the truth."""
    log = stage.folder / f"{discipline}-truth.parquet"
    stage.run(
        "log", "template", log, "--world", levels, "--rows", TRUTH_ROWS, "--seed", 2, "--truth"
    )
    rows = [
        ["this policy, served", _true_value(stage, log, "--policy", policy.artifact)],
        ["logging policy", _true_value(stage, log, "--target", "logging")],
    ]
    stage.table(f"The truth, over {TRUTH_ROWS:,} fresh contexts", ("policy", "value"), rows)


def _true_value(stage: Stage, log: Path, *target: str | Path) -> float:
    found = stage.run("evaluate", log, *target, "--estimators", "dm")
    return float(found.document["verdicts"][0]["value"])
