"""The rules for schemes, which are checked once for each user's own scheme when a model is built.

They call all hooks on a few small positions, so they cost nothing in training. `evaluation/laws` measures what a scheme
claims.

Shapes: B rows, H heads, M queries, N keys, K channels of a head, D channels of the model, C coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ape_cli.core import plugins, user_parts
from ape_cli.core.errors import ApeError
from ape_cli.position._context import AttentionPair
from ape_cli.position._scheme import Scheme, constructed
from ape_cli.structure import Cyclic, Structure, Tree

_B, _M, _N = 3, 5, 7  # numbers that other axes rarely have
_TOKENS = "return the tokens with the encoding in them, usually `x + p`"
_SAME = "return rotated queries or keys of the same shape"
_AXES = "keep all four axes; an axis that is the same for all rows or heads has the size 1"
_TYPE = "keep the dtype of what the hook is given: `p.to(x.dtype)`"


def reads_positions(scheme: Scheme) -> bool:
    """Whether a scheme reads positions, apart from a locality bias.

    Scores that depend on content may use only the order of the tokens. Such a class does not claim that positions are
    `unique`. The claim of the object is not used, because its initial weights may encode some positions alike.
    """
    reads = any(map(scheme.overrides, ("embed", "rotate", "bias")))
    return reads or (scheme.overrides("logits") and type(scheme).unique)


def check_reach(scheme: Scheme, greatest: int) -> None:
    """Check that a scheme takes a position along a line. Raises its `UsageError` if it does not."""
    width = scheme.structure.width
    scheme.context(torch.full((1, 1, width) if width > 1 else (1, 1), greatest))


# The rules ---------------------------------------------------------------------------------------


def hooks(scheme: Scheme) -> None:
    """Every hook can be called, and returns the documented shape and dtype."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        made = _again(scheme, 1)
        for rows in (_B, 1):
            for call in _calls(made, rows):
                _expect(made, call)
        embedded = [[c.result for c in _calls(made, _B, seed) if c.hook == "embed"] for seed in (1, 2)]
        changes = [(x - y).abs().amax(-1) for x, y in zip(*embedded, strict=True)]  # of the source, and of the target
        if float(torch.cat([changes[0][_mask()], changes[1].flatten()]).min()) < 1e-4:
            what = f"the hook `embed` of scheme {scheme.name!r} discards the tokens"
            got = f"the same result for other tokens, at some place{user_parts.line_of(scheme, 'embed')}"
            raise ApeError(what, got=got, fix=_TOKENS)


def repeatable(scheme: Scheme) -> None:
    """Hooks return the same when they are called again, also in a scheme that is loaded from its `state_dict`.

    The scheme has been trained before: what it keeps in training, such as statistics, is in place.
    """
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        trained = _again(scheme, 1)
        with torch.enable_grad():
            list(_calls(trained.train(), _B, learned=True))
        for parameter in trained.parameters():
            if parameter.requires_grad:
                parameter.add_(0.01 * torch.randn_like(parameter))
        loaded = _again(scheme, 2)
        loaded.load_state_dict(trained.state_dict())
        first, second, after = (list(_calls(made.eval(), _B)) for made in (trained, trained, loaded))
    fix = "draw no random numbers in it, and keep what it depends on as it is"
    _compare(scheme, first, second, "returns other values when it is called again", fix)
    fix = "keep all that it depends on in parameters and buffers (`register_buffer`), drawn from `shape.generator`"
    _compare(scheme, first, after, "returns other values after `state_dict` is loaded into a new scheme", fix)


def registered(scheme: Scheme) -> None:
    """Every tensor that is to be trained is a parameter of the scheme."""
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        for call in _calls(_again(scheme, 1).requires_grad_(False), _B):
            if isinstance(call.result, Tensor) and call.result.requires_grad:
                what = f"`{call.hook}` of scheme {scheme.name!r} uses a tensor that is not trained"
                got = f"a result with requires_grad, if no parameter has it{user_parts.line_of(scheme, call.hook)}"
                fix = "make the tensor an attribute (`nn.Parameter`), or keep several in `nn.ParameterList`"
                raise ApeError(what, got=got, allowed="parameters of the scheme", fix=fix)


RULES: dict[str, Callable[[Scheme], None]] = {"hooks": hooks, "registered": registered, "repeatable": repeatable}


# What they measure -------------------------------------------------------------------------------


class _Call(NamedTuple):
    """The result of a hook, and what it should be."""

    hook: str
    result: Any
    axes: str  # letters of `sizes`, or 1
    sizes: dict[str, int]
    fix: str


def _again(scheme: Scheme, seed: int) -> Scheme:
    """The same scheme, made anew with other random weights, from its file as it would be in a new process."""
    shape = replace(scheme.shape, generator=torch.Generator().manual_seed(seed))
    torch.manual_seed(seed)
    made = constructed(plugins.fresh(type(scheme)), scheme.name, shape, scheme._made_with)
    with user_parts.explained(scheme):
        made.attach("decoder", 0)
    return made


def _mask() -> Tensor:
    """Which places of the source are tokens: the first row has padding. -> bool [B, N]"""
    return (torch.arange(_B * _N).view(_B, _N) > 0).flip(1)


