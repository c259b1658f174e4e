"""`canopy demo`: two logs in, a refusal and a promotion out, a service left answering."""

import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from canopy.demo import open_bandit, serving, worlds
from canopy.demo.stage import Stage
from canopy.demo.story import Verdict
from canopy.domain.clock import now
from canopy.logs.world import DISCIPLINE, FactoredWorld
from canopy.output import emit_json, json_option
from canopy.settings import load_settings


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="Config file to read.")
@json_option
def demo(*, config: Path | None, as_json: bool) -> None:
    """Run the whole decision loop on a real log and on two synthetic ones."""
    started = time.perf_counter()
    settings = load_settings(config).settings
    console = Console(stderr=as_json)
    stage = Stage(settings.home, f"demo-{now():%Y%m%d-%H%M%S}", console)
    stage.folder.mkdir(parents=True, exist_ok=True)
    stage.act("0  Servers", "Postgres and Redis from wheels, on sockets under the home folder.")
    stage.run("up")
    verdicts = [open_bandit.play(stage)]
    stage.act(
        "2  A log with enough to learn from",
        f"{worlds.ROWS:,} synthetic decisions over {worlds.SMALL} = 27 plans; the truth is known.",
    )
    verdict, _ = worlds.play(stage, worlds.SMALL, DISCIPLINE)
    verdicts.append(verdict)
    stage.act(
        "3  The same with 256 plans",
        "As many rows, far less overlap between the logging policy and what was learnt.",
    )
    verdicts.append(worlds.play(stage, worlds.LARGE, f"{DISCIPLINE}-256")[0])
    small = FactoredWorld.create(levels=(3, 3, 3))
    address = serving.play(stage, small, DISCIPLINE)
    mlflow = _mlflow_address(stage)
    seconds = time.perf_counter() - started
    document = {
        "tenant": stage.tenant,
        "seconds": round(seconds, 1),
        "evaluations": stage.evaluations(),
        "verdicts": [_verdict_document(v) for v in verdicts],
        "address": address,
        "mlflow": mlflow,
        "curl": serving.curl_line(stage, address, small, DISCIPLINE),
    }
    if as_json:
        emit_json(document)
    _close(console, stage, verdicts, document)


def _mlflow_address(stage: Stage) -> str:
    from canopy.tracking import serve_ui  # noqa: PLC0415 - mlflow takes seconds to import

    return serve_ui(load_settings(environment={"CANOPY_HOME": str(stage.home)}).settings)


def _verdict_document(verdict: Verdict) -> dict[str, Any]:
    return {
        "discipline": verdict.discipline,
        "policy_id": verdict.policy_id,
        "promoted": verdict.passed,
        "refused_because": verdict.reasons,
    }


def _close(
    console: Console, stage: Stage, verdicts: list[Verdict], document: dict[str, Any]
) -> None:
    stage.act("What came of it")
    stage.table(
        f"Three policies, one gate file ({document['seconds']:.0f} s in all)",
        ("discipline", "policy", "verdict", "because"),
        [
            [
                v.discipline,
                v.policy_id[:12],
                "promoted, serving" if v.passed else "refused",
                "; ".join(v.reasons) or "all passed",
            ]
            for v in verdicts
        ],
    )
    stage.act("Left running", "Ask the service:")
    # Unwrapped and unmarked, so that it can be copied as one line.
    console.print(document["curl"], soft_wrap=True, markup=False, highlight=False)
    console.print(f"\nExperiments: {document['mlflow']}\nStop everything: canopy down")
