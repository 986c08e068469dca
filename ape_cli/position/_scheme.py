"""The base classes of positional encoding schemes, and the contexts that their hooks are given.

`Scheme` has the hooks that are science, and `FastScheme` the methods that are speed: shared work, plans on the host,
and a common frame. The docstring of `ape_cli.position` describes the hooks and the shape letters. L channels of a
result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.data.position_plan import Planner, PositionPlan, run_of
from ape_cli.structure import Structure, matches

Side = Literal["query", "key"]


@dataclass(frozen=True)
class Context:
    """What a scheme knows about some positions."""

    positions: Tensor  # int64 [B or 1, N], or [B or 1, N, C] for a product of C factors
    mask: Tensor | None = None  # bool [B, N], True for tokens
    state: Any = None  # of a `FastScheme`: its operators
    causal: bool = False  # whether they are a decoder's, which sees only earlier tokens
    plan: PositionPlan | None = None  # computed on the host, with the batch
    _pairs: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def cached(self, other: Context, compute: Callable[[Context, Context], Any]) -> Any:
        """The result of `compute(self, other)`, which is computed at the first call and then kept.

        The layers of a forward pass use it to share what depends on a pair of contexts.
        """
        key = (compute.__qualname__, id(other))
        if key not in self._pairs:
            # Keep `other` alive, so that its id is not used again. A reference to `self` would never be released.
            held = None if other is self else other
            self._pairs[key] = held, compute(self, other)
        return self._pairs[key][1]

    def part(self, begin: int, end: int) -> Context:
        """The context of the positions from `begin` to `end`, without a state."""
        mask = None if self.mask is None else self.mask[:, begin:end]
        return Context(self.positions[:, begin:end], mask, causal=self.causal)

    @cached_property
    def start(self) -> int | None:
        """The first position, if all rows share a run of consecutive positions, else None.

        Without a plan it is also None on a GPU, because the values would have to be waited for.
        """
        if self.plan is not None:
            return self.plan.first
        return run_of(self.positions) if self.positions.device.type == "cpu" else None


@dataclass(frozen=True)
class Shape:
    """The arguments that every scheme is built with."""

    d_model: int
    heads: int
    structure: Structure
    max_size: int
    decay: float
    generator: torch.Generator | None = None

    @property
    def head_dim(self) -> int:
        """The number of channels of a head, K."""
        return self.d_model // self.heads


@dataclass(frozen=True)
class Properties:
    """The properties of a scheme, for tables: the criteria of the paper's section 5 that need no training."""

    structures: tuple[str, ...]  # extensibility: patterns of the structures that it reads
    flat: bool  # whether it reads the linearisation, unless a structure is asked for
    injection: str  # "embeddings", "attention", "embeddings, attention", or "none"
    recurrence: str  # "once", "every layer", "once, every layer", or "none"
    relative: bool  # reference point: the path between two tokens, else the origin
    learnable: bool
    parameters: int
    bounded: bool  # whether it is bounded by the size that it is made for
    content_dependent: bool  # whether positions are multiplied with the content
    memory: str  # memory of its results for L tokens, with D channels of the model
    extrapolation: str  # beyond the sizes of training, according to its source or a survey
    source: str


