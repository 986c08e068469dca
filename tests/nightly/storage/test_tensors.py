"""The largest header of tensors that the program writes."""

from __future__ import annotations

from pathlib import Path

import torch

from ape_cli.core import budget
from ape_cli.models import factory
from ape_cli.runs import config
from ape_cli.runs.history import Row
from ape_cli.storage.tensors import check_length, save_tensors
from ape_cli.structure import Seq


def test_the_largest_header_that_the_program_writes(tmp_path: Path) -> None:
    """A state of the deepest model after the most validations, with the longest numbers."""
    most, long = 2**53 - 1, 1.2345678901234567e-300
    row = dict.fromkeys(Row.model_fields, long) | {"step": most, "epoch": most, "tokens": most, "kept": False}
    assert len(repr(long)) == 23  # no number from 0 on is longer
    settings = {"encoder_layers": 200, "decoder_layers": 200, "d_model": 8, "d_ff": 8, "heads": 1, "max_size": 10}
    wanted = config.resolve("tiny", "transformer-xl", {}, settings=settings)
    model = factory.build(wanted, Seq(), 10)
    tensors = {f"model.{name}": torch.zeros(1) for name in model.state_dict()}
    for name, _ in model.named_parameters():
        tensors |= {f"optimiser.{name}.{key}": torch.zeros(1) for key in ("step", "exp_avg", "exp_avg_sq")}
    path = tmp_path / "state.safetensors"
    save_tensors(path, tensors, {"run": "x" * 200, "history": [row] * budget.VALIDATIONS})
    check_length(path)
    header = int.from_bytes(path.read_bytes()[:8], "little")
    shapes = 60 * len(tensors)  # larger shapes and offsets than those of this test
    assert header + shapes < budget.TENSOR_HEADER_BYTES
