"""Models made on the meta device compute the same as others once they have weights, with every scheme."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.models.test_image_classifier import SCHEMES, images, net
from tests.position.test_meta_device import spoiled


def filled(made: nn.Module, weights: nn.Module) -> Any:
    """A model from the meta device, on the CPU and with the weights of another one."""
    spoiled(made).load_state_dict(weights.state_dict())
    return made.eval()


@pytest.mark.parametrize("name", SCHEMES)
def test_the_image_classifier(name: str) -> None:
    """Its positions are not stored, and not lost."""
    plain, pixels = net(name), images()
    with torch.device("meta"):
        made = net(name)
    assert torch.equal(filled(made, plain)(pixels), plain(pixels))
    assert torch.equal(filled(made.to("meta"), plain)(pixels), plain(pixels))


def test_the_image_classifier_after_a_forward_pass_on_the_meta_device() -> None:
    """The positions are sent to the device of each pass, from a copy that stays."""
    plain, pixels = net("rope"), images()
    made = net("rope").to("meta")
    assert made(pixels.to("meta")).is_meta
    assert torch.equal(filled(made, plain)(pixels), plain(pixels))
