"""What a scheme costs, measured against `none` in the same process: time of a training step, memory it keeps.

Memory is what the forward pass keeps for the backward one, in bytes of distinct storages, parameters
excluded: a count, the same on every machine. Time is the median of several steps (forward and backward),
each beside one of `none`, as a ratio: the machine's own speed drops out. No locality bias on either side.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from ape_cli import position, structure
from ape_cli.models.transformer import Transformer
from ape_cli.structure import Cyclic, Structure, Tree

D_MODEL, HEADS, LAYERS, ROWS, TOKENS = 128, 4, 2, 32, 63  # of preset `small`, on 63 tokens: a complete tree of depth 5


@dataclass(frozen=True)
class Cost:
    """Parameters: a number. Memory: MiB beyond those of `none`, and as a ratio. Time: a ratio."""

    scheme: str
    structure: str
    parameters: int
    extra_memory_mib: float
    memory_ratio: float
    time_ratio: float


def measure(name: str, rounds: int = 7) -> Cost:
    """The cost of a scheme on an example of its own structure."""
    wanted = structure.example(position.load(name).structures[0])
    step, plain = _Step(name, wanted), _Step("none", structure.Seq())
    kept, plain_kept = step.kept(), plain.kept()
    ratios = [step.seconds() / plain.seconds() for _ in range(rounds + 1)][1:]  # the first one warms up
    return Cost(
        scheme=name,
        structure=wanted.expression,
        parameters=step.model.scheme.properties.parameters,
        extra_memory_mib=(kept - plain_kept) / 2**20,
        memory_ratio=kept / plain_kept,
        time_ratio=statistics.median(ratios),
    )


class _Step:
    """One training step of a small model with a scheme, repeatable."""

    def __init__(self, name: str, wanted: Structure) -> None:
        generator = torch.Generator().manual_seed(1)
        size = 6 if isinstance(wanted, Tree) else TOKENS + 1
        scheme = position.make(
            name, D_MODEL, HEADS, structure=wanted.expression, max_size=size, decay=1.0, generator=generator
        )
        self.model = Transformer(
            scheme,
            ids=24,
            d_ff=4 * D_MODEL,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            dropout=0.0,
            generator=generator,
        )
        self.ids = torch.randint(3, 24, (ROWS, TOKENS), generator=generator)
        self.at, self.mask = _places(wanted), torch.ones(ROWS, TOKENS, dtype=torch.bool)

    def loss(self) -> Tensor:
        return self.model(self.ids, self.at, self.mask, self.ids, self.at).logsumexp(-1).mean()

    def seconds(self) -> float:
        start = time.perf_counter()
        self.model.zero_grad()
        self.loss().backward()
        return time.perf_counter() - start

    def kept(self) -> int:
        """Bytes that are kept between forward and backward."""
        own = {p.untyped_storage().data_ptr() for p in self.model.parameters()}
        held: dict[int, Tensor] = {}  # a storage is held, so that its address is not given to another one

        def pack(x: Tensor) -> Tensor:
            held.setdefault(x.untyped_storage().data_ptr(), x.detach())
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            self.loss()
        return sum(x.untyped_storage().nbytes() for at, x in held.items() if at not in own)


def _places(wanted: Structure) -> Tensor:
    """A complete tree, a filled grid, a ring, a line. -> [B or 1, N], or [B, N, C]"""
    line = torch.arange(1, TOKENS + 1)
    if wanted.width == 1:
        if isinstance(wanted, Cyclic):
            return (line % wanted.order)[None]
        return line.expand(ROWS, -1) if isinstance(wanted, Tree) else line[None]
    side = 2
    while side**wanted.width < TOKENS:
        side += 1
    axes = [line // side**i % side + 1 for i in range(wanted.width)]
    return torch.stack(axes, dim=-1).expand(ROWS, -1, -1)
