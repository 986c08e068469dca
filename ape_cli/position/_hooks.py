"""Checks of schemes that are not part of ape: whether hooks are overridden, what they return, and where they fail.

The checks run once, when a model is built or measured, and on a few small positions. So they cost nothing in training.

Shapes: B rows, H heads, M queries, N keys, K channels of a head, D channels of the model, C coordinates.
"""

from __future__ import annotations

from typing import Any, get_args

import torch
from torch import Tensor, nn

from ape_cli.core import own_parts, plugins
from ape_cli.core.errors import ApeError, said
from ape_cli.position._context import Link
from ape_cli.position._scheme import Homomorphism, Scheme, Shape, unstored, values_lost
from ape_cli.structure import Cyclic, Structure, Tree

_HOOKS = ("embed", "rotate", "bias", "decay", "logits")
_B, _M, _N = 3, 5, 7  # numbers that other axes rarely have
_TOKENS = "return the tokens with the encoding in them, usually `x + p`"
_SAME = "return rotated queries or keys of the same shape"
_AXES = "keep all four axes; an axis that is the same for all rows or heads has the size 1"


def without_hooks(scheme: type[Scheme]) -> ApeError | None:
    """The error for a scheme that overrides no hook, None for others.

    Schemes of ape itself, and schemes with a locality bias of their own, may override no hook.
    """
    if not plugins.is_own(scheme) or scheme.default_decay != 1.0 or any(map(scheme.overrides, _HOOKS)):
        return None
    return ApeError(
        f"scheme {plugins.name_of(scheme)!r} overrides no hook, so it acts like `none`",
        got=f"class {scheme.__name__} ({own_parts.files(scheme)[0]})",
        allowed=", ".join(_HOOKS),
        fix="write one of these methods",
    )


def constructed(kind: type[Scheme], name: str, shape: Shape, options: dict[str, Any]) -> Scheme:
    """A scheme of this class and name. Raises `ApeError` if the constructor fails and is not that of ape itself."""
    what, call_first = f"scheme {name!r} cannot be made", "call super().__init__(shape) first in `__init__`"
    try:
        scheme = kind(shape, **options)
    except ApeError:
        raise
    except (Exception, SystemExit) as error:
        if not plugins.is_own(kind):
            raise
        missing = "before Module.__init__() call" in str(error) or "argument: 'shape'" in str(error)
        got = f"{said(error)}{own_parts.place(error, own_parts.files(kind))}"
        raise ApeError(what, got=got, fix=call_first if missing else "correct the file") from error
    if not isinstance(vars(scheme).get("shape"), Shape):
        raise ApeError(what, got=f"no `shape` after `__init__` ({own_parts.files(kind)[0]})", fix=call_first)
    for buffer, values in unstored(scheme).items():
        if values.is_meta:
            raise values_lost(scheme, buffer)
    scheme.name = name
    return scheme


def check_hooks(scheme: Scheme) -> None:
    """Call each hook on a few positions, with and without rows of their own, and check the shapes of the results.

    The weights of the scheme, and the state of the global generator, stay as they are. A scheme of ape itself is not
    checked. Raises `ApeError` for a hook that fails, or that returns another shape than the documentation says, and for
    an `embed` that returns the same for all tokens.
    """
    if not plugins.is_own(type(scheme)):
        return
    if scheme.homomorphism not in get_args(Homomorphism):
        allowed = '"orthogonal", "linear" or ""'
        what = f"scheme {scheme.name!r} claims an unknown kind of `homomorphism`"
        raise ApeError(what, got=repr(scheme.homomorphism), allowed=allowed, fix='`homomorphism = "orthogonal"`')
    generator = scheme.shape.generator
    before = None if generator is None else generator.get_state()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        module = _called(scheme, "layer", "decoder", 0)  # drawn for the check alone
        for rows in (_B, 1):
            _check(scheme, rows, module)
    if generator is not None and before is not None:
        generator.set_state(before)


def reads_positions(scheme: Scheme) -> bool:
    """Whether a scheme reads positions, apart from a locality bias.

    Scores of content may follow the order of the tokens alone. So they are computed at two sets of positions.
    """
    if any(map(scheme.overrides, ("embed", "rotate", "bias"))) or not scheme.overrides("logits"):
        return any(map(scheme.overrides, ("embed", "rotate", "bias")))
    shape, generator = scheme.shape, torch.Generator().manual_seed(1)
    q, k = torch.randn(2, 1, shape.heads, _M, shape.head_dim, generator=generator)
    x = torch.randn(1, _M, shape.d_model, generator=generator)
    key = scheme.attach("decoder", 0)
    with torch.no_grad(), own_parts.explained():
        content = scheme.layers[key](x) if key in scheme.layers else None
        at = (scheme.context(torch.tensor([places]), causal=True) for places in ([1, 2, 3, 4, 5], [2, 3, 7, 11, 13]))
        one, other = (scheme.logits(q, k, content, Link(here, here)) for here in at)
    return one is not None and other is not None and not torch.equal(one, other)


def check_reach(scheme: Scheme, greatest: int) -> None:
    """Check that a scheme takes a position along a line. Raises its `UsageError` if it does not."""
    width = scheme.structure.width
    scheme.context(torch.full((1, 1, width) if width > 1 else (1, 1), greatest))


