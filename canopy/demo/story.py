"""The part that every log goes through alike: export, learn, prove, ask the gate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from canopy.demo.stage import Stage
from canopy.domain.errors import EXIT_DONE, EXIT_REFUSED

_TOLD: Final = {
    "n_rows": "rows read",
    "n_reserved": "left out: reserved units",
    "n_null_reward": "left out: no reward",
    "ess": "rows the weights are worth",
    "temperature": "temperature, chosen on validation units",
    "logged_value": "value of the logging policy there",
    "served_value": "value as served, floor included",
    "greedy_value": "value if it always took its favourite",
}
"""What `canopy-train` says that a reader wants to know, in words."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """A trained policy.

    Attributes:
        artifact: Its folder.
        log: The log; training read the units that are not reserved, evidence reads the rest.
        document: What `canopy-train` printed.
    """

    artifact: Path
    log: Path
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate said of a policy.

    Attributes:
        discipline: Where the policy would serve.
        policy_id: The policy.
        passed: True if it was promoted.
        rows: The gate's table.
    """

    discipline: str
    policy_id: str
    passed: bool
    rows: Sequence[Mapping[str, Any]]

    @property
    def reasons(self) -> list[str]:
        """What is missing, as the gate words it; empty where it passed."""
        return [str(row["reason"]).rstrip(".") for row in self.rows if not row["passed"]]


def learn(stage: Stage, discipline: str, objective: str = "awr", *, name: str = "") -> Learnt:
    """Export the episodes of a discipline and train on them; the reserve is out of reach."""
    name = name or discipline
    log = stage.folder / f"{name}-episodes.parquet"
    stage.run("log", "export", "--tenant", stage.tenant, "--discipline", discipline, "--out", log)
    trained = stage.run(
        f"data.path={log}", f"objective={objective}", "seed=1",
        f"out={stage.folder / 'policies' / name}", f"name={name}",
        script="canopy-train",
    )  # fmt: skip
    document = trained.document
    stage.table(
        f"Trained: {objective}",
        ("what", "value"),
        [[words, document.get(key)] for key, words in _TOLD.items()],
    )
    return Learnt(Path(document["artifact"]), log, document)


def prove(stage: Stage, discipline: str, policy: Learnt) -> Verdict:
    """Gather evidence on the reserved units, then ask the shipped gate."""
    stage.run(
        "policy", "evidence", policy.artifact, "--tenant", stage.tenant,
        "--discipline", discipline, "--log", policy.log,
    )  # fmt: skip
    asked = stage.run(
        "policy", "promote", policy.artifact, "--to", "on", "--tenant", stage.tenant,
        "--discipline", discipline, "--reason", "demonstration",
        expect=(EXIT_DONE, EXIT_REFUSED),
    )  # fmt: skip
    rows = asked.document["rows"]
    passed = asked.code == EXIT_DONE
    stage.table(
        f"The gate says: {'promoted' if passed else 'refused'}",
        ("tier", "requires", "found", "passed", "reason"),
        [[row["tier"], row["requirement"], row["found"], row["passed"], row["reason"]]
         for row in rows],
    )  # fmt: skip
    return Verdict(discipline, policy.document["policy_id"], passed, rows)
