"""A training step with dropout, compared with torch's dropout and with torch's `nn.Transformer`.

A step is forward, backward and the fused AdamW. The model is `none` with dropout 0.1, on one thread and one batch of
`reverse` of medium length. "torch's dropout" is our model with `nn.functional.dropout`. `nn.Transformer` has the same
number of layers, width, heads, feed-forward width, pre-norm, embedding of ids and batch; its attention is torch's own.
The two sides take turns, and a ratio is the median over the rounds.

Shapes: B batch, N tokens, M target tokens, D channels, V ids.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional

from ape_cli.data.batches import SequenceBatch
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import factory
from ape_cli.models.device import tune
from ape_cli.models.transformer import loss
from ape_cli.runs import config
from ape_cli.structure import parse_structure
from benchmarks._measure import Row, pair_of
from benchmarks._steps import Shape, batches_of, sized

SUMMARY = "a training step with dropout, compared with torch's dropout and torch's nn.Transformer"
ROUNDS = {"small": 15, "paper": 5}
P = 0.1


class Peer(nn.Module):
    """torch's transformer on our batches, with V = `ids`, D = `d`, and dropout `p`."""

    def __init__(self, ids: int, d: int, ff: int, heads: int, p: float) -> None:
        """Create two encoder and two decoder layers."""
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(ids, d) * d**-0.5)
        self.core = nn.Transformer(d, heads, 2, 2, ff, p, batch_first=True, norm_first=True)
        self.drop = nn.Dropout(p)

    def embed(self, ids: Tensor) -> Tensor:
        """Embed the ids. int64 [B, N] -> [B, N, D]"""
        embedded: Tensor = self.drop(functional.embedding(ids, self.embedding) * math.sqrt(self.embedding.shape[1]))
        return embedded

    def forward(self, batch: SequenceBatch) -> Tensor:
        """The scores of a batch. -> [B, M, V]"""
        m = batch.input_ids.shape[1]
        hidden = torch.triu(torch.ones(m, m, dtype=torch.bool), diagonal=1)
        source, target = self.embed(batch.source_ids), self.embed(batch.input_ids)
        out: Tensor = self.core(
            source,
            target,
            tgt_mask=hidden,
            src_key_padding_mask=~batch.source_mask,
            memory_key_padding_mask=~batch.source_mask,
            tgt_is_causal=True,
        )
        return out @ self.embedding.T


def measure() -> Iterator[Row]:
    """Ratios without and with dropout, for presets small and paper."""
    tune()
    torch.set_num_threads(1)
    for preset, rows in (("small", 64), ("paper", 16)):
        for p in (0.0, P):
            yield from _rows(Shape(preset, rows), p)


def _rows(shape: Shape, p: float) -> Iterator[Row]:
    made = sized("reverse", shape.preset)
    chosen = ExperimentSpec(preset=shape.preset, scheme="none", set={"dropout": p}).config("sequence")
    torch.manual_seed(1)
    model = factory.build(chosen, parse_structure(made.structure), len(made.id_names))
    (batch,) = batches_of("reverse", shape, "seq")
    fields = config.preset(shape.preset).sequence
    peer = Peer(len(made.id_names), fields["d_model"], fields["d_ff"], fields["heads"], p)
    ours, theirs = _step(model, lambda: model(*batch.inputs), batch), _step(peer, lambda: peer(batch), batch)

    def torchs() -> float:
        with ExitStack() as stack:
            for where in ("_layers.drop", "_kind.drop"):
                stack.enter_context(mock.patch(f"ape_cli.attention.{where}", functional.dropout))
            stack.enter_context(mock.patch("ape_cli.models.transformer.drop_relu", _torchs_after_relu))
            return ours()

    others = {"nn.Transformer": theirs} | ({"torch's dropout": torchs} if p else {})
    for name, other in others.items():
        times: tuple[list[float], list[float]] = ([], [])
        for i in range(ROUNDS[shape.preset] + 1):
            for which in (0, 1) if i % 2 else (1, 0):
                took = (other, ours)[which]()
                if i:
                    times[which].append(took)
        pair = pair_of(*times)
        bar = 1.1 if name == "nn.Transformer" and p else 1.0
        what = f"{name} / ours; {shape.name}, dropout {p:g}"
        absolute = {f"{name} s": pair.a, "ours s": pair.b}
        yield Row(what, pair.ratio, bar, at_least=True, low=pair.low, high=pair.high, absolute=absolute)


def _torchs_after_relu(x: Tensor, p: float, training: bool) -> Tensor:
    """torch's dropout of a ReLU."""
    return functional.dropout(functional.relu(x), p, training)


def _step(model: nn.Module, scores: Callable[[], Tensor], batch: SequenceBatch) -> Callable[[], float]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def step() -> float:
        start = time.perf_counter()
        value = loss(scores(), batch.labels) / batch.labels.numel()
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        optimiser.step()
        return time.perf_counter() - start

    return step
