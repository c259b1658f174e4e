"""The Open Bandit Dataset layout: `<policy>/<campaign>/<campaign>.csv[.gz]` + item_context.csv.

Items become plans, described by the item's anonymised categories; each impression is a unit of
its own, because the data set names no user.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import yaml

from canopy.domain.errors import LogError
from canopy.logs import schema
from canopy.logs.catalog_text import listed_catalog
from canopy.logs.obd_wheel import fetch_obd as fetch_obd  # noqa: PLC0414 - part of this module
from canopy.logs.schema import Converted, LogFacts
from canopy.logs.source import csv_header

if TYPE_CHECKING:
    import pyarrow as pa

FloatArray: TypeAlias = npt.NDArray[np.float64]

ATTRIBUTION: Final = (
    "Open Bandit Dataset: Saito, Aihara, Matsutani and Narita, Open Bandit Dataset and Pipeline, "
    "arXiv:2008.07146; data provided by ZOZO, Inc. The small version comes with the obp package, "
    "which is under Apache-2.0; no separate licence of the data is stated there, and the terms "
    "of the full data set were not verified."
)

ITEM_CONTEXT: Final = "item_context.csv"
UNIFORM: Final = "uniform"

_N_POSITIONS: Final = 3
_USER_FEATURES: Final = tuple(f"user_feature_{i}" for i in range(4))
_ITEM_CATEGORIES: Final = tuple(f"item_feature_{i}" for i in range(1, 4))
_ITEM_NUMBER: Final = "item_feature_0"
_AFFINITY: Final = "user-item_affinity_"
_DRAWS_AT_ONCE: Final = 10_000


def is_obd(folder: Path) -> bool:
    """True if a folder looks like one policy's log of one campaign."""
    return (folder / ITEM_CONTEXT).is_file() and _csv_of(folder) is not None


def read_obd(
    folder: Path | str,
    *,
    prior: Path | str | None = None,
    target: str | None = None,
    draws: int = 100_000,
    seed: int = 12345,
    affinities: bool = False,
) -> Converted:
    """One campaign of one logging policy as a decision log, in the order of time.

    Args:
        folder: `<policy>/<campaign>`.
        prior: Beta parameters by campaign; the Thompson sampling policy that they define becomes
            the target policy. None for none.
        target: `uniform` for the uniform policy as target; None for none.
        draws: Monte Carlo draws of the Thompson sampling policy.
        seed: Of those draws.
        affinities: Whether to keep the user-item affinities, one column per item.

    Returns:
        Columns and facts; plan `item=<id>` per item, and a catalog with the items' categories.

    Raises:
        LogError: If the folder has another layout, a column is missing, or a cell is malformed.
    """
    place = Path(folder)
    path = _csv_of(place)
    if path is None or not (place / ITEM_CONTEXT).is_file():
        raise LogError(
            str(place), f"expected {place.name}.csv or .csv.gz beside {ITEM_CONTEXT}.",
            "Name a folder like random/women.",
        )  # fmt: skip
    policy, campaign = place.absolute().parent.name, place.name
    plans, catalog_text = _catalog(place / ITEM_CONTEXT, campaign)
    table = _read_csv(path)
    order = np.argsort(_times(table, path), kind="stable")
    table = table.take(order)
    columns = _columns(table, path, f"{policy}-{campaign}", affinities=affinities)
    item = _integers(table, path, "item_id")
    _refuse_beyond(path, "item_id", item, len(plans))
    columns[schema.PLAN] = [plans[i] for i in item.tolist()]
    n_plans = len(plans)
    if np.allclose(columns[schema.PROPENSITY], 1 / n_plans, schema.AGREEMENT, 0):
        columns[schema.PROPENSITIES] = np.full((len(item), n_plans), 1 / n_plans)
    distribution = _target(place, prior, target, n_plans, draws=draws, seed=seed)
    if distribution is not None:
        position = _positions(table, path)
        columns[schema.TARGET_PROPENSITIES] = distribution[position]
        columns[schema.TARGET_PROPENSITY] = distribution[position, item]
    facts = LogFacts(
        plans=plans, catalog_text=catalog_text, source=f"Open Bandit Dataset {policy}/{campaign}"
    )
    notes = ("No user is named in this data: every impression is a unit of its own.", ATTRIBUTION)
    return Converted(columns, facts, notes)


