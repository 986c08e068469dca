"""Write the generated pages and pictures of the documentation: `make docs` runs `python -m tools.pages`.

They are committed, so that they can be read without building anything. `tests/test_docs.py` compares the text with the
code, and `tests/nightly/` compares the pictures. Three tables of `docs/explanation/` are written by hand; only the rows
of new parts are added here, and those of deleted parts are removed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from ape_cli import position, tasks
from ape_cli.storage import files
from tools import algebra, gallery, part_pages, reference, report_pictures

ROOT = Path(__file__).parents[1]
NAVIGATION = ROOT / "zensical.toml"


def texts() -> dict[Path, str]:
    """Every file of text that is generated, or that has a generated part."""
    made = {reference.PAGES_OF / name: text for name, text in reference.pages().items()}
    made[gallery.PAGE] = gallery.page()
    for name, rows in part_pages.rows().items():
        path = ROOT / "docs" / "explanation" / f"{name}.md"
        made[path] = completed(path.read_text("utf-8"), rows)
    made[algebra.PAGE] = algebra.page()
    made[NAVIGATION] = navigation(NAVIGATION.read_text("utf-8"))
    return made


def completed(page: str, rows: dict[str, str]) -> str:
    """A page whose first table has a row for every part. `rows`: what is added for a part without one.

    >>> completed("\\n| part |\\n|---|\\n| `a`: by hand |\\n| `gone` |\\n\\nText.", {"a": "| `a` |", "b": "| `b` |"})
    '\\n| part |\\n|---|\\n| `a`: by hand |\\n| `b` |\\n\\nText.'
    """
    begin = page.index("\n| ") + 1
    table, *rest = page[begin:].split("\n\n", 1)
    lines = table.split("\n")
    named = {line: set(re.findall(r"`([^`]+)`", line.split("|")[1])) for line in lines[2:]}
    kept = [line for line, names in named.items() if names & rows.keys()]
    added = [row for name, row in rows.items() if not any(name in names for names in named.values())]
    return page[:begin] + "\n\n".join(["\n".join([*lines[:2], *kept, *added]), *rest])


def navigation(text: str) -> str:
    """The settings of the site, with the page of every task and scheme in its menu."""
    for folder, names in (("tasks", tasks.names()), ("schemes", position.names())):
        entry = rf'{{ "[\w-]+" = "reference/{folder}/[\w-]+\.md" }},\n'
        entries = "".join(rf'\1{{ "{name}" = "reference/{folder}/{name}.md" }},' + "\n" for name in names)
        text = re.sub(rf"(?:( *){entry})+", entries, text)
    return text


def obsolete(made: dict[Path, str]) -> Iterator[Path]:
    """Pages and pictures of parts that no longer exist."""
    yield from set(reference.PAGES_OF.glob("*/*.md")) - made.keys()
    yield from (path for path in gallery.FOLDER.iterdir() if path.stem not in gallery.pictures())


def outdated() -> list[str]:
    """The files whose text does not follow from the code, and missing or obsolete pages and pictures."""
    made = texts()
    paths = [path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    pictures = (gallery.FOLDER / f"{name}.svg" for name in gallery.pictures())
    paths += [*obsolete(made), *(path for path in pictures if not path.exists())]
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def main() -> None:
    """Write all files, and delete obsolete ones."""
    argparse.ArgumentParser(prog="python -m tools.pages", description=__doc__).parse_args()
    made = texts()
    for path, text in made.items():
        files.write_text(path, text)
    for path in obsolete(made):
        path.unlink()
    for name in gallery.pictures():
        files.write_bytes(gallery.FOLDER / f"{name}.svg", gallery.draw(name))
    files.write_bytes(algebra.FIGURE, algebra.draw())
    report_pictures.main()


if __name__ == "__main__":
    main()