def _check(scheme: Scheme, rows: int, module: nn.Module | None) -> None:
    """Check all hooks of a scheme on positions of `rows` rows: 1 if all rows have the same ones.

    `module`: of a layer, or None.
    """
    heads, width = scheme.shape.heads, scheme.shape.head_dim
    sizes = {"B": _B, "H": heads, "M": _M, "N": _N, "K": width, "D": heads * width}
    masked = torch.arange(_B * _N).view(_B, _N) > 0  # the first row has padding
    source = _called(scheme, "context", _positions(scheme, rows, _N), masked.flip(1))
    target = _called(scheme, "context", _positions(scheme, rows, _M), causal=True, beside=source)
    for at, letter, side in ((source, "N", "key"), (target, "M", "query")):
        numbers, vectors = torch.arange(_B * sizes[letter] * heads * width), torch.ones(_B, heads, sizes[letter], width)
        tokens = numbers.view(_B, sizes[letter], heads * width)
        one, other = (_called(scheme, "embed", kind, at) for kind in (tokens.sin(), tokens.cos()))
        _expect(scheme, "embed", one, f"B {letter} D", sizes, _TOKENS)
        if torch.equal(one, other):
            raise ApeError(
                f"the hook `embed` of scheme {scheme.name!r} discards the tokens",
                got=f"the same result for other tokens{own_parts.line_of(scheme, 'embed')}",
                fix=_TOKENS,
            )
        _expect(scheme, "rotate", _called(scheme, "rotate", vectors, at, side), f"B H {letter} K", sizes, _SAME)
    pairs = ((target, target),) if scheme.causal_only else ((source, source), (target, source), (target, target))
    for q_at, k_at in pairs:
        here = sizes | {"M": q_at.positions.shape[1], "N": k_at.positions.shape[1]}
        queries = torch.ones(_B, heads, here["M"], width)
        _expect(scheme, "bias", _called(scheme, "bias", queries, q_at, k_at), "B|1 H|1 M N", here, _AXES)
        _expect(scheme, "decay", _called(scheme, "decay", q_at, k_at), "B|1 1 M N", here, _AXES)
        keys = torch.ones(_B, heads, here["N"], width)
        content = _content(scheme, module, torch.ones(_B, here["N"], heads * width))
        scores = _called(scheme, "logits", queries, keys, content, Link(q_at, k_at))
        _expect(scheme, "logits", scores, "B H M N", here, _AXES)


def _called(scheme: Scheme, hook: str, *arguments: Any, **named: Any) -> Any:
    """What a hook returns. Raises `ApeError` for an exception in it, also if it takes other arguments."""
    try:
        return getattr(scheme, hook)(*arguments, **named)
    except (Exception, SystemExit) as error:
        raise own_parts.explanation(error, hook) or own_parts.failed(scheme, hook, error) from error


def _content(scheme: Scheme, module: nn.Module | None, tokens: Tensor) -> Any:
    """What the module of a layer returns for tokens [B, N, D]. Raises `ApeError` for an exception in it."""
    try:
        return None if module is None else module(tokens)
    except (Exception, SystemExit) as error:
        raise own_parts.failed(scheme, "layer", error) from error


def _expect(scheme: Scheme, hook: str, result: Any, expected: str, sizes: dict[str, int], fix: str) -> None:
    """Check the shape of what a hook returned: letters of `sizes`, or 1.

    Only `bias`, `decay` and `logits` may return None. Raises `ApeError` for another shape.
    """
    optional = hook in ("bias", "decay", "logits")
    if result is None and optional:
        return
    axes = [axis.split("|") for axis in expected.split()]
    each = [{sizes.get(letter, 1) for letter in axis} for axis in axes]
    got = list(result.shape) if isinstance(result, Tensor) else None
    if got and len(got) == len(each) and all(size in allowed for size, allowed in zip(got, each, strict=True)):
        return
    shown, here = ", ".join(" or ".join(axis) for axis in axes), ", ".join(str(max(allowed)) for allowed in each)
    raise ApeError(
        f"the hook `{hook}` of scheme {scheme.name!r} returns the wrong shape",
        got=f"{type(result).__name__ if got is None else got}{own_parts.line_of(scheme, hook)}",
        allowed=f"[{shown}]{' or None' if optional else ''}; here [{here}]",
        fix=fix,
    )


def _positions(scheme: Scheme, rows: int, count: int) -> Tensor:
    """Positions from SOS on, and in several rows also the last one that a bounded scheme is made for.

    -> int64 [B or 1, N] or [B or 1, N, C]
    """

    def one(simple: Structure) -> Tensor:
        """The coordinate of a simple factor. -> int64 [B or 1, N]"""
        at = torch.arange(count).repeat(rows, 1)
        most = scheme.shape.max_size if scheme.bounded else count - 1
        if isinstance(simple, Tree):
            most = simple.level_start(min(most if scheme.bounded else 2, simple.max_depth))
        if rows > 1:
            at[:, -1] = most
            at[-1] = at[-1].flip(0)
        at = at.clamp(max=most)
        return at % simple.order if isinstance(simple, Cyclic) else at

    axes = [one(simple) for simple in scheme.structure.simple]
    return axes[0] if len(axes) == 1 else torch.stack(axes, dim=-1)
