"""Every error survives pickling, refines a standard class, and says what to do."""

import inspect
import pickle

import pytest

from canopy.domain import errors

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
    "service": "Postgres",
    "table": "decisions",
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
