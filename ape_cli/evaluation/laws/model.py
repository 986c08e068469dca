"""The behaviour of a scheme inside a model, measured on small transformers: an encoder-decoder and a decoder-only one.

The functions from `equivariance` on are laws: each returns an error as a scalar. The first line of a law's docstring
is printed for users. A scheme that acts only in causal attention is measured in the decoder-only model alone, and one
that needs an encoder in the other one.

Shapes: B rows, M target tokens, N tokens, C coordinates of a position, V ids.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ape_cli.attention import AttentionType
from ape_cli.evaluation.laws._subjects import HEADS, converted, greatest, near, rows
from ape_cli.models.decoder import DecoderOnly
from ape_cli.models.transformer import SequenceModel, Transformer
from ape_cli.position import Scheme


def small(
    scheme: Scheme, dtype: torch.dtype, attention_type: AttentionType | None = None, dropout: float = 0.0
) -> Transformer:
    """An encoder-decoder with two encoder and two decoder layers."""
    return converted(Transformer(scheme, encoder_layers=2, decoder_layers=2, **_sizes(attention_type, dropout)), dtype)


def models(
    scheme: Scheme, dtype: torch.dtype, attention_type: AttentionType | None = None, dropout: float = 0.0
) -> list[SequenceModel]:
    """The small models in which the scheme and the kind of attention can act. Their decoders have two layers."""
    nets: list[SequenceModel] = (
        [] if scheme.obstacle("encoder-decoder") else [small(scheme, dtype, attention_type, dropout)]
    )
    if not scheme.obstacle("decoder") and (attention_type is None or not attention_type.mixes_queries):
        nets.append(converted(DecoderOnly(scheme, layers=2, sides=True, **_sizes(attention_type, dropout)), dtype))
    return nets


def _sizes(attention_type: AttentionType | None, dropout: float) -> dict[str, Any]:
    """The arguments that both models have."""
    return {
        "ids": 100,
        "d_ff": 48,
        "dropout": dropout,
        "attention_type": attention_type,
        "generator": torch.Generator().manual_seed(8),
    }


def sample(scheme: Scheme, count: int = 9) -> tuple[Tensor, Tensor]:
    """Ids, int64 [3, N], and positions, int64 [3, N] or [3, N, C], of three rows that reach to different distances.

    If the scheme reads the source as a whole, the first row has no gaps.
    """
    generator = torch.Generator().manual_seed(1)
    ids = torch.stack([torch.randperm(97, generator=generator)[:count] + 3 for _ in range(3)])  # no two keys are equal
    at = rows(scheme.structure, count)
    if scheme.needs_encoder:
        at[0] = near(scheme.structure, count)[0]
    return ids, at


def scores(net: SequenceModel, ids: Tensor, at: Tensor, mask: Tensor, target: Tensor, target_at: Tensor) -> Tensor:
    """The scores after each target token. int64 [B, N], bool [B, N], int64 [B, M] -> [B, M, V]"""
    return net.decode(target, target_at, *net.encode(ids, at, mask))


def equivariance(
    scheme: Scheme, dtype: torch.dtype, attention_type: AttentionType | None = None, count: int = 9
) -> Tensor | None:
    """If tokens are permuted together with their positions, the encoder's output is permuted, and nothing else changes.

    Returns a scalar, shape [].
    """
    if scheme.causal_only:
        return None
    net, (ids, at) = small(scheme, dtype, attention_type), sample(scheme, count)
    order, mask = torch.randperm(count, generator=torch.Generator().manual_seed(2)), torch.ones_like(ids).bool()
    plain, permuted = net.encode(ids, at, mask), net.encode(ids[:, order], at[:, order], mask)
    decoded = (net.decode(ids, at, *encoded) for encoded in (plain, permuted))
    return torch.stack([greatest(permuted[0] - plain[0][:, order]), greatest(next(decoded) - next(decoded))]).max()


def causality(
    scheme: Scheme, dtype: torch.dtype, attention_type: AttentionType | None = None, count: int = 9
) -> Tensor:
    """Tokens after t and their positions change no score up to t, also with dropout.

    Returns a scalar, shape [].
    """
    ids, at = sample(scheme, count)
    mask, t = torch.ones_like(ids).bool(), count - 4
    later, later_at = ids.clone(), at.clone()
    later[:, t:], later_at[:, t:] = ids.roll(1, 0)[:, t:], at.roll(1, 0)[:, t:]

    def of(net: SequenceModel, target: Tensor, target_at: Tensor) -> Tensor:
        """The scores of a target, with the same dropout masks in every call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(11)
            return scores(net, ids, at, mask, target, target_at)

    errors = []
    for net in models(scheme, dtype, attention_type, dropout=0.3):
        before, after = of(net.train(), ids, at), of(net, later, later_at)
        if torch.equal(before[:, t:], after[:, t:]):
            raise ArithmeticError("nothing depends on what was changed")
        errors.append(greatest(before[:, :t] - after[:, :t]))
    return torch.stack(errors).max()


