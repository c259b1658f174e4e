"""Vowpal Wabbit's decision-service JSON (one decision per line) as a decision log.

| line | here |
|---|---|
| `a`, `p` | actions counted from 1 and their probabilities: the whole distribution |
| `_label_Action`, `_label_probability` | the plan taken; both must agree with `a` and `p` |
| `_label_cost` | reward = -cost; unmeasured where `_skipLearn` says the plan was never shown |
| `pdrop` | `keep_prob` = 1 - pdrop |
| `EventId`, `Timestamp`, `VWState.m` | decision, time, policy version |
| `c` without `_multi` | context, nested names joined by a dot |
| `c._multi` | the plans on offer, named by `_tag` or `id` where all have one of their own |

Lines without a decision (outcomes on their own, checkpoint marks) are counted and said.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from canopy.domain.errors import LogError
from canopy.logs import schema
from canopy.logs.catalog_text import catalog_of_plans
from canopy.logs.context import context_columns
from canopy.logs.schema import Converted, LogFacts

_AGREEMENT: Final = 1e-5
"""Relative difference up to which label and distribution agree: labels are float32."""

_CHECKPOINT: Final = "[CHECKPOINT"
_FIX: Final = "Correct the line or drop it."


@dataclass(frozen=True, slots=True)
class _Event:
    # One decision line, parsed.
    line: int
    decision_id: str
    decided_at: datetime
    taken: int  # position in `offered`
    offered: tuple[int, ...]  # actions, from 0
    probabilities: tuple[float, ...]  # of `offered`
    names: tuple[str, ...] | None  # of actions, from 0
    reward: float | None
    keep_prob: float
    version: str | None
    context: dict[str, Any]


def is_dsjson(path: Path) -> bool:
    """True if the first line that is no mark looks like decision-service JSON."""
    try:
        with _opened(path) as lines:
            first = next((line for line in lines if line.strip()), "")
            content = json.loads(first)
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and bool({"_label_cost", "EventId"} & set(content))


def read_dsjson(path: Path | str, *, timestamp: datetime | None = None) -> Converted:
    """A decision-service log, not yet checked by the schema.

    Args:
        path: The file, plain or gzipped.
        timestamp: Time of the lines that carry none, as the caller declares it; None refuses
            such lines.

    Returns:
        Columns, facts and notes; without decisions, no rows.

    Raises:
        LogError: Naming file, line and field of the first line that is no sound decision.
    """
    source = Path(path)
    if not source.is_file():
        raise LogError(str(source), "there is no such file.", "Name an existing log.")
    if timestamp is not None and timestamp.tzinfo is None:
        raise LogError("--timestamp", f"{timestamp} has no time zone.", "Append Z for UTC.")
    events: list[_Event] = []
    skipped: Counter[str] = Counter()
    for number, line in _lines(source):
        found = _event(source, number, line, timestamp)
        if isinstance(found, str):
            skipped[found] += 1
        else:
            events.append(found)
    if not events:
        raise LogError(str(source), "no line holds a decision.", "Name a decision-service log.")
    plans, index = _plans(events)
    columns = _columns(events, plans, index)
    discipline = "".join(c if c.isalnum() else "-" for c in source.name.partition(".")[0])
    default = Counter(plans[i] for row in index for i in row).most_common(1)[0][0]
    facts = LogFacts(
        plans=plans,
        catalog_text=catalog_of_plans(plans, discipline, default),
        source=f"decision-service JSON {source.name}",
    )
    return Converted(columns, facts, tuple(f"{n} {what}" for what, n in skipped.items()))


def _opened(path: Path) -> Any:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with _opened(path) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, line.strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LogError(str(path), f"not text in UTF-8: {error}.", "Name another file.") from error


def _event(source: Path, number: int, line: str, timestamp: datetime | None) -> _Event | str:
    # A decision, or what kind of other line this is.
    if line.startswith(_CHECKPOINT):
        return "checkpoint marks passed over."
    place = f"{source}:{number}"
    try:
        content = json.loads(line)
    except json.JSONDecodeError as error:
        raise LogError(place, f"not JSON: {error}.", _FIX) from error
    if not isinstance(content, dict):
        raise LogError(place, "expected an object.", _FIX)
    if "RewardValue" in content and "a" not in content:
        return "outcomes without their decision passed over."
    context = _field(place, content, "c", dict)
    offered = tuple(action - 1 for action in _actions(place, content, context))
    taken = offered.index(_taken(place, content, offered))
    probabilities = _probabilities(place, content, len(offered), taken)
    return _Event(
        line=number,
        decision_id=str(content.get("EventId") or f"line-{number}"),
        decided_at=_time(place, content, timestamp),
        taken=taken,
        offered=offered,
        probabilities=probabilities,
        names=_names(context["_multi"]),
        reward=_reward(place, content),
        keep_prob=_keep_prob(place, content),
        version=_version(content),
        context=dict(_flattened(context)),
    )


def _field(place: str, content: Mapping[str, Any], name: str, kind: type) -> Any:
    if name not in content:
        raise LogError(f"{place}: {name}", "the field is missing.", _FIX)
    value = content[name]
    # True is an int to Python and no number to anybody else.
    wanted = (int, float) if kind is float else kind
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise LogError(f"{place}: {name}", f"expected {kind.__name__}, got {value!r:.80}.", _FIX)
    return value


def _actions(place: str, content: Mapping[str, Any], context: Mapping[str, Any]) -> list[int]:
    actions = _field(place, content, "a", list)
    multi = _field(f"{place}: c", context, "_multi", list)
    count = len(multi)
    if not all(isinstance(action, int) and 1 <= action <= count for action in actions):
        raise LogError(
            f"{place}: a", f"expected actions from 1 to {count}, got {actions!r:.80}.",
            "Actions count from 1, in the order of _multi; renumber the field.",
        )  # fmt: skip
    if not actions or len(set(actions)) != len(actions):
        raise LogError(f"{place}: a", "expected each action at most once, one at least.", _FIX)
    return [int(action) for action in actions]


def _taken(place: str, content: Mapping[str, Any], offered: Sequence[int]) -> int:
    action = int(_field(place, content, "_label_Action", int)) - 1
    if action not in offered:
        raise LogError(f"{place}: _label_Action", f"{action + 1} is not in `a`.", _FIX)
    if "_labelIndex" in content and content["_labelIndex"] != action:
        raise LogError(
            f"{place}: _labelIndex", f"expected {action}, one less than _label_Action, got "
            f"{content['_labelIndex']!r}.", _FIX,
        )  # fmt: skip
    return action


def _probabilities(
    place: str, content: Mapping[str, Any], count: int, taken: int
) -> tuple[float, ...]:
    values = _field(place, content, "p", list)
    if len(values) != count:
        raise LogError(
            f"{place}: p", f"{len(values)} probabilities for {count} actions.",
            "Log one probability per action on offer.",
        )  # fmt: skip
    if not all(isinstance(v, int | float) and 0 <= v <= 1 for v in values):
        raise LogError(f"{place}: p", "expected probabilities between 0 and 1.", _FIX)
    if abs(sum(values) - 1) > schema.SUM_TOLERANCE:
        raise LogError(f"{place}: p", f"sums to {sum(values):.9g}, not 1.", _FIX)
    label = _field(place, content, "_label_probability", float)
    if not np.isclose(label, values[taken], _AGREEMENT, 0):
        raise LogError(
            f"{place}: _label_probability", f"{label:.9g}, `p` says {values[taken]:.9g}.",
            "Both must be the probability of the action taken.",
        )  # fmt: skip
    return tuple(float(value) for value in values)


def _reward(place: str, content: Mapping[str, Any]) -> float | None:
    cost = float(_field(place, content, "_label_cost", float))
    # Never shown, hence nothing was measured; its cost is a filler.
    return None if content.get("_skipLearn") else 0.0 - cost


def _keep_prob(place: str, content: Mapping[str, Any]) -> float:
    if "pdrop" not in content:
        return 1.0
    dropped = float(_field(place, content, "pdrop", float))
    if not 0 <= dropped < 1:
        raise LogError(f"{place}: pdrop", f"expected at least 0, below 1, got {dropped:g}.", _FIX)
    return 1.0 - dropped


def _time(place: str, content: Mapping[str, Any], timestamp: datetime | None) -> datetime:
    word = content.get("Timestamp")
    if word is None:
        if timestamp is None:
            raise LogError(
                f"{place}: Timestamp", "the field is missing.",
                "Declare one time for all such lines with --timestamp.",
            )  # fmt: skip
        return timestamp
    try:
        found = datetime.fromisoformat(str(word))
    except ValueError as error:
        raise LogError(f"{place}: Timestamp", f"{error}.", _FIX) from error
    if found.tzinfo is None:
        raise LogError(f"{place}: Timestamp", f"{word!r} has no offset.", "Append Z for UTC.")
    return found


def _version(content: Mapping[str, Any]) -> str | None:
    state = content.get("VWState")
    return str(state["m"]) if isinstance(state, dict) and "m" in state else None


def _names(multi: Sequence[Any]) -> tuple[str, ...] | None:
    # Names of the actions where each has one and no two share it.
    names = [_name(action) for action in multi]
    kept = [name for name in names if name is not None]
    return tuple(kept) if len(set(kept)) == len(multi) else None


def _name(action: Any) -> str | None:
    if not isinstance(action, dict):
        return None
    inner = action.get("i")
    for holder, key in ((action, "_tag"), (action, "id"), (inner, "id")):
        if isinstance(holder, dict) and isinstance(holder.get(key), str | int):
            return str(holder[key])
    return None


def _plans(events: Sequence[_Event]) -> tuple[tuple[str, ...], list[list[int]]]:
    # Plan ids, and for each event the plan indices of what was on offer.
    named = all(event.names is not None for event in events)
    ids = [
        [
            event.names[action] if named and event.names else f"action={action + 1}"
            for action in event.offered
        ]
        for event in events
    ]
    plans = tuple(sorted({plan for row in ids for plan in row}, key=_natural))
    position = {plan: i for i, plan in enumerate(plans)}
    return plans, [[position[plan] for plan in row] for row in ids]


def _natural(plan: str) -> tuple[str, int, str]:
    # action=10 stands after action=9.
    head, _, tail = plan.rpartition("=")
    return (head, int(tail), "") if tail.isdecimal() else (plan, 0, "")


def _columns(
    events: Sequence[_Event], plans: Sequence[str], index: Sequence[Sequence[int]]
) -> dict[str, Any]:
    propensities = np.zeros((len(events), len(plans)))
    feasible = np.zeros((len(events), len(plans)), bool)
    for row, (event, offered) in enumerate(zip(events, index, strict=True)):
        propensities[row, offered] = event.probabilities
        feasible[row, offered] = True
    ids = [event.decision_id for event in events]
    taken = [offered[event.taken] for event, offered in zip(events, index, strict=True)]
    columns: dict[str, Any] = {
        schema.DECISION_ID: ids,
        # The format names nobody: every event is a unit of its own.
        schema.UNIT_ID: ids,
        schema.TS: [event.decided_at for event in events],
        schema.PLAN: [plans[plan] for plan in taken],
        schema.PROPENSITY: propensities[np.arange(len(events)), taken],
        schema.REWARD: [event.reward for event in events],
        schema.PROPENSITIES: propensities,
        schema.FEASIBLE: feasible,
        schema.KEEP_PROB: np.array([event.keep_prob for event in events]),
        schema.POLICY_VERSION: [event.version for event in events],
    }
    return columns | context_columns([event.context for event in events])


def _flattened(value: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    # Keys with a leading underscore are instructions to the reader, not features.
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.startswith("_"):
                yield from _flattened(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _flattened(inner, path if len(value) == 1 else f"{path}.{position}")
    elif value is not None:
        yield path, value
