"""Schemes in a user's own files that keep their numbers in the wrong place: each is refused, with the rule's name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from ape_cli import position
from ape_cli.core.errors import ApeError
from ape_cli.evaluation import laws
from ape_cli.position import Scheme

BEGIN = """from __future__ import annotations
import torch
from torch import nn
from torch.nn import functional
from ape_cli.position import Scheme


def apart(a, b):
    return (a.positions[:, :, None] - b.positions[:, None]).abs()[:, None].float()


class Mine(Scheme):
    unique = relative = False

"""
INIT = "    def __init__(self, shape):\n        super().__init__(shape)\n        "
BIAS = "    def bias(self, q, a, b):\n        "
EMBED = "    def embed(self, x, context):\n        "
LOADED = "returns other values after `state_dict` is loaded into a new scheme"
AGAIN = "returns other values when it is called again"

WRONG = {
    "an unseeded tensor": (INIT + "self.slope = torch.rand(())\n" + BIAS + "return -self.slope * apart(a, b)", LOADED),
    "parameters in a list": (
        INIT + "self.tables = [nn.Parameter(torch.zeros(1)) for _ in range(2)]\n"
        + BIAS + "return sum(self.tables) * apart(a, b)",
        r"`bias` of scheme 'mine' uses a tensor that is not trained",
    ),
    "what was computed once from a parameter": (
        INIT + "self.slope = nn.Parameter(torch.rand(1, generator=shape.generator))\n        self.kept = None\n"
        + BIAS + "self.kept = self.slope.exp() if self.kept is None else self.kept\n        "
        "return self.kept * apart(a, b)",
        LOADED,
    ),
    "a mean that is not stored": (
        INIT + "self.mean = torch.zeros(())\n"
        + EMBED + "if self.training:\n            self.mean = self.mean + x.mean()\n        return x + self.mean",
        LOADED,
    ),
    "a count of calls": (
        INIT + "self.calls = 0\n" + BIAS + "self.calls += 1\n        return -self.calls * apart(a, b)",
        AGAIN,
    ),
    "random numbers": (EMBED + "return x + torch.rand_like(x)", AGAIN),
    "float64": (
        EMBED + "return x + context.positions.double()[..., None]", "`embed` of scheme 'mine' returns the wrong dtype",
    ),
}  # fmt: skip


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Scheme]]:
    """Writes the methods of the scheme `mine` to its file, and makes it."""
    monkeypatch.setattr(position, "__path__", [*position.__path__, str(tmp_path)])

    def make(methods: str) -> Scheme:
        (tmp_path / "mine.py").write_text(BEGIN + methods + "\n")
        return position.make("mine", 32, 4, generator=torch.Generator().manual_seed(1))

    yield make
    sys.modules.pop("ape_cli.position.mine", None)
    position.load.cache_clear()


@pytest.mark.parametrize("case", WRONG)
def test_what_is_kept_in_the_wrong_place_is_refused(mine: Callable[[str], Scheme], case: str) -> None:
    methods, message = WRONG[case]
    scheme, state = mine(methods), torch.get_rng_state()
    with pytest.raises(ApeError, match=message):
        position.check_hooks(scheme)
    assert torch.equal(torch.get_rng_state(), state)
    assert any(not found.holds and found.law in position.RULES for found in laws.check("mine"))


def test_a_buffer_that_is_not_stored_is_refused(mine: Callable[[str], Scheme]) -> None:
    """The meta device would lose its values. It may also be in a module of a layer."""
    buffer = "register_buffer('slope', torch.ones(1), persistent=False)"
    with pytest.raises(ApeError, match=r"has a buffer[\s\S]*slope, with persistent=False"):
        mine(INIT + f"self.{buffer}")
    sys.modules.pop("ape_cli.position.mine", None)
    position.load.cache_clear()
    scheme = mine(
        f"    def layer(self, role, index):\n        made = nn.Module()\n        made.{buffer}\n        return made"
    )
    with pytest.raises(ApeError, match="has a buffer"):
        scheme.attach("decoder", 0)


def test_a_mask_is_of_bools() -> None:
    """A mask of 0.0 and 1.0 would be taken as one to add to scores, so that padding is attended to."""
    for name in position.names():
        scheme = position.make(name, 32, 4, max_size=6)
        at = torch.zeros((2, 3, scheme.structure.width) if scheme.structure.width > 1 else (2, 3), dtype=torch.int64)
        for mask in (torch.ones(2, 3), torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 1, 3).bool()):
            with pytest.raises(ApeError, match="bad mask"):
                scheme.context(at, mask)
        scheme.context(at, torch.ones(2, 3).bool())
        scheme.context(at[:1], torch.ones(2, 3).bool())
