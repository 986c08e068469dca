"""Figures as SVG elements of an HTML page, without what a page does not need.

matplotlib gives each part of a figure a group and an id, and repeats the style of a line at each of its points. Without
these, an element is a third as large and looks the same. Lengths are in points, and have one decimal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TAG = re.compile(r"<(/?)(\w+)([^>]*?)(/?)>\s*")
_POSITIONS = re.compile(r'(?<= )(?:d|x|y|transform)="[^"]*"')


def slim(svg: str, name: str) -> str:
    """An SVG element with only the ids that it refers to, numbered after `name`, and with few groups and decimals."""
    used = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    numbers = {each: f"{name}-{number}" for number, each in enumerate(used)}
    svg = re.sub(r' id="([^"]*)"', lambda found: f' id="{numbers[found[1]]}"' if found[1] in used else "", svg)
    svg = re.sub(r'(href="#|url\(#)([^")]+)', lambda found: found[1] + numbers[found[2]], svg)
    svg = re.sub(r"<g>\s*((?:<use [^>]*/>\s*)+)</g>", _share_class, svg)
    svg = _POSITIONS.sub(lambda found: re.sub(r"\d+\.\d+", _rounded, found[0]), svg)
    return "".join(_without_bare_groups(svg))


def _rounded(number: re.Match[str]) -> str:
    """A number with one decimal, or none if it is 0."""
    return f"{float(number[0]):.1f}".removesuffix(".0")


def _share_class(group: re.Match[str]) -> str:
    """A group of `use` elements with their class, if all of them have the same one."""
    classes = set(re.findall(r' class="([^"]*)"', group[1]))
    if len(classes) != 1 or group[1].count(" class=") != group[1].count("<use "):
        return group[0]
    return f'<g class="{classes.pop()}">' + re.sub(r' class="[^"]*"', "", group[1]) + "</g>"


def _without_bare_groups(svg: str) -> Iterator[str]:
    """The parts of an SVG element without the groups that have no attributes."""
    bare, end = list[bool](), 0  # of each open group, whether it has no attributes
    for tag in _TAG.finditer(svg):
        yield svg[end : tag.start()]
        end = tag.end()
        closes, element, attributes, is_empty = tag.groups()
        if element != "g":
            yield tag[0].rstrip()
        elif closes:
            yield "" if bare.pop() else "</g>"
        elif not is_empty:
            bare.append(not attributes)
            yield "" if bare[-1] else f"<g{attributes}>"
    yield svg[end:]
