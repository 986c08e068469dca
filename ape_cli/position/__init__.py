"""Positional encoding schemes: one file each, found by its name; reading them in order teaches the field.

A scheme is an `nn.Module` with four hooks, all no-ops by default; attention never asks which it holds:

    embed(x, context)                  [B, N, D] -> [B, N, D]        added to (or mixed into) the tokens
    rotate(x, context, side)           [B, H, N, K] -> the same      operators on queries and keys
    bias(q, q_context, k_context)      -> [B|1, H|1, M, N] or None   added to the logits
    decay(q_context, k_context)        -> [B|1, 1, M, N] or None     multiplied into the logits

Logits are (q k) / sqrt(K), times decay, plus bias, plus mask. None says "nothing to do".

`context = scheme.context(positions, mask)` holds what depends on the positions alone; it is computed
once per forward pass and shared by the layers. Positions: int64 [B, N], or [1, N] where all rows
agree, with one more axis for the factors of a product; 0 is SOS, the empty path. Every scheme acts in
the encoder, in the decoder and in the attention between them, as in the paper; a scheme whose source
says otherwise states it.

For speed alone a scheme may say more, and need not: `prepare_beside` shares between contexts what follows from the
parameters, `Context.once` between layers what follows from two contexts, and a `frame` that is common to all
positions is taken into the projections of queries and keys.

Shape letters here and in `attention/`: B batch, H heads, M queries, N keys, K channels of a head,
D channels of the model. Randomness at construction comes from `generator`.

The locality bias of four nodes of a tree: the root, its two children, and the left child of the left one.

    >>> import torch
    >>> from ape_cli import position
    >>> scheme = position.make("orthogonal-tree", d_model=4, heads=1, decay=0.5)
    >>> context = scheme.context(torch.tensor([[1, 2, 3, 4]]))
    >>> scheme.decay(context, context)[0, 0]  # 0.5 to the power of the steps between two nodes
    tensor([[1.0000, 0.5000, 0.5000, 0.2500],
            [0.5000, 1.0000, 0.2500, 0.5000],
            [0.5000, 0.2500, 1.0000, 0.1250],
            [0.2500, 0.5000, 0.1250, 1.0000]])
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ape_cli.core import plugins
from ape_cli.core.errors import UsageError
from ape_cli.data.position_plan import PositionPlan, run_of
from ape_cli.structure import Structure, example, matches, parse_structure

__path__ = pkgutil.extend_path(__path__, __name__)  # a folder ape_cli/position elsewhere on the path adds to these

Side = Literal["query", "key"]


@dataclass(frozen=True)
class Context:
    """What a scheme knows of some positions."""

    positions: Tensor  # int64 [B or 1, N], or [B or 1, N, C] for a product of C factors
    mask: Tensor | None = None  # bool [B, N], True = token
    state: Any = None  # the scheme's own: tables, angles, operators
    causal: bool = False  # of a decoder, which sees only what stands before
    plan: PositionPlan | None = None  # made on the host, with the batch
    _pairs: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, other: Context, make: Callable[[Context, Context], Any]) -> Any:
        """make(self, other), made at the first call and kept: what the layers of a forward pass share of a pair."""
        key = (make.__qualname__, id(other))
        if key not in self._pairs:
            held = None if other is self else other  # so that its id stays its own; oneself would never be let go
            self._pairs[key] = held, make(self, other)
        return self._pairs[key][1]

    def part(self, begin: int, end: int) -> Context:
        """Some of the positions, without a state."""
        mask = None if self.mask is None else self.mask[:, begin:end]
        return Context(self.positions[:, begin:end], mask, causal=self.causal)

    @cached_property
    def start(self) -> int | None:
        """The first position, if all rows share a run of consecutive ones and that can be seen at no cost."""
        if self.plan is not None:
            return self.plan.first
        return run_of(self.positions) if self.positions.device.type == "cpu" else None


@dataclass(frozen=True)
class Shape:
    """What every scheme is built with."""

    d_model: int
    heads: int
    structure: Structure
    max_size: int
    decay: float
    generator: torch.Generator | None = None

    @property
    def head_dim(self) -> int:
        return self.d_model // self.heads


@dataclass(frozen=True)
class Properties:
    """What a scheme is, for tables: the criteria of the paper's section 5 that need no training."""

    structures: tuple[str, ...]  # extensibility: patterns of what it reads
    flat: bool  # along the linearisation, unless a structure is asked for
    injection: str  # "embeddings", "attention", or "none"
    recurrence: str  # "once", or "every layer"
    relative: bool  # reference point: the path between two tokens; else the origin
    learnable: bool
    parameters: int
    bounded: bool  # by the size it is made for
    content_dependent: bool  # positions meet the content multiplicatively
    memory: str  # of what it makes for L tokens, in D channels of the model
    extrapolation: str  # beyond the sizes of training, as its source or a survey has it
    source: str


