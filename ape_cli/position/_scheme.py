"""The base class of positional encoding schemes. `ape_cli.position` explains the hooks and the shape letters.

It defines the hooks that determine the scores. `_fast_scheme.py` adds methods that only improve speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ape_cli.core import renamed, user_parts
from ape_cli.core.errors import UsageError
from ape_cli.data.position_plan import PositionPlan
from ape_cli.position._context import AttentionPair, Context, reads_values
from ape_cli.structure import Structure, matches

Side = Literal["query", "key"]
Role = Literal["encoder", "decoder", "cross"]  # self-attention of a stack, or attention between decoder and encoder
Homomorphism = Literal["orthogonal", "linear", ""]
_ROWS = "a table needs a row for each position, from 0 (SOS) to the largest one that occurs, or "
_ROWS += "`bounded = True`, and `context.positions.clamp(max=self.shape.max_size)` as its index"


@dataclass(frozen=True)
class Shape:
    """The arguments common to all schemes. `make` passes it to the constructor of a scheme.

    >>> from ape_cli import position
    >>> position.make("rope", d_model=64, heads=8).shape.head_dim
    8
    """

    d_model: int  # D, the width of the model
    heads: int  # H, the number of attention heads
    structure: Structure  # the structure that positions are read as
    max_size: int  # the largest size that a bounded scheme covers: a length, or the depth of a tree
    decay: float  # c, the locality bias; 1 means none
    generator: torch.Generator | None = None  # for random initial weights

    @property
    def head_dim(self) -> int:
        """K, the number of channels of a head."""
        return self.d_model // self.heads


@dataclass(frozen=True)
class Properties:
    """The properties of a scheme as tables show them: the criteria of the paper's section 5 that need no training."""

    structures: tuple[str, ...]  # extensibility: patterns of the structures that it reads
    flat: bool  # whether it reads the linearisation by default
    injection: str  # "embeddings", "attention", "embeddings, attention", or "none"
    recurrence: str  # "once", "every layer", "once, every layer", or "none"
    relative: bool  # reference point: the path between two tokens, else the origin
    learnable: bool
    parameters: int
    bounded: bool  # whether it covers positions only up to `max_size`
    content_dependent: bool  # whether positions are multiplied with the content
    memory: str  # memory of its results for L tokens, with D channels of the model
    extrapolation: str  # beyond the training sizes, according to its source or a survey
    source: str