class Scheme(nn.Module):
    """Base class of all schemes. The hooks do nothing, except that `decay` computes the locality bias if one is set."""

    synonyms: ClassVar[tuple[str, ...]] = ()  # other words for it, which error messages understand
    option_help: ClassVar[dict[str, str]] = {}  # what each of its own options means, for `ape fields`
    structures: ClassVar[tuple[str, ...]] = ("seq",)  # patterns of structures that it reads (see `structure.matches`)
    # whether it reads data along its linearisation, unless a structure is asked for; needs `seq`
    flat: ClassVar[bool] = False
    relative: bool = False  # whether scores depend on x^-1 y alone
    bounded: ClassVar[bool] = False  # whether `max_size` bounds it; its docstring says what happens beyond
    default_decay: ClassVar[float] = 1.0
    # whether its bias is a term of the dot product's expansion, which no other attention takes
    dot_only: ClassVar[bool] = False
    source: ClassVar[str] = "not named"
    # Claims that `ape check` measures, and properties that are shown in tables.
    homomorphism: ClassVar[bool] = False  # `rotate` acts by orthogonal operators with [x y] = [x] [y]
    beyond: ClassVar[str] = ""  # what a bounded scheme does with positions beyond max_size
    unique: ClassVar[bool] = True  # no two positions are encoded alike (bounded schemes: up to max_size)
    isometric: ClassVar[bool] = False  # a shift of all positions turns all vectors alike: P(p + k) = R_k P(p)
    variants: ClassVar[tuple[dict[str, Any], ...]] = ()  # options (or `decay`) that `ape check` measures too
    content_dependent: bool = False
    memory: ClassVar[str] = "none"
    extrapolation: ClassVar[str] = "not claimed"

    name: str  # set by `make`

    def __init__(self, shape: Shape) -> None:
        """Store the common arguments."""
        super().__init__()
        self.shape = shape
        self.structure = shape.structure

    @classmethod
    def reads(cls, structure: Structure) -> bool:
        """Whether the scheme can read positions of this structure as they are."""
        return any(matches(pattern, structure) for pattern in cls.structures)

    def context(
        self,
        positions: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        beside: Context | None = None,
        plan: PositionPlan | None = None,
    ) -> Context:
        """Prepare positions for the hooks.

        positions: int64 [B, N] or [1, N], or [B or 1, N, C] for a product. mask: bool [B, N], True for tokens, or
        None if all are tokens. `causal`: whether they are the positions of a decoder, which sees only earlier tokens.
        `beside`: a context of the same forward pass, whose work on the parameters is shared. `plan`: the plan of
        these positions, made ahead (see `planner`). Without one, schemes that need it wait for positions on a GPU.

        Raises `UsageError` for positions of another type or shape, and on a CPU for negative ones.
        """
        shape = [*positions.shape[:2], *([self.structure.width] if self.structure.width > 1 else [])]
        if positions.dtype != torch.int64 or positions.dim() < 2 or list(positions.shape) != shape:
            allowed = "int64 [B, N]" if self.structure.width == 1 else f"int64 [B, N, {self.structure.width}]"
            got = f"{positions.dtype} {list(positions.shape)}"
            raise UsageError(f"bad positions for structure {self.structure.expression}", got=got, allowed=allowed)
        # On other devices this check would have to wait for the values.
        if positions.device.type == "cpu" and positions.numel() and int(positions.min()) < 0:
            raise UsageError("negative position", got=int(positions.min()), allowed="0 (SOS) and up")
        return Context(positions, mask=mask, causal=causal, plan=plan)

    def embed(self, x: Tensor, context: Context) -> Tensor:
        """The hook for embeddings: the tokens with positions added, `x + p`, or mixed in. [B, N, D] -> the same"""
        return x

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """The hook for queries and keys: apply the operators of positions, before the scaling.

        [B, H, N, K] -> the same
        """
        return x

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor | None:
        """The hook for a term that is added to the logits, after the scaling by 1/sqrt(K). q: [B, H, M, K], unrotated

        -> [B or 1, H or 1, M, N], or None if nothing is added.
        """
        return None

    def decay(self, q_context: Context, k_context: Context) -> Tensor | None:
        """The locality bias c^distance (paper, section 4.2), which is multiplied into the scaled scores.

        -> float32 [B or 1, 1, M, N], or None if c = 1.
        """
        if self.shape.decay == 1.0:
            return None
        apart = self.structure.distance(q_context.positions[:, :, None], k_context.positions[:, None, :])
        return torch.pow(self.shape.decay, apart).float()[:, None]

    @property
    def properties(self) -> Properties:
        """The properties of this scheme, for tables."""
        count = sum(p.numel() for p in self.parameters())
        claims = ("structures", "flat", "relative", "bounded", "content_dependent", "memory", "extrapolation", "source")
        acts = [("embeddings", "once")] if self.overrides("embed") else []
        acts += [("attention", "every layer")] if self.overrides("rotate") or self.overrides("bias") else []
        return Properties(
            injection=", ".join(where for where, _ in acts) or "none",
            recurrence=", ".join(often for _, often in acts) or "none",
            learnable=count > 0,
            parameters=count,
            **{name: getattr(self, name) for name in claims},
        )

    @classmethod
    def overrides(cls, hook: str) -> bool:
        """Whether this scheme overrides a hook."""
        return getattr(cls, hook) is not getattr(Scheme, hook)


