"""Mistakes in constructors of schemes that are not part of ape."""

from __future__ import annotations

import pytest

from ape_cli.core.errors import ApeError
from ape_cli.position import Scheme, Shape
from tests.position.test_hooks import NoSuper, Own, own


class NoShape(Own):
    """Calls it without the shape."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()  # type: ignore[call-arg]


class NoModules(Own):
    """Has nothing that torch would notice."""

    def __init__(self, shape: Shape) -> None:
        pass


class Failing(Own):
    """A constructor that fails otherwise."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.scale = 1 / (shape.heads - shape.heads)


@pytest.mark.parametrize("kind", [NoSuper, NoShape, NoModules])
def test_a_missing_constructor_of_the_base_is_explained(monkeypatch: pytest.MonkeyPatch, kind: type[Scheme]) -> None:
    with pytest.raises(ApeError, match="scheme 'own' cannot be made") as caught:
        own(monkeypatch, kind)
    assert caught.value.fix == "call super().__init__(shape) first in `__init__`"
    assert "tests/position/test_" in str(caught.value.got)


def test_another_error_of_a_constructor_is_named_without_that_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApeError, match="scheme 'own' cannot be made") as caught:
        own(monkeypatch, Failing)
    assert str(caught.value.got).startswith(f"ZeroDivisionError: division by zero ({__file__}, line ")
    assert caught.value.fix == "correct the file"
