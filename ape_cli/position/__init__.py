"""Positional encoding schemes. Each is a single file.

A scheme is an `nn.Module` with six hooks, which do nothing by default. The attention layer calls the hooks and never
asks which scheme it holds:

    embed(x, context)              [B, N, D] -> same        tokens with their positions
    rotate(x, context, side)       [B, H, N, K] -> same     operators on queries and keys
    bias(q, q_context, k_context)  -> [B|1, H|1, M, N]      a term of the logits
    decay(q_context, k_context)    -> [B|1, 1, M, N]        a factor of the logits
    layer(role, index)             -> a module              parameters of a single layer
    logits(q, k, content, pair)    -> [B, H, M, N]          scores that depend on content

The logits of attention are (q k) / √K, or the result of `logits`, times decay, plus bias, plus mask. Decay and bias
therefore come after the scaling. The last four hooks may return None if there is nothing to apply.

`scheme.context(positions, mask)` prepares positions. It is called once in a forward pass, and all layers share the
result. Positions are int64 [B, N], or [1, N] if all rows share them; a product has one more axis for its factors.
Position 0 is SOS, the empty path.

Every scheme acts in the encoder, in the decoder and between them, as in the paper. The page of a scheme says where its
source differs. `causal_only` gives the reason if a scheme acts only in causal attention.

`Context.cached` shares between layers what depends on two contexts. `FastScheme` adds methods that only improve speed.

Shape letters here and in `attention/`: B batch, H heads, M queries, N keys, C factors of a product, K channels of a
head, D channels of the model. Random initial weights come from `shape.generator`.

The locality bias of four nodes of a tree: the root, its two children, and the first grandchild:

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
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from ape_cli.core import part_options, plugins, renamed, user_parts
from ape_cli.core.errors import ApeError, UsageError
from ape_cli.position._context import AttentionPair, Context
from ape_cli.position._fast_scheme import FastScheme, planner
from ape_cli.position._rules import (
    RULES,
    check_reach,
    reads_positions,
)
from ape_cli.position._scheme import (
    Properties,
    Role,
    Scheme,
    Shape,
    Side,
    constructed,
    global_seed,
)
from ape_cli.structure import Structure, example, parse_structure

__all__ = [
    "RULES",
    "AttentionPair",
    "Context",
    "FastScheme",
    "Properties",
    "Role",
    "Scheme",
    "Shape",
    "Side",
    "check_hooks",
    "check_reach",
    "global_seed",
    "load",
    "make",
    "names",
    "options",
    "planner",
    "reads_positions",
    "without_hooks",
]

__path__ = pkgutil.extend_path(__path__, __name__)  # folders ape_cli/position elsewhere on the path add files

if not TYPE_CHECKING:
    __getattr__ = renamed.attributes(__name__, {"Link": "AttentionPair"})


def names() -> list[str]:
    """The names of all schemes: of the files in `ape_cli/position/`, here and in folders on the Python path."""
    return plugins.names(sys.modules[__name__])


@cache
def load(name: str) -> type[Scheme]:
    """The class of a scheme. Raises `UsageError` for an unknown name, and `ApeError` if its file cannot be imported."""
    return plugins.load(sys.modules[__name__], name, Scheme)


def options(name: str) -> dict[str, Any]:
    """The options of a scheme and their defaults, without those common to all schemes.

    >>> from ape_cli import position
    >>> position.options("rope")
    {'base': 10000.0, 'learned': False, 'interleaved': True, 'partial': 1.0, 'scaling': None}
    """
    return part_options.options(load(name), skip=1)


def make(
    name: str,
    d_model: int = 512,
    heads: int = 8,
    structure: str | Structure | None = None,
    max_size: int = 100,
    decay: float | None = None,
    generator: torch.Generator | None = None,
    **settings: Any,
) -> Scheme:
    """Create a scheme by name.

    - `structure`: a structure or its expression; by default, the first that the scheme reads.
    - `max_size`: the largest size that a bounded scheme covers: a length, or the depth of a tree.
    - `decay`: the locality bias c. The default is 0.98 for orthogonal-* and 1 (none) for the others.
    - `generator`: for random initial weights; by default, PyTorch's global generator.
    - `settings`: the options of the scheme.

    Raises `UsageError` for invalid or incompatible arguments, and `ApeError` if the constructor of a user's own scheme
    fails.

    >>> from ape_cli import position
    >>> scheme = position.make("alibi", d_model=64, heads=4)
    >>> scheme.name, scheme.properties.relative, scheme.properties.parameters
    ('alibi', True, 0)
    """
    scheme = load(name)
    if d_model < 1 or heads < 1 or d_model % heads or (d_model // heads) % 2:
        got = f"d_model {d_model}, heads {heads}"
        raise UsageError("bad d_model and heads", got=got, allowed="d_model a multiple of 2 * heads")
    if max_size < 1:
        raise UsageError("bad max_size", got=max_size, allowed="1 or more")
    with user_parts.explained(scheme):
        patterns = scheme.structures
        algebra = example(patterns[0]) if structure is None else parse_structure(structure)
        fits = scheme.reads(algebra)
        rate = scheme.default_decay if decay is None else decay
    if not 0.0 < rate <= 1.0:
        raise UsageError("bad decay", got=rate, allowed="above 0, at most 1 (1 turns it off)")
    if not fits:
        what = f"{name} cannot read positions of this structure"
        raise UsageError(what, got=algebra.expression, allowed=", ".join(patterns), fix="see `ape schemes`")
    chosen = part_options.settings(name, settings, options(name))
    shape = Shape(d_model=d_model, heads=heads, structure=algebra, max_size=max_size, decay=rate, generator=generator)
    return constructed(scheme, name, shape, chosen)


def check_hooks(scheme: Scheme) -> None:
    """Apply the rules to a user's own scheme, once for each of its shapes and options.

    The weights of the scheme, and the state of the global generator, stay as they are. Raises `ApeError` for a hook
    that fails, or that breaks a rule.
    """
    user_parts.check_once(scheme, RULES, replace(scheme.shape, generator=None), scheme._made_with)


def without_hooks(scheme: type[Scheme]) -> ApeError | None:
    """The error for a scheme that overrides no hook, None for others.

    Schemes of ape itself, and schemes with a locality bias of their own, may override no hook.
    """
    hooks = ("embed", "rotate", "bias", "decay", "logits")
    if not plugins.is_user_class(scheme) or scheme.default_decay != 1.0 or any(map(scheme.overrides, hooks)):
        return None
    return ApeError(
        f"scheme {plugins.name_of(scheme)!r} overrides no hook, so it acts like `none`",
        got=f"class {scheme.__name__} ({user_parts.files(scheme)[0]})",
        allowed=", ".join(hooks),
        fix="write one of these methods",
    )
