"""Looks: rows of a figure can be told apart in colour, in grey, and by colour-blind readers."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ape_cli import position
from ape_cli.reports import layout, palette
from tests import colours

RESULTS = Path(__file__).parents[2] / "results"
TABLES = sorted((RESULTS / "tables").glob("*.csv"))
LEAST, TOGETHER = 8.0, 10.0  # CIEDE2000, of any two schemes and of those that are often drawn together


def rows(table: Path) -> list[str]:
    """The rows of a committed table, by their names."""
    found = pl.read_csv(table, schema_overrides={"variant": pl.String}).select("scheme", "variant").unique()
    return [scheme + (f" ({variant})" if variant else "") for scheme, variant in found.rows()]


def near(names: Iterable[str], vision: str, least: float = LEAST, *, dark: bool = False) -> list[tuple[str, str]]:
    """The pairs of schemes whose colours differ less than `least`, on a white page or on a dark one."""
    own = {name: palette.looks([name])[name].colour for name in sorted(names)}
    seen = {name: colours.lab(palette.ON_DARK.get(x, x) if dark else x, vision) for name, x in own.items()}
    return [(a, b) for a, b in itertools.combinations(seen, 2) if colours.difference(seen[a], seen[b]) < least]


VIEWED = [*itertools.product(colours.VISIONS, (False, True))]  # a kind of vision, and whether the page is dark


def test_any_two_schemes_with_a_colour_of_their_own_differ_to_everyone() -> None:
    """A scheme that is not built in has a colour that is free in its figure."""
    builtin_schemes = set(palette.LOOKS)
    assert builtin_schemes == set(layout.SCHEMES) <= set(position.names())
    assert len(builtin_schemes) >= 14
    for vision, dark in VIEWED:
        assert near(builtin_schemes, vision, dark=dark) == []


def compared(fields: Any) -> Iterator[set[str]]:
    """The built-in schemes in each list of schemes of a sweep file."""
    if isinstance(fields, dict):
        yield set(fields.get("schemes", ())) & set(palette.LOOKS)
    for part in fields.values() if isinstance(fields, dict) else fields if isinstance(fields, list) else ():
        yield from compared(part)


def test_schemes_that_are_often_drawn_together_differ_more() -> None:
    """Those of each sweep of record, and the two biases by distance even more."""
    groups = [group for file in sorted(RESULTS.glob("*.toml")) for group in compared(tomllib.loads(file.read_text()))]
    assert any({"alibi", "t5"} <= group for group in groups)
    for vision, dark in VIEWED:
        assert [pair for group in groups for pair in near(group, vision, TOGETHER, dark=dark)] == []
        assert near({"alibi", "t5"}, vision, 20, dark=dark) == []


def test_colours_can_be_seen_on_white_and_on_dark() -> None:
    """WCAG 2 asks for a contrast of 3 of graphics. The darkest colours are replaced on a dark page."""
    for name in [*position.names(), *(f"x{i}" for i in range(40))]:
        colour = palette.looks([name])[name].colour
        assert colours.contrast(colour, "#ffffff") >= 3, name
        assert colours.contrast(palette.ON_DARK.get(colour, colour), "#14171a") >= 3.3, name
    assert palette.ON_DARK.keys() <= {colour for colour, _ in palette.LOOKS.values()}


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_rows_of_a_committed_table_differ_in_grey(table: Path) -> None:
    """No two rows have the same look. In grey they differ in lightness, or else in mark or dashes."""
    found = palette.looks(rows(table))
    assert len(set(found.values())) == len(found) > 1
    for one, other in itertools.combinations(found.values(), 2):
        grey = [colours.lab(look.colour)[0] for look in (one, other)]
        assert abs(grey[0] - grey[1]) >= 10 or (one.mark, one.dashes) != (other.mark, other.dashes)
    of_scheme = {(name.partition(" ")[0], look.mark) for name, look in found.items()}
    assert len(of_scheme) == len(found)  # where there is no room for dashes, the mark alone is enough


def test_a_figure_never_has_one_look_twice() -> None:
    """There are more variants than marks and dashes, and more unknown schemes than colours.

    One mark and one line style make a row's look.
    """
    names = [f"rope (decay={i})" for i in range(60)] + [f"x{i}" for i in range(60)]
    names += [f"x{i} (width=2)" for i in range(20)] + position.names() + [f"rope #{i}" for i in range(5)]
    found = palette.looks(names)
    assert set(found) == set(names)
    assert len({(look.mark, look.dashes) for look in found.values()}) == len(names)
    of_rope = [look for name, look in found.items() if name.startswith("rope")]
    assert len({look.mark for look in of_rope}) == len(of_rope)
    assert {look.colour for look in of_rope} == {palette.looks(["rope"])["rope"].colour}
    for name, look in found.items():
        assert (look.dashes == "-") == (" " not in name), name
    assert palette.looks(names[::-1]) == found
