"""The reference pages of parts that are one file each: tasks, schemes, kinds of attention and maps of positions."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from ape_cli import attention, position, tasks
from ape_cli.cli.options import flag
from ape_cli.data import position_maps
from ape_cli.tasks._grids import Grids
from ape_cli.tasks._trees import Trees
from ape_cli.tasks._words import Words
from tools import gallery
from tools.markdown_text import code, option_table, page, prose, row, table

_BASES = (Words, Trees, Grids)  # their files say how sources are drawn
OF_TASKS = """
A task generates the sources and the targets of a dataset: `ape gen TASK`. Each task is a single file in
`ape_cli/tasks/`. [Tasks compared](../explanation/tasks.md) explains what they test and how hard they are.
"""
OF_SCHEMES = """
A scheme encodes positions: `ape train --scheme NAME`. Each scheme is a single file in `ape_cli/position/`.
[Schemes compared](../explanation/schemes.md) says how they differ, `ape schemes` lists them in a terminal, and the
[gallery](../explanation/gallery.md) shows their scores.
"""


def tasks_pages() -> dict[str, str]:
    """A page for each task, and a table of all."""
    pages, rows = {}, []
    for name in tasks.names():
        task, made = tasks.load(name), tasks.make(name)
        pages[f"tasks/{name}.md"] = _task(name)
        rows.append([f"[`{name}`](tasks/{name}.md)", task.summary, f"`{made.structure}`", made.source])
    listed = table(["task", "target", "structure", "source"], rows)
    return {"tasks.md": page("Tasks", OF_TASKS, listed)} | pages


def _task(name: str) -> str:
    """The page of a task: what it asks, an example, its options, and its background."""
    task, made = tasks.load(name), tasks.make(name)
    imported = f"```pycon\n>>> from {task.__module__} import {task.__name__}\n"
    summary, *rest = prose(task.__doc__).replace("```pycon\n", imported, 1).split("\n\n")
    facts = {"Positions": f"`{made.structure}`", "Target": task.summary, "Source": made.source}
    facts |= {"Node orders": "`--order` and `--source-order`, each `breadth` or `depth`"} if task.ordered else {}
    rows = [[f"`{flag(option.name)}`", code(option.default), option.help] for option in tasks.options_of(task).values()]
    parts = [summary, _listed(facts), *(part for part in rest if not part.startswith("Raises "))]
    parts += ["## Options", f"```text\nape gen {name} [OPTIONS]\n```", table(["option", "default", "meaning"], rows)]
    background = [part for part in _background(task) if not part.startswith("Shapes:")]
    return page(name, *parts, *(["## Background", *background] if background else []))


def _background(task: type[tasks.BaseTask]) -> list[str]:
    """What the files of a task and of its base classes say, and the files that these name in backquotes."""
    files = [task.__module__, *(base.__module__ for base in _BASES if issubclass(task, base))]
    named = re.findall(r"`(_\w+)\.py`", f"{task.__doc__} {sys.modules[task.__module__].__doc__}")
    files += [f"ape_cli.tasks.{name}" for name in named]
    return [paragraph for file in dict.fromkeys(files) for paragraph in _paragraphs(file)]


def _paragraphs(file: str) -> list[str]:
    """The paragraphs of the docstring of a module, without the first one."""
    return prose(sys.modules[file].__doc__).split("\n\n")[1:]


def schemes_pages() -> dict[str, str]:
    """A page for each scheme, and a table of all."""
    pages, rows = {}, []
    for name in position.names():
        scheme = position.load(name)
        pages[f"schemes/{name}.md"] = _scheme(name)
        rows.append([f"[`{name}`](schemes/{name}.md)", _title(scheme), _reads(scheme), scheme.source])
    listed = table(["scheme", "encoding", "reads", "source"], rows)
    return {"schemes.md": page("Schemes", OF_SCHEMES, listed)} | pages


def _theory(scheme: type[position.Scheme]) -> list[str]:
    """What the file of a scheme says, and then the files of its operators that it names in backquotes."""
    paragraphs = _paragraphs(scheme.__module__)
    named = re.findall(r"`(_(?:powers|branches|operators))\.py`", "\n".join(paragraphs))
    more = [paragraph for name in dict.fromkeys(named) for paragraph in _paragraphs(f"ape_cli.position.{name}")]
    return paragraphs + [paragraph for paragraph in more if not paragraph.startswith(("Source:", "Shapes:"))]


def _reads(scheme: type[position.Scheme]) -> str:
    """The structures that a scheme reads."""
    return ", ".join(f"`{pattern}`" for pattern in scheme.structures)


def _title(part: type) -> str:
    """The first line of the file of a part, without the name before its colon."""
    line = (sys.modules[part.__module__].__doc__ or "").splitlines()[0]
    text = re.sub(r"^[^:,]+(, for [^:]+)?: ", "", line)
    return text[0].upper() + text[1:]


def _scheme(name: str) -> str:
    """The page of a scheme: the docstring of its file, a picture, its properties and its options."""
    scheme = position.load(name)
    properties = position.make(name).properties
    claims = {"relative": properties.relative, "learned": properties.learnable, "bounded": properties.bounded}
    facts = {"Reads": _reads(scheme), "Acts on": properties.injection.replace("none", "nothing")}
    facts |= {"Properties": ", ".join(claim if holds else f"not {claim}" for claim, holds in claims.items())}
    facts |= {"Beyond `max_size`": scheme.beyond} if scheme.beyond else {}
    facts |= {"Locality bias": f"`decay={scheme.default_decay:g}` by default"} if scheme.default_decay != 1 else {}
    facts |= {"Also called": ", ".join(scheme.synonyms)} if scheme.synonyms else {}
    picture = f"../../explanation/gallery/{name}.svg"
    drawn = f"[![Scores of {name}]({picture})]({picture})" if name in gallery.drawable() else ""
    options = option_table(position.options(name), scheme.option_help)
    parts = [_title(scheme), _listed(facts), *_theory(scheme), drawn]
    return page(name, *parts, "## Options" if options else "", options)


def kinds_of_attention() -> dict[str, str]:
    """All kinds of attention with the docstrings of their files, what they refuse, and their options."""
    parts = ["`--attention NAME` selects a kind of attention. Each is a single file in `ape_cli/attention/`."]
    for name in attention.names():
        attention_type = attention.load(name)
        facts = {"Weights": f"`{attention_type.about}`", "Cost": attention_type.cost}
        facts |= {f"No {what}": reason for what, reason in _refused(attention_type).items()}
        parts += _section(
            name, attention_type, facts, option_table(attention.options(name), attention_type.option_help)
        )
    return {"attention.md": page("Kinds of attention", *parts)}


def _refused(kind: type[attention.AttentionType]) -> dict[str, str]:
    """What a kind of attention does not support, with the reasons."""
    reasons = {"bias": kind.refuses_bias, "locality bias": kind.refuses_decay, "content": kind.refuses_content}
    return {what: reason for what, reason in reasons.items() if reason}


def maps_of_positions() -> dict[str, str]:
    """All maps of positions with the docstrings of their files, and their options."""
    about = prose(position_maps.__doc__).split("\n\n", 1)[1]
    parts = [f"Each map is a single file in `ape_cli/data/position_maps/`. {about}"]
    for name in position_maps.names():
        position_map = position_maps.load(name)
        facts = {"Positions": position_map.about}
        facts |= {"Only with `--model decoder`": position_map.decoder_only} if position_map.decoder_only else {}
        parts += _section(
            name, position_map, facts, option_table(position_maps.options(name), position_map.option_help)
        )
    return {"position-maps.md": page("Maps of positions", *parts)}


def _section(name: str, part: Any, facts: dict[str, str], options: str) -> list[str]:
    """The section of a part: the docstring of its file, facts, and its options."""
    return [f"## {name}", _title(part), _listed(facts), *_paragraphs(part.__module__), options]


def _listed(facts: dict[str, str]) -> str:
    """Facts as a list."""
    return "\n".join(f"- {name}: {fact}" for name, fact in facts.items())


def rows() -> dict[str, dict[str, str]]:
    """The row of each part in the tables of `docs/explanation/`, by page and name, as far as the code describes it."""
    described: dict[str, tuple[list[str], Callable[[str], tuple[str, str]]]] = {
        "tasks": (tasks.names(), lambda name: (tasks.load(name).summary, f"[options](../reference/tasks/{name}.md)")),
        "schemes": (position.names(), lambda name: (_title(position.load(name)), _reads(position.load(name)))),
        "attention": (
            attention.names(),
            lambda name: (f"`{attention.load(name).about}`", ", ".join(_refused(attention.load(name)))),
        ),
    }
    return {of: {name: row([f"`{name}`", *cells(name)]) for name in names} for of, (names, cells) in described.items()}
