"""A fit that was killed ends with the same bits as one that was not."""

import numpy as np
import pytest
import torch

from training.awr.config import AdvantageKind, AwrConfig
from training.checkpoints import Checkpoints, load_progress, save_progress
from training.config import HeadConfig, OptimConfig, ServingConfig
from training.doubly_robust.config import DoublyRobustConfig
from training.fitting import fit_policy
from training.loop import Fitter
from training.objectives import terms_of

QUICK = OptimConfig(batch_size=512, epochs=8)
HEAD = HeadConfig(l2=[1e-5], pair_l2=[0.01, 0.1])


class Killed(BaseException):
    """Stands for a process that is gone: nothing catches it, and no memory of it is left."""


def learnt(problem, configs, *, folder=None, passes=None):
    """Fit, and be killed after some passes; the fitted tables where it came to an end."""
    left = [passes]

    def tick(what, done, planned):
        if left[0] is not None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

    checkpoints = None if folder is None else Checkpoints(folder)
    fitter = Fitter(QUICK, tick, checkpoints)
    terms = terms_of(problem, configs, fitter)
    found = fit_policy(problem, terms, head=HEAD, serving=ServingConfig(), fitter=fitter)
    return found.head.table.detach().numpy().tobytes(), found.curve, found.penalties


CONFIGS = {
    "awr": {"awr": AwrConfig(advantage=AdvantageKind.model, n_folds=2)},
    "doubly_robust": {"doubly_robust": DoublyRobustConfig()},
}


@pytest.mark.parametrize("name", list(CONFIGS))
def test_twenty_kills_leave_the_same_bits(known, tmp_path, name):
    """Each in another pass, of whichever fit is under way there: models, policies, penalties."""
    whole = learnt(known.problem, CONFIGS[name])
    rng = np.random.default_rng(0)
    killed = 0
    for number in range(20):
        folder = tmp_path / str(number)
        while True:
            try:
                found = learnt(
                    known.problem, CONFIGS[name], folder=folder, passes=int(rng.integers(1, 12))
                )
                break
            except Killed:
                killed += 1
        assert found == whole
    assert killed >= 20


def test_a_kill_within_a_pass_loses_that_pass_alone(known, tmp_path):
    whole = learnt(known.problem, CONFIGS["awr"])
    calls = [0]
    problem = known.problem
    fitter = Fitter(QUICK, checkpoints=Checkpoints(tmp_path / "c"))
    (term,) = terms_of(problem, CONFIGS["awr"], fitter)

    def dying(batch):
        calls[0] += 1
        if calls[0] == 17:
            raise Killed
        return term.loss(batch)

    doomed = type(term)(name="awr", weight=1.0, loss=dying, ess=1.0, columns=term.columns)
    with pytest.raises(Killed):
        fit_policy(problem, (doomed,), head=HEAD, serving=ServingConfig(), fitter=fitter)
    assert learnt(problem, CONFIGS["awr"], folder=tmp_path / "c") == whole


def test_a_finished_fit_is_not_fitted_again(known, tmp_path):
    first = learnt(known.problem, CONFIGS["awr"], folder=tmp_path / "c")
    # No pass is left to be killed in.
    assert learnt(known.problem, CONFIGS["awr"], folder=tmp_path / "c", passes=0) == first


@pytest.mark.parametrize("harm", ["torn", "empty", "other"])
def test_a_checkpoint_that_is_none_begins_anew(known, tmp_path, harm):
    whole = learnt(known.problem, CONFIGS["awr"])
    with pytest.raises(Killed):
        learnt(known.problem, CONFIGS["awr"], folder=tmp_path / "c", passes=3)
    (path,) = (tmp_path / "c").iterdir()
    raw = path.read_bytes()
    path.write_bytes(
        {"torn": raw[:-40], "empty": b"", "other": raw.replace(b"format", b"xormat")}[harm]
    )
    assert load_progress(path) is None
    assert learnt(known.problem, CONFIGS["awr"], folder=tmp_path / "c") == whole


def test_progress_comes_back_as_it_went(known, tmp_path):
    with pytest.raises(Killed):
        learnt(known.problem, CONFIGS["awr"], folder=tmp_path / "c", passes=3)
    (path,) = (tmp_path / "c").iterdir()
    read = load_progress(path)
    save_progress(tmp_path / "again.safetensors", read)
    again = load_progress(tmp_path / "again.safetensors")
    assert (again.train, again.validation) == (read.train, read.validation)
    assert all(torch.equal(again.tensors[name], read.tensors[name]) for name in read.tensors)
    assert len(read.validation) == 3
