"""Every error survives pickling, refines a standard class, and says what to do."""

import ast
import inspect
import pickle
from pathlib import Path

import pytest

from canopy.domain import errors

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.guard

EXAMPLES = {
    "place": "log.csv, row 3, column `propensity`",
    "problem": "is empty.",
    "remedy": "Log the probability of the plan taken.",
    "name": "weight",
    "found": (3,),
    "expected": (4,),
    "row": 3,
    "action": 7,
    "noun": "policy",
    "request_id": "r-1",
    "who": "tenant acme",
    "retry_after_s": 0.5,
    "service": "Postgres",
    "table": "decisions",
    "command": "canopy up",
    "code": 2,
    "stderr": "canopy: no server",
}
REMEDIES = (
    "log ", "pass ", "correct ", "check ", "send ", "retry ", "run ", "only synthetic",
)  # fmt: skip


def classes(module):
    return [
        c
        for _, c in inspect.getmembers(module, inspect.isclass)
        if issubclass(c, errors.CanopyError) and c is not errors.CanopyError
    ]


def example(cls):
    names = list(inspect.signature(cls.__init__).parameters)[1:]
    return cls(*(EXAMPLES[name] for name in names))


def faults(cls):
    """What is wrong with an error class, in words."""
    found = []
    original = example(cls)
    try:
        copy = pickle.loads(pickle.dumps(original))
        if str(copy) != str(original) or vars(copy) != vars(original):
            found.append("changes under pickling")
    except TypeError:
        found.append("does not unpickle")
    if all(issubclass(base, errors.CanopyError) for base in cls.__mro__[1:-3]):
        found.append("refines no standard class")
    if not any(remedy in str(original).lower() for remedy in REMEDIES):
        found.append("names no remedy")
    return found


@pytest.mark.parametrize("cls", classes(errors), ids=lambda c: c.__name__)
def test_each_error_pickles_and_says_what_to_do(cls):
    assert faults(cls) == []


def errors_elsewhere(source):
    """Names of error classes of ours that a source defines outside the one tree."""
    tree = {c.__name__ for c in classes(errors)} | {"CanopyError"}
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        and any(getattr(base, "id", getattr(base, "attr", "")) in tree for base in node.bases)
    ]


def test_the_tree_of_errors_stands_in_one_module():
    found = {
        str(path): names
        for package in ("canopy", "policy", "training", "eval", "runtime")
        for path in (ROOT / package).rglob("*.py")
        if path.name != "errors.py" and (names := errors_elsewhere(path.read_text()))
    }
    assert found == {}


def test_the_guard_fires_on_an_error_defined_elsewhere():
    assert errors_elsewhere("class StrayError(InputError): pass") == ["StrayError"]


def test_the_guard_fires_on_a_silent_unpicklable_error():
    class KeywordError(errors.CanopyError):
        def __init__(self, *, name):
            super().__init__()
            self.name = name

        def __str__(self):
            return "wrong"

    KeywordError.__qualname__ = KeywordError.__name__
    globals()["KeywordError"] = KeywordError
    try:
        original = KeywordError(name="x")
        with pytest.raises(TypeError):
            pickle.loads(pickle.dumps(original))
    finally:
        del globals()["KeywordError"]


def test_the_guard_fires_on_an_error_without_a_remedy():
    class MuteError(errors.CanopyError):
        def __init__(self, name):
            super().__init__(name)
            self.name = name

        def __str__(self):
            return self.name

    MuteError.__qualname__ = MuteError.__name__
    globals()["MuteError"] = MuteError
    try:
        assert faults(MuteError) == ["refines no standard class", "names no remedy"]
    finally:
        del globals()["MuteError"]
