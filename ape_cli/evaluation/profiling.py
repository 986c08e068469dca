"""The cost of a scheme, measured against `none` in the same process: time of a training step, and memory that it keeps.

Memory is what the forward pass keeps for the backward pass, in bytes of distinct storages, without parameters. It is
a count, and the same on every machine. Time is the median of several steps (forward and backward), each measured next
to a step of `none`, as a ratio, so the machine's own speed cancels. There is no locality bias on either side. A
decoder-only model reads each source and its target as one sequence, and has as many layers in all.

Shapes: B rows, N tokens, C coordinates of a position.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ape_cli import attention, position, structure
from ape_cli.models.decoder import DecoderOnly
from ape_cli.models.transformer import SequenceModel, Transformer
from ape_cli.structure import Cyclic, Structure, Tree

# those of preset `small`; 63 tokens are a complete tree of depth 5
D_MODEL, HEADS, LAYERS, ROWS, TOKENS = 128, 4, 2, 32, 63


@dataclass(frozen=True)
class Cost:
    """The cost of a scheme.

    `parameters` is a number. `extra_memory_mib` is the memory in MiB beyond that of `none`, and `memory_ratio` is the
    ratio of the two. `time_ratio` is a ratio too.
    """

    scheme: str
    structure: str
    model: str
    parameters: int
    extra_memory_mib: float
    memory_ratio: float
    time_ratio: float


def measure(name: str, model: str | None = None, rounds: int = 7) -> Cost:
    """Measure the cost of a scheme on an example of its own structure.

    `model`: `encoder-decoder` or `decoder`; None for the first one in which the scheme acts.
    """
    if model == "encoder-decoder":
        attention.check_role(position.load(name), "encoder")
    shape = structure.example(position.load(name).structures[0])
    model = model or ("decoder" if position.load(name).causal_only else "encoder-decoder")
    step, plain = _Step(name, shape, model), _Step("none", structure.Seq(), model)
    kept, plain_kept = step.kept(), plain.kept()
    ratios = [step.seconds() / plain.seconds() for _ in range(rounds + 1)][1:]  # the first one warms up
    return Cost(
        scheme=name,
        structure=shape.expression,
        model=model,
        parameters=step.model.scheme.properties.parameters,
        extra_memory_mib=(kept - plain_kept) / 2**20,
        memory_ratio=kept / plain_kept,
        time_ratio=statistics.median(ratios),
    )


class _Step:
    """One training step of a small model with a scheme. It can be repeated."""

    def __init__(self, name: str, shape: Structure, model: str) -> None:
        """Create the model and a batch."""
        generator = torch.Generator().manual_seed(1)
        size = 6 if isinstance(shape, Tree) else TOKENS + 1
        scheme = position.make(
            name, D_MODEL, HEADS, structure=shape.expression, max_size=size, decay=1.0, generator=generator
        )
        sizes: dict[str, Any] = {"ids": 24, "d_ff": 4 * D_MODEL, "dropout": 0.0, "generator": generator}
        ids = torch.randint(3, 24, (ROWS, TOKENS), generator=torch.Generator().manual_seed(2))
        at, mask = _places(shape), torch.ones(ROWS, TOKENS, dtype=torch.bool)
        self.model: SequenceModel
        self.inputs: tuple[Tensor, ...]
        if model == "decoder":
            self.model = DecoderOnly(scheme, layers=2 * LAYERS, sides=False, **sizes)
            line = isinstance(shape, structure.Seq)
            both = torch.arange(1, 2 * TOKENS + 1)[None] if line else torch.cat([at, at], dim=1)
            self.inputs = torch.cat([ids, ids], 1), both, torch.arange(TOKENS, 2 * TOKENS).expand(ROWS, -1)
        else:
            self.model = Transformer(scheme, encoder_layers=LAYERS, decoder_layers=LAYERS, **sizes)
            self.inputs = ids, at, mask, ids, at

    def loss(self) -> Tensor:
        """A scalar that depends on all scores."""
        scores: Tensor = self.model(*self.inputs)
        return scores.logsumexp(-1).mean()

    def seconds(self) -> float:
        """The time of one step, forward and backward, in seconds."""
        start = time.perf_counter()
        self.model.zero_grad()
        self.loss().backward()
        return time.perf_counter() - start

    def kept(self) -> int:
        """The number of bytes that are kept between the forward and the backward pass."""
        of_parameters = {p.untyped_storage().data_ptr() for p in self.model.parameters()}
        held: dict[int, Tensor] = {}  # storages are kept alive, so that no address is used twice

        def pack(x: Tensor) -> Tensor:
            held.setdefault(x.untyped_storage().data_ptr(), x.detach())
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            self.loss()
        return sum(x.untyped_storage().nbytes() for at, x in held.items() if at not in of_parameters)


def _places(shape: Structure) -> Tensor:
    """Positions: a complete tree, a filled grid, a ring, or a line. -> int64 [B or 1, N], or [B, N, C]"""
    line = torch.arange(1, TOKENS + 1)
    if shape.width == 1:
        if isinstance(shape, Cyclic):
            return (line % shape.order)[None]
        return line.expand(ROWS, -1) if isinstance(shape, Tree) else line[None]
    side = 2
    while side**shape.width < TOKENS:
        side += 1
    axes = [line // side**i % side + 1 for i in range(shape.width)]
    return torch.stack(axes, dim=-1).expand(ROWS, -1, -1)
