"""Mistakes in schemes that are not part of ape: each is named, with the scheme, the hook and the line."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ape_cli import position
from ape_cli.core import user_parts
from ape_cli.core.errors import ApeError
from ape_cli.evaluation import laws
from ape_cli.experiment import ExperimentSpec, resolution
from ape_cli.models import factory
from ape_cli.position import Context, FastScheme, Scheme, Shape
from ape_cli.structure import Seq


class Own(Scheme):
    """A scheme whose file, this one, is not part of ape."""

    unique = False

    def embed(self, x: Tensor, context: Context) -> Tensor:
        """Tokens and positions."""
        return x + context.positions[..., None]


class Table(Own):
    """Learns a vector for each of five positions."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.table = nn.Embedding(5, shape.d_model)

    def embed(self, x: Tensor, context: Context) -> Tensor:
        """Tokens and vectors."""
        return x + self.table(context.positions)


class NoSuper(Own):
    """Does not call the constructor of its base."""

    def __init__(self, shape: Shape) -> None:
        self.table = nn.Embedding(5, shape.d_model)


class Failing(Own):
    """A constructor that fails otherwise."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.scale = 1 / (shape.heads - shape.heads)


class Idle(Scheme):
    """No method at all."""


class Lost(Own):
    """Returns the positions without the tokens, which every model refuses."""

    def embed(self, x: Tensor, context: Context) -> Tensor:
        """Positions only."""
        return 0 * x + context.positions[..., None].sin()


def own(monkeypatch: pytest.MonkeyPatch, kind: type[Scheme], **given: Any) -> Scheme:
    """Makes a scheme of this class under the name `own`."""
    monkeypatch.setattr(position, "load", lambda name: kind)
    return position.make("own", d_model=8, heads=2, **given)


def changed(hook: str, wrong: Any) -> type[Scheme]:
    """Returns a scheme with another hook. The function is called as the method of this name."""
    return type("Changed", (Own,), {hook: wrong, "__module__": __name__})


def apart(a: Context, b: Context) -> Tensor:
    """Distances. [B or 1, M, N]"""
    return (a.positions[:, :, None] - b.positions[:, None]).abs().float()


@pytest.mark.parametrize(
    ("hook", "wrong", "got", "allowed"),
    [
        ("embed", lambda self, x, at: x[:1], "[1, 7, 8]", "[B, N, D]; here [3, 7, 8]"),
        ("rotate", lambda self, x, at, side: x.mT, "[3, 2, 4, 7]", "[B, H, N, K]; here [3, 2, 7, 4]"),
        ("bias", lambda self, q, a, b: apart(b, a)[:, None], "[3, 1, 7, 5]", "M, N] or None; here [3, 2, 5, 7]"),
        ("decay", lambda self, a, b: apart(a, b), "[3, 7, 7]", "[B or 1, 1, M, N] or None; here [3, 1, 7, 7]"),
    ],
)
def test_a_wrong_shape_is_named(monkeypatch: pytest.MonkeyPatch, hook: str, wrong: Any, got: str, allowed: str) -> None:
    with pytest.raises(ApeError) as caught:
        position.check_hooks(own(monkeypatch, changed(hook, wrong)))
    assert caught.value.what == f"the hook `{hook}` of scheme 'own' returns the wrong shape"
    assert str(caught.value.got).startswith(f"{got} ({__file__}, line ")
    assert str(caught.value.allowed).endswith(allowed)


def test_a_hook_that_fails_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    line = inspect.getsourcelines(Table.embed)[1] + 2
    with pytest.raises(ApeError) as caught:
        position.check_hooks(own(monkeypatch, Table))
    assert caught.value.what == "`embed` of scheme 'own' failed"
    assert caught.value.got == f"IndexError: index out of range in self ({__file__}, line {line})"
    with pytest.raises(ApeError, match=r"`bias` of scheme 'own' failed\n.*TypeError: .* takes 2 pos"):
        position.check_hooks(own(monkeypatch, changed("bias", lambda self, q: None)))
    with pytest.raises(ApeError, match=r"`prepare` of scheme 'own' failed\n.*AttributeError: "):
        position.check_hooks(own(monkeypatch, Preparing))


@pytest.mark.parametrize(("kind", "got"), [(NoSuper, "AttributeError: "), (Failing, "ZeroDivisionError: division")])
def test_a_constructor_that_fails_is_explained(monkeypatch: pytest.MonkeyPatch, kind: type[Scheme], got: str) -> None:
    with pytest.raises(ApeError, match="failed") as caught:
        own(monkeypatch, kind)
    assert str(caught.value.got).startswith(got)
    assert __file__ in str(caught.value.got)


class Preparing(FastScheme):
    """`prepare` fails."""

    def prepare(self, positions: Tensor, plan: Any, beside: Any) -> Any:
        """Nothing can be prepared."""
        return positions.nothing  # type: ignore[attr-defined]


def test_a_bounded_scheme_takes_the_size_that_it_is_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of five rows takes the positions up to 4, so also those of size 4, but not of size 5."""
    kind = type("Bounded", (Table,), {"bounded": True, "__module__": __name__})
    position.check_hooks(own(monkeypatch, kind, max_size=4))
    with pytest.raises(ApeError, match="`embed` of scheme 'own' failed"):
        position.check_hooks(own(monkeypatch, kind, max_size=5))


def test_a_scheme_without_hooks_is_named() -> None:
    idle = position.without_hooks(Idle)
    assert idle is not None
    assert idle.fix == "write one of these methods"
    biased = type("Biased", (Scheme,), {"default_decay": 0.9, "__module__": __name__})
    assert [position.without_hooks(kind) for kind in (Own, biased, position.load("none"))] == [None] * 3


@pytest.mark.parametrize(
    ("kind", "law", "trouble"),
    [
        (NoSuper, "import", "failed"),
        (Idle, "import", "overrides no hook"),
        (changed("embed", lambda self, x, at: x[:1]), "hooks", "returns the wrong shape"),
        (Lost, "hooks", "`embed` of scheme 'rope' discards the tokens"),
        (type("Absolute", (Own,), {"relative": True, "__module__": __name__}), "relative", ""),
    ],
)
def test_the_check_finds_each_mistake_once(
    monkeypatch: pytest.MonkeyPatch, kind: type[Scheme], law: str, trouble: str
) -> None:
    monkeypatch.setattr(position, "load", lambda name: kind)
    bad = [found for found in laws.check("rope") if not found.holds]
    assert [found.law for found in bad] == [law]
    assert trouble in (bad[0].trouble or "")


def test_a_model_checks_its_scheme(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    config = ExperimentSpec(preset="tiny", scheme="rope").config("sequence").model_copy(update={"decay": 1.0})
    monkeypatch.setattr(position, "load", lambda name: changed("embed", lambda self, x, at: x[:1]))
    with pytest.raises(ApeError, match="returns the wrong shape"):
        factory.build(config, Seq(), ids=9)
    monkeypatch.setattr(position, "load", lambda name: Idle)
    resolution._warn_if_idle.cache_clear()
    for _ in range(2):
        factory.build(config, Seq(), ids=9)
    assert [record.message.count("overrides no hook") for record in caplog.records] == [1]


def test_a_mistake_in_a_part_of_ape_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ape_cli.position.rope.Rope.rotate", lambda *_: 1 / 0)
    scheme = position.make("rope", 8, 2)
    position.check_hooks(scheme)  # it is not called
    context = scheme.context(torch.arange(4)[None])
    with pytest.raises(ZeroDivisionError), user_parts.explained():
        scheme.rotate(torch.ones(1, 2, 4, 4), context, "query")
