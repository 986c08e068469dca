"""The gallery: `docs/explanation/gallery.md`, and a picture of every scheme in `docs/explanation/gallery/`.

The content of a picture depends on the versions of matplotlib and Pillow, which `constraints.txt` therefore pins.
"""

from __future__ import annotations

from pathlib import Path

from ape_cli import position
from ape_cli.cli.draw import Places, SchemeOptions, of_scheme
from ape_cli.reports.pictures import load
from ape_cli.reports.pictures._figure import figure
from ape_cli.reports.pictures._places import sizes_of
from ape_cli.reports.plots import encode
from ape_cli.structure import parse_structure

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "gallery.md"
FOLDER = PAGE.with_suffix("")
VIEW = "overview"
SIZES = {"length": 24, "depth": 3, "side": 5}  # small, so that the files are small
STRUCTURES = {"orthogonal": "seq*tree(2)"}  # where the scheme's own structure is that of another scheme
SETTINGS = dict.fromkeys(("orthogonal-grid", "orthogonal-seq", "orthogonal-tree"), "init=rope")  # a second picture
TEXT = """# Gallery of all schemes

<!-- Written by tools/gallery.py. Do not edit. -->

Each picture shows what a scheme alone contributes to attention, without training. The curve is the mean score by
offset, and the band is the range over heads. In the heat map, rows are queries and columns are keys. For trees and
grids, one query is marked with a thick circle, and every other node shows its score as a key. White means a score of 0
(black on a dark page). Click a picture to open it.

A score is a *share of the content's logit* for schemes that multiply queries and keys, and a number *added to the
logit* for the others. [Draw an encoding](../guides/draw.md#what-a-score-is) defines both. Schemes with weights are
shown at initialisation. `learned`, `relative`, `t5` and `transformer-xl` start from random numbers, so their pictures
show no pattern before training; `ape draw --run RUN --view training` shows a run of yours before and after.

`shear` and `xpos` act only in causal attention, so later keys have no score. These schemes have no picture, because
their scores depend on the content of tokens: {without}.
"""


def drawable() -> list[str]:
    """The schemes that give a score to two places alone, which a picture can show."""
    return [name for name in position.names() if not position.load(name).overrides("logits")]


def structure_of(name: str) -> tuple[str | None, dict[str, int]]:
    """The structure that a scheme is drawn on, or None for its own, and the sizes of the picture."""
    chosen = STRUCTURES.get(name)
    read = parse_structure(chosen) if chosen else position.make(name).structure
    return chosen, {} if chosen else {size: SIZES[size] for size in sizes_of(read)}


def pictures() -> dict[str, tuple[str, str | None]]:
    """The scheme and the setting of each picture, by the name of its file."""
    by_file: dict[str, tuple[str, str | None]] = {}
    for name in drawable():
        by_file[name] = name, None
        if setting := SETTINGS.get(name):
            by_file[f"{name}-{setting.replace('=', '-')}"] = name, setting
    return by_file


def draw(picture: str) -> bytes:
    """The content of a picture's file."""
    name, setting = pictures()[picture]
    structure, sizes = structure_of(name)
    options = SchemeOptions(structure=structure, settings=[setting] if setting else None)
    material = of_scheme(name, options, Places(**sizes))
    return encode(figure(material.title, load(VIEW).panels(material)), "svg")


def page() -> str:
    """The text of the page, with the command of each picture."""
    without = (f"`{name}`" for name in position.names() if name not in drawable())
    parts = [TEXT.format(without=", ".join(without))]
    for file, (name, setting) in pictures().items():
        structure, sizes = structure_of(name)
        command = ["ape draw", name, *([f"--structure '{structure}'"] if structure else [])]
        command += [f"--set {setting}"] if setting else []
        command += [f"--view {VIEW}", *(f"--{size} {value}" for size, value in sizes.items()), f"--out {file}.svg"]
        about = (position.load(name).__doc__ or "").strip().splitlines()[0]
        title = f"{name} ({setting})" if setting else name
        picture = f"[![Scores of {title}](gallery/{file}.svg)](gallery/{file}.svg)"
        parts.append(f"## {title}\n\n{about}\n\n{picture}\n\n```text\n{' '.join(command)}\n```\n")
    return "\n".join(parts)
