"""Linearisations: the order in which the nodes of a tree are written as a line.

The source and the target of a dataset are each written in one of two orders: `breadth` (level order) or `depth`
(pre-order). If both sides have the same order, the linearisation has its name. Otherwise its name is
SOURCE-to-TARGET. So there are four: `breadth`, `depth`, `breadth-to-depth`, `depth-to-breadth`. Tables, folders and
runs use these names.
"""

from __future__ import annotations

from typing import Literal, get_args

from ape_cli.core.errors import UsageError, pick

Order = Literal["breadth", "depth"]
ORDERS: tuple[Order, ...] = get_args(Order)
_TO = "-to-"


def name(order: str | None, source_order: str | None = None) -> str | None:
    """The name of a linearisation, or None for data that has no order.

    `order` is the order of the target, and also of the source unless `source_order` is given.

    >>> name("depth"), name("depth", "depth"), name("depth", "breadth")
    ('depth', 'depth', 'breadth-to-depth')
    """
    return order if source_order in (None, order) else f"{source_order}{_TO}{order}"


NAMES: tuple[str, ...] = (
    *ORDERS,
    *(f"{source}{_TO}{target}" for source in ORDERS for target in ORDERS if source != target),
)


def checked(order: str | None, source_order: str | None) -> tuple[Order, Order | None]:
    """The orders of target and source that a user gave. The target's default is `breadth`.

    `order` may be the name of a linearisation. The second value is None if the source has the order of the target.
    Raises `UsageError` for an unknown order, or if the source has two.

    >>> checked(None, None), checked("depth", "depth"), checked("depth", "breadth"), checked("breadth-to-depth", None)
    (('breadth', None), ('depth', None), ('depth', 'breadth'), ('depth', 'breadth'))
    """
    target, named = parse("breadth" if order is None else order)
    assert target, "`parse` returns None only for None"
    source = pick("source order", named or target if source_order is None else source_order, ORDERS)
    if named not in (None, source):
        got = f"`order={order}` and `source_order={source_order}`"
        raise UsageError("two orders for the source", got=got, fix="leave `source_order` out")
    return target, None if source == target else source


def parse(text: str | None) -> tuple[Order | None, Order | None]:
    """The inverse of `name`: the target's order, and the source's order if it is a different one.

    Raises `UsageError` if the text is not the name of a linearisation.

    >>> parse("depth"), parse("breadth-to-depth"), parse(None)
    (('depth', None), ('depth', 'breadth'), (None, None))
    """
    if text is None:
        return None, None
    source, _, target = pick("order", text, NAMES).rpartition(_TO)
    return pick("order", target, ORDERS), pick("order", source, ORDERS) if source else None
