"""The layers of all models: products and linear layers, dropout, feed-forward networks and multi-head attention.

Products in float32 are computed by the library that is faster on a CPU (see `position/_matmul.py`).

Torch draws the numbers of a dropout mask one at a time on a CPU, which took a third of a training step. Here 16 bits
decide about an element, and a random word serves four elements. A probability between 0 and 1 is rounded to a multiple
of 2^-16 that is neither 0 nor 1. The elements that are kept are scaled by the rounded probability, so the mean is
exact. The words come from torch's own generator, whose state is stored with a run, so a resumed run draws the same
numbers. On a GPU and within torch.compile, torch's own dropout is used. After a ReLU, dropout needs no mask in the
backward pass: an element has a gradient where the result is positive. Source: Srivastava et al. 2014, JMLR 15, section
4; scaled in training, not in evaluation.

Shapes: B batch, H heads, M queries, N keys, K channels of a head, D channels of the model, T rows (tokens of all rows
of a batch), I channels of the input, O channels of the output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ape_cli.attention._kind import AttentionContext, AttentionType, check, check_role, make
from ape_cli.core import renamed
from ape_cli.position import FastScheme, Role, Scheme, _matmul

Activation = Callable[[Tensor], Tensor]
_STEPS = 2**16  # values of the 16-bit number that decides whether an element is dropped


def affine(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' + b. [..., I], [O, I], [O] -> [..., O]"""
    faster = _is_float32(x, weight) and x.numel() * weight.shape[0] >= _matmul.rule().linear and x.is_contiguous()
    out: Tensor = (_Linear.apply if faster else functional.linear)(x, weight, bias)
    return out


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """The product of two batches of matrices, as attention needs it. [..., M, K], [..., K, N] -> [..., M, N]"""
    faster = _is_float32(a, b) and a.numel() * b.shape[-1] >= _matmul.rule().attention and a.shape[:-2] == b.shape[:-2]
    out: Tensor = _Batched.apply(a, b) if faster else a @ b
    return out


