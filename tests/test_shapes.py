"""The shapes that docstrings state: in one call, each letter is one size in all arguments and results.

`jaxtyping` binds the letters and `beartype` checks them: `#B` is "B or 1", and `*C` is one axis or none. The package
itself imports neither, because `ape` has to start quickly.
"""
# ruff: noqa: F722 - the shapes are strings that are not Python

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from beartype import beartype
from jaxtyping import Bool, Float, Float32, Float64, Int64, TypeCheckError, jaxtyped
from torch import Tensor

from ape_cli import attention
from ape_cli.attention import Attention, AttentionContext
from ape_cli.models.transformer import SequenceModel, Transformer, loss
from ape_cli.position import Scheme
from ape_cli.position._rotation import Rotations, rotate_halves, rotate_pairs
from tests.attention.plain import kind_of, net, scheme_of
from tests.conftest import write
from tests.position.test_contract import READS, make, model, places

shaped = jaxtyped(typechecker=beartype)
Ids, At, Mask = Int64[Tensor, "B N"], Int64[Tensor, "#B N *C"], Bool[Tensor, "B N"]
Written, WrittenAt = Int64[Tensor, "B M"], Int64[Tensor, "#B M *C"]
Queries, Keys, Scores = Float[Tensor, "B H M K"], Float[Tensor, "B H N K"], Float[Tensor, "B H M N"]
PerRow = Int64[np.ndarray, " B"]


@shaped
def hooks(
    scheme: Scheme, x: Float[Tensor, "B N D"], q: Queries, k: Keys, q_at: WrittenAt, k_at: At
) -> tuple[Float[Tensor, "B N D"], Queries, Keys, Float[Tensor, "#B #H M N"] | None, Float32[Tensor, "#B 1 M N"]]:
    """The four hooks of a scheme with a locality bias."""
    asks, answers = scheme.context(q_at, causal=True), scheme.context(k_at)
    rotated = scheme.rotate(q, asks, "query"), scheme.rotate(k, answers, "key")
    return scheme.embed(x, answers), *rotated, scheme.bias(q, asks, answers), scheme.decay(asks, answers)


@shaped
def rotated(x: Queries, angle: Float64[Tensor, "#B #H M K//2"]) -> tuple[Queries, Queries]:
    return rotate_pairs(x, Rotations(angle)), rotate_halves(x, Rotations(angle))


@shaped
def attended(
    layer: Attention, scheme: Scheme, x: Float[Tensor, "B M D"], y: Float[Tensor, "B N D"], q: Queries, k: Keys, v: Keys
) -> tuple[Float[Tensor, "B M D"], Scores, Queries, Scores]:
    """The output and the weights of a layer, what its kind computes of its heads, and the scheme's logits."""
    asks, answers = (scheme.context(torch.arange(1, tokens.shape[1] + 1)[None]) for tokens in (x, y))
    pair = AttentionContext.of(scheme, asks, answers)
    of_heads = layer.attention_type.attend(scheme, q, k, v, pair, 0.0), attention.logits(scheme, q, k, asks, answers)
    return layer(x, y, scheme, pair), layer.weights(x, y, scheme, pair), *of_heads


@shaped
def read(
    net: SequenceModel, ids: Ids, at: At, mask: Mask, target: Written, target_at: WrittenAt, labels: Written
) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B M V"], Float[Tensor, "B M V"], Float32[Tensor, ""]]:
    """What the decoder reads of the source, the scores of the decoder and of the whole model, and the loss."""
    memory, source = net.encode(ids, at, mask)
    decoded = net.decode(target, target_at, memory, source)
    scores = net(ids, at, mask, target, target_at) if isinstance(net, Transformer) else decoded
    return memory, decoded, scores, loss(scores, labels)


@shaped
def sequences(
    source_ids: Ids, source_positions: At, source_mask: Mask, input_ids: Written, input_positions: WrittenAt,
    labels: Written, label_positions: Int64[Tensor, "#B M *L"] | None, row: PerRow, size: PerRow, op: PerRow, **_: Any,
) -> None: ...  # fmt: skip


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("name", "expression"), READS)
def test_a_scheme_and_its_model(name: str, expression: str) -> None:
    """Three rows of 9 source and 10 target tokens, with D = 32 channels, H = 4 heads and V = 20 ids."""
    scheme, at = make(name, expression, decay=0.9), places(expression)
    ids = torch.randint(3, 20, at.shape[:2])
    for rows in (at, at[:1]):
        hooks(scheme, draw(3, 9, 32), draw(3, 4, 10, 8), draw(3, 4, 9, 8), rows, rows[:, 1:])
        read(model(scheme), ids[:, 1:], rows[:, 1:], torch.ones(3, 9, dtype=torch.bool), ids, rows, ids)


@pytest.mark.parametrize("kind", attention.names())
def test_a_kind_of_attention_and_its_model(kind: str) -> None:
    scheme = scheme_of("rope", kind, 0.9)
    layer = Attention(scheme, 0.0, kind_of(kind)).double()
    attended(layer, scheme, draw(3, 4, 16), draw(3, 5, 16), draw(3, 2, 4, 8), draw(3, 2, 5, 8), draw(3, 2, 5, 8))
    ids, at = torch.randint(3, 12, (3, 6)), torch.arange(6)[None]
    read(net(kind, scheme), ids[:, 1:], at[:, 1:], ids[:, 1:] > 3, ids, at, ids)


@pytest.mark.parametrize("angles", [(1, 1), (1, 4), (3, 1), (3, 4)])
def test_rotations(angles: tuple[int, int]) -> None:
    rotated(draw(3, 4, 5, 8), draw(*angles, 5, 4))


@pytest.mark.parametrize(("task", "order"), [("copy", None), ("tree-copy", "depth"), ("forest-reverse", "depth")])
def test_a_batch_of_sequences(tmp_path: Path, task: str, order: str | None) -> None:
    """Words share their positions, trees have their own, and those of forests have two coordinates."""
    for batch in write(tmp_path, task, order).split("test").batches(16):
        sequences(**vars(batch))


def test_a_wrong_shape_is_noticed() -> None:
    """A hook that exchanges queries and channels, and labels of other rows than the scores."""
    scheme, at = make("none", "seq", decay=0.9), places("seq")
    scheme.rotate = lambda x, context, side: x.mT
    with pytest.raises(TypeCheckError, match="hooks"):
        hooks(scheme, draw(3, 9, 32), draw(3, 4, 10, 8), draw(3, 4, 9, 8), at, at[:, 1:])
    ids = torch.randint(3, 20, at.shape)
    with pytest.raises(TypeCheckError, match="labels"):
        read(model(make("none", "seq")), ids[:, 1:], at[:, 1:], ids[:, 1:] > 3, ids, at, ids[:2])