def _calls(scheme: Scheme, rows: int, seed: int = 1, *, learned: bool = False) -> Iterator[_Call]:
    """Call all hooks on positions of `rows` rows: 1 if all rows have the same ones.

    `seed`: of tokens and vectors. `learned`: whether these have gradients, as in training.
    """
    heads, width = scheme.shape.heads, scheme.shape.head_dim
    sizes = {"B": _B, "H": heads, "M": _M, "N": _N, "K": width, "D": heads * width}
    generator = torch.Generator().manual_seed(seed)

    def drawn(axes: str, sizes: dict[str, int] = sizes) -> Tensor:
        """Standard normal numbers. `axes`: letters of `sizes`"""
        return torch.randn([sizes[axis] for axis in axes], generator=generator, requires_grad=learned)

    source = _called(scheme, "context", _positions(scheme, rows, _N), _mask())
    target = _called(scheme, "context", _positions(scheme, rows, _M), None, True, source)
    for at, letter, side in ((source, "N", "key"), (target, "M", "query")):
        embedded = _called(scheme, "embed", drawn(f"B{letter}D"), at)
        yield _Call("embed", embedded, f"B {letter} D", sizes, _TOKENS)
        rotated = _called(scheme, "rotate", drawn(f"BH{letter}K"), at, side)
        yield _Call("rotate", rotated, f"B H {letter} K", sizes, _SAME)
    pairs = ((target, target),) if scheme.causal_only else ((source, source), (target, source), (target, target))
    for q_at, k_at in pairs:
        here = sizes | {"M": q_at.positions.shape[1], "N": k_at.positions.shape[1]}
        queries, keys, tokens = (drawn(axes, here) for axes in ("BHMK", "BHNK", "BND"))
        yield _Call("bias", _called(scheme, "bias", queries, q_at, k_at), "B|1 H|1 M N", here, _AXES)
        yield _Call("decay", _called(scheme, "decay", q_at, k_at), "B|1 1 M N", here, _AXES)
        key = scheme.attach("decoder", 0)
        try:
            content = scheme.content(key, tokens)
        except (Exception, SystemExit) as error:
            raise user_parts.failed(scheme, "layer", error) from error
        scores = _called(scheme, "logits", queries, keys, content, AttentionPair(q_at, k_at))
        yield _Call("logits", scores, "B H M N", here, _AXES)


def _called(scheme: Scheme, hook: str, *arguments: Any, **named: Any) -> Any:
    """What a hook returns. Raises `ApeError` for an exception in it, also if it takes the wrong arguments."""
    try:
        return getattr(scheme, hook)(*arguments, **named)
    except (Exception, SystemExit) as error:
        raise user_parts.explanation(error, hook) or user_parts.failed(scheme, hook, error) from error


def _expect(scheme: Scheme, call: _Call) -> None:
    """Check what a hook returned. Only `bias`, `decay` and `logits` may return None.

    The dtype of biases and decays does not matter, because attention converts them. Raises `ApeError`.
    """
    optional = call.hook in ("bias", "decay", "logits")
    if call.result is None and optional:
        return
    axes = [axis.split("|") for axis in call.axes.split()]
    sizes = [{call.sizes.get(letter, 1) for letter in axis} for axis in axes]
    got = list(call.result.shape) if isinstance(call.result, Tensor) else None
    fits = got and len(got) == len(sizes) and all(size in allowed for size, allowed in zip(got, sizes, strict=True))
    if fits and (call.hook in ("bias", "decay") or call.result.dtype == torch.float32):
        return
    shown, here = ", ".join(" or ".join(axis) for axis in axes), ", ".join(str(max(allowed)) for allowed in sizes)
    allowed = f"[{shown}]{' or None' if optional else ''}; here [{here}]"
    actual = call.result.dtype if fits else got or type(call.result).__name__
    raise ApeError(
        f"the hook `{call.hook}` of scheme {scheme.name!r} returns the wrong {'dtype' if fits else 'shape'}",
        got=f"{actual}{user_parts.line_of(scheme, call.hook)}",
        allowed="torch.float32 for inputs of torch.float32" if fits else allowed,
        fix=_TYPE if fits else call.fix,
    )


def _compare(scheme: Scheme, some: list[_Call], others: list[_Call], what: str, fix: str) -> None:
    """Check that hooks returned the same values, up to rounding. Raises `ApeError`."""
    for call, other in zip(some, others, strict=True):
        a, b = (torch.zeros(()) if c.result is None else c.result.double() for c in (call, other))
        if a.shape != b.shape or not torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
            apart = f"{float((a - b).abs().max()):.2g}" if a.shape == b.shape else "another shape"
            got = f"a difference of {apart}{user_parts.line_of(scheme, call.hook)}"
            raise ApeError(f"`{call.hook}` of scheme {scheme.name!r} {what}", got=got, fix=fix)


def _positions(scheme: Scheme, rows: int, count: int) -> Tensor:
    """Positions from SOS on, and in several rows also the last one that a bounded scheme is made for.

    -> int64 [B or 1, N] or [B or 1, N, C]
    """

    def coordinate(simple: Structure) -> Tensor:
        """The coordinate of a simple factor. -> int64 [B or 1, N]"""
        at = torch.arange(count).repeat(rows, 1)
        maximum = scheme.shape.max_size if scheme.bounded else count - 1
        if isinstance(simple, Tree):
            maximum = simple.level_start(min(maximum if scheme.bounded else 2, simple.max_depth))
        if rows > 1:
            at[:, -1] = maximum
            at[-1] = at[-1].flip(0)
        at = at.clamp(max=maximum)
        return at % simple.order if isinstance(simple, Cyclic) else at

    axes = [coordinate(simple) for simple in scheme.structure.simple]
    return axes[0] if len(axes) == 1 else torch.stack(axes, dim=-1)
