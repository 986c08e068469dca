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

# L, a, b of two colours and their difference, from the supplementary test data of Sharma, Wu and Dalal 2005. The pairs
# cover the blue region, greys, hues on both sides of 0 degrees, large differences and small ones.
PUBLISHED = [
    ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
    ((50, 3.1571, -77.2803), (50, 0, -82.7485), 2.8615),
    ((50, 2.8361, -74.0200), (50, 0, -82.7485), 3.4412),
    ((50, 0, 0), (50, -1, 2), 2.3669),
    ((50, 2.4900, -0.0010), (50, -2.4900, 0.0009), 7.1792),
    ((50, 2.4900, -0.0010), (50, -2.4900, 0.0011), 7.2195),
    ((50, 2.5, 0), (50, 0, -2.5), 4.3065),
    ((50, 2.5, 0), (73, 25, -18), 27.1492),
    ((50, 2.5, 0), (61, -5, 29), 22.8977),
    ((50, 2.5, 0), (56, -27, -3), 31.9030),
    ((50, 2.5, 0), (58, 24, 15), 19.4535),
    ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
]


def rows(table: Path) -> list[str]:
    """The rows of a committed table, by their names."""
    found = pl.read_csv(table, schema_overrides={"variant": pl.String}).select("scheme", "variant").unique()
    return [scheme + (f" ({variant})" if variant else "") for scheme, variant in found.rows()]


def test_the_colour_difference_is_the_published_one() -> None:
    for one, other, expected in PUBLISHED:
        assert colours.difference(one, other) == pytest.approx(expected, abs=5e-5)
        assert colours.difference(other, one) == pytest.approx(expected, abs=5e-5)
        assert colours.difference(one, one) == 0


def test_colours_by_hand() -> None:
    """CIELAB of white, black and red in sRGB.

    Every kind of vision sees greys as they are. Red and green of equal lightness merge.
    """
    assert colours.lab("#ffffff") == pytest.approx((100, 0, 0), abs=1e-6)
    assert colours.lab("#000000") == (0, 0, 0)
    assert colours.lab("#ff0000") == pytest.approx((53.2, 80.1, 67.2), abs=0.05)
    for vision in colours.VISIONS:
        assert colours.lab("#777777", vision) == pytest.approx(colours.lab("#777777"), abs=1e-3)
    assert colours.contrast("#ffffff", "#000000") == colours.contrast("#000000", "#ffffff") == 21
    red, green = "#c05a5a", "#7f7f3c"
    normal, deuteranopia = (
        colours.difference(*(colours.lab(colour, vision) for colour in (red, green)))
        for vision in ("normal", "deuteranopia")
    )
    assert normal > 30
    assert deuteranopia < 10


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


def test_looks_stay_what_they_are() -> None:
    """Another process on another day gives the same looks, so that separate figures can be compared.

    By sha256sum, the digest of `somebody-s-own` begins with d0304180c4a2b99a = 13 * 1153966336929364629 + 9: the colour
    of place 9 (from 0, without `none`), and the odd one of two spare marks. That of `(window=2)` begins with
    8dda789b0d06aef7, which is 9 modulo 15 and whose sixteenth is 5 modulo 6: the mark 10 places after that of `rope`
    among 16, that of place 2, and the last dashes.
    """
    assert palette.looks(["somebody-s-own"])["somebody-s-own"] == ("#9b4702", palette._LYING, "-")
    found = palette.looks(["rope", "rope (decay=0.98)", "rope (window=2)"])
    assert found["rope"] == ("#2f94fe", "o", "-")
    assert found["rope (decay=0.98)"] == ("#2f94fe", palette.HOURGLASS, (0, (4, 1.5)))  # 14 places after `o`
    assert found["rope (window=2)"] == ("#2f94fe", ">", (0, (7, 1.5, 2.5, 1.5)))