def stepwise(scheme: Scheme, dtype: torch.dtype, attention_type: AttentionType | None = None, count: int = 9) -> Tensor:
    """A target that is decoded token by token has the scores of all its tokens at once.

    Returns a scalar, shape [].
    """
    ids, at = sample(scheme, count)
    mask, errors = torch.ones_like(ids).bool(), []
    mask[0, count // 2 :] = False
    for net in models(scheme, dtype, attention_type):
        memory, source = net.encode(ids, at, mask)
        past = net.past()
        steps = range(count - 3, count + 1)  # some tokens at once, then three alone
        parts = [net.decode(ids[:, :m], at[:, :m], memory, source, past=past) for m in steps]
        errors.append(greatest(torch.cat(parts, dim=1) - net.decode(ids, at, memory, source)))
    return torch.stack(errors).max()


def independence(
    scheme: Scheme, dtype: torch.dtype, attention_type: AttentionType | None = None, count: int = 9
) -> Tensor:
    """The scores of a row are the same alone, beside rows with larger positions, and with padding.

    Returns a scalar, shape [].
    """
    ids, at = sample(scheme, count)
    mask, short = torch.ones_like(ids).bool(), count // 2
    mask[0, short:] = False
    hidden = mask if at.dim() == 2 else mask[..., None]
    errors = []
    for net in models(scheme, dtype, attention_type):
        first_row = ids[:1, :short], at[:1, :short], mask[:1, :short]
        alone = scores(net, *first_row, ids[:1, : count - 2], at[:1, : count - 2])
        for order in ([0, 1, 2], [1, 2, 0]):  # before the others and after them
            rows_of = (x[order] for x in (ids * mask, at * hidden, mask, ids, at))
            errors.append(greatest(scores(net, *rows_of)[order.index(0), : count - 2] - alone[0]))
    return torch.stack(errors).max()


def dead_parameters(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """The number of the scheme's parameters without a gradient in all elements of a head or generator.

    Returns a scalar, shape [].
    """
    ids, at = sample(scheme)
    mask = torch.ones(3, 9, dtype=torch.bool)
    for net in models(scheme, dtype):
        scores(net, ids, at, mask, ids, at).logsumexp(-1).sum().backward()
    learned = [p for p in scheme.parameters() if p.requires_grad]
    dead = [p for p in learned if p.grad is None or not _alive(p, scheme.bounded)]
    return torch.tensor(float(len(dead)))


def _alive(parameter: nn.Parameter, bounded: bool) -> bool:
    """Whether a parameter gets a gradient in every head and generator.

    The table of a bounded scheme also has rows for sizes that do not occur. So it only needs a gradient somewhere.
    """
    assert parameter.grad is not None
    reached = parameter.grad != 0
    if bounded or parameter.dim() < 2 or HEADS not in parameter.shape[:-1]:
        return bool(reached.any())
    heads_last = parameter.shape.index(HEADS) + 1  # generators, or parts of the model, stand before the heads
    return bool(reached.flatten(heads_last).any(-1).all())