def _is_float32(a: Tensor, b: Tensor) -> bool:
    """Whether a product of two tensors is computed in float32 on a CPU, and not compiled."""
    return (
        a.device.type == "cpu"
        and a.dtype == b.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


class _Linear(torch.autograd.Function):
    """A linear layer by oneDNN, forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x W' + b. [..., I], [O, I], [O] -> [..., O]"""
        ctx.save_for_backward(x, weight)
        with _matmul.by_onednn():
            return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the input, the weight and the bias. [..., O] -> [..., I], [O, I], [O]"""
        x, weight = ctx.saved_tensors
        rows = grad.reshape(-1, grad.shape[-1])  # [T, O]
        of_x = of_weight = of_bias = None
        with _matmul.by_onednn():
            if ctx.needs_input_grad[0]:
                of_x = (rows @ weight).view(x.shape)
            if ctx.needs_input_grad[1]:
                of_weight = rows.mT @ x.flatten(0, -2)
        if ctx.needs_input_grad[2]:
            of_bias = rows.sum(0)
        return of_x, of_weight, of_bias


class _Batched(torch.autograd.Function):
    """Products of two batches of matrices by oneDNN, forward and backward."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """A B. [..., M, K], [..., K, N] -> [..., M, N]"""
        ctx.save_for_backward(a, b)
        with _matmul.by_onednn():
            return a @ b

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of both. [..., M, N] -> [..., M, K], [..., K, N]"""
        a, b = ctx.saved_tensors
        first, second = ctx.needs_input_grad
        with _matmul.by_onednn():
            return grad @ b.mT if first else None, a.mT @ grad if second else None


class LinearLayer(nn.Linear):
    """`nn.Linear`, by the faster library."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer. [..., I] -> [..., O]"""
        return affine(x, self.weight, self.bias)


def drop(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Set each element to zero with probability `p`, and divide the others by 1 - p.

    Floating point [...] -> the same
    """
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return functional.dropout(x, p)
    dropped: Tensor = _Dropping.apply(x, p)
    return dropped


def drop_relu(x: Tensor, p: float, training: bool = True) -> Tensor:
    """`drop` of the ReLU of x, as one function. Floating point [...] -> the same"""
    if not training or p == 0.0 or x.device.type != "cpu" or torch.compiler.is_compiling():
        return drop(functional.relu(x), p, training)
    dropped: Tensor = _DroppingRelu.apply(x, p)
    return dropped


class Dropout(nn.Dropout):
    """`drop` as a layer, with probability `p`."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout in training mode. Floating point [...] -> the same"""
        return drop(x, self.p, self.training)


def mask(shape: torch.Size, p: float, dtype: torch.dtype) -> tuple[Tensor, float]:
    """A random mask: 0 with probability `p`, else 1, and the inverse of the probability of being kept.

    Returns `dtype` of the given shape, usually [B, N, D] or [B, H, M, N].

    `p` is rounded to a multiple of 2^-16 that is neither 0 nor 1.
    """
    dropped = min(max(1, round(p * _STEPS)), _STEPS - 1)
    count = shape.numel()
    words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    drawn = words.view(torch.int16)[:count].view(shape)  # uniform on -2^15 .. 2^15 - 1
    kept = torch.empty(shape, dtype=dtype)
    torch.ge(drawn, dropped - _STEPS // 2, out=kept)
    return kept, _STEPS / (_STEPS - dropped)


class _Dropping(torch.autograd.Function):
    """Multiplication by a random mask, which the backward pass uses again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        """Draw the mask and apply it."""
        kept, scale = mask(x.shape, p, x.dtype)
        # in bfloat16, a scaled mask would be rounded, and the mean would shift
        ctx.scale = scale if x.dtype.itemsize < 4 else None
        if ctx.scale is None:
            kept *= scale
        ctx.save_for_backward(kept)
        return _times(x, kept, ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Apply the mask to the gradient."""
        (kept,) = ctx.saved_tensors
        return _times(grad, kept, ctx.scale), None


def _times(x: Tensor, kept: Tensor, scale: float | None) -> Tensor:
    product = x * kept
    return product if scale is None else product.mul_(scale)


class _DroppingRelu(torch.autograd.Function):
    """A ReLU, multiplied by a random mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        """Draw the mask and apply it."""
        out, ctx.scale = mask(x.shape, p, x.dtype)
        out.mul_(x).clamp_min_(0.0).mul_(ctx.scale)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Pass the gradient where the result is positive."""
        (out,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grad, out, 0.0).mul_(ctx.scale), None


class FeedForward(nn.Module):
    """Two linear layers with an activation and dropout between them.

    Arguments: `d_model`, outer channels; `d_ff`, inner channels; `dropout`, its probability; `activation`.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float, activation: Activation = functional.relu) -> None:
        """Create the linear layers."""
        super().__init__()
        self.inner, self.outer = LinearLayer(d_model, d_ff), LinearLayer(d_ff, d_model)
        self.dropout = dropout
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Apply both layers. [B, N, D] -> the same"""
        x = self.inner(x)
        if self.activation is functional.relu:
            return self.outer(drop_relu(x, self.dropout, self.training))
        return self.outer(drop(self.activation(x), self.dropout, self.training))


class KVCache:
    """Keys and values, [B, H, N, K] each, that an attention has already projected. They are unrotated.

    If the layers of the scheme have modules, it also holds their output for the keys, [B, N, ...], and the input of the
    last call, which ends with the tokens that the next call may read (see `Scheme.inputs`).
    """

    def __init__(self) -> None:
        """Start with none."""
        self._parts: tuple[Tensor, ...] = ()  # keys, values, and content if there is any
        self.inputs: Tensor | None = None  # [B, reach + N, D], with the N tokens of the last call

    @property
    def count(self) -> int:
        """The number of tokens, N."""
        return self._parts[0].shape[2] if self._parts else 0

    def extended(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Add the keys, values and perhaps content of the tokens that follow, and return those of all."""
        if self._parts:
            pairs = zip(self._parts, parts, (2, 2, 1), strict=False)
            parts = tuple(torch.cat([before, after], dim=dim) for before, after, dim in pairs)
        self._parts = parts
        return parts

    def move_to_end(self, lengths: Tensor) -> None:
        """Move the tokens of each row, which come first, to the end. lengths: int64 [B], their number in each row.

        All tokens are those of a single call.
        """
        rows = torch.arange(len(lengths), device=lengths.device)[:, None]
        index = (torch.arange(self.count, device=lengths.device) + lengths[:, None]) % self.count  # [B, N]
        if self.inputs is not None:  # the last `reach` of each row, which begins with as many zeros
            reach = self.inputs.shape[1] - self.count
            self.inputs = self.inputs[rows, torch.arange(reach, device=lengths.device) + lengths[:, None]]
        k, v, *content = self._parts
        keys_values = (x.transpose(1, 2)[rows, index].transpose(1, 2) for x in (k, v))
        self._parts = (*keys_values, *(x[rows, index] for x in content))


class Attention(nn.Module):
    """A multi-head attention layer.

    - `scheme`: the scheme that is passed to each call; it determines width and number of heads.
    - `dropout`: the dropout probability of the attention weights.
    - `attention_type`: the kind of attention; None for `dot`. `kind` is its old name.
    - `role` and `index`: where the layer acts, and its number in the stack. They identify its parameters in the scheme.

    Raises `UsageError` if the kind does not support the scheme, or if the scheme does not act in this role.

    >>> import torch
    >>> from ape_cli import attention, position
    >>> scheme = position.make("none", d_model=16, heads=4)
    >>> layer = attention.Attention(scheme, dropout=0.0)
    >>> context = scheme.context(torch.tensor([[1, 2, 3]]), causal=True)
    >>> x = torch.randn(1, 3, 16)
    >>> layer(x, x, scheme, attention.AttentionContext.of(scheme, context, context)).shape
    torch.Size([1, 3, 16])
    """

    def __init__(
        self,
        scheme: Scheme,
        dropout: float,
        attention_type: AttentionType | None = None,
        role: Role = "decoder",
        index: int = 0,
        *,
        kind: AttentionType | None = None,
    ) -> None:
        """Create the projections."""
        super().__init__()
        d_model = scheme.shape.d_model
        self.heads, self.dropout = scheme.shape.heads, dropout
        if kind is not None:
            renamed.warn_about("the argument kind", "attention_type")
        self.attention_type: AttentionType = attention_type or kind or make()
        check(self.attention_type, type(scheme), scheme.shape.decay)
        check_role(type(scheme), role)
        self.key_in_scheme = scheme.attach(role, index)
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.out = LinearLayer(d_model, d_model)

    def forward(
        self, x: Tensor, memory: Tensor, scheme: Scheme, context: AttentionContext, past: KVCache | None = None
    ) -> Tensor:
        """Attend from x to memory. x: [B, M, D], memory: [B, N, D] -> [B, M, D]

        `past` holds the keys and values of the tokens before `memory`. They are attended to as well, and those of
        `memory` are appended. The keys of `context` cover both.
        """
        q, k, v, context = self._projected(x, memory, scheme, context, past)
        if past is not None:
            k, v, *content = past.extended(k, v, *(() if context.content is None else (context.content,)))
            context = context.with_content(content[0]) if content else context
        rate = self.dropout if self.training else 0.0
        heads = self.attention_type.attend(scheme, q, k, v, context, rate)
        return self.out(heads.transpose(1, 2).flatten(-2))

    def weights(self, x: Tensor, memory: Tensor, scheme: Scheme, context: AttentionContext) -> Tensor:
        """The attention weights, without dropout. x: [B, M, D], memory: [B, N, D] -> [B, H, M, N]

        Every kind is linear in the values, so its output for the rows of the identity as values is the weights.
        """
        q, k, _, context = self._projected(x, memory, scheme, context)
        identity = torch.eye(k.shape[2], dtype=k.dtype, device=k.device).expand(*k.shape[:2], -1, -1)
        return self.attention_type.attend(scheme, q, k, identity, context, 0.0)

    def _projected(
        self, x: Tensor, memory: Tensor, scheme: Scheme, context: AttentionContext, past: KVCache | None = None
    ) -> tuple[Tensor, Tensor, Tensor, AttentionContext]:
        """Queries [B, H, M, K], keys and values [B, H, N, K], unrotated, and the context to attend in.

        x: [B, M, D], memory: [B, N, D]
        """
        q_basis = k_basis = None
        if self.attention_type.takes_basis and isinstance(scheme, FastScheme):
            context = context.in_basis
            q_basis, k_basis = scheme.basis(context.q_context), scheme.basis(context.k_context)
        query, key, value = (self.query, q_basis), (self.key, k_basis), (self.value, None)
        if x.is_cuda and memory is x:  # a GPU computes one large product faster than several small ones
            q, k, v = self._project(x, query, key, value)
        elif x.is_cuda:
            q, k, v = *self._project(x, query), *self._project(memory, key, value)
        else:
            q, k, v = *self._project(x, query), *self._project(memory, key), *self._project(memory, value)
        if self.key_in_scheme in scheme.layers:
            mask = None if context.keys is None else context.keys[:, context.keys.shape[1] - memory.shape[1] :]
            inputs = scheme.inputs(self.key_in_scheme, memory, mask, None if past is None else past.inputs)
            if past is not None:
                past.inputs = inputs
            context = context.with_content(scheme.layers[self.key_in_scheme](inputs))
        return q, k, v, context

    def _project(self, x: Tensor, *layers: tuple[nn.Linear, Tensor | None]) -> list[Tensor]:
        """Project x by each of the layers, in a basis F [H, K, K] if there is one: (x W' + b) F = x (F' W)' + b F.

        [B, N, D] -> [B, H, N, K] for each layer
        """
        weights, biases = [], []
        for layer, basis in layers:
            weight: Tensor = layer.weight
            bias: Tensor = layer.bias
            if basis is not None:
                transposed = basis.mT.to(weight.dtype)
                weight = (transposed @ weight.unflatten(0, (self.heads, -1))).flatten(0, 1)
                bias = (transposed @ bias.view(self.heads, -1, 1)).flatten()
            weights.append(weight)
            biases.append(bias)
        if len(layers) == 1:
            projected = affine(x, weights[0], biases[0])
        else:
            projected = affine(x, torch.cat(weights), torch.cat(biases))
        return [part.transpose(1, 2) for part in projected.unflatten(-1, (len(layers), self.heads, -1)).unbind(2)]
