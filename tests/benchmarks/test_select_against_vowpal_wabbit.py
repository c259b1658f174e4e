"""Selection against Vowpal Wabbit's `--cb_explore_adf`, asked from Python.

1,024 plans of 4 factors, 32 context features, epsilon .05. Ours is the whole `select()`: 12
rules, head, floor, draw and record. Theirs is the prediction alone, in test mode, without a
draw: from text, which is what a service would have in its hands, and from examples parsed
before. The model holds what ours does: context by factor, pairs, and context by pair. The same
without any pairs is measured beside, so that the product is not what is compared. Rounds
alternate in one run; the quietest tenth of either side is compared.

Vowpal Wabbit (BSD) lives in a virtual environment of its own, made on first use.

Budgets: at least 20 times faster than from text, 8 times than pre-parsed; by either model.
"""

import os
import statistics
import subprocess
import sys
import timeit
from contextlib import contextmanager

import pytest

from policy.selector import select
from tests.benchmarks.figures import ROOT
from tests.benchmarks.policies import N_FEATURES, SIZES, drawn_contexts, policy_of
from tests.benchmarks.serving import running_on

pytestmark = pytest.mark.benchmark

VERSION = "9.11.9"
FOLDER = ROOT / ".canopy" / "peers" / "vw"
SCRIPT = ROOT / "tests" / "benchmarks" / "peers" / "vw_cb_adf.py"
INSTALL_S = 300
N_PLANS, N_CONTEXTS = 1_024, 200
LIKE_OURS = "-q CP -q PP --cubic CPP"
WITHOUT_PAIRS = "-q CP"
ROUNDS, N_THEIRS = 30, 10


@pytest.fixture(scope="module")
def interpreter():
    """The Python of the peer's own environment."""
    python = FOLDER / "bin" / "python"
    mark = FOLDER / f"vowpalwabbit-{VERSION}"
    if not mark.exists():
        made = subprocess.run(
            [sys.executable, "-m", "venv", "--clear", FOLDER],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode != 0:
            pytest.skip(f"no environment for Vowpal Wabbit: {made.stderr.strip()[-300:]}")
        try:
            got = subprocess.run(
                [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                 f"vowpalwabbit=={VERSION}"],
                capture_output=True, text=True, check=False, timeout=INSTALL_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            pytest.skip(f"pip did not get Vowpal Wabbit {VERSION} within {INSTALL_S} s")
        if got.returncode != 0:
            pytest.skip(f"pip cannot get Vowpal Wabbit {VERSION}: {got.stderr.strip()[-300:]}")
        mark.touch()
    return python


@contextmanager
def peer(interpreter, interactions):
    """Asks Vowpal Wabbit for microseconds: `text` or `parsed`, and how many predictions."""
    sizes = ",".join(str(size) for size in SIZES[N_PLANS])
    with subprocess.Popen(
        [interpreter, SCRIPT, interactions, sizes, str(N_FEATURES)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        assert running.stdout.readline() == "ready\n"

        def theirs_us(form, n=N_THEIRS):
            running.stdin.write(f"{form} {n}\n")
            running.stdin.flush()
            return float(running.stdout.readline())

        yield theirs_us
        running.stdin.close()


@pytest.fixture(scope="module")
def ours_us(tmp_path_factory):
    """Microseconds of one of our selections, over contexts that differ."""
    artifact = policy_of(tmp_path_factory.mktemp("policies") / "policy", N_PLANS)
    contexts = drawn_contexts(N_CONTEXTS)

    def select_all():
        for number, context in enumerate(contexts):
            select(
                catalog=artifact.catalog,
                artifact=artifact,
                context=context,
                key=f"request-{number}",
            )

    select_all()
    return lambda: timeit.timeit(select_all, number=1) / N_CONTEXTS * 1e6


def quietest(figures):
    """Median of the smallest tenth: other load on the machine only ever adds."""
    return statistics.median(sorted(figures)[: max(1, len(figures) // 10)])


@pytest.mark.parametrize(("form", "at_least"), [("text", 20), ("parsed", 8)])
@pytest.mark.parametrize(
    ("interactions", "meaning"),
    [(LIKE_OURS, "same interactions"), (WITHOUT_PAIRS, "no pairs of factors")],
    ids=["like-ours", "without-pairs"],
)
def test_a_selection_is_many_times_faster_than_vowpal_wabbit(
    interpreter, ours_us, record, form, at_least, interactions, meaning
):
    mine, theirs = [], []
    with running_on({max(os.sched_getaffinity(0))}), peer(interpreter, interactions) as theirs_us:
        theirs_us(form)
        for _ in range(ROUNDS):
            mine.append(ours_us())
            theirs.append(theirs_us(form))
    ours, against = quietest(mine), quietest(theirs)
    row = record(
        "whole `select()`, 1,024 plans",
        peer=f"Vowpal Wabbit {VERSION}, {form}, {meaning}",
        ours=ours,
        against=against,
        unit="us",
        ratio=against / ours,
        at_least=at_least,
    )
    assert row.holds, row
