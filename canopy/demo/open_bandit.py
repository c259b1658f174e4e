"""Act one: a real log, which holds too little to promote anything."""

from pathlib import Path
from typing import Final

from canopy.demo.stage import VERDICT_COLUMNS, Stage, verdict_rows
from canopy.demo.story import Verdict, learn, prove
from canopy.domain.errors import EXIT_DONE, EXIT_REFUSED
from canopy.logs.obd import ATTRIBUTION, fetch_obd

DISCIPLINE: Final = "open_bandit"


def play(stage: Stage) -> Verdict:
    """Import, evaluate and train on the Open Bandit Dataset; see the gate refuse."""
    stage.act(
        "1  A real log: the Open Bandit Dataset",
        "10,000 impressions of 80 items under a random policy, and about 40 clicks.",
        f"[dim]{ATTRIBUTION}[/]",
    )
    folder = fetch_obd(stage.home)
    random_all = stage.folder / "obd-random-all.parquet"
    stage.run(
        "log", "import", folder / "random" / "all", "--target-prior", folder / "prior_bts.yaml",
        "--out", random_all,
    )  # fmt: skip
    _judge_the_production_policy(stage, random_all)
    _ask_a_log_without_overlap(stage, folder)
    stage.run("log", "import", random_all, "--tenant", stage.tenant, "--discipline", DISCIPLINE)
    return prove(stage, DISCIPLINE, learn(stage, DISCIPLINE))


def _judge_the_production_policy(stage: Stage, log: Path) -> None:
    found = stage.run(
        "evaluate", log, "--target", "columns", "--reward-by", "x_position",
        "--encode-plans", "ordinal",
        "--plan-factors", "item_feature_1,item_feature_2,item_feature_3",
    )  # fmt: skip
    stage.table(
        "The shop's production policy, judged from the random policy's log",
        VERDICT_COLUMNS,
        verdict_rows(found.document["verdicts"]),
    )


def _ask_a_log_without_overlap(stage: Stage, folder: Path) -> None:
    log = stage.folder / "obd-bts-women.parquet"
    stage.run("log", "import", folder / "bts" / "women", "--target", "uniform", "--out", log)
    found = stage.run(
        "evaluate", log, "--target", "columns", "--estimators", "ips,snips",
        expect=(EXIT_DONE, EXIT_REFUSED),
    )  # fmt: skip
    stage.table(
        "The uniform policy, asked of a log without overlap: refused, not guessed",
        VERDICT_COLUMNS,
        verdict_rows(found.document["verdicts"]),
    )
