"""The base class of positional encoding schemes, and the contexts that its hooks are given.

The docstring of `ape_cli.position` describes the hooks and the shape letters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.data.position_plan import PositionPlan, run_of
from ape_cli.structure import Structure, matches

Side = Literal["query", "key"]


@dataclass(frozen=True)
class Context:
    """What a scheme knows about some positions."""

    positions: Tensor  # int64 [B or 1, N], or [B or 1, N, C] for a product of C factors
    mask: Tensor | None = None  # bool [B, N], True for tokens
    state: Any = None  # the scheme's own: tables, angles or operators
    causal: bool = False  # whether they are a decoder's, which sees only earlier tokens
    plan: PositionPlan | None = None  # made on the host, with the batch
    _pairs: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, other: Context, make: Callable[[Context, Context], Any]) -> Any:
        """The result of `make(self, other)`, which is computed at the first call and then kept.

        The layers of a forward pass use it to share what depends on a pair of contexts.
        """
        key = (make.__qualname__, id(other))
        if key not in self._pairs:
            # Keep `other` alive, so that its id is not used again. A reference to `self` would never be released.
            held = None if other is self else other
            self._pairs[key] = held, make(self, other)
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
    # the distance of `apart`: `path`, the steps of the path, or `euclidean`, the straight line across a grid
    metric: str = "path"
    # whether its bias is a term of the dot product's expansion, which no other kind of attention takes
    dot_only: ClassVar[bool] = False
    source: ClassVar[str] = "not named"
    # How reports show the scheme. They read literals from its file and do not import it.
    table_place: ClassVar[int | None] = None  # the place of its rows in tables; None: after the others
    # its colour and mark (`reports.palette`); None: those that no other scheme of its figure has
    palette_index: ClassVar[int | None] = None
    # Claims that `ape check` measures, and properties that are shown in tables.
    homomorphism: ClassVar[bool] = False  # `rotate` acts by orthogonal operators with [x y] = [x] [y]
    beyond: ClassVar[str] = ""  # what a bounded scheme does with positions beyond max_size
    unique: ClassVar[bool] = True  # no two positions are encoded alike (bounded schemes: up to max_size)
    isometric: ClassVar[bool] = False  # a shift of all positions turns all vectors alike: P(p + k) = R_k P(p)
    # whether a forward pass reads values back from a GPU, so that its operations cannot be recorded
    waits: bool = False
    acts_between: bool = True  # whether it acts in the attention between decoder and encoder too
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

    def prepare(self, positions: Tensor) -> Any:
        """The state of a context. Override it if hooks share work. positions: int64 [B or 1, N], or [B or 1, N, C]"""
        return None

    def plan(self, positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        """The plan of positions: what has to be computed on the host.

        positions: int64 [B or 1, N] or [B or 1, N, C], on the CPU

        Override it if a hook would otherwise have to read the values of positions. `beside`: the plan of other
        positions of the same forward pass, or None.
        """
        return PositionPlan(first=run_of(positions))

    def prepare_planned(self, positions: Tensor, plan: PositionPlan, state: Any) -> Any:
        """`prepare`, or `prepare_beside` if there is a `state`, with the help of a plan.

        positions: int64 [B or 1, N], or [B or 1, N, C]
        """
        return self.prepare(positions) if state is None else self.prepare_beside(positions, state)

    def prepare_beside(self, positions: Tensor, state: Any) -> Any:
        """`prepare`, where `state` is that of other positions in the same forward pass.

        positions: int64 [B or 1, N], or [B or 1, N, C]. Override it to share what depends on the parameters alone.
        """
        return self.prepare(positions)

    @classmethod
    def reads(cls, found: Structure) -> bool:
        """Whether the scheme can read positions of this structure as they are."""
        return any(matches(pattern, found) for pattern in cls.structures)

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
        these positions, made ahead. Without one, schemes that need a plan wait for positions on a GPU.

        Raises `UsageError` for positions of another type or shape, and on a CPU for negative ones.
        """
        shape = [*positions.shape[:2], *([self.structure.width] if self.structure.width > 1 else [])]
        if positions.dtype != torch.int64 or positions.dim() < 2 or list(positions.shape) != shape:
            raise UsageError(
                f"bad positions for structure {self.structure.expression}",
                got=f"{positions.dtype} {list(positions.shape)}",
                allowed="int64 [B, N]" if self.structure.width == 1 else f"int64 [B, N, {self.structure.width}]",
                fix="cast or reshape them",
            )
        # On other devices this check would have to wait for the values.
        if positions.device.type == "cpu" and positions.numel() and int(positions.min()) < 0:
            raise UsageError("negative position", got=int(positions.min()), allowed="0 (SOS) and up", fix="check them")
        if plan is not None:
            state = self.prepare_planned(positions, plan, beside.state if beside else None)
        else:
            state = self.prepare_beside(positions, beside.state) if beside else self.prepare(positions)
        return Context(positions, mask=mask, state=state, causal=causal, plan=plan)

    def embed(self, x: Tensor, context: Context) -> Tensor:
        """The hook for embeddings: the tokens with positions added, `x + p`, or mixed in. [B, N, D] -> the same"""
        return x

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """The hook for queries and keys: apply the operators of positions, before the scaling.

        [B, H, N, K] -> the same
        """
        return x

    def frame(self, context: Context) -> Tensor | None:
        """The part of `rotate` that is the same at all positions. -> [H, K, K], None for the identity

        With the frame F, rotate(x) = turn(x F). An attention may take F into its projections, once for all tokens.
        Then `bias` is given queries in the frame.
        """
        return None

    def turn(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """`rotate`, for vectors that are in the frame already. [B, H, N, K] -> the same"""
        return self.rotate(x, context, side)

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
        apart = self.apart(q_context.positions[:, :, None], k_context.positions[:, None, :])
        return torch.pow(self.shape.decay, apart).float()[:, None]

    def apart(self, x: Tensor, y: Tensor) -> Tensor:
        """The distance of the locality bias, as `metric` says: int64, or float64 if it is not a whole number.

        Positions int64 [B or 1, M, 1] and [B or 1, 1, N], or with an axis for coordinates -> [B or 1, M, N]
        """
        return self.structure.distance(x, y)

    @property
    def properties(self) -> Properties:
        """The properties of this scheme, for tables."""
        count = sum(p.numel() for p in self.parameters())
        acts = [("embeddings", "once")] if self.overrides("embed") else []
        acts += [("attention", "every layer")] if self.overrides("rotate") or self.overrides("bias") else []
        return Properties(
            structures=self.structures,
            flat=self.flat,
            injection=", ".join(where for where, _ in acts) or "none",
            recurrence=", ".join(often for _, often in acts) or "none",
            relative=self.relative,
            learnable=count > 0,
            parameters=count,
            bounded=self.bounded,
            content_dependent=self.content_dependent,
            memory=self.memory,
            extrapolation=self.extrapolation,
            source=self.source,
        )

    @classmethod
    def overrides(cls, hook: str) -> bool:
        """Whether this scheme overrides a hook."""
        return getattr(cls, hook) is not getattr(Scheme, hook)
