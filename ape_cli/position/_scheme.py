"""The base class of positional encoding schemes. The docstring of `ape_cli.position` describes hooks and shape letters.

`Scheme` has the hooks that are science. `FastScheme` adds the methods that are speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.data.position_plan import PositionPlan
from ape_cli.position._context import Context, Link
from ape_cli.structure import Structure, matches

Side = Literal["query", "key"]
Role = Literal["encoder", "decoder", "cross"]  # of an attention: self-attention of a stack, or between the stacks
Homomorphism = Literal["orthogonal", "linear", ""]


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
    # the reason why it acts only in the causal attention of a decoder; empty if it acts everywhere
    causal_only: ClassVar[str] = ""
    real_positions: ClassVar[bool] = False  # whether positions may be floats, as in interpolation
    # whether it waits on a GPU for positions that differ from row to row, so that such steps cannot be recorded there
    waits_for_positions: ClassVar[bool] = False
    # Claims that `ape check` measures, and properties that are shown in tables.
    # Whether operators act with [x y] = [x] [y]: "orthogonal" ones; or "linear" ones, which are invertible and may
    # differ between the sides, with [x]' of the query times [x] of the key = I; or none of them.
    homomorphism: Homomorphism = ""
    beyond: ClassVar[str] = ""  # what a bounded scheme does with positions beyond max_size
    unique: ClassVar[bool] = True  # no two positions are encoded alike (bounded schemes: up to max_size)
    isometric: ClassVar[bool] = False  # a shift of all positions turns all vectors alike: P(p + k) = R_k P(p)
    encoder_decoder_options: ClassVar[tuple[str, ...]] = ()  # options without an effect in a decoder-only model
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
        self.layers = nn.ModuleDict()  # what `layer` returned, by the role and the index of each attention

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

        Raises `UsageError` for positions of another type or shape, and on a CPU for negative ones. Floating-point
        positions are allowed if the scheme has `real_positions`.
        """
        number = positions.dtype == torch.int64 or (self.real_positions and positions.is_floating_point())
        shape = [*positions.shape[:2], *([self.structure.width] if self.structure.width > 1 else [])]
        if not number or positions.dim() < 2 or list(positions.shape) != shape:
            allowed = "int64 [B, N]" if self.structure.width == 1 else f"int64 [B, N, {self.structure.width}]"
            got = f"{positions.dtype} {list(positions.shape)}"
            raise UsageError(f"bad positions for structure {self.structure.expression}", got=got, allowed=allowed)
        # On other devices this check would have to wait for the values.
        if positions.device.type == "cpu" and positions.numel() and positions.min() < 0:
            raise UsageError("negative position", got=positions.min().item(), allowed="0 (SOS) and up")
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

    def layer(self, role: Role, index: int) -> nn.Module | None:
        """The hook for parameters that each layer has of its own. None if there are none.

        Called once for each attention: `role` says where it acts, and `index` is the number of its layer in the stack.
        The module is called with the tokens of the keys as the layer reads them, [B, N, D], and what it returns,
        [B, N, ...], is the `content` of `logits`.
        """
        return None

    def logits(self, q: Tensor, k: Tensor, content: Tensor | None, link: Link) -> Tensor | None:
        """The hook for scores that depend on content, in the place of (q k) / sqrt(K), whose scaling they include.

        q: [B, H, M, K] and k: [B, H, N, K], unrotated. content: [B, N, ...], what the module of the layer returned for
        the tokens of the keys, or None without one. -> [B, H, M, N], or None for the product of rotated vectors

        In causal self-attention the M queries are the last M of the N keys. Decay, bias and mask come afterwards.
        """
        return None

    def required(self, content: Tensor | None) -> Tensor:
        """The `content` of `logits`. Raises `UsageError` if it was not given."""
        if content is None:
            what = f"the scores of {self.name} need what its layer makes of the tokens"
            fix = 'attention.logits(…, content=scheme.layers[scheme.attach("decoder", 0)](x))'
            raise UsageError(what, got="no `content`", fix=fix)
        return content

    def representation(self, positions: Tensor, side: Side) -> Tensor | None:
        """The operators of positions as matrices, if they act on more channels than those of a head.

        int64 [1, N] -> [H, N, R, R], or None: the laws then measure what `rotate` does. It is not used in a model.
        """
        return None

    def attach(self, role: Role, index: int) -> str:
        """Create the module of a layer, unless it is there, and return its key in `layers`."""
        key = f"{role}_{index}"
        if self.overrides("layer") and key not in self.layers:
            with global_seed(self.shape.generator, 1 + len(self.layers)):
                module = self.layer(role, index)
            if module is not None:
                self.layers[key] = module
        return key

    @property
    def properties(self) -> Properties:
        """The properties of this scheme, for tables."""
        count = sum(p.numel() for p in self.parameters())
        claims = ("structures", "flat", "relative", "bounded", "content_dependent", "memory", "extrapolation", "source")
        acts = [("embeddings", "once")] if self.overrides("embed") else []
        in_attention = any(map(self.overrides, ("rotate", "bias", "logits")))
        acts += [("attention", "every layer")] if in_attention else []
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


@contextmanager
def global_seed(generator: torch.Generator | None, number: int = 0) -> Iterator[None]:
    """Seed PyTorch's global generator for a while, so that weights which do not come from `generator` are repeatable.

    Modules such as `nn.Embedding` draw their weights from it. Its seed differs from that of `generator`, because equal
    seeds would give them the same numbers as the weights of the model. It also depends on `number`. A `generator` of
    None changes nothing.
    """
    with torch.random.fork_rng(devices=[], enabled=generator is not None):
        if generator is not None:
            torch.default_generator.manual_seed((generator.initial_seed() ^ 0x5CE4E) + number)
        yield
