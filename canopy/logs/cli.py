"""`canopy log …`: bring logs in, judge them, look at them, and hand them out."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click

from canopy.domain.episode import EpisodeKind
from canopy.domain.errors import EXIT_BAD_INPUT, LogError
from canopy.logs import schema
from canopy.logs.catalog_text import outline
from canopy.logs.convert import LogFormat, Read, ReadOptions, read_any, with_catalog
from canopy.logs.example import write_example
from canopy.logs.export import SPLITS, export_log
from canopy.logs.faults import LogCheck
from canopy.logs.stats import log_stats
from canopy.logs.store import Imported, marked_kind, store_log
from canopy.logs.tabular import DecisionLog, check_log, replaced_file, save_log
from canopy.logs.world import FactoredWorld
from canopy.output import emit_facts, emit_json, emit_table, json_option, note
from canopy.settings import load_settings
from canopy.storage.database import Database

_PATH: Final = click.Path(path_type=Path)
_MAX_SHARES: Final = 20


def _stated(command: Callable[..., Any]) -> Callable[..., Any]:
    # What a caller may state about a log that does not say it itself.
    options = (
        click.option("--range", "reward_range", type=(float, float), default=None,
                     metavar="LO HI", help="Least and greatest reward; 0 1 unless told."),
        click.option("--plans", type=_PATH, help="Plan ids in order: a JSON list or one a line."),
        click.option("--catalog", type=_PATH, help="Plan catalog (YAML); gives the plan order."),
        click.option("--propensity-constant", type=float,
                     help="Propensity of every row of a logger known to be uniform."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.command("import")
@click.argument("source", type=_PATH)
@click.option(
    "--format",
    "form",
    default=LogFormat.AUTO.value,
    show_default=True,
    type=click.Choice([form.value for form in LogFormat]),
    help="What SOURCE holds.",
)
@click.option("--out", type=_PATH, help="Write a canonical log here; needs no server.")
@click.option("--tenant", help="Whose record to import into.")
@click.option("--discipline", help="The craft whose decisions these are.")
@click.option("--kind", type=click.Choice(["imported", "synthetic"]), help="How to mark the rows.")
@_stated
@click.option("--target-prior", type=_PATH, help="Open Bandit: prior of the target policy.")
@click.option("--target", type=click.Choice(["uniform"]), help="Open Bandit: target policy.")
@click.option("--timestamp", help="Decision-service: time of lines that carry none.")
@click.option("--config", type=_PATH, help="Config file to read.")
@json_option
def import_log(
    *,
    source: Path,
    form: str,
    out: Path | None,
    tenant: str | None,
    discipline: str | None,
    kind: str | None,
    config: Path | None,
    as_json: bool,
    **stated: Any,
) -> None:
    """Convert a log (--out), or import it into a tenant's record; all of it or nothing.

    SOURCE is Parquet or CSV in the documented schema, a folder of the Open Bandit Dataset, or
    Vowpal Wabbit decision-service JSON.
    """  # noqa: DOC501 - for people at a prompt
    wants_record = tenant is not None or discipline is not None
    if out is None and not wants_record:
        raise LogError("--out", "no destination.", "Name --out, or --tenant and --discipline.")
    if wants_record and (not tenant or not discipline):
        raise LogError("--tenant", "half a destination.", "Name --tenant and --discipline.")
    read = read_any(source, LogFormat(form), _options(**stated))
    marked = marked_kind(read.log.kind, EpisodeKind(kind) if kind else None)
    log = replace(read.log, facts=replace(read.log.facts, kind=marked))
    completed = with_catalog(log, discipline or source.name.partition(".")[0])
    log, notes = completed.log, read.notes + completed.notes
    imported = None
    if tenant and discipline:
        imported = _import(log, out, tenant, discipline, config)
        notes += imported.notes
    elif out is not None:
        save_log(log, out)
    _say_imported(Read(log, notes), out, imported, as_json=as_json)


@click.command("check")
@click.argument("log", type=_PATH)
@_stated
@json_option
def check(
    *,
    log: Path,
    reward_range: tuple[float, float] | None,
    plans: Path | None,
    catalog: Path | None,
    propensity_constant: float | None,
    as_json: bool,
) -> None:
    """Name row and column of everything that is wrong with a log; exit 1 if anything is."""  # noqa: DOC501 - for people at a prompt
    found = check_log(
        log,
        reward_range=reward_range,
        plans=_plan_order(plans, _read_text(catalog)),
        propensity_constant=propensity_constant,
    )
    _say_check(log, found, as_json=as_json)
    if not found.is_clean:
        raise click.exceptions.Exit(EXIT_BAD_INPUT)


@click.command("export")
@click.option("--tenant", required=True, help="Whose record.")
@click.option("--discipline", required=True, help="The craft.")
@click.option("--out", type=_PATH, required=True, help="Where to write the log.")
@click.option(
    "--split",
    type=click.Choice(list(SPLITS)),
    default="all",
    show_default=True,
    help="Units that training may see, units kept back for evidence, or all.",
)
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in EpisodeKind]),
    help="Needed where the record holds several kinds.",
)
@click.option(
    "--range",
    "reward_range",
    type=(float, float),
    default=schema.DEFAULT_RANGE,
    metavar="LO HI",
    help="Least and greatest reward; 0 1 unless told.",
)
@click.option("--config", type=_PATH, help="Config file to read.")
@json_option
def export(
    *,
    tenant: str,
    discipline: str,
    out: Path,
    split: str,
    kind: str | None,
    reward_range: tuple[float, float],
    config: Path | None,
    as_json: bool,
) -> None:
    """Write a discipline's episodes as a canonical log."""
    settings = load_settings(config).settings
    with Database.connect(settings) as database, database.unit_of_work(tenant) as work:
        exported = export_log(
            work,
            out,
            discipline=discipline,
            split=split,
            kind=EpisodeKind(kind) if kind else None,
            reward_range=reward_range,
        )
    facts = _log_facts(exported.log) | {"n_reserved": exported.n_reserved, "out": str(out)}
    _say(f"Exported {discipline} of {tenant}", facts, exported.notes, as_json=as_json)


