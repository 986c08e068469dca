"""The precision of matrix products, and how long the setting lasts."""

from __future__ import annotations

import pytest
import torch

from ape_cli.core.errors import UsageError
from ape_cli.models import device
from ape_cli.runs.config import PRECISIONS


def flags() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("name", PRECISIONS)
def test_products_are_rounded_within_and_not_after(name: str) -> None:
    """Convolutions are included, because torch rounds them by default."""
    before = flags()
    with device.products(name):
        assert flags() == (name == "tf32", name == "tf32")
        with pytest.raises(ZeroDivisionError), device.products("tf32"):
            raise ZeroDivisionError
        assert flags() == (name == "tf32", name == "tf32")
    assert flags() == before


@pytest.mark.parametrize(("name", "width", "rounds"), [("bf16", 128, True), ("bf16", 64, False), ("fp32", 512, False)])
def test_a_forward_pass_is_rounded_where_it_is_faster(name: str, width: int, rounds: bool) -> None:
    with device.forward_pass(name, torch.device("cpu"), width):
        assert torch.is_autocast_enabled("cpu") == rounds
    assert not torch.is_autocast_enabled("cpu")


def test_a_precision_that_is_slower_is_remarked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    for width, bfloat16, words in ((64, True, "computed in fp32"), (128, False, "no instructions"), (512, True, "")):
        monkeypatch.setattr(device, "multiplies_bfloat16", lambda bfloat16=bfloat16: bfloat16)
        remark = device.remark("bf16", cpu, width)
        assert words in remark
        assert bool(remark) == bool(words)
    assert device.remark("bf16", torch.device("cuda"), 64) == ""


def test_a_cpu_cannot_train_in_tf32() -> None:
    """Otherwise the run would be float32 with another name."""
    with pytest.raises(UsageError, match="TF32 needs a GPU"):
        device.check_precision("tf32", torch.device("cpu"))
    for name in ("fp32", "bf16"):
        device.check_precision(name, torch.device("cpu"))
    device.check_precision("tf32", torch.device("cuda"))
