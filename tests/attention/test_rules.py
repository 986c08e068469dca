"""Kinds of attention that leave something out, or do it in the wrong place: each breaks a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import attention
from ape_cli.attention import AttentionContext, AttentionType, _kind
from ape_cli.core import user_parts
from ape_cli.core.errors import ApeError
from ape_cli.evaluation import laws
from ape_cli.position import Scheme


class Plain(AttentionType):
    """The dot product, written out. Each method is a step that a test replaces."""

    refuses_content = ""

    def attend(
        self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float
    ) -> Tensor:
        """The mean of values. [B, H, M or N, K] -> [B, H, M, K]"""
        scores = self.hidden(self.scores(scheme, q, k, context), context)
        weights = self.dropped(scores.softmax(-1), dropout)
        return self.ended(weights.to(v.dtype) @ v, context)

    def scores(self, scheme: Scheme, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
        return attention.scores_of(scheme, q, k, context)

    def hidden(self, scores: Tensor, context: AttentionContext) -> Tensor:
        mask = context.filled.mask
        return scores if mask is None else scores.masked_fill(~mask, float("-inf"))

    def dropped(self, weights: Tensor, dropout: float) -> Tensor:
        return torch.nn.functional.dropout(weights, dropout)

    def ended(self, found: Tensor, context: AttentionContext) -> Tensor:
        return context.zero_empty(found)


def without(term: str) -> Callable[..., Tensor]:
    """Scores that leave out a term of the scheme."""

    def scores(self: Plain, scheme: Scheme, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
        plain = None if term == "own scores" else scheme.logits(q, k, context.content, context)
        if plain is None:
            plain = attention.scaled(*((q, k) if term == "operators" else attention.rotated(scheme, q, k, context)))
        plain = plain if term == "decay" or context.decay is None else plain * context.decay
        bias = None if term == "bias" else scheme.bias(q, context.q_context, context.k_context)
        return plain if bias is None else plain + bias

    return scores


def over_the_batch(self: Plain, scheme: Scheme, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
    scores = attention.scores_of(scheme, q, k, context)
    return scores / scores.detach().abs().mean()


def only_in_the_encoder(wrong: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A step that is right in an encoder, and wrong in a decoder, as of a fused kernel for causal attention."""

    def scores(self: Plain, scheme: Scheme, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
        return wrong(self, scheme, q, k, context) if context.causal else Plain.scores(self, scheme, q, k, context)

    return scores


def unseeded(self: Any) -> None:
    generator = torch.Generator()
    generator.seed()
    self.scale = 1 + torch.rand((), generator=generator)


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("terms", {"scores": without("bias")}),
    ("terms", {"scores": without("decay")}),
    ("terms", {"scores": without("own scores")}),
    ("terms", {"scores": without("operators")}),
    ("other tokens", {"scores": over_the_batch}),
    ("hidden keys", {"hidden": lambda self, scores, context: scores}),
    ("hidden keys", {"hidden": lambda self, scores, context: scores if context.causal else right(scores, context)}),
    ("dropout", {"dropped": lambda self, weights, dropout: weights}),
    ("dropout", {"dropped": lambda self, weights, dropout: torch.nn.functional.dropout(weights, 0.1)}),
    ("hidden keys", {"ended": lambda self, found, context: found}),
    ("result", {"ended": lambda self, found, context: None}),
    ("result", {"ended": lambda self, found, context: found.transpose(1, 2)}),
    ("gradients", {"ended": lambda self, found, context: context.zero_empty(found.detach())}),
    ("terms", {"takes_basis": True, "scores": lambda self, s, q, k, at: framed_twice(s, q, k, at)}),
    ("result", {"scores": lambda self, scheme, q, k, context: 1 / 0}),
    ("terms", {"scores": only_in_the_encoder(without("bias"))}),
    ("terms", {"scores": only_in_the_encoder(without("decay"))}),
    ("constant", {"__init__": lambda self: setattr(self, "t", torch.nn.Parameter(torch.ones(())))}),
    ("constant", {"__init__": unseeded, "ended": lambda self, found, at: at.zero_empty(found * self.scale)}),
]


def right(scores: Tensor, context: AttentionContext) -> Tensor:
    return Plain().hidden(scores, context)


def framed_twice(scheme: Scheme, q: Tensor, k: Tensor, context: AttentionContext) -> Tensor:
    """`rotate` takes vectors into the frame, and so did the projections."""
    if scheme.overrides("logits"):
        return attention.scores_of(scheme, q, k, context)
    turned = (scheme.rotate(q, context.q_context, "query"), scheme.rotate(k, context.k_context, "key"))
    return attention.adjusted(attention.scaled(*turned), scheme.bias(q, context.q_context, context.k_context), context)


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], AttentionType]:
    """A kind called `mine`, with other methods."""

    def make(changes: dict[str, Any]) -> AttentionType:
        found: Any = type("Changed", (Plain,), changes | {"__module__": __name__})
        load = attention.load
        for module in (attention, _kind):
            monkeypatch.setattr(module, "load", lambda name: found if name == "mine" else load(name))
            monkeypatch.setattr(module, "names", lambda: ["dot", "mine"])
        return attention.make("mine")

    return make


def test_a_kind_that_is_right_keeps_all_rules(kind: Callable[[dict[str, Any]], AttentionType]) -> None:
    user_parts.check_once(kind({}), attention.RULES)
    assert all(found.holds for found in laws.check("mine"))


@pytest.mark.parametrize(("rule", "changes"), WRONG, ids=[f"{i}-{rule}" for i, (rule, _) in enumerate(WRONG)])
def test_each_rule_finds_what_breaks_it(
    kind: Callable[[dict[str, Any]], AttentionType], rule: str, changes: dict[str, Any]
) -> None:
    made = kind(changes)
    with pytest.raises(ApeError):
        user_parts.check_once(made, attention.RULES)
    assert rule in {found.law for found in laws.check("mine") if not found.holds}
