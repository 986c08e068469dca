"""What a compiled function leaves to operations of torch of its own, because it depends on the values of positions.

A compiler does not look into these operations, so one graph serves all positions. They need more time or memory than
outside of compiled functions, where a context plans once for all layers (`_grouped.py`).

Shapes: T vectors for each head or T tokens, K channels, H heads, P operators, S stages, m copies of the vectors, C
coordinates, G blocks. The rows [T * H, m * K] are those of `_grouped.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ape_cli.position._grouped import Products, Stage, gradients, multiplied
from ape_cli.position._operators import combined, exponential
from ape_cli.position._rotation import wide


class Unplanned(Products):
    """The operators of a forward pass, which are grouped anew in each layer.

    Arguments: `which`, int64 [S, T], the operator of each vector in each stage, 0 for none; `table`, [P, H, K, K].
    """

    def __init__(self, which: Tensor, table: Tensor) -> None:
        """Keep both."""
        super().__init__([], table)
        self.which = which

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply each vector from the left by its operators. float32 or float64 [T * H, m * K] -> the same"""
        out: Tensor = _multiply(x, self.table, self.which)
        return out


@torch.library.custom_op("ape::multiply", mutates_args=())
def _multiply(x: Tensor, table: Tensor, which: Tensor) -> Tensor:
    """Apply the stages in order. [T * H, m * K], [P, H, K, K], int64 [S, T] -> [T * H, m * K]"""
    out, taken = multiplied(x.contiguous(), _planned(table, which))
    return out if taken else x.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("ape::multiply_backward", mutates_args=())
def _multiply_backward(grad: Tensor, x: Tensor, table: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the rows and of the operators. The stages are applied again."""
    products = _planned(table, which)
    of_rows, of_table = gradients(grad.contiguous(), multiplied(x, products)[1], products)
    return of_rows if products.stages else grad.clone(memory_format=torch.contiguous_format), of_table


def _planned(table: Tensor, which: Tensor) -> Products:
    """The products, with a stage for each row of `which` that names an operator. [P, H, K, K], int64 [S, T]"""
    stages = []
    for each in which.cpu().numpy():
        on = np.flatnonzero(each)
        if on.size:
            stages.append(Stage.of_some(on, each[on], table.shape[1], table.device))
    return Products(stages, table)


@torch.library.custom_op("ape::exponentials", mutates_args=())
def exponentials(free: Tensor, places: Tensor) -> Tensor:
    """The exponential of `combined` generators at each place, computed once for places that are equal.

    [C, G, K, K], int64 or floating point [T, C] -> float32 or wider [T, G, K, K]
    """
    distinct, which = places.unique(dim=0, return_inverse=True)
    return exponential(combined(free, distinct)).to(wide(free).dtype).index_select(0, which)


@torch.library.custom_op("ape::exponentials_backward", mutates_args=())
def _exponentials_backward(grad: Tensor, free: Tensor, places: Tensor) -> Tensor:
    """The gradient of the generators, as `free`.

    That of an exponential is the upper right block of the exponential of [[S', G], [0, S']], with G the gradient of its
    result (Van Loan 1978, IEEE Transactions on Automatic Control 23(3)).
    """
    distinct, which = places.unique(dim=0, return_inverse=True)
    s = combined(free, distinct)
    g, k = torch.zeros_like(s).index_add_(0, which, grad.double()), s.shape[-1]
    both = torch.cat([torch.cat([s.mT, g], -1), torch.cat([torch.zeros_like(s), s.mT], -1)], -2)
    of_skew = torch.tensordot(distinct.double().T, torch.linalg.matrix_exp(both)[..., :k, k:], dims=1)
    return (of_skew - of_skew.mT).to(free.dtype)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    """Save for the backward pass what it needs."""
    ctx.save_for_backward(*inputs)


def _like(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors of the same shapes and dtypes, without values. [...] each -> [...] each"""
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in tensors)


_multiply.register_fake(lambda x, table, which: _like(x)[0])
_multiply.register_autograd(
    lambda ctx, grad: (*_multiply_backward(grad, *ctx.saved_tensors), None), setup_context=_keep
)
_multiply_backward.register_fake(lambda grad, x, table, which: _like(grad, table))
exponentials.register_fake(lambda free, places: wide(free).new_empty(len(places), *free.shape[1:]))
exponentials.register_autograd(
    lambda ctx, grad: (_exponentials_backward(grad, *ctx.saved_tensors), None), setup_context=_keep
)
_exponentials_backward.register_fake(lambda grad, free, places: _like(free)[0])