@click.command("stats")
@click.argument("log", type=_PATH)
@_stated
@json_option
def stats(*, log: Path, as_json: bool, **stated: Any) -> None:
    """What a log holds: rows, units, rewards, propensities, plan shares."""
    found = log_stats(read_any(log, LogFormat.AUTO, _options(**stated)).log)
    document = asdict(found)
    if as_json:
        emit_json(document)
        return
    shares = document.pop("plan_share")
    emit_facts(f"Log {log}", document)
    emit_table(
        "Plans taken most", ("plan", "share"), list(shares.items())[:_MAX_SHARES],
        caption=f"{len(shares)} plans in all" if len(shares) > _MAX_SHARES else None,
    )  # fmt: skip


@click.command("template")
@click.argument("out", type=_PATH, required=False)
@click.option("--describe", is_flag=True, help="Print the columns of a decision log.")
@click.option("--world", help="A synthetic world, such as 3x3x3: levels of each factor.")
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Rows of a world's log.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of a world's rows.")
@click.option("--world-seed", type=int, default=0, show_default=True, help="Seed of the world.")
@click.option("--truth", is_flag=True, help="Add the true reward probabilities as q_all.")
@json_option
def template(
    *,
    out: Path | None,
    describe: bool,
    world: str | None,
    rows: int,
    seed: int,
    world_seed: int,
    truth: bool,
    as_json: bool,
) -> None:
    """Write an example log, or the log of a synthetic world, with its catalog beside it."""  # noqa: DOC501 - for people at a prompt
    if describe:
        _say_schema(as_json=as_json)
        return
    if out is None:
        raise LogError("OUT", "no file named.", "Name where to write, or ask for --describe.")
    if world is None:
        log = write_example(out)
    else:
        made = FactoredWorld.create(_levels(world), seed=world_seed)
        log = made.write_log(out, rows, seed, truth=truth)
    catalog = out.with_name(f"{out.name.partition('.')[0]}.catalog.yaml")
    with replaced_file(catalog) as unfinished:
        unfinished.write_text(log.catalog_text or "", encoding="utf-8")
    facts = _log_facts(log) | {"out": str(out), "catalog": str(catalog)}
    _say("Wrote an example", facts, (), as_json=as_json)


