"""The uniform of a key, and the name of the numeric kernel."""

import numpy as np

from policy import kernel
from policy.kernel import kernel_facts, kernel_fingerprint, uniform


def test_the_uniform_of_a_key_is_fixed_for_ever():
    assert uniform("request-1") == 0.9959864406615417
    assert uniform("") == 0.8495098688609517


def test_uniforms_lie_in_the_unit_interval_and_spread_evenly():
    numbers = np.array([uniform(f"key-{i}") for i in range(20_000)])
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    # chi-square with 19 degrees of freedom: 43.8 is its .999 quantile.
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8


def test_a_key_of_lone_surrogates_has_a_uniform_too():
    assert 0.0 <= uniform("\ud800") < 1.0


def test_the_fingerprint_names_what_decides_the_last_bits():
    facts = kernel_facts()
    assert facts["numpy"] == np.__version__
    assert set(facts) == {"arithmetic", "numpy", "machine", "libc", "simd"}
    assert len(kernel_fingerprint()) == 16


def test_another_arithmetic_has_another_fingerprint(monkeypatch):
    before = kernel_fingerprint()
    changed = {**kernel_facts(), "arithmetic": kernel.ARITHMETIC + 1}
    named = kernel.content_hash(kernel.canonical_json(changed))
    assert not named.startswith(before)
