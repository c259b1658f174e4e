"""Times Vowpal Wabbit's prediction of one context; runs in a virtual environment of its own.

Arguments: interactions (as VW's own options), levels per factor, number of features. Reads one
command per line, `text` or `parsed` and a number of predictions, and answers each with the
microseconds of one prediction.
"""

import random
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import vowpalwabbit

N_CONTEXTS, N_TRAINED, EPSILON = 20, 20, 0.05


def examples(sizes, n_features):
    """One multi-line example per context: a shared line and a line per plan."""
    rng = random.Random(0)
    plans = [
        "|P " + " ".join(f"f{i}=l{level}" for i, level in enumerate(levels))
        for levels in product(*(range(size) for size in sizes))
    ]
    for _ in range(N_CONTEXTS):
        values = " ".join(f"x{i}:{rng.gauss(0.0, 1.0):.6f}" for i in range(n_features))
        yield [f"shared |C {values}", *plans]


def trained(options, made, folder):
    """A model that saw a few labelled examples: weights of zero could be skipped."""
    model = str(Path(folder) / "model")
    learner = vowpalwabbit.Workspace(f"{options} -f {model} --quiet")
    for number in range(N_TRAINED):
        shared, *plans = made[number % len(made)]
        taken = number * 37 % len(plans)
        plans[taken] = f"0:{-(number % 2)}:{1 / len(plans)} {plans[taken]}"
        learner.learn([shared, *plans])
    learner.finish()
    return vowpalwabbit.Workspace(f"-i {model} -t --quiet")


def timed_us(predict, inputs, n):
    """Microseconds of one prediction, the mean over a run of them."""
    started_s = time.perf_counter()
    for number in range(n):
        predict(inputs[number % len(inputs)])
    return (time.perf_counter() - started_s) / n * 1e6


def main():
    interactions, sizes, n_features = sys.argv[1:]
    sizes = [int(size) for size in sizes.split(",")]
    made = list(examples(sizes, int(n_features)))
    options = f"--cb_explore_adf --epsilon {EPSILON} {interactions}"
    with tempfile.TemporaryDirectory() as folder:
        predictor = trained(options, made, folder)
    inputs = {"text": made, "parsed": [predictor.parse(lines) for lines in made]}
    shares = predictor.predict(made[0])
    n_plans = len(made[0]) - 1
    if len(shares) != n_plans or abs(sum(shares) - 1) > 1e-3 or len(set(shares)) == 1:
        raise SystemExit(f"expected a distribution over {n_plans} plans, got {shares[:5]} ...")
    print("ready", flush=True)
    for line in sys.stdin:
        form, n = line.split()
        print(timed_us(predictor.predict, inputs[form], int(n)), flush=True)


if __name__ == "__main__":
    main()
