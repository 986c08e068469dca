"""The rules for kinds of attention, which are checked once for each user's own kind when a model is built.

They compare results on a few small inputs. `evaluation/laws` measures what a kind claims, and its behaviour in a model.

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ape_cli import position
from ape_cli.attention._kind import AttentionContext, AttentionType
from ape_cli.core import plugins, user_parts
from ape_cli.core.errors import ApeError
from ape_cli.position import FastScheme, Scheme

_B, _H, _M, _N, _K = 2, 3, 6, 9, 4
_LEAST = 1e-4  # the smallest difference that counts as an effect
_LINE = "`attention.scores_of(scheme, q, k, context)` has all terms"
# of a scheme: what it is, the name and the locality bias of a scheme that has it, why a kind may leave it out, a fix
_TERMS = (
    ("the operators", "rope", 1.0, "", "rotate queries and keys: `attention.rotated`"),
    ("the bias", "alibi", 1.0, "refuses_bias", "add `scheme.bias(q, …)` to the scores"),
    ("the locality bias", "none", 0.5, "refuses_decay", "multiply the scores by `context.decay`"),
    ("the scores", "forget", 1.0, "refuses_content", "take `scheme.logits`"),
)


def result(attention_type: AttentionType) -> None:
    """The result has the shape of the queries and the dtype of the values, and is finite."""
    for dtype in (torch.float32, torch.bfloat16):
        scheme = _scheme("none")
        q, k, v = (x.to(dtype) for x in _vectors())
        output = attention_type.attend(scheme, q, k, v, _context(scheme), 0.0)
        if not isinstance(output, Tensor) or output.shape != q.shape or output.dtype != dtype:
            got = f"{list(output.shape)}, {output.dtype}" if isinstance(output, Tensor) else output
            raise user_parts.returns(attention_type, "attend", got, f"[B, H, M, K]; here {list(q.shape)}, {dtype}")
        if not output.isfinite().all():
            raise user_parts.returns(attention_type, "attend", "numbers that are not finite", "finite numbers")


def hidden_keys(attention_type: AttentionType) -> None:
    """Padding has no effect, nor have later keys in a decoder. A query that may attend to no key gets 0.

    A kind that `mixes_queries` does not act in a decoder.
    """
    mask = torch.ones(_B, _N, dtype=torch.bool)
    mask[0, 5:], mask[1] = False, False
    scheme, (q, k, v) = _scheme("none"), _vectors()
    context, hidden = _context(scheme, mask=mask), ~mask[:, None, :, None]
    result = attention_type.attend(scheme, q, k, v, context, 0.0)
    fix = "apply `context.filled.mask`, and `context.zero_empty` to the result; `attention.average` does both"
    if not result[1].eq(0.0).all():
        raise _broken(attention_type, "does not return 0 for a query that may attend to no key", fix)
    if not _near(result, attention_type.attend(scheme, q, k + 3 * hidden, v - 3 * hidden, context, 0.0)):
        raise _broken(attention_type, "attends to keys that `context.mask` hides", fix)
    if not attention_type.mixes_queries:
        (q, k, v), context, later = _vectors(_N), _context(scheme, _N, causal=True), torch.arange(_N)[:, None] > 4
        results = (
            attention_type.attend(scheme, q, k + x * later, v - x * later, context, 0.0)[:, :, :5] for x in (0, 3)
        )
        if not _near(*results):
            raise _broken(attention_type, "attends to later keys in a decoder", "apply `context.mask`")


def other_tokens(attention_type: AttentionType) -> None:
    """The result of a query does not depend on other rows, nor on other queries unless the kind `mixes_queries`."""
    scheme, (q, k, v) = _scheme("none"), _vectors()
    context = _context(scheme)
    output = attention_type.attend(scheme, q, k, v, context, 0.0)
    rows = torch.tensor([1.0, 3.0])[:, None, None, None]
    row = attention_type.attend(scheme, rows * q, rows * k, rows * v, context, 0.0)
    if not _near(output[:1], row[:1]):
        raise _broken(attention_type, "gives a row another result if other rows change", "compute each row on its own")
    query = attention_type.attend(scheme, q + 3 * (torch.arange(_M) > 2)[:, None], k, v, context, 0.0)
    if not attention_type.mixes_queries and not _near(output[:, :, :3], query[:, :, :3]):
        what = "gives a query another result if other queries change"
        raise _broken(attention_type, what, "set `mixes_queries = True`")


def terms(attention_type: AttentionType) -> None:
    """All that a scheme defines has an effect, except what the kind refuses. The basis of a scheme has none."""
    for what, name, rate, refused, fix in _TERMS:
        if not (refused and getattr(attention_type, refused)):
            reason = f" ({_LINE}), or give the reason in `{refused}`" if refused else ""
            _check_effect(attention_type, what, name, fix + reason, rate)
    scheme, (q, k, v) = _scheme("orthogonal-seq"), _vectors()
    context = _context(scheme)
    assert isinstance(scheme, FastScheme)
    basis = scheme.basis(context.q_context)
    if attention_type.takes_basis and basis is not None:
        within = attention_type.attend(scheme, q @ basis, k @ basis, v, context.in_basis, 0.0)
        if not _near(within, attention_type.attend(scheme, q, k, v, context, 0.0)):
            fix = "rotate with `attention.rotated(scheme, q, k, context)`, or set `takes_basis = False`"
            raise _broken(attention_type, "gives another result in the basis of a scheme", fix)


def dropout(attention_type: AttentionType) -> None:
    """Dropout has an effect if there is any, and only then, or `lacks` has "dropout"."""
    scheme, (q, k, v) = _scheme("none"), _vectors()
    rates = (0.0, 0.0, 0.5, 0.5)
    same, again, dropped, dropped_again = (
        attention_type.attend(scheme, q, k, v, _context(scheme), rate) for rate in rates
    )
    if not torch.equal(same, again):
        raise _broken(attention_type, "gives other results when called again without dropout", "draw no random numbers")
    if "dropout" not in attention_type.lacks and (_near(dropped, same) or _near(dropped, dropped_again)):
        fix = 'drop weights (`attention.average`), or set `lacks = ("dropout",)`'
        raise _broken(attention_type, "applies no dropout", fix)


def gradients(attention_type: AttentionType) -> None:
    """Values, queries and keys get a gradient, the last two unless `lacks` has "gradient"."""
    scheme, (q, k, v) = _scheme("none"), (x.requires_grad_() for x in _vectors())
    with torch.enable_grad():
        (attention_type.attend(scheme, q, k, v, _context(scheme), 0.0) ** 2).sum().backward()
    for name, x in (("queries", q), ("keys", k), ("values", v)):
        if name != "values" and "gradient" in attention_type.lacks:
            continue
        if x.grad is None or not x.grad.isfinite().all() or not x.grad.any():
            fix = "keep them in the graph" + ', or set `lacks = ("gradient",)`' * (name != "values")
            raise _broken(attention_type, f"gives the {name} no gradient", fix)


def constant(attention_type: AttentionType) -> None:
    """It has no parameters, and made twice with the same options and seed, it gives the same results."""
    if isinstance(attention_type, nn.Module) or any(
        isinstance(x, nn.Module | nn.Parameter) for x in vars(attention_type).values()
    ):
        what = "has parameters or modules, which would neither be trained nor stored"
        raise _broken(attention_type, what, "let a scheme hold them (`Scheme.layer`, and `context.content`)")
    scheme, (q, k, v), results = _scheme("rope"), _vectors(), []
    for _ in range(2):
        torch.manual_seed(3)
        made = plugins.fresh(type(attention_type))(**vars(attention_type).get("_made_with", {}))
        results.append(made.attend(scheme, q, k, v, _context(scheme), 0.0))
    if not _near(*results):
        raise _broken(attention_type, "gives other results when made again", "draw from torch's global generator alone")


RULES: dict[str, Callable[[AttentionType], None]] = {
    "result": result,
    "hidden keys": hidden_keys,
    "other tokens": other_tokens,
    "terms": terms,
    "dropout": dropout,
    "gradients": gradients,
    "constant": constant,
}


def _scheme(name: str, decay: float = 1.0) -> Scheme:
    """A small scheme."""
    scheme = position.make(name, _H * _K, _H, decay=decay, generator=torch.Generator().manual_seed(1))
    scheme.attach("decoder", 0)
    return scheme


def _vectors(queries: int = _M) -> list[Tensor]:
    """Queries, keys and values. -> [B, H, M, K], [B, H, N, K], [B, H, N, K]"""
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(_B, _H, count, _K, generator=generator) for count in (queries, _N, _N)]


def _context(
    scheme: Scheme, queries: int = _M, *, causal: bool = False, mask: Tensor | None = None
) -> AttentionContext:
    """Who attends to whom: all to all, or each to those before it. mask: bool [B, N]"""
    q_context = scheme.context(torch.arange(1, queries + 1)[None], causal=causal)
    return AttentionContext.of(scheme, q_context, scheme.context(torch.arange(1, _N + 1)[None], mask, causal=causal))


def _check_effect(attention_type: AttentionType, what: str, name: str, fix: str, decay: float) -> None:
    """Check that a scheme changes the result of `none` wherever it acts. Raises `ApeError` if it does not.

    `what` of the scheme makes the difference. It acts in the encoder and between decoder and encoder, with and without
    padding, and in the decoder.
    """
    scheme, none = _scheme(name, decay), _scheme("none")
    hidden = (torch.arange(_N) < 7).expand(_B, _N)
    for causal, mask in ((False, None), (False, hidden), (True, None), (True, hidden)):
        if (scheme.causal_only and not causal) or (causal and attention_type.mixes_queries):
            continue
        (q, k, v), results = _vectors(_N if causal else _M), []
        for used in (scheme, none):
            context = _context(used, q.shape[2], causal=causal, mask=mask)
            content = used.content("decoder_0", torch.ones(_B, _N, _H * _K))
            context = context if content is None else context.with_content(content)
            results.append(attention_type.attend(used, q, k, v, context, 0.0))
        if not float((results[0] - results[1]).detach().abs().max()) >= _LEAST:
            where = f"{' in a decoder' * causal}{' with padding' * (mask is not None)}"
            raise _broken(attention_type, f"leaves out {what} of the scheme{where}", fix)


def _near(x: Tensor, y: Tensor) -> bool:
    """Whether two results are the same up to rounding."""
    return torch.allclose(x, y, rtol=1e-4, atol=1e-5)


def _broken(attention_type: AttentionType, what: str, fix: str) -> ApeError:
    """The error for a kind that breaks a rule."""
    return ApeError(
        f"attention {attention_type.name!r} {what}",
        got=user_parts.line_of(attention_type, "attend").strip(" ()"),
        fix=fix,
    )
