"""Repeatable weights for parts that do not draw them from a generator of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def global_seed(generator: torch.Generator | None) -> Iterator[None]:
    """Seed PyTorch's global generator for a while, so that weights which do not come from `generator` are repeatable.

    Modules such as `nn.Embedding` draw their weights from it. Its seed differs from that of `generator`, because equal
    seeds would give them the same numbers as the weights of the model. None changes nothing.
    """
    with torch.random.fork_rng(devices=[], enabled=generator is not None):
        if generator is not None:
            torch.default_generator.manual_seed(generator.initial_seed() ^ 0x5CE4E)
        yield
