"""`canopy evaluate LOG`: what another policy would have earned on a log, or why nobody knows."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from canopy.domain.errors import EXIT_REFUSED, LogError
from canopy.output import emit_json, emit_table, json_option, note

if TYPE_CHECKING:
    from eval.evaluation import Evaluation
    from eval.reward_models import RewardModelSpec
    from eval.verdicts import Difference, Verdict

_PATH: Final = click.Path(path_type=Path)
_ESTIMATORS: Final = "ips,snips,dm,dr,sndr,switch-dr,dros"


def _log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--range", "reward_range", type=(float, float), default=None,
                     metavar="LO HI", help="Least and greatest reward; 0 1 unless told."),
        click.option("--plans", type=_PATH, help="Plan ids in order: a JSON list or one a line."),
        click.option("--catalog", type=_PATH, help="Plan catalog (YAML); gives the plan order."),
        click.option("--propensity-constant", type=float, metavar="P",
                     help="Propensity of every row of a logger known to be uniform."),
        click.option("--split", type=click.Choice(["all", "reserve", "train"]), default="all",
                     show_default=True, help="Which units to look at."),
        click.option("--units", metavar="COLUMN",
                     help="What is independent and resampled; unit_id unless told."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--reward-by", metavar="COLUMN",
                     help="Fit one reward model per value of this context column."),
        click.option("--encode-plans", type=click.Choice(["one-hot", "ordinal"]),
                     help="How reward models see plans; one-hot unless told."),
        click.option("--plan-factors", metavar="NAMES",
                     help="Factors that reward models see, comma-separated; all unless told."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.command("evaluate")
@click.argument("log", type=_PATH)
@click.option("--policy", type=_PATH, help="Folder of the policy artifact to evaluate.")
@click.option(
    "--target",
    type=click.Choice(["uniform", "logging", "columns"]),
    help="Evaluate this instead; the log's target columns unless told.",
)
@click.option(
    "--estimators",
    default=_ESTIMATORS,
    show_default=True,
    help="Which, comma-separated; also clipped, sub-gaussian, mips=FACTOR+FACTOR, "
    "marginal-dr=FACTOR. A number follows `=`: switch-dr=5.",
)
@click.option("--against", metavar="POLICY", help="Paired difference to an artifact or `logging`.")
@click.option("--by", metavar="COLUMN", help="Verdicts for each value of a column as well.")
@_log_options
@_model_options
@click.option("--level", default=0.95, show_default=True, help="Coverage of intervals.")
@click.option(
    "--interval",
    type=click.Choice(["unit-t", "bootstrap"]),
    default="unit-t",
    show_default=True,
    help="Which interval verdicts carry; JSON has both.",
)
@click.option("--seed", default=12345, show_default=True, help="Of the bootstrap.")
@click.option("--resamples", "n_resamples", type=int, help="Replicates of the bootstrap.")
@click.option(
    "--stream/--no-stream", default=None,
    help="Read LOG in passing, in memory that does not grow; default: folders and large files.",
)  # fmt: skip
@click.option("--html", "html_out", type=_PATH, help="Write a self-contained report here.")
@json_option
def evaluate(
    *,
    log: Path,
    policy: Path | None,
    target: str | None,
    estimators: str,
    against: str | None,
    plans: Path | None,
    reward_by: str | None,
    encode_plans: str | None,
    plan_factors: str | None,
    html_out: Path | None,
    as_json: bool,
    **stated: Any,
) -> None:
    """Estimate what a policy would have earned on LOG, without running it.

    LOG is a Parquet or CSV file, or a folder of Parquet files, partitioned ones too.

    Exit 3 when every estimator refuses.
    """  # noqa: DOC501 - for people at a prompt
    # Only now: the estimators bring scikit-learn and pandas, which other commands do without.
    from eval.report import evaluate as evaluated  # noqa: PLC0415

    with _progress(is_shown=not as_json) as on_rows:
        found = evaluated(
            log,
            target,
            policy=policy,
            estimators=_names(estimators),
            against=against,
            plans=None if plans is None else _plan_order(plans),
            reward_model=_model(reward_by, encode_plans, plan_factors),
            on_rows=on_rows,
            **stated,
        )
    if html_out is not None:
        from eval.report_html import write_report  # noqa: PLC0415 - brings matplotlib

        write_report(found, html_out)
        note(f"Wrote {html_out}.")
    if as_json:
        emit_json(found.document())
    else:
        _show(found)
    if found.is_refused:
        raise click.exceptions.Exit(EXIT_REFUSED)


@contextmanager
def _progress(*, is_shown: bool) -> Iterator[Callable[[int], None]]:
    """A count of rows read, on standard error, while a person watches a log that takes a while."""
    from rich.console import Console  # noqa: PLC0415 - not for `--help`
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = Console(stderr=True)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} rows read"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not (is_shown and console.is_terminal),
    )
    with bar:
        task = None

        def on_rows(n: int) -> None:
            nonlocal task
            if task is None:
                task = bar.add_task("rows", total=None)
            bar.advance(task, n)

        yield on_rows


def _names(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]


def _model(
    reward_by: str | None, encode_plans: str | None, plan_factors: str | None
) -> "RewardModelSpec | None":
    if reward_by is None and encode_plans is None and plan_factors is None:
        return None
    from eval.reward_features import PlanEncoding  # noqa: PLC0415 - as above
    from eval.reward_models import RewardModelSpec  # noqa: PLC0415 - as above

    return RewardModelSpec(
        reward_by=reward_by,
        encode_plans=PlanEncoding(encode_plans or PlanEncoding.ONE_HOT),
        plan_factors=None if plan_factors is None else tuple(_names(plan_factors)),
    )


def _plan_order(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LogError(str(path), f"cannot be read: {error}.", "Name a text file.") from error
    if not text.lstrip().startswith("["):
        return [line.strip() for line in text.splitlines() if line.strip()]
    try:
        return [str(plan) for plan in json.loads(text)]
    except json.JSONDecodeError as error:
        raise LogError(
            str(path), f"not a JSON list: {error}.", "One id a line will do."
        ) from error  # fmt: skip


def _show(found: "Evaluation") -> None:
    log = found.log
    caption = (
        f"{log.n_used:,} of {log.n_rows:,} rows, {log.n_units:,} units; left out: "
        f"{log.n_null_propensity:,} not drawn, {log.n_null_reward:,} without a reward.\n"
        f"Logging policy's own value: {_number(found.logging.value)} "
        f"{_interval(found.logging.interval) or ''}"
    )
    _show_verdicts(f"Target {found.target}", found.verdicts, found.level, caption)
    if found.differences:
        emit_table(
            f"Difference to {found.differences[0].against}, paired",
            ("estimator", "difference", f"{found.level:.0%} interval"),
            [
                (d.estimator, _value(d.status, d.value), _interval(d.interval))
                for d in found.differences
            ],
            caption=_reasons(found.differences) or None,
        )
    for segment in found.segments:
        name = "(empty)" if segment.value is None else segment.value
        _show_verdicts(f"{segment.column}: {name}", segment.verdicts, found.level, "")
    for line in found.notes:
        note(line)


def _show_verdicts(title: str, verdicts: "Sequence[Verdict]", level: float, caption: str) -> None:
    emit_table(
        title,
        ("estimator", "value", f"{level:.0%} interval", "ESS", "mean w", "max w"),
        [
            (v.estimator, _value(v.status, v.value), _interval(v.interval), _number(v.ess),
             _number(v.mean_weight), _number(v.max_weight))
            for v in verdicts
        ],
        caption="\n".join(part for part in (caption, _reasons(verdicts)) if part) or None,
    )  # fmt: skip


def _reasons(verdicts: "Sequence[Verdict | Difference]") -> str:
    # Estimators that say the same say it once.
    named: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.reason is not None:
            named.setdefault(verdict.reason, []).append(verdict.estimator)
    return "\n".join(f"{', '.join(names)}: {reason}" for reason, names in named.items())


def _value(status: str, value: float | None) -> str | None:
    return status if value is None else _number(value)


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.4g}"


def _interval(interval: Sequence[float] | None) -> str | None:
    return None if interval is None else f"[{interval[0]:.3g}, {interval[1]:.3g}]"
