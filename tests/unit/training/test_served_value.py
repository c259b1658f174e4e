"""Training's own estimate of served value agrees with the estimator that evidence uses."""

import numpy as np
import pytest

from eval.estimators import snips
from training.served_value import value_of


def test_the_served_value_is_snips_with_its_support(known):
    rows = known.inside
    target = np.random.default_rng(1).random(len(rows))
    found = value_of(target, rows)
    expected = snips(
        rows.reward, target / (rows.propensity * rows.keep_prob), keep_prob=rows.keep_prob
    )
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    assert found.ess == pytest.approx(expected.ess, rel=1e-12)


def test_a_policy_without_support_has_no_value(known):
    rows = known.inside
    found = value_of(np.zeros(len(rows)), rows)
    assert (found.value, found.ess) == (None, 0.0)
