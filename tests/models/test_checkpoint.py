"""States with a right digest whose content cannot be that of the run: each is refused with one message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli.core.errors import RunError
from ape_cli.data.loader import Dataset
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from ape_cli.training.execution import ExistingRun
from ape_cli.training.loop import Stopped
from tests.runs.test_registry import run, stopping_after

Tensors = dict[str, torch.Tensor]
Stored = tuple[Tensors, dict[str, Any]]


@pytest.fixture(scope="module")
def stored(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Stored]:
    """A run that was stopped after three of four steps, with a validation after the second one, and its state."""
    where = tmp_path_factory.mktemp("stopped")
    with pytest.raises(Stopped):
        run(words, where, stop=stopping_after(3))
    found = next(iter(open_registry(where)))
    state = found.load_state()
    assert state
    return found, state


BIAS = "decoder.0.self_attention.value.bias"
Change = Callable[[Tensors], Any]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop(f"optimiser.{BIAS}.exp_avg_sq"), f"optimiser.{BIAS}.exp_avg_sq"),
        (lambda t: t.update({f"model.{BIAS}": torch.zeros(1)}), "loading state_dict"),
        (lambda t: t.pop(f"model.{BIAS}"), "loading state_dict"),
        (lambda t: t.update({"model.more": torch.zeros(1)}), "loading state_dict"),
    ],
)
def test_tensors_that_do_not_fit(stored: tuple[Run, Stored], words: Dataset, change: Change, message: str) -> None:
    found, (tensors, progress) = stored
    changed = {name: value.clone() for name, value in tensors.items()}
    change(changed)
    found.save_state(changed, progress)
    with pytest.raises(RunError, match="the stored state does not fit the run") as caught:
        run(words, Path(str(found.folder)).parents[1], existing=ExistingRun.RESUME, test=False)
    assert message in str(caught.value)
