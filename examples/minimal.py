"""From data to a score in one file: an encoder-decoder in plain PyTorch, with positional encodings of `ape_cli`.

It mirrors small trees. `orthogonal-tree` reads the nodes of a tree, `sinusoidal` reads the same nodes along their
linearisation. Run `python examples/minimal.py`; it takes about a minute on a CPU.

Shapes: B rows, N source tokens, M target tokens, H heads, K channels of a head, D channels, V symbols.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu

from ape_cli import attention, position, tasks

PAD, SOS = 0, 1
SYMBOLS, WIDTH, HEADS = 23, 64, 4


def padded(column: list[list[int]]) -> Tensor:
    """Lists of numbers as one tensor, filled with 0. -> int64 [B, N]"""
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in column], batch_first=True)


class Data:
    """Rows of the task `tree-rotate`, as tensors. `linear`: number the tokens in the place of their tree positions."""

    def __init__(self, rows: int, split: str, linear: bool) -> None:
        """Sample the rows."""
        table = tasks.make("tree-rotate", depth_mean=2.0).sample(rows=range(rows), split=split, seed=42)
        self.source, self.target = (padded(table[f"{side}_ids"].to_pylist()) for side in ("source", "target"))
        places = [padded(table[f"{side}_positions"].to_pylist()) for side in ("source", "target")]
        if linear:
            places = [torch.arange(1, at.shape[1] + 1).expand_as(at) for at in places]
        start = torch.zeros(rows, 1, dtype=torch.int64)
        self.source_at = places[0]
        self.input_at = torch.cat([start, places[1][:, :-1]], dim=1)  # position 0 is SOS
        self.input = torch.cat([start + SOS, self.target[:, :-1]], dim=1)

    def batch(self, rows: Tensor) -> tuple[Tensor, ...]:
        """What the model reads, and the labels, of some rows. int64 [rows, N or M] each"""
        return tuple(x[rows] for x in (self.source, self.source_at, self.input, self.input_at, self.target))


class Attention(nn.Module):
    """Multi-head attention. The scheme acts on queries, keys and logits."""

    def __init__(self) -> None:
        """Draw the weights."""
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(
        self, x: Tensor, memory: Tensor, scheme: position.Scheme, at: position.Context, of: position.Context
    ) -> Tensor:
        """Attend from x [B, M, D] at positions `at` to memory [B, N, D] at positions `of`. -> [B, M, D]"""
        layers = (self.query, x), (self.key, memory), (self.value, memory)
        q, k, v = (layer(read).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer, read in layers)
        logits = attention.logits(scheme, q, k, at, of)  # [B, H, M, N]
        if of.mask is not None:
            logits = logits.masked_fill(~of.mask[:, None, None], -torch.inf)
        if of.causal:
            logits = logits.masked_fill(torch.ones_like(logits, dtype=torch.bool).triu(1), -torch.inf)
        return self.out((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Self-attention, attention to a memory if there is one, and a feed-forward network, each with a residual."""

    def __init__(self) -> None:
        """Draw the weights."""
        super().__init__()
        self.own, self.cross = Attention(), Attention()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.inner, self.outer = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(
        self,
        x: Tensor,
        scheme: position.Scheme,
        at: position.Context,
        memory: Tensor | None = None,
        of: position.Context | None = None,
    ) -> Tensor:
        """x: [B, M, D] at positions `at`; memory: [B, N, D] at positions `of` -> [B, M, D]"""
        normed = self.norms[0](x)
        x = x + self.own(normed, normed, scheme, at, at)
        if memory is not None and of is not None:
            x = x + self.cross(self.norms[1](x), memory, scheme, at, of)
        return x + self.outer(relu(self.inner(self.norms[2](x))))


class Model(nn.Module):
    """An encoder-decoder of one layer each, whose embeddings are those of input and output."""

    def __init__(self, scheme: position.Scheme) -> None:
        """Draw the weights."""
        super().__init__()
        self.scheme, self.encoder, self.decoder, self.norm = scheme, Layer(), Layer(), nn.LayerNorm(WIDTH)
        self.embedding = nn.Parameter(torch.randn(SYMBOLS, WIDTH) * WIDTH**-0.5)

    def forward(self, source: Tensor, source_at: Tensor, inputs: Tensor, input_at: Tensor) -> Tensor:
        """The scores of each next symbol, given the ones before it. int64 [B, N], [B, M] -> [B, M, V]"""
        of = self.scheme.context(source_at, source != PAD)
        at = self.scheme.context(input_at, causal=True)
        memory = self.encoder(self.scheme.embed(self.embedding[source] * WIDTH**0.5, of), self.scheme, of)
        x = self.scheme.embed(self.embedding[inputs] * WIDTH**0.5, at)
        return self.norm(self.decoder(x, self.scheme, at, memory, of)) @ self.embedding.T


def accuracy(name: str, rows: int, steps: int) -> float:
    """Train a model with a scheme, and return its token accuracy on new trees."""
    torch.manual_seed(1)
    model = Model(position.make(name, WIDTH, HEADS))
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, steps)
    linear = name != "orthogonal-tree"
    data, test = Data(rows, "train", linear), Data(max(rows // 10, 10), "test", linear)
    for _ in range(steps):
        *read, labels = data.batch(torch.randint(rows, (32,)))
        loss = cross_entropy(model(*read).flatten(0, 1), labels.flatten(), ignore_index=PAD)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        *read, labels = test.batch(torch.arange(len(test.source)))
        right, real = model(*read).argmax(-1) == labels, labels != PAD
    return float((right & real).sum() / real.sum())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare two encodings on small trees.")
    parser.add_argument("--rows", type=int, default=4_000, help="rows of the training data")
    parser.add_argument("--steps", type=int, default=300, help="training steps for each scheme")
    arguments = parser.parse_args()
    torch.set_flush_denormal(True)  # denormal numbers slow a CPU down
    for scheme in ("sinusoidal", "orthogonal-tree"):
        print(f"{scheme}: token accuracy {accuracy(scheme, arguments.rows, arguments.steps):.1%}", flush=True)