class FastScheme(Scheme):
    """Base class of schemes whose operators are worth some care. Its methods change speed and not scores.

    The operator of a position is prepared once for a forward pass. What depends on the parameters alone is shared with
    other positions (`beside`), and what depends on the values of positions is planned on the host. The part of an
    operator that is the same at all positions, its frame F, can be taken into the projections of queries and keys.
    """

    def plan(self, positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        """What has to be computed on the host, from the values of positions.

        positions: int64 [B or 1, N] or [B or 1, N, C], on the CPU. `beside`: the plan of other positions of the same
        forward pass, or None.
        """
        return PositionPlan()

    def prepare(self, positions: Tensor, plan: PositionPlan | None, beside: Any) -> Any:
        """The state of a context. positions: int64 [B or 1, N], or [B or 1, N, C]

        `plan`: of these positions, or None. `beside`: the state of other positions of the same forward pass, or None.
        """
        raise NotImplementedError

    def frame(self, context: Context) -> Tensor | None:
        """The frame F. -> [H, K, K], None for the identity

        With it, rotate(x) = rotate_in_frame(x F). An attention that takes F into its projections, once for all
        tokens, gives `bias` queries in the frame.
        """
        return None

    def rotate_in_frame(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """`rotate`, for vectors that are in the frame already. [B, H, N, K] -> the same"""
        raise NotImplementedError

    def context(
        self,
        positions: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        beside: Context | None = None,
        plan: PositionPlan | None = None,
    ) -> Context:
        """Prepare positions for the hooks (see `Scheme.context`), with the state of the operators.

        positions: int64 [B or 1, N], or [B or 1, N, C]. mask: bool [B, N]
        """
        context = super().context(positions, mask, causal, plan=plan)
        return replace(context, state=self.prepare(positions, plan, beside.state if beside else None))

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """The operator of each position applied to the vectors there, up to the frame. [B, H, N, K] -> the same

        The result stays in the frame, which cancels in the scores.
        """
        frame = self.frame(context)
        return self.rotate_in_frame(x if frame is None else by_head(x, frame.to(x.dtype)), context, side)


def by_head(x: Tensor, matrices: Tensor) -> Tensor:
    """Multiply each head's vectors by the head's own matrix. [B, H, N, K], [H, K, L] -> [B, H, N, L]

    `x @ matrices` would copy the matrices for each row of the batch. This is one batched product over the heads.
    """
    b, h, n, _ = x.shape
    product = torch.bmm(x.transpose(0, 1).reshape(h, b * n, -1), matrices)
    return product.view(h, b, n, -1).transpose(0, 1)


def planner(scheme: Scheme) -> Planner:
    """The function that plans positions for a scheme on the host, before a batch is sent to a GPU."""

    def plan(positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        """The plan of positions, int64 [B or 1, N] or [B or 1, N, C] on the CPU, with the first of a shared run."""
        planned = scheme.plan(positions, beside) if isinstance(scheme, FastScheme) else PositionPlan()
        return replace(planned, first=run_of(positions))

    return plan