def thompson_distribution(
    alpha: FloatArray, beta: FloatArray, *, draws: int, seed: int
) -> FloatArray:
    """How often Beta-Bernoulli Thompson sampling puts each item on each position.

    Args:
        alpha: Shape (n_plans,). First Beta parameter of each item.
        beta: Shape (n_plans,). Second one.
        draws: Number of draws of all items.
        seed: Of the draws.

    Returns:
        Shape (3, n_plans): share of draws in which an item ranked first, second, third.

    Source:
        Quick start of the Open Bandit Pipeline, whose published values this reproduces.
    """
    # The published numbers come from this generator; a newer one would draw another stream.
    rng = np.random.RandomState(seed)
    counts = np.zeros((_N_POSITIONS, len(alpha)))
    for start in range(0, draws, _DRAWS_AT_ONCE):
        size = (min(_DRAWS_AT_ONCE, draws - start), len(alpha))
        ranked = rng.beta(alpha, beta, size=size).argsort(axis=1)[:, ::-1]
        for position in range(_N_POSITIONS):
            counts[position] += np.bincount(ranked[:, position], minlength=len(alpha))
    return counts / draws


def _csv_of(folder: Path) -> Path | None:
    for suffix in (".csv", ".csv.gz"):
        path = folder / f"{folder.name}{suffix}"
        if path.is_file():
            return path
    return None


def _catalog(path: Path, campaign: str) -> tuple[tuple[str, ...], str]:
    table = _read_csv(path)
    names = ("item_id", _ITEM_NUMBER, *_ITEM_CATEGORIES)
    cells = {name: _text(table, path, name) for name in names}
    items = cells["item_id"]
    if items != [str(i) for i in range(len(items))]:
        raise LogError(
            f"{path}, column item_id", "expected the items 0, 1, 2, … in order.",
            "Use the file as it was published.",
        )  # fmt: skip
    plans = tuple(f"item={item}" for item in items)
    rows = {
        plan: {"item": items[i]} | {name: cells[name][i] for name in _ITEM_CATEGORIES}
        for i, plan in enumerate(plans)
    }
    numbers = dict(zip(plans, _floats(table, path, _ITEM_NUMBER).tolist(), strict=True))
    text = listed_catalog(
        f"obd-{campaign}", rows, default=plans[0], attributes={_ITEM_NUMBER: numbers}
    )
    return plans, text


def _columns(table: "pa.Table", path: Path, name: str, *, affinities: bool) -> dict[str, Any]:
    rows = _text(table, path, "")
    ids = [f"{name}-{row}" for row in rows]
    columns: dict[str, Any] = {
        schema.DECISION_ID: ids,
        schema.UNIT_ID: ids,
        schema.TS: _times(table, path),
        schema.PROPENSITY: _floats(table, path, "propensity_score"),
        schema.REWARD: _floats(table, path, "click"),
        # Text: a position is a place on the page, not a quantity.
        f"{schema.CONTEXT_PREFIX}position": _text(table, path, "position"),
    }
    for feature in _USER_FEATURES:
        columns[schema.CONTEXT_PREFIX + feature] = _text(table, path, feature)
    if affinities:
        for found in table.column_names:
            if found.startswith(_AFFINITY):
                key = "affinity_" + found.removeprefix(_AFFINITY)
                columns[schema.CONTEXT_PREFIX + key] = _floats(table, path, found)
    return columns


