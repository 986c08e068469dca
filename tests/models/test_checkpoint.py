"""States with a right digest whose content cannot be that of the run: each is refused with one message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli.core.errors import RunError
from ape_cli.data.loader import Dataset
from ape_cli.models.checkpoint import Cursor
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


def row(**fields: Any) -> dict[str, Any]:
    """The history of one row with other fields, of which those that are None are missing."""
    made = {
        "step": 2,
        "epoch": 0,
        "loss": 1.0,
        "token_accuracy": 0.5,
        "lr": 0.001,
        "validation_loss": 1.0,
        "validation_token_accuracy": 0.5,
        "seconds": 1.0,
        "tokens": 100,
    } | fields
    return {"history": [{name: value for name, value in made.items() if value is not None}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (row(validation_token_accuracy="x"), "row 1 of the history: validation_token_accuracy"),
        (row(validation_token_accuracy=7.5), "row 1 of the history: validation_token_accuracy"),
        (row(validation_token_accuracy=None), "row 1 of the history: validation_token_accuracy"),
        (row(tokens=2**70), "row 1 of the history: tokens"),
        (row(x=2**70), "row 1 of the history: unknown column x"),
        (row(x={"a": [1]}), "row 1 of the history: unknown column x"),
        (row(loss=float("nan")), "row 1 of the history: loss"),
        ({"history": [{"step": 2}]}, "row 1 of the history: epoch: Field required"),
        ({"tokens": 10**400}, "tokens: Input should be less than"),
        ({"tokens": 10**300}, "tokens: Input should be less than"),
        ({"labels": 10**400}, "labels: Input should be less than"),
        ({"labels": 2**52}, "impossible labels"),
        ({"seconds": 1e308}, "impossible seconds"),
        ({"seconds": float("inf")}, "seconds: Input should be a finite number"),
        ({"nats": 1e308}, "impossible nats"),
        ({"best_loss": 1e308}, "impossible best_loss"),
        ({"history": [{}] * 20_001}, "history: List should have at most 20000 items"),
    ],
)
def test_a_cursor_with_numbers_that_cannot_be(stored: tuple[Run, Stored], change: dict[str, Any], message: str) -> None:
    _, (_, cursor) = stored
    with pytest.raises(ValueError, match=message):
        Cursor.parse(cursor | change, 4, lambda epoch: 10)
    assert Cursor.parse(cursor, 4, lambda epoch: 10).history == cursor["history"]


BIAS = "decoder.0.self_attention.value.bias"
Change = Callable[[Tensors], Any]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update({f"optimiser.{BIAS}.exp_avg": torch.zeros(3)}), f"optimiser.{BIAS}.exp_avg: float32"),
        (lambda t: t.pop(f"optimiser.{BIAS}.exp_avg_sq"), f"optimiser.{BIAS}.exp_avg_sq: float32"),
        (lambda t: t.pop(f"optimiser.{BIAS}.step"), f"optimiser.{BIAS}.exp_avg: no such tensor is wanted"),
        (lambda t: t.update({f"optimiser.{BIAS}.step": torch.zeros(2)}), "float32 [] is wanted, float32 [2] is"),
        (lambda t: t.update({f"optimiser.{BIAS}.step": torch.tensor(3)}), "float32 [] is wanted, int64 [] is"),
        (lambda t: t.update({f"optimiser.{BIAS}.step": torch.tensor(float("nan"))}), "step nan at step 3"),
        (lambda t: t.update({f"optimiser.{BIAS}.step": torch.tensor(-5.0)}), "step -5.0 at step 3"),
        (lambda t: t.update({f"optimiser.{BIAS}.step": torch.tensor(4.0)}), "step 4.0 at step 3"),
        (lambda t: t.update({f"model.{BIAS}": t[f"model.{BIAS}"].double()}), f"model.{BIAS}: float32"),
        (lambda t: t.update({f"model.{BIAS}": torch.zeros(1)}), f"model.{BIAS}: float32"),
        (lambda t: t[f"model.{BIAS}"].fill_(torch.nan), f"model.{BIAS} has values that are not finite"),
        (lambda t: t.update({"more": torch.zeros(1)}), "more: no such tensor is wanted, float32 [1] is stored"),
    ],
)
def test_tensors_that_do_not_fit(stored: tuple[Run, Stored], words: Dataset, change: Change, message: str) -> None:
    found, (tensors, cursor) = stored
    changed = {name: value.clone() for name, value in tensors.items()}
    change(changed)
    found.save_state(changed, cursor)
    with pytest.raises(RunError, match="the stored state does not fit the run") as caught:
        run(words, Path(str(found.folder)).parents[1], existing=ExistingRun.RESUME, test=False)
    assert message in str(caught.value)
