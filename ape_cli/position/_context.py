"""Contexts: what the hooks of a scheme know about positions. `ape_cli.position` explains the shape letters.

A context computes what the layers share, and keeps it for them. A layer may be checkpointed: computed without its graph
in the forward pass, and again in the backward pass. So a kept value is used only where its graph is of use:

- A value that was computed without a graph is not used where gradients are recorded, nor the other way around.
- Nothing is kept in a backward pass, which may free the graph of each layer by itself (a reentrant checkpoint does).
- The graph of a value is kept apart from those of the layers, by hooks of its own for the tensors that it saves. A
  checkpoint therefore does not count them as tensors of the layer that was the first to need the value.
- When a backward pass reads such a tensor, or a weight of the scheme changes, values from before are not used again. So
  a context can be used again in the next step of training, or after `load_state_dict`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import checkpoint
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from ape_cli.data.position_plan import PositionPlan, run_of

T = TypeVar("T")


class lazy(cached_property[T]):  # noqa: N801 # used as a decorator
    """`functools.cached_property` without its lock, which a compiled function cannot enter (Python 3.11)."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        """Replace the lock. `compute`: the method that computes the value."""
        super().__init__(compute)
        self.lock = nullcontext()


class _Reads:
    """How many tensors that kept values had saved were read by backward passes."""

    count: ClassVar[int] = 0


class _Kept(NamedTuple):
    value: Any
    held: Context | None  # kept alive, so that its id is not used again
    time: tuple[int, ...]  # `Context._time` when the value was computed


@dataclass(frozen=True)
class Context:
    """Positions, prepared for the hooks of a scheme. `Scheme.context` creates one.

    >>> import torch
    >>> from ape_cli import position
    >>> scheme = position.make("rope", d_model=4, heads=1)
    >>> context = scheme.context(torch.tensor([[1, 2, 0]]), torch.tensor([[True, True, False]]))
    >>> context.positions.shape, context.mask.sum().item(), context.causal
    (torch.Size([1, 3]), 2, False)
    """

    # int64 [B or 1, N], or [B or 1, N, C] for a product of C factors; floats only if the scheme sets `real_positions`
    positions: Tensor
    mask: Tensor | None = None  # bool [B, N], True for tokens and False for padding; None if all are tokens
    prepare: Callable[[Context, Context], Any] | None = None  # computes `state`
    causal: bool = False  # whether each position sees only itself and earlier ones, as in a decoder
    plan: PositionPlan | None = None  # computed on the host, together with the batch
    weights: tuple[Tensor, ...] = field(default=(), compare=False, repr=False)  # of the scheme
    _kept: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def cached(self, other: Context, compute: Callable[[Context, Context], Any]) -> Any:
        """`compute(self, other)`, computed on the first call and kept for later calls with the same function.

        Layers use it to share results that depend on a pair of contexts. A method is the same as long as its object is.
        A lambda or a local function that is created in each call is a new function each time, so nothing is shared.

        Gradients are right if layers are checkpointed, and if the context is used for several backward passes. In a
        backward pass, checkpointed layers compute the value again. In a compiled function nothing is kept: the compiler
        computes equal expressions once.

        >>> import torch
        >>> context = Context(torch.tensor([[1, 2, 4]]))
        >>> def offsets(queries, keys):
        ...     return keys.positions[:, None, :] - queries.positions[:, :, None]
        >>> context.cached(context, offsets)[0]
        tensor([[ 0,  1,  3],
                [-1,  0,  2],
                [-3, -2,  0]])
        >>> context.cached(context, offsets) is context.cached(context, offsets)
        True
        """
        if torch.compiler.is_compiling():
            return compute(self, other)
        key = compute, id(other), torch.is_grad_enabled()
        in_backward = torch._C._current_graph_task_id() != -1
        if not in_backward and key in self._kept and self._kept[key].time == self._time:
            return self._kept[key].value
        with kept_apart():
            value = compute(self, other)
        if not in_backward:
            # a reference to `self` would never be released
            self._kept[key] = _Kept(value, None if other is self else other, self._time)
        return value

    @property
    def _time(self) -> tuple[int, ...]:
        """What differs after a backward pass that read a kept tensor, and after a weight has changed in place."""
        return _Reads.count, *(0 if weight.is_inference() else weight._version for weight in self.weights)

    @property
    def state(self) -> Any:
        """The prepared operators of a `FastScheme`, None for other schemes.

        A compiled function takes those that a context from outside has kept.
        """
        if self.prepare is None:
            return None
        if torch.compiler.is_compiling():
            for (compute, _, recorded), kept in self._kept.items():
                if compute is self.prepare and recorded == torch.is_grad_enabled():
                    return kept.value
        return self.cached(self, self.prepare)

    def part(self, begin: int, end: int) -> Context:
        """The context of positions `begin` to `end - 1`, without a state."""
        mask = None if self.mask is None else self.mask[:, begin:end]
        return Context(self.positions[:, begin:end], mask, causal=self.causal, weights=self.weights)

    @lazy
    def start(self) -> int | None:
        """The first position if all rows share one run of consecutive positions, else None.

        Without a plan it is None where values are not read (see `reads_values`).
        """
        if self.plan is not None:
            return self.plan.first
        return run_of(self.positions) if reads_values(self.positions) else None


def reads_values(x: Tensor) -> bool:
    """Whether the values of a tensor may decide what is computed: on a CPU, outside of a compiled function.

    Reading them would stall a GPU, and a compiled function has one graph for all values.
    """
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


@contextmanager
def kept_apart() -> Iterator[None]:
    """Within this context, compute what layers share: a checkpoint around it sees neither saved tensors nor operations.

    Saved tensors are counted when they are read. (Only a selective checkpoint looks at operations.)
    """
    selective = any(type(mode).__module__ == checkpoint.__name__ for mode in _get_current_dispatch_mode_stack())
    allowed = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() is None  # not within torch.func
    with (
        _disable_current_modes() if selective else nullcontext(),
        saved_tensors_hooks(lambda x: x, _count_read) if allowed else nullcontext(),
    ):
        yield


def _count_read(x: Tensor) -> Tensor:
    _Reads.count += 1
    return x


@dataclass(frozen=True)
class AttentionPair:
    """The positions on both sides of an attention. In causal self-attention, the M queries are the last M of N keys.

    >>> import torch
    >>> from ape_cli import position
    >>> scheme = position.make("none", d_model=4, heads=1)
    >>> context = scheme.context(torch.tensor([[1, 2, 3]]), torch.tensor([[True, True, False]]), causal=True)
    >>> position.AttentionPair(context, context).mask[0, 0].int()  # the third token is padding
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 0]], dtype=torch.int32)
    """

    q_context: Context  # M queries
    k_context: Context  # N keys

    @lazy
    def mask(self) -> Tensor | None:
        """Which keys each query may attend to: bool, broadcasts to [B, 1, M, N]; None if it may attend to all.

        It excludes padding and, in causal attention, later keys. Attention applies it after the hooks of the scheme.
        """
        keys = None if self.k_context.mask is None else self.k_context.mask[:, None, None, :]
        if not self.k_context.causal:
            return keys
        count = self.q_context.positions.shape[1], self.k_context.positions.shape[1]
        seen = torch.ones(count, dtype=torch.bool, device=self.k_context.positions.device).tril(count[1] - count[0])
        return seen[None, None] if keys is None else seen & keys
