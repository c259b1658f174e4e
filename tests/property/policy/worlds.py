"""Random catalogs, policies and choices: everything that `select` may be handed."""

import math
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from canopy.domain.decision import Arm, Mode
from policy.artifact import Artifact
from policy.catalog import Catalog, parse_catalog
from policy.features import FeatureSchema
from policy.fields import Category, Number
from policy.heads import FactoredHead
from policy.selector import Choice
from policy.weights import parameter_shapes

SCHEMA = FeatureSchema((Number("n", 0.0, 1.0), Category("t", ("x", "y"))))
SCORES = st.one_of(
    st.floats(-60, 60), st.sampled_from([-math.inf, -math.inf, math.inf, math.nan, 1e308, -1e308])
)
TAME = st.one_of(st.floats(-60, 60), st.just(-math.inf))
FLOORS = st.one_of(st.none(), st.sampled_from([0.0, 1.0]), st.floats(0, 1))
ERRORS = (ValueError("its own"), ArithmeticError("its own"), LookupError("its own"))


class TableHead:
    """A head whose scores are given: what weights of any kind may come to."""

    def __init__(self, row, error=None):
        self.row, self.error, self.n_plans = np.array(row, dtype=np.float64), error, len(row)

    def odds(self, features, *, temperature=1.0):
        return None

    def scores(self, features, *, temperature=1.0):
        if self.error is not None:
            raise self.error
        return np.tile(self.row, (len(features), 1)) / temperature


@st.composite
def catalogs(draw):
    """A catalog with or without weights, constraints and rules."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    lines = ["discipline: d", "version: 1", "factors:"]
    for i, size in enumerate(sizes):
        if draw(st.booleans()):
            names = ", ".join(
                f"l{j}: {{weight: {draw(st.integers(0 if j else 1, 3))}}}" for j in range(size)
            )
            lines.append(f"  f{i}: {{levels: {{{names}}}}}")
        else:
            lines.append(f"  f{i}: {{levels: [{', '.join(f'l{j}' for j in range(size))}]}}")
    wide = [(i, j) for i, size in enumerate(sizes) for j in range(1, size)]
    if wide and draw(st.booleans()):
        cells = [draw(st.sampled_from(wide)) for _ in range(draw(st.integers(1, 2)))]
        lines.append(f"forbid: [{{{', '.join(f'f{i}: l{j}' for i, j in dict(cells).items())}}}]")
    rules = []
    for number in range(draw(st.integers(0, 3)) if wide else 0):
        i, j = draw(st.sampled_from(wide))
        test = draw(
            st.sampled_from(["gt: {n: 0}", "le: {n: 1}", "eq: {t: x}", "has: t", "ne: {t: y}"])
        )
        when = draw(st.sampled_from(["when", "unless"]))
        rules.append(f"{{mask: {{f{i}: l{j}}}, {when}: {{{test}}}, because: r{number}}}")
    lines.append(f"feasibility: [{', '.join(rules)}]")
    lines.append(f"default: {','.join(f'f{i}=l0' for i in range(len(sizes)))}")
    return parse_catalog("\n".join(lines))


@st.composite
def policies(draw, catalog: Catalog, scores=SCORES):
    """A policy of a catalog: factored weights, given scores, or one that raises."""
    if draw(st.booleans()):
        sizes = [len(factor.levels) for factor in catalog.factors]
        rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        # A thousandth of these overflow products of exps; the others take the common way.
        scale = draw(st.sampled_from([0.1, 1.0, 30.0, 1e300]))
        shapes = parameter_shapes(sizes, SCHEMA.width, draw(st.booleans()))
        head = FactoredHead(
            catalog.levels, {name: rng.normal(size=s) * scale for name, s in shapes.items()}
        )
    else:
        row = draw(st.lists(scores, min_size=catalog.n_plans, max_size=catalog.n_plans))
        head = TableHead(row, draw(st.sampled_from([None, None, None, *ERRORS])))
    return Artifact(
        policy_id=f"p{draw(st.integers(0, 9**9))}",
        catalog=catalog,
        schema=SCHEMA,
        head=head,
        temperature=draw(st.sampled_from([1.0, 0.5, 3.0])),
        floor=draw(st.sampled_from([0.0, 0.05, 1.0])),
        manifest={},
        folder=Path("nowhere"),
        parity="bits",
    )


CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "n": st.one_of(st.none(), st.floats(-5, 5), st.integers(-3, 3), st.just(1e9)),
        "t": st.sampled_from([None, "x", "y", "z"]),
        "more": st.just([1]),
    },
)


@st.composite
def choices(draw, catalog=None):
    """Anything that may be asked of the selector."""
    catalog = draw(catalogs()) if catalog is None else catalog
    plan = st.sampled_from(catalog.plan_ids)
    arm = draw(st.sampled_from([None, *Arm]))
    return Choice(
        catalog=catalog,
        context=draw(CONTEXTS),
        key=draw(st.text(max_size=6)),
        artifact=draw(st.one_of(st.none(), policies(catalog))),
        mode=draw(st.sampled_from(list(Mode))),
        allowed=draw(st.one_of(st.none(), st.none(), st.lists(plan, max_size=6))),
        override=draw(st.one_of(*[st.none()] * 5, plan)),
        pinned=draw(st.one_of(*[st.none()] * 5, plan)),
        killed=draw(st.sampled_from([False] * 7 + [True])),
        unavailable=draw(st.sampled_from([False] * 7 + [True])),
        suspended=draw(st.sampled_from([False] * 7 + [True])),
        floor=draw(FLOORS),
        candidate=draw(st.one_of(st.none(), policies(catalog), policies(OTHER))),
        arm=arm,
        arm_share=None if arm is None else draw(st.floats(0.01, 1)),
    )


OTHER = parse_catalog("discipline: o\nversion: 1\nfactors: {o: {levels: [x, y]}}\ndefault: o=x\n")


def bits(vector):
    """The bytes of a vector; None stays None."""
    return None if vector is None else vector.tobytes()


def content(decision):
    """Everything on a decision, comparable to the bit."""
    return (
        decision.plan, decision.action, bits(decision.distribution), decision.propensity,
        decision.served, decision.mode, decision.arm, decision.arm_share, decision.reasons,
        decision.versions, bits(decision.mask), decision.u, decision.floor,
        decision.shadow_plan, bits(decision.shadow),
    )  # fmt: skip