class Scheme(nn.Module):
    """Base class of schemes. A subclass overrides the hooks that it needs.

    By default hooks do nothing, and `decay` applies the locality bias if one is set. A scheme that penalises distance:

    >>> import torch
    >>> from ape_cli import attention
    >>> from ape_cli.position import Scheme, Shape
    >>> from ape_cli.structure import parse_structure
    >>> class Penalty(Scheme):
    ...     def bias(self, q, q_context, k_context):  # [B, H, M, K] -> [B or 1, 1, M, N]
    ...         return -(q_context.positions[:, :, None] - k_context.positions[:, None, :]).abs()[:, None]
    >>> scheme = Penalty(Shape(d_model=4, heads=1, structure=parse_structure("seq"), max_size=100, decay=1.0))
    >>> context = scheme.context(torch.tensor([[1, 2, 3]]))
    >>> q = k = torch.zeros(1, 1, 3, 4)
    >>> attention.logits(scheme, q, k, context, context)[0, 0]
    tensor([[ 0., -1., -2.],
            [-1.,  0., -1.],
            [-2., -1.,  0.]])
    """

    part_kind: ClassVar[str] = "scheme"  # for messages
    # what to do about an exception in a hook, by its type; the default is to correct the file
    advice: ClassVar[dict[type[BaseException], str]] = {IndexError: _ROWS}
    synonyms: ClassVar[tuple[str, ...]] = ()  # other names, which error messages recognise
    option_help: ClassVar[dict[str, str]] = {}  # a description of each option, for `ape fields`
    structures: ClassVar[tuple[str, ...]] = ("seq",)  # patterns of the structures that it reads, such as `grid(n)`
    # whether it reads trees and grids along their linearisation by default; requires `seq`
    flat: ClassVar[bool] = False
    relative: bool = False  # claim: scores depend only on the path from one position to the other
    bounded: ClassVar[bool] = False  # whether it covers positions only up to `max_size`
    default_decay: ClassVar[float] = 1.0  # the default of `decay`
    # whether its bias is a term of the dot product's expansion, which only the attention `dot` accepts
    dot_only: ClassVar[bool] = False
    source: ClassVar[str] = "not named"  # the publication
    # why it acts only in the causal attention of a decoder; empty if it acts everywhere
    causal_only: ClassVar[str] = ""
    # why it acts only in a model with an encoder; empty if it also acts in a decoder-only model
    needs_encoder: ClassVar[str] = ""
    real_positions: ClassVar[bool] = False  # whether positions may be floats, as in interpolation
    # whether it stalls a GPU to read positions that differ between rows, so that such steps cannot be recorded there
    waits_for_positions: ClassVar[bool] = False
    # claim about its operators: `orthogonal`, or `linear` (invertible; [x]' of the query times [x] of the key is I)
    # if [x y] = [x] [y]; empty if there is no such law
    homomorphism: Homomorphism = ""
    beyond: ClassVar[str] = ""  # what a bounded scheme does with positions beyond `max_size`
    unique: bool = True  # claim: no two positions (up to `max_size`) are encoded alike
    isometric: ClassVar[bool] = False  # claim: a shift of all positions rotates all vectors alike: P(p + k) = R_k P(p)
    encoder_decoder_options: ClassVar[tuple[str, ...]] = ()  # options that have no effect in a decoder-only model
    variants: ClassVar[tuple[dict[str, Any], ...]] = ()  # further options (or `decay`) that `ape check` measures
    content_dependent: bool = False  # whether positions are multiplied with the content
    memory: ClassVar[str] = "none"  # memory of its results, for tables
    extrapolation: ClassVar[str] = "not claimed"  # beyond the training sizes, for tables

    name: str  # set by `make`
    _made_with: dict[str, Any]  # the options of the class, set by `make`

    def __init__(self, shape: Shape) -> None:
        """Store the common arguments."""
        super().__init__()
        self.shape = shape
        self.structure = shape.structure
        self.layers = nn.ModuleDict()  # what `layer` returned, by the role and the index of each attention

    @classmethod
    def obstacle(cls, model: str) -> str:
        """Why it cannot act in all attention of a model, `encoder-decoder` or `decoder`; empty if it can."""
        return cls.needs_encoder if model == "decoder" else cls.causal_only

    @classmethod
    def reads(cls, structure: Structure) -> bool:
        """Whether the scheme can read positions of this structure directly."""
        return any(matches(pattern, structure) for pattern in cls.structures)

    def context(
        self,
        positions: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        shared_with: Context | None = None,
        plan: PositionPlan | None = None,
        *,
        beside: Context | None = None,
    ) -> Context:
        """Prepare positions for the hooks.

        - `positions`: int64 [B, N], or [1, N] if all rows share them; [B or 1, N, C] for a product. 0 is SOS. Floats
          are allowed if the scheme sets `real_positions`.
        - `mask`: bool [B, N], True for tokens; None if all are tokens.
        - `causal`: whether each position sees only itself and earlier ones, as in a decoder.
        - `shared_with`: a context of the same forward pass, with which work on the parameters is shared.
        - `plan`: the plan of these positions, computed ahead of time (see `planner`). Without it, schemes that need one
          stall a GPU.
        - `beside`: the old name of `shared_with`.

        Raises `UsageError` for a wrong dtype or shape and, on a CPU outside of a compiled function, for negative
        positions.
        """
        self.check_positions(positions)
        if mask is not None:
            size = [mask.shape[0] if positions.shape[0] == 1 else positions.shape[0], positions.shape[1]]
            if mask.dtype != torch.bool or list(mask.shape) != size:
                got, allowed = f"{mask.dtype} {list(mask.shape)}", f"bool {size}, True for tokens"
                raise UsageError("bad mask", got=got, allowed=allowed, fix="`mask.bool()` for a mask of 0 and 1")
        if beside is not None:
            renamed.warn_about("the argument beside", "shared_with")
        context = Context(positions, mask=mask, causal=causal, plan=plan, weights=tuple(self.parameters()))
        return self._prepared(context, shared_with or beside)

    def check_positions(self, positions: Tensor) -> None:
        """Raise `UsageError` for positions that `context` refuses."""
        width, is_tensor = self.structure.width, isinstance(positions, Tensor)
        number = is_tensor and (
            positions.dtype == torch.int64 or (self.real_positions and positions.is_floating_point())
        )
        if not number or positions.dim() < 2 or list(positions.shape[2:]) != [width] * (width > 1):
            allowed = "int64 [B, N]" if width == 1 else f"int64 [B, N, {width}]"
            got = f"{positions.dtype} {list(positions.shape)}" if is_tensor else type(positions).__name__
            what, fix = f"bad positions for structure {self.structure.expression}", "torch.tensor([[1, 2, 3]])"
            raise UsageError(what, got=got, allowed=allowed, fix=f"a row for each sequence, as in `{fix}`")
        if reads_values(positions) and positions.numel() and positions.min() < 0:
            raise UsageError("negative position", got=positions.min().item(), allowed="0 (SOS) and up")

    def _prepared(self, context: Context, shared_with: Context | None) -> Context:
        """A context with what a subclass prepares for its hooks."""
        return context

    def embed(self, x: Tensor, context: Context) -> Tensor:
        """The hook for embeddings: return the tokens with positions added (`x + p`) or mixed in. [B, N, D] -> same"""
        return x

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """The hook for queries and keys: apply the operators of their positions, before the scaling by 1/√K.

        [B, H, N, K] -> same. `side` is "query" or "key".
        """
        return x

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor | None:
        """The hook for a term added to the logits, after the scaling by 1/√K.

        q: [B, H, M, K], unrotated -> [B or 1, H or 1, M, N], or None for no term
        """
        return None

    def decay(self, q_context: Context, k_context: Context) -> Tensor | None:
        """The locality bias c^distance (paper, section 4.2), a factor of the scaled scores.

        -> float32 [B or 1, 1, M, N], or None if c = 1
        """
        if self.shape.decay == 1.0:
            return None
        apart = self.structure.distance(q_context.positions[:, :, None], k_context.positions[:, None, :])
        return torch.pow(self.shape.decay, apart.float())[:, None]

    def layer(self, role: Role, index: int) -> nn.Module | None:
        """The hook for per-layer parameters: return a module, or None for no parameters.

        It is called once for each attention: `role` is "encoder", "decoder" or "cross", and `index` is the number of
        the layer in its stack. In each forward pass, the module maps the tokens that the keys are projected from,
        [B, N, D], to the `content` of `logits`, [B, N, ...]. It maps each token by itself, unless it has an attribute
        `reach`, the number of earlier tokens that it also reads. Then it is called with [B, reach + N, D], with zeros
        at padding and before the first token, and returns the content of the last N tokens.
        """
        return None

    def inputs(self, key: str, x: Tensor, mask: Tensor | None = None, before: Tensor | None = None) -> Tensor:
        """The input of a layer's module: the tokens, preceded by as many earlier ones as it reads (its `reach`).

        x: [B, N, D]; mask: bool [B, N], True for tokens; before: [B, L, D], the inputs for the tokens before x, or None
        if there are none -> [B, reach + N, D]
        """
        reach = getattr(self.layers[key], "reach", 0)
        if not reach:
            return x
        x = x if mask is None else x.masked_fill(~mask[..., None], 0.0)
        before = x.new_zeros(x.shape[0], reach, x.shape[2]) if before is None else before[:, before.shape[1] - reach :]
        return torch.cat([before, x], dim=1)

    def content(self, key: str, x: Tensor, mask: Tensor | None = None) -> Tensor | None:
        """The `content` of `logits` for all tokens at once. `key`: the key of a layer, as returned by `attach`.

        x: [B, N, D], mask: bool [B, N] -> [B, N, ...], or None if the layer has no module
        """
        return self.layers[key](self.inputs(key, x, mask)) if key in self.layers else None

    def logits(self, q: Tensor, k: Tensor, content: Tensor | None, pair: AttentionPair) -> Tensor | None:
        """The hook for scores that depend on content. They replace (q k) / √K, so they include the scaling.

        - `q`: [B, H, M, K] and `k`: [B, H, N, K], both unrotated.
        - `content`: [B, N, ...], the output of the module from `layer` for the keys (see the method `content`); None
          without a module.
        - `pair`: the contexts of queries and keys, and the mask. In causal self-attention, the M queries are the last
          M of the N keys.

        -> [B, H, M, N], or None for the product of rotated queries and keys. Decay, bias and mask come afterwards.
        """
        return None

    def required(self, content: Tensor | None) -> Tensor:
        """The `content` of `logits`. Raises `UsageError` if it was not given."""
        if content is None:
            what = f"the scores of {self.name} need the output of its layer's module"
            fix = 'attention.logits(…, content=scheme.content(scheme.attach("decoder", 0), x))'
            raise UsageError(what, got="no `content`", fix=fix)
        return content

    def representation(self, positions: Tensor, side: Side) -> Tensor | None:
        """The operators of positions as matrices, if they act on more channels than a head has. Models do not use it.

        int64 [1, N] -> [H, N, R, R], or None: then `ape check` measures what `rotate` does
        """
        return None

    def attach(self, role: Role, index: int) -> str:
        """Create the module of a layer unless it exists, and return its key in `layers`."""
        key = f"{role}_{index}"
        if self.overrides("layer") and key not in self.layers:
            with global_seed(self.shape.generator, 1 + len(self.layers)):
                module = self.layer(role, index)
            if module is not None:
                check_stored(module, f"the module of {type(self).__name__}.layer")
                self.layers[key] = module
        return key

    @property
    def properties(self) -> Properties:
        """The properties of this scheme, as tables show them."""
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


def check_stored(module: nn.Module, part: str) -> None:
    """Check that `state_dict` has all buffers of a module, because the meta device loses the values of others.

    `part`: the part of the scheme in the message. Raises `UsageError`.
    """
    stored = module.state_dict(keep_vars=True)
    for name, _ in module.named_buffers():
        if name not in stored:
            what, got = f"{part} has a buffer that `state_dict` does not store", f"{name}, with persistent=False"
            raise UsageError(what, got=got, fix="store it, or compute its values in the hook")


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


def constructed(cls: type[Scheme], name: str, shape: Shape, options: dict[str, Any]) -> Scheme:
    """A scheme of this class and name. Raises `ApeError` if the constructor of a user's own scheme fails."""
    with global_seed(shape.generator), user_parts.explained(cls):
        scheme = cls(shape, **options)
        check_stored(scheme, f"scheme {name!r}")
    scheme.name, scheme._made_with = name, options
    return scheme