def _target(
    folder: Path,
    prior: Path | str | None,
    target: str | None,
    n_plans: int,
    *,
    draws: int,
    seed: int,
) -> FloatArray | None:
    if prior is not None and target is not None:
        raise LogError("--target-prior", "two target policies.", "Leave --target away.")
    if target is not None and target != UNIFORM:
        raise LogError(
            "--target", f"expected {UNIFORM}, got {target!r}.",
            "Other targets come from --target-prior, or from a policy when evaluating.",
        )  # fmt: skip
    if target is not None:
        return np.full((_N_POSITIONS, n_plans), 1 / n_plans)
    if prior is None:
        return None
    try:
        content = yaml.safe_load(Path(prior).read_text(encoding="utf-8"))[folder.name]
        alpha, beta = (np.array(content[name], np.float64) for name in ("alpha", "beta"))
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise LogError(
            f"{prior}: {folder.name}", f"no Beta parameters there: {error!r}.",
            "Name the prior file that was published with the data.",
        ) from error  # fmt: skip
    if n_plans < _N_POSITIONS:
        raise LogError(
            str(folder), f"{n_plans} items cannot fill {_N_POSITIONS} positions.",
            "Leave --target-prior away.",
        )  # fmt: skip
    if alpha.shape != (n_plans,) or beta.shape != (n_plans,) or not (alpha > 0).all() or not (
        (beta > 0).all()
    ):  # fmt: skip
        raise LogError(
            f"{prior}: {folder.name}", f"expected {n_plans} positive numbers alpha and beta.",
            "Name the prior file of this campaign's data.",
        )  # fmt: skip
    return thompson_distribution(alpha, beta, draws=draws, seed=seed)


def _read_csv(path: Path) -> "pa.Table":
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    # Text throughout: hashed categories that happen to be digits are no numbers.
    kinds = dict.fromkeys(csv_header(path), pa.string())
    try:
        return arrow_csv.read_csv(
            path, convert_options=arrow_csv.ConvertOptions(column_types=kinds)
        )
    except (pa.ArrowException, OSError) as error:
        raise LogError(str(path), f"not CSV: {error}.", "Fetch it again.") from error


def _text(table: "pa.Table", path: Path, name: str) -> list[str]:
    if name not in table.column_names:
        raise LogError(
            f"{path}, column {name or '(row number)'}", "the column is missing.",
            "Use the file as it was published.",
        )  # fmt: skip
    cells: list[str] = table.column(name).to_pylist()
    return cells


def _floats(table: "pa.Table", path: Path, name: str) -> FloatArray:
    values = np.full(table.num_rows, np.nan)
    for row, word in enumerate(_text(table, path, name)):
        try:
            values[row] = float(word)
        except (TypeError, ValueError):
            raise LogError(
                f"{path}: row {row + 1}, column {name}", f"expected a number, got {word!r}.",
                "Fetch the file again.",
            ) from None  # fmt: skip
    return values


def _integers(table: "pa.Table", path: Path, name: str) -> npt.NDArray[np.int64]:
    return _floats(table, path, name).astype(np.int64)


def _positions(table: "pa.Table", path: Path) -> npt.NDArray[np.int64]:
    position = _integers(table, path, "position") - 1
    _refuse_beyond(path, "position", position, _N_POSITIONS)
    return position


def _refuse_beyond(path: Path, name: str, index: npt.NDArray[np.int64], count: int) -> None:
    bad = (index < 0) | (index >= count)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise LogError(
            f"{path}: row {row + 1} in the order of time, column {name}",
            f"expected one of {count}, got {int(index[row])} counting from 0.",
            "Fetch the file again.",
        )


def _times(table: "pa.Table", path: Path) -> npt.NDArray[np.datetime64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    _text(table, path, "timestamp")
    try:
        times = pc.cast(table.column("timestamp"), pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid as error:
        raise LogError(f"{path}, column timestamp", f"{error}.", "Fetch it again.") from error
    found: npt.NDArray[np.datetime64] = times.to_numpy()
    return found
