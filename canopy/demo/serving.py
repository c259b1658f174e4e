"""Act four: the promoted policy serves, and its episodes come back as a log."""

import json
from collections.abc import Iterator
from typing import Any, Final

import httpx
import numpy as np

from canopy.demo.stage import Stage
from canopy.demo.story import learn
from canopy.logs.world import FactoredWorld, WorldSample

BATCH: Final = 100
SELECTIONS: Final = 2_000


def play(stage: Stage, world: FactoredWorld, discipline: str) -> str:
    """Serve selections, settle them with outcomes from the world, train on the episodes.

    Returns:
        The address of the service, which keeps answering.
    """
    stage.act(
        "4  The service",
        f"{SELECTIONS:,} selections, each durable before it is answered, each with an outcome.",
    )
    address = str(stage.run("http", "--background").document["address"])
    sample = world.sample(SELECTIONS, seed=3)
    rewards = []
    with httpx.Client(base_url=address, timeout=30.0) as client:
        for rows in _batches(SELECTIONS):
            rewards += _serve(stage, client, discipline, world, sample, rows)
    stage.table(
        "Served",
        ("selections", "mean reward of what was served", "mean propensity"),
        [[len(rewards), float(np.mean([r for r, _ in rewards])),
          float(np.mean([p for _, p in rewards]))]],
    )  # fmt: skip
    learn(stage, discipline, "bc", name=f"{discipline}-served")
    return address


def curl_line(stage: Stage, address: str, world: FactoredWorld, discipline: str) -> str:
    """A line that asks the running service for a selection."""
    body = _request(stage, discipline, world, world.sample(1, seed=4), 0)
    del body["allowed"]
    return (
        f"curl -s {address}/v1/selections -H 'content-type: application/json' "
        f"-d '{json.dumps(body | {'request_id': 'hello-1'})}'"
    )


def _batches(n: int) -> Iterator[range]:
    for start in range(0, n, BATCH):
        yield range(start, min(start + BATCH, n))


def _request(
    stage: Stage, discipline: str, world: FactoredWorld, sample: WorldSample, row: int
) -> dict[str, Any]:
    plans = world.plan_ids
    return {
        "request_id": f"demo-{row}",
        "tenant": stage.tenant,
        "discipline": discipline,
        "unit_id": f"visitor-{row}",
        "kind": "synthetic",
        "context": {f"x{j}": round(float(v), 4) for j, v in enumerate(sample.x[row])},
        "allowed": [plans[a] for a in np.flatnonzero(sample.mask[row])],
    }


def _serve(
    stage: Stage,
    client: httpx.Client,
    discipline: str,
    world: FactoredWorld,
    sample: WorldSample,
    rows: range,
) -> list[tuple[float, float]]:
    """One batch: select, let the world answer, report the outcomes."""
    asked = [_request(stage, discipline, world, sample, row) for row in rows]
    answered = client.post("/v1/selections", json={"items": asked}).raise_for_status().json()
    rng = np.random.default_rng(rows.start)
    outcomes, seen = [], []
    for row, item in zip(rows, answered["items"], strict=True):
        action = world.plan_ids.index(item["plan"])
        reward = float(rng.random() < sample.expected_reward[row, action])
        outcomes.append({
            "tenant": stage.tenant,
            "decision_id": item["decision_id"],
            "value": reward,
        })
        seen.append((reward, item["propensity"]))
    client.post("/v1/outcomes", json={"items": outcomes}).raise_for_status()
    return seen
