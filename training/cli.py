"""`canopy-train`: Hydra owns the command line, Canopy words the errors."""

import os
import sys
from typing import Any, cast

import click
import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from canopy.domain.errors import EXIT_BAD_INPUT, EXIT_DONE, CanopyError, ConfigError
from canopy.output import emit_facts, emit_json, emit_table
from canopy.settings import load_settings
from training.config import Print, TrainConfig
from training.objectives import register
from training.outcome import TrainingRun, summary
from training.run import train

_MOST_LEVELS = 24


def main() -> None:
    """Run the command; errors become one line each, and the worst decides the exit code."""
    # Hydra would print a stack of its own and hide ours; errors come back to us instead.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    register()
    codes = [EXIT_DONE]

    @hydra.main(version_base="1.3", config_path="pkg://configs", config_name="train")
    def run(raw: DictConfig) -> None:
        try:
            _train(raw)
        except CanopyError as error:
            # The other runs of a sweep go on.
            click.echo(f"canopy: {error}", err=True)
            codes.append(error.exit_code)

    try:
        run()
    except SystemExit as ended:
        # A word that the option parser does not know; it has said so.
        codes.append(EXIT_BAD_INPUT if ended.code else EXIT_DONE)
    except (HydraException, OmegaConfBaseException) as error:
        click.echo(f"canopy: {_one_line(error)}", err=True)
        codes.append(EXIT_BAD_INPUT)
    sys.exit(max(codes))


def typed(raw: DictConfig) -> TrainConfig:
    """The configuration as its classes.

    Raises:
        ConfigError: If a mandatory value is missing.
    """
    missing = sorted(OmegaConf.missing_keys(raw))
    if missing:
        raise ConfigError(missing[0], "is not set.", f"Write `{missing[0]}=...`.")
    return cast("TrainConfig", OmegaConf.to_object(raw))


def _train(raw: DictConfig) -> None:
    config = typed(raw)
    run = train(config, load_settings().settings)
    if config.print is Print.json:
        emit_json(summary(run, config))
    else:
        _print_summary(run, summary(run, config))


def _print_summary(run: TrainingRun, document: dict[str, Any]) -> None:
    emit_facts(
        "Rows",
        {
            "trained on": document["n_train"],
            "chose by (validation units)": document["n_validation"],
            "left out: reserved units": document["n_reserved"],
            "left out: not drawn": document["n_not_drawn"],
            "left out: reward unmeasured": document["n_null_reward"],
            "left out: later rows of units that train": document["n_known_units"],
            "one feasible plan, no gradient": document["n_single_feasible"],
            "effective sample size of the weights": document["ess"],
        },
    )
    emit_table(
        "Reward",
        ("component", "weight", "measured", ""),
        [
            (one["component"], one["weight"], f"{one['share_measured']:.1%}", one["left_out"] or "")
            for one in document["reward"]
        ],
    )
    _print_shares(run)
    emit_table(
        "Value on validation units",
        ("policy", "value", "effective sample size"),
        [
            ("logging", document["logged_value"], float(document["n_validation"])),
            (
                f"served, floor {document['floor']:g}, temperature {document['temperature']:g}",
                document["served_value"],
                document["served_ess"],
            ),
            ("greedy, without floor", document["greedy_value"], document["greedy_ess"]),
        ],
        caption="Chosen on these units, so it flatters. Evidence comes from the reserve.",
    )
    emit_facts(
        "Policy",
        {
            "policy": document["policy_id"],
            "artifact": document["artifact"],
            "run": document["run_id"],
            "model": document["model"],
            "synthetic data": document["synthetic"],
            "seconds": round(document["seconds"], 2),
        },
    )


def _print_shares(run: TrainingRun) -> None:
    moved = sorted(run.shares, key=lambda share: -abs(share.served - share.logged))
    shown = moved[:_MOST_LEVELS]
    rest = len(moved) - len(shown)
    emit_table(
        "Share of decisions by level",
        ("factor", "level", "logged", "served"),
        [
            (share.factor, share.level, share.logged, share.served)
            for share in run.shares
            if share in shown
        ],
        caption=f"The most moved; {rest} more are not shown." if rest else None,
    )


def _one_line(error: Exception) -> str:
    # Hydra says which override failed, the error behind it why.
    told = [str(error), "" if error.__cause__ is None else str(error.__cause__)]
    words = [line.strip() for text in told for line in text.splitlines() if line.strip()]
    return " ".join(words)
