"""Write the reference pages that follow from the code: commands, settings, tasks, schemes, attention, formats, Python.

`make docs` runs this file before it builds the site. The pages are committed, so that they can be read without building
anything; a test compares them with the code.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

import ape_cli
from ape_cli import adapters, attention, load, position, tasks
from ape_cli.cli import app
from ape_cli.cli.console import shown
from ape_cli.cli.fields import listed
from ape_cli.cli.options import flag
from ape_cli.data import position_maps
from ape_cli.evaluation.sharing import exported
from ape_cli.evaluation.sharing.trained_model import TrainedModel
from ape_cli.models.adapters.hugging_face import Encoding
from ape_cli.runs import config
from ape_cli.storage import image_rows, sequence_rows, tree_formats

PAGES_OF = Path(__file__).parents[1] / "docs" / "reference"
NOTE = "<!-- Written by tools/reference.py. Do not edit. -->"
COMMANDS = """
`ape COMMAND --help` prints the same. Results go to stdout, and progress and notes to stderr. The exit status is 0 for
success, 1 for a failure, 2 for wrong usage and 130 after Ctrl-C. With `--json`, a command prints its result for other
programs. The options of tasks, which `ape gen` takes as well, are on the page [Tasks](tasks.md).
"""
DATASETS = """
A dataset is a folder. Its shards are `data/SPLIT-NNNNN-of-NNNNN.parquet`, `manifest.json` describes it, and `README.md`
is a card for readers and for the Hugging Face hub. The manifest is written last, so a folder with a manifest is
complete. It has the task with all parameters, the names of the symbols (`vocabulary`: the name at index i belongs to id
i), and the number of rows and the SHA-256 of each shard. Ids 0, 1 and 2 are padding, the start and the end of a
sequence; they are not stored.
"""


def page(title: str, *parts: str) -> str:
    """A page of Markdown."""
    return "\n\n".join([f"# {title}", NOTE, *(part.strip("\n") for part in parts if part)]) + "\n"


def table(heads: list[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown. Bars in cells are escaped."""
    lines = [heads, ["---"] * len(heads), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def prose(text: str | None) -> str:
    """A docstring as Markdown: examples become blocks of Python."""
    lines, block = [], False
    for line in inspect.cleandoc(text or "").split("\n"):
        begins = line.startswith(">>> ")
        if begins and not block:
            lines += ["```pycon"]
            block = True
        elif block and not line:
            lines += ["```"]
            block = False
        lines.append(line)
    return "\n".join([*lines, "```"] if block else lines)


def code(value: Any) -> str:
    """A default as code; a dash for none."""
    text = shown(value)
    return text if text == "—" else f"`{text}`"


def commands() -> str:
    """All commands with their arguments and options."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="ape")
    parts = [COMMANDS]
    for name, command in group.commands.items():
        inner = typer.Context(command, parent=context, info_name=name)
        usage = " ".join(["ape", name, *command.collect_usage_pieces(inner)])
        parts += [f"## ape {name}", prose((command.help or "").split("\f")[0]), f"```text\n{usage}\n```"]
        parts += ["For example:", f"```sh\n{command.epilog}\n```"]
        rows = [_parameter(one) for one in command.get_params(inner) if not _is_elsewhere(one)]
        if rows:
            parts.append(table(["argument or option", "default", "meaning"], rows))
    return page("Commands", *parts)


def _is_elsewhere(one: Any) -> bool:
    """Whether a parameter is not on the page of commands: `--help`, and the options of tasks."""
    return not one.expose_value


def _parameter(one: Any) -> list[str]:
    """The row of a parameter of a command."""
    about = getattr(one, "help", None) or ""
    if one.param_type_name == "argument":
        return [f"`{one.metavar or one.name.upper()}`", "required" if one.required else "", about]
    value = "" if one.is_flag else f" {one.metavar}"
    names = ", ".join(f"`{name}{value}`" for name in one.opts)
    default = "required" if one.required else "" if one.is_flag or one.default in (None, (), []) else code(one.default)
    return [names, default, about]


def settings() -> str:
    """The fields that `--set` accepts, with their values in each preset."""
    parts = ["`--set KEY=VALUE` changes a field. `ape fields --scheme NAME` also lists the options of a scheme."]
    for kind, title in (("sequence", "Sequences"), ("image", "Images")):
        presets = [name for name, found in config.PRESETS.items() if kind in found.about]
        of = {name: {line["field"]: line for line in listed(name, kind)} for name in presets}
        rows = [
            [f"`{field}`", *(code(of[name][field]["value"]) for name in presets), line["allowed"], line["meaning"]]
            for field, line in of[presets[0]].items()
        ]
        parts += [f"## {title}", table(["field", *presets, "allowed", "meaning"], rows)]
    return page("Settings", *parts)


def all_tasks() -> str:
    """All tasks with their docstrings and options."""
    parts = ["Every task is one file in `ape_cli/tasks/`. `ape gen TASK` generates its data."]
    for name in tasks.names():
        task = tasks.load(name)
        made = tasks.make(name)
        facts = [f"- Structure of the positions: `{made.structure}`"]
        facts += ["- Linearisations: `--order` and `--source-order`"] if task.ordered else []
        facts += [f"- Source: {made.source}"] if made.source else []
        rows = [
            [f"`{flag(option.name)}`", code(option.default), option.help] for option in tasks.options_of(task).values()
        ]
        parts += [f"## {name}", prose(task.__doc__), "\n".join(facts), table(["option", "default", "meaning"], rows)]
    return page("Tasks", *parts)


def all_schemes() -> str:
    """All schemes with the docstrings of their files, their properties and options."""
    parts = ["Every scheme is one file in `ape_cli/position/`. `ape schemes` compares them."]
    for name in position.names():
        scheme = position.load(name)
        parts += [f"## {name}", prose(sys.modules[scheme.__module__].__doc__), _facts(scheme)]
        parts.append(_options(position.options(name), scheme.option_help))
    return page("Schemes", *parts)


def _facts(scheme: type[position.Scheme]) -> str:
    """What a scheme reads and its locality bias, as a list."""
    facts = [f"- Reads: {', '.join(f'`{pattern}`' for pattern in scheme.structures)}"]
    facts += [f"- Locality bias by default: {scheme.default_decay:g}"] if scheme.default_decay != 1 else []
    facts += [f"- Also called: {', '.join(scheme.synonyms)}"] if scheme.synonyms else []
    return "\n".join(facts)


def _options(options: dict[str, Any], about: dict[str, str]) -> str:
    """The table of the options of a scheme or a kind of attention. Empty if there are none."""
    rows = [[f"`{key}`", code(value), about.get(key, "")] for key, value in options.items()]
    return table(["option", "default", "meaning"], rows) if rows else ""


def kinds_of_attention() -> str:
    """All kinds of attention with the docstrings of their files, what they refuse, and their options."""
    parts = ["Every kind of attention is one file in `ape_cli/attention/`. `--attention NAME` chooses one."]
    for name in attention.names():
        kind = attention.load(name)
        refused = {"bias": kind.refuses_bias, "locality bias": kind.refuses_decay, "content": kind.refuses_content}
        facts = [f"- Weights: {kind.about}", f"- Cost: {kind.cost}", f"- Source: {kind.source}"]
        facts += [f"- No {what}: {reason}" for what, reason in refused.items() if reason]
        parts += [f"## {name}", prose(sys.modules[kind.__module__].__doc__), "\n".join(facts)]
        parts.append(_options(attention.options(name), kind.option_help))
    return page("Kinds of attention", *parts)


def maps_of_positions() -> str:
    """All maps of positions with the docstrings of their files, and their options."""
    parts = ["Every map is one file in `ape_cli/data/position_maps/`. `--positions NAME` chooses one."]
    parts.append(prose((position_maps.__doc__ or "").split("\n\n", 2)[2]))
    for name in position_maps.names():
        found = position_maps.load(name)
        facts = [f"- Positions: {found.about}", f"- Source: {found.source}"]
        facts += [f"- Only with `--model decoder`: {found.decoder_only}"] if found.decoder_only else []
        parts += [f"## {name}", prose(sys.modules[found.__module__].__doc__), "\n".join(facts)]
        parts.append(_options(position_maps.options(name), found.option_help))
    return page("Maps of positions", *parts)


def formats() -> str:
    """The formats of a user's own trees, and the columns of datasets."""
    rows = []
    for name in tree_formats.names():
        kind = tree_formats.load(name)
        rows.append(
            [
                f"`{name}`",
                ", ".join(f"`{s}`" for s in kind.suffixes),
                ", ".join(kind.units),
                (kind.needs or "").replace("_", "-"),
            ]
        )
    parts = ["## Datasets", DATASETS, "The columns of sequences, trees, grids and rings:"]
    parts += [_columns(sequence_rows.schema(1)), "With several coordinates, each position is a list of numbers."]
    parts += ["The columns of images:", _columns(image_rows.schema())]
    parts += ["## Exported models", prose((exported.__doc__ or "").split("\n\n", 1)[1])]
    parts += ["## Formats of trees", table(["--format", "suffixes", "--unit", "extra"], rows)]
    return page("File formats", *parts)


def python() -> str:
    """What Python code of a user calls: the public modules, and the functions and classes beside them."""
    parts = [prose(ape_cli.__doc__), "## ape_cli.load", _signature("ape_cli.load", ape_cli.load), prose(load.__doc__)]
    parts += ["## The loaded model", prose(TrainedModel.__doc__)]
    for name, member in vars(TrainedModel).items():
        if not name.startswith("_") and inspect.isfunction(member):
            parts += [f"### {name}", _signature(f"model.{name}", member), prose(member.__doc__)]
    parts += ["## Adapters", prose(adapters.__doc__)]
    for function in (adapters.sdpa_inputs, adapters.flex_inputs, adapters.use_scheme, Encoding.at):
        name = "encoding.at" if function is Encoding.at else f"adapters.{function.__name__}"
        parts += [f"### {name}", _signature(name, function), prose(function.__doc__)]
    return page("Python interface", *parts)


def _signature(name: str, function: Any) -> str:
    """How a function is called, as a block of code."""
    given = list[str]()
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in given:
            given.append("*")
        if one.name != "self":
            default = "" if one.default is one.empty else f" = {one.default!r}"
            given.append(f"{one.name}: {one.annotation}{default}")
    returned = inspect.signature(function).return_annotation
    return f"```text\n{name}({', '.join(given)}) -> {returned}\n```"


def _columns(schema: Any) -> str:
    """The table of the columns of a Parquet file."""
    return table(["column", "type"], [[f"`{field.name}`", f"`{field.type}`"] for field in schema])


PAGES = {
    "commands.md": commands,
    "settings.md": settings,
    "tasks.md": all_tasks,
    "schemes.md": all_schemes,
    "attention.md": kinds_of_attention,
    "position-maps.md": maps_of_positions,
    "formats.md": formats,
    "python.md": python,
}


def main() -> None:
    """Write all pages."""
    for name, make in PAGES.items():
        text = re.sub(r"[ \t]+$", "", make(), flags=re.M)
        (PAGES_OF / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