class Scheme(nn.Module):
    """Base of all schemes: the four hooks, doing nothing but the locality bias if one is set."""

    structures: ClassVar[tuple[str, ...]] = ("seq",)  # patterns of what it reads (`structure.matches`)
    flat: ClassVar[bool] = False  # reads data along its linearisation unless a structure is asked for; needs `seq`
    relative: bool = False  # scores depend on x^-1 y alone
    bounded: ClassVar[bool] = False  # sized at max_size; says in its docstring what happens beyond
    default_decay: ClassVar[float] = 1.0
    metric: str = "path"  # `apart`: steps of the path, or `euclidean`, the straight line across a grid
    dot_only: ClassVar[bool] = False  # its bias is a term of the dot product's expansion: no other attention takes it
    source: ClassVar[str]
    # claims that `ape check` measures, and traits that are told in tables
    homomorphism: ClassVar[bool] = False  # `rotate` acts by orthogonal operators, [x y] = [x] [y]
    beyond: ClassVar[str] = ""  # of bounded schemes: what becomes of positions beyond max_size
    unique: ClassVar[bool] = True  # no two positions are encoded alike (bounded schemes: up to max_size)
    isometric: ClassVar[bool] = False  # a shift of all positions turns all vectors alike: P(p + k) = R_k P(p)
    waits: bool = False  # on a GPU a forward pass reads values back, so that its operations cannot be recorded
    acts_between: bool = True  # in the attention between decoder and encoder too
    renamed: ClassVar[dict[str, str]] = {}  # parameters of earlier versions -> their names today
    variants: ClassVar[tuple[dict[str, Any], ...]] = ()  # options (or `decay`) that are measured beside the defaults
    content_dependent: bool = False
    memory: ClassVar[str] = "none"
    extrapolation: ClassVar[str] = "not claimed"

    name: str  # set by `make`

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.structure = shape.structure

    def prepare(self, positions: Tensor) -> Any:
        """The state of a context; override where hooks share work. positions: [B or 1, N]"""
        return None

    def plan(self, positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        """What has to be worked out of positions on the host; override where a hook would have to read their values.
        int64 [B or 1, N] ([B or 1, N, C]) on the CPU. `beside`: the plan of other positions of the same forward pass.
        """
        return PositionPlan(first=run_of(positions))

    def prepare_planned(self, positions: Tensor, plan: PositionPlan, state: Any) -> Any:
        """`prepare`, or with a `state` `prepare_beside`, from a plan."""
        return self.prepare(positions) if state is None else self.prepare_beside(positions, state)

    def prepare_beside(self, positions: Tensor, state: Any) -> Any:
        """`prepare`, where `state` is that of other positions in the same forward pass: override to share what
        follows from the parameters alone."""
        return self.prepare(positions)

    @classmethod
    def reads(cls, found: Structure) -> bool:
        """Whether positions of this structure can be read as they are."""
        return any(matches(pattern, found) for pattern in cls.structures)

    def context(
        self,
        positions: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        beside: Context | None = None,
        plan: PositionPlan | None = None,
    ) -> Context:
        """Positions int64 [B, N] or [1, N] ([B or 1, N, C] for a product) and an optional token mask, made
        ready for the hooks. `causal`: they are a decoder's, which sees only what stands before. `beside`: a
        context of the same forward pass, whose work on the parameters is shared. `plan`: of these positions, made
        ahead; without one, schemes that need one wait for positions on a GPU."""
        shape = [*positions.shape[:2], *([self.structure.width] if self.structure.width > 1 else [])]
        if positions.dtype != torch.int64 or positions.dim() < 2 or list(positions.shape) != shape:
            raise UsageError(
                f"bad positions for structure {self.structure.expression}",
                got=f"{positions.dtype} {list(positions.shape)}",
                allowed="int64 [B, N]" if self.structure.width == 1 else f"int64 [B, N, {self.structure.width}]",
                fix="cast or reshape them",
            )
        if positions.device.type == "cpu" and positions.numel() and int(positions.min()) < 0:  # elsewhere it would wait
            raise UsageError("bad positions", got=int(positions.min()), allowed="0 (SOS) and up", fix="check them")
        if plan is not None:
            state = self.prepare_planned(positions, plan, beside.state if beside else None)
        else:
            state = self.prepare_beside(positions, beside.state) if beside else self.prepare(positions)
        return Context(positions, mask, state, causal, plan)

    def embed(self, x: Tensor, context: Context) -> Tensor:
        return x

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        return x

    def frame(self, context: Context) -> Tensor | None:
        """A part of `rotate` that is the same at all positions: rotate(x) = turn(x F), with F [H, K, K] or None for
        the identity. An attention may take it into its projections, once for all tokens; `bias` is then given
        queries in the frame."""
        return None

    def turn(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """`rotate`, of vectors that are in the frame."""
        return self.rotate(x, context, side)

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor | None:
        return None

    def decay(self, q_context: Context, k_context: Context) -> Tensor | None:
        """The locality bias c^distance (paper, section 4.2), in float32. None if c = 1."""
        if self.shape.decay == 1.0:
            return None
        apart = self.apart(q_context.positions[:, :, None], k_context.positions[:, None, :])
        return torch.pow(self.shape.decay, apart).float()[:, None]

    def apart(self, x: Tensor, y: Tensor) -> Tensor:
        """The distance of the locality bias, `metric` says which: int64, or float64 where it is no whole number.
        Positions [B or 1, M, 1] and [B or 1, 1, N], or with an axis for coordinates -> [B or 1, M, N]"""
        return self.structure.distance(x, y)

    @property
    def properties(self) -> Properties:
        count = sum(p.numel() for p in self.parameters())
        embeds, attends = self.overrides("embed"), self.overrides("rotate") or self.overrides("bias")
        return Properties(
            structures=self.structures,
            flat=self.flat,
            injection="attention" if attends else "embeddings" if embeds else "none",
            recurrence="every layer" if attends else "once" if embeds else "none",
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
        """Whether this scheme does something in a hook."""
        return getattr(cls, hook) is not getattr(Scheme, hook)


def names() -> list[str]:
    """Every scheme, by the files in this folder."""
    return plugins.names(sys.modules[__name__])


def load(name: str) -> type[Scheme]:
    """The class of a scheme."""
    return plugins.load(sys.modules[__name__], "scheme", name, Scheme)


def options(name: str) -> dict[str, Any]:
    """The options of a scheme beyond the common ones, with their defaults."""
    return plugins.options(load(name), skip=1)


def make(
    name: str,
    d_model: int = 512,
    heads: int = 8,
    structure: str | None = None,
    max_size: int = 100,
    decay: float | None = None,
    generator: torch.Generator | None = None,
    **given: Any,
) -> Scheme:
    """A scheme by its name.

    `structure`: an expression; None for the scheme's own. `max_size`: the size that bounded schemes
    are made for (words' length, trees' depth). `decay`: the locality bias c; None for the scheme's
    own default, 0.98 for orthogonal-*, 1 (none) for the others. `given`: the scheme's own options.
    Raises `UsageError` for anything that does not fit.
    """
    found = load(name)
    if d_model < 1 or heads < 1 or d_model % heads or (d_model // heads) % 2:
        raise UsageError(
            "bad d_model and heads",
            got=f"d_model {d_model}, heads {heads}",
            allowed="an even number of channels for each head",
            fix="make d_model a multiple of 2 * heads",
        )
    if max_size < 1:
        raise UsageError("bad max_size", got=max_size, allowed="1 or more", fix="choose the size of the data")
    rate = found.default_decay if decay is None else decay
    if not 0.0 < rate <= 1.0:
        raise UsageError("bad decay", got=rate, allowed="above 0, at most 1 (1 turns it off)", fix="try 0.98")
    wanted = example(found.structures[0]) if structure is None else parse_structure(structure)
    if not found.reads(wanted):
        raise UsageError(
            f"{name} cannot read this structure",
            got=wanted.expression,
            allowed=", ".join(found.structures),
            fix="see `ape schemes`",
        )
    chosen = plugins.settings(name, given, options(name))
    shape = Shape(d_model, heads, wanted, max_size, rate, generator)
    scheme = found(shape, **chosen)
    scheme.name = name
    return scheme
