"""Fits that a kill does not lose: each is saved after every pass, and taken up where it stood.

A run is its configuration and its data: the same command finds its own checkpoints, and ends with
the same bits as if nothing had happened. Nothing in a checkpoint is code.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from canopy.domain.ids import canonical_json

_FORMAT: Final = "2"


@dataclass(frozen=True, slots=True)
class Progress:
    """A fit after some passes.

    Attributes:
        tensors: The parameters, the optimiser's moments, the best parameters, and the state of
            the row order, by name.
        train: Training loss of each pass.
        validation: Validation loss after each pass.
        best: Position of the pass whose parameters are the best so far.
        is_done: Whether the fit is over.
    """

    tensors: dict[str, Tensor]
    train: tuple[float, ...]
    validation: tuple[float, ...]
    best: int
    is_done: bool


class Checkpoints:
    """The fits of one run, in the order in which they come.

    Args:
        folder: The run's own; made on the first save.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._n_fits = 0

    def next_fit(self) -> Path:
        """The file of the fit that begins now."""
        self._n_fits += 1
        return self.folder / f"fit-{self._n_fits}.safetensors"

    def clear(self) -> None:
        """Forget the run: it is done."""
        shutil.rmtree(self.folder, ignore_errors=True)


def save_progress(path: Path, progress: Progress) -> None:
    """Put a fit's state in place, whole or not at all.

    Args:
        path: Of `Checkpoints.next_fit`.
        progress: The state.
    """
    told = {
        "format": _FORMAT,
        "train": progress.train,
        "validation": progress.validation,
        "best": progress.best,
        "is_done": progress.is_done,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    save_file(
        {name: tensor.contiguous() for name, tensor in progress.tensors.items()},
        scratch,
        metadata={"progress": canonical_json(told)},
    )
    scratch.replace(path)


def load_progress(path: Path) -> Progress | None:
    """A fit's state; None where there is none, or none that this code wrote.

    Args:
        path: Of `Checkpoints.next_fit`.
    """
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as stored:
            told = json.loads((stored.metadata() or {})["progress"])
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - no mapping
        if told["format"] != _FORMAT:
            return None
        return Progress(
            tensors=tensors,
            train=tuple(told["train"]),
            validation=tuple(told["validation"]),
            best=told["best"],
            is_done=told["is_done"],
        )
    except (SafetensorError, KeyError, ValueError, OSError):
        # A file of another format is as good as none: the fit begins anew.
        return None
