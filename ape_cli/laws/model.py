"""The manners of a scheme inside a model, measured on a small transformer.

Shapes: B rows, N tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.attention import Kind
from ape_cli.laws._subjects import greatest, paths
from ape_cli.model import Transformer
from ape_cli.position import Scheme


def small(scheme: Scheme, dtype: torch.dtype, kind: Kind | None = None, dropout: float = 0.0) -> Transformer:
    """A transformer with two layers of each kind."""
    generator = torch.Generator().manual_seed(8)
    return Transformer(
        scheme,
        ids=20,
        d_ff=48,
        encoder_layers=2,
        decoder_layers=2,
        dropout=dropout,
        kind=kind,
        generator=generator,
    ).to(dtype)


def sample(scheme: Scheme, rows: int = 3, count: int = 9) -> tuple[Tensor, Tensor]:
    """Ids [B, N] and places that differ from row to row [B, N] or [B, N, C]."""
    at = torch.cat([paths(scheme.structure, count, 0.002 * (row + 2), row) for row in range(rows)])
    return torch.randint(3, 20, (rows, count), generator=torch.Generator().manual_seed(1)), at


def equivariance(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """Tokens permuted together with their positions: the encoder's output is permuted, and nothing else"""
    net, (ids, at) = small(scheme, dtype), sample(scheme)
    order, mask = torch.randperm(9, generator=torch.Generator().manual_seed(2)), torch.ones(3, 9, dtype=torch.bool)
    return greatest(net.encode(ids[:, order], at[:, order], mask)[0] - net.encode(ids, at, mask)[0][:, order])


def causality(scheme: Scheme, dtype: torch.dtype, kind: Kind | None = None) -> Tensor:
    """What stands after t, and where, changes no score up to t, with dropout on"""
    net, (ids, at) = small(scheme, dtype, kind, dropout=0.3).train(), sample(scheme)
    mask, t = torch.ones(3, 9, dtype=torch.bool), 5
    later, later_at = ids.clone(), at.clone()
    later[:, t:], later_at[:, t:] = ids[:, t:].flip(1), at[:, t:].flip(1)

    def scores(target: Tensor, target_at: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(11)
            return net(ids, at, mask, target, target_at)[:, :t]

    return greatest(scores(ids, at) - scores(later, later_at))


def independence(scheme: Scheme, dtype: torch.dtype, kind: Kind | None = None) -> Tensor:
    """A row's scores are the same alone, beside other rows, and with padding behind it"""
    net, (ids, at) = small(scheme, dtype, kind), sample(scheme)
    mask = torch.ones(3, 9, dtype=torch.bool)
    mask[0, 5:] = False
    hidden = mask if at.dim() == 2 else mask[..., None]
    together = net(ids * mask, at * hidden, mask, ids, at)[:1, :7]
    return greatest(together - net(ids[:1, :5], at[:1, :5], mask[:1, :5], ids[:1, :7], at[:1, :7]))


def dead_parameters(scheme: Scheme, dtype: torch.dtype) -> Tensor:
    """How many of the scheme's parameters get no gradient in any element of some head or generator"""
    net, (ids, at) = small(scheme, dtype), sample(scheme)
    net(ids, at, torch.ones(3, 9, dtype=torch.bool), ids, at).logsumexp(-1).sum().backward()
    dead = [p for p in scheme.parameters() if p.grad is None or not _alive(p, scheme.bounded)]
    return torch.tensor(float(len(dead)))


def _alive(parameter: nn.Parameter, bounded: bool) -> bool:
    """A table of a bounded scheme may have rows for sizes that do not occur; anything else has to be reached."""
    assert parameter.grad is not None
    reached = parameter.grad != 0
    return bool(
        reached.any()
        if bounded or parameter.dim() < 2
        else reached.flatten(-1 if parameter.dim() < 3 else -2).any(-1).all()
    )