def _import(
    log: DecisionLog, out: Path | None, tenant: str, discipline: str, config: Path | None
) -> Imported:
    settings = load_settings(config).settings
    with Database.connect(settings) as database, database.unit_of_work(tenant) as work:
        imported = store_log(log, work, discipline=discipline, kind=log.kind)
        # Within the transaction: where the file cannot be written, nothing is imported either.
        if out is not None:
            save_log(log, out)
        return imported


def _options(
    *,
    reward_range: tuple[float, float] | None,
    plans: Path | None,
    catalog: Path | None,
    propensity_constant: float | None,
    target_prior: Path | None = None,
    target: str | None = None,
    timestamp: str | None = None,
) -> ReadOptions:
    catalog_text = _read_text(catalog)
    return ReadOptions(
        reward_range=reward_range,
        plans=None if plans is None else _plan_order(plans, catalog_text),
        catalog_text=catalog_text,
        propensity_constant=propensity_constant,
        target_prior=target_prior,
        target=target,
        timestamp=_moment(timestamp),
    )


def _read_text(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LogError(str(path), f"cannot be read: {error}.", "Name a text file.") from error


def _plan_order(plans: Path | None, catalog_text: str | None) -> Sequence[str] | None:
    listed = _read_text(plans)
    if listed is None:
        return None if catalog_text is None else outline(catalog_text, "--catalog").plans
    if not listed.lstrip().startswith("["):
        return [line.strip() for line in listed.splitlines() if line.strip()]
    try:
        return [str(plan) for plan in json.loads(listed)]
    except json.JSONDecodeError as error:
        raise LogError(
            str(plans), f"not a JSON list: {error}.", "One id a line will do."
        ) from error


def _moment(word: str | None) -> datetime | None:
    if word is None:
        return None
    try:
        return datetime.fromisoformat(word)
    except ValueError as error:
        raise LogError("--timestamp", f"{error}.", "Write it like 2026-01-31T08:00:00Z.") from error


def _levels(world: str) -> tuple[int, ...]:
    parts = world.split("x")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise LogError("--world", f"expected levels like 3x3x3, got {world!r}.", "Correct it.")
    return tuple(int(part) for part in parts)


def _log_facts(log: DecisionLog) -> dict[str, Any]:
    return {
        "n_rows": log.n_rows,
        "n_null_reward": log.table.column(schema.REWARD).null_count,
        "n_plans": None if log.plans is None else len(log.plans),
        "kind": log.kind.value,
        "propensity_declared": log.facts.propensity_declared,
        "content_hash": log.content_hash,
    }


def _say(title: str, facts: dict[str, Any], notes: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        emit_json(facts | {"notes": list(notes)})
        return
    emit_facts(title, facts)
    for line in notes:
        note(line)


def _say_imported(
    read: Read, out: Path | None, imported: Imported | None, *, as_json: bool
) -> None:
    facts = _log_facts(read.log) | {"out": None if out is None else str(out)}
    if imported is not None:
        facts |= {
            "n_imported": imported.n_rows,
            "n_rewards": imported.n_rewards,
            "n_reserved": imported.n_reserved,
            "catalog_hash": imported.catalog_hash,
        }
    _say("Converted" if imported is None else "Imported", facts, read.notes, as_json=as_json)


def _say_check(log: Path, found: LogCheck, *, as_json: bool) -> None:
    if as_json:
        emit_json({
            "log": str(log),
            "n_rows": found.n_rows,
            "n_faults": found.n_faults,
            "counts": dict(found.counts),
            "faults": [asdict(fault) for fault in found.faults],
        })
        return
    if found.is_clean:
        emit_facts(f"Log {log}", {"rows": found.n_rows, "faults": 0})
        return
    emit_table(
        f"Log {log}: {found.n_faults:,} faults in {found.n_rows:,} rows",
        ("row", "column", "problem", "remedy"),
        [(fault.row, fault.column, fault.problem, fault.remedy) for fault in found.faults],
        caption=", ".join(f"{name}: {n:,}" for name, n in found.counts.items()),
    )


def _say_schema(*, as_json: bool) -> None:
    if as_json:
        emit_json([asdict(column) for column in schema.COLUMNS])
        return
    emit_table(
        "Columns of a decision log",
        ("column", "holds", "needed", "meaning", "rule"),
        [(c.name, c.type.value, c.mandatory, c.meaning, c.rule) for c in schema.COLUMNS],
        caption=f"Columns that start with {schema.CONTEXT_PREFIX} hold the context.",
    )
