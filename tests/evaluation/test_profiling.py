"""The training step whose cost is measured, with a smaller model: it reaches all parameters, and memory is a count."""

from __future__ import annotations

import pytest

from ape_cli import position, structure
from ape_cli.evaluation import profiling
from ape_cli.structure import Seq


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"D_MODEL": 16, "HEADS": 2, "LAYERS": 1, "ROWS": 3, "TOKENS": 7}.items():
        monkeypatch.setattr(profiling, name, size)


@pytest.mark.parametrize("name", position.names())
def test_a_step_reaches_every_parameter(name: str) -> None:
    for model in ("encoder-decoder", "decoder"):
        kind = position.load(name)
        if not (kind.needs_encoder if model == "decoder" else kind.causal_only):
            step = profiling._Step(name, structure.example(kind.structures[0]), model)
            step.seconds()
            assert step.inputs[0].shape == ((3, 14) if model == "decoder" else (3, 7))
            used = [p.grad is not None for name, p in step.model.named_parameters()]
            assert all(used)


def test_memory_is_a_count_of_bytes() -> None:
    """ALiBi keeps at least one bias of 4 bytes for each pair and head in each of three attentions, for all rows."""
    model = "encoder-decoder"
    plain, step = profiling._Step("none", Seq(), model).kept(), profiling._Step("alibi", Seq(), model).kept()
    assert 1 <= (step - plain) / (3 * 2 * 7 * 7 * 4) <= 3
    assert step == profiling._Step("alibi", Seq(), model).kept()
