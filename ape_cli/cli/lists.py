"""`ape tasks`, `ape schemes` and `ape attentions`: what there is, as tables or as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ape_cli.cli._app import command
from ape_cli.cli.console import (
    print_hint,
    print_json,
    print_note,
    print_note_lines,
    print_result,
    print_table,
    shown,
    ticker,
)
from ape_cli.cli.gen import example
from ape_cli.cli.options import EXECUTION, THREADS, Json, flag
from ape_cli.cli.scheme_tables import add_algebra, print_algebra, print_costs
from ape_cli.core import user_parts
from ape_cli.core.errors import ApeError, UsageError, pick

Lines = list[dict[str, Any]]


@command("ape tasks tree-rotate")
def tasks(
    names: Annotated[list[str] | None, typer.Argument(help="Tasks to describe. Default: list all.")] = None,
    as_json: Json = False,
) -> None:
    """List all tasks, or describe some with their options.

    \f
    Raises `UsageError` for an unknown task.
    """
    from ape_cli import tasks

    def line(name: str) -> dict[str, Any]:
        with user_parts.explained(tasks.load(name)):
            task = tasks.make(name)
            about = {"structure": task.structure, "summary": task.summary}
            return {"task": name, **about, "options": task.options, "source": task.source}

    lines = _lines(tasks, line, names)
    if as_json:
        print_json(lines)
    elif names:
        for number, entry in enumerate(lines):
            if number:
                print_result("")
            _print_task(entry)
    else:
        print_table(["task", "structure", "target"], [[t["task"], t["structure"], t["summary"]] for t in lines])
        print_hint("`ape tasks TASK` lists the options of a task")


def _print_task(line: dict[str, Any]) -> None:
    """Print a task with its options."""
    from ape_cli import tasks

    print_result(f"{line['task']}: {line['summary']}")
    print_result(f"structure: {line['structure']}")
    if line["source"]:
        print_result(f"source: {line['source']}")
    options = tasks.options_of(tasks.load(line["task"])).values()
    rows = [[flag(option.name), shown(option.default), option.help] for option in options]
    print_table(["option", "default", "meaning"], rows)
    print_hint(f"for example: {example(line['task'])}")


@command("ape schemes rope alibi --wide")
def schemes(
    names: Annotated[list[str] | None, typer.Argument(help="Names of schemes. Default: all.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure time and memory relative to `none` (takes a minute).")
    ] = False,
    algebra: Annotated[
        bool,
        typer.Option("--algebra", help="Also measure which representation each scheme is, and its special cases."),
    ] = False,
    model: Annotated[
        str | None, typer.Option("--model", help="Model for --measure: encoder-decoder or decoder.")
    ] = None,
    wide: Annotated[bool, typer.Option("--wide", help="Show all properties.")] = False,
    threads: Annotated[int | None, typer.Option(help=THREADS, rich_help_panel=EXECUTION)] = None,
    as_json: Json = False,
) -> None:
    """List positional encoding schemes.

    \f
    Raises `UsageError` for an unknown scheme or model, or if --threads or --model is given without what it acts on.
    """
    from ape_cli import position, structure

    measuring = (measure or algebra, "--measure or --algebra")
    for name, value, (there, needed) in (("--threads", threads, measuring), ("--model", model, (measure, "--measure"))):
        if value is not None and not there:
            what = f"{name} has an effect only on measurements"
            raise UsageError(what, got=f"{name} {value}", fix=f"add {needed}")
    from ape_cli.models.device import choose_device
    from ape_cli.runs.config import MODELS

    if model is not None:
        pick("model", model, MODELS)

    choose_device("cpu", threads)

    def line(name: str) -> dict[str, Any]:
        """The properties for width 512, 8 heads and a size of 100 symbols or depth 7."""
        cls = position.load(name)
        with user_parts.explained(cls):
            deep = isinstance(structure.example(cls.structures[0]), structure.Tree)
            scheme = position.make(name, max_size=7 if deep else 100)
            scheme.attach("decoder", 0)
            properties = scheme.properties
            about = {"default_decay": cls.default_decay, "options": position.options(name)}
            return {"scheme": name, **dataclasses.asdict(properties), **about}

    lines = _lines(position, line, names)
    if measure:
        from ape_cli.evaluation import profiling

        tick = ticker()
        for entry in lines:
            tick(f"measuring {entry['scheme']}")
            chosen = None if names is None and position.load(entry["scheme"]).causal_only else model
            entry["measured"] = dataclasses.asdict(profiling.measure(entry["scheme"], chosen))
    if algebra:
        add_algebra(lines)
    print_json(lines) if as_json else _print_schemes(lines, wide)


def _print_schemes(lines: Lines, wide: bool) -> None:
    """Print the table of schemes, or two with all properties if it is `wide`, and notes that explain their columns."""
    heads = ["scheme", "reads", "acts on", "refers to", "learns"]
    in_brackets = [[p for p in s["structures"] if s["flat"] and p != "seq"] for s in lines]  # have to be asked for
    rows = [
        [
            s["scheme"],
            ", ".join(p for p in s["structures"] if p not in asked) + (f" ({', '.join(asked)})" if asked else ""),
            s["injection"],
            "the path" if s["relative"] else "the origin" if s["injection"] != "none" else "nothing",
            f"{s['parameters']:,}" if s["learnable"] else "no",
        ]
        for s, asked in zip(lines, in_brackets, strict=True)
    ]
    print_table(heads, rows, numbers=["learns"])
    if wide:
        _print_more(lines)
    print_note("reads: seq stands for any data along its linearisation; structures in brackets need --structure")
    print_note("refers to: the path between two tokens, or the origin")
    print_note("learns: number of parameters at width 512, 8 heads, a size of 100 symbols or depth 7, default options;")
    print_note("per-layer parameters are counted for a single layer")
    if not wide:
        print_hint("--wide shows more properties; `ape fields --scheme NAME` lists the options of a scheme")
    if lines and "measured" in lines[0]:
        print_costs([s["measured"] for s in lines])
    if any("algebra" in s for s in lines):
        print_algebra(lines)


def _print_more(lines: Lines) -> None:
    """Print the other properties of schemes, and notes that explain them."""
    heads = ["scheme", "applied", "sizes", "content", "memory", "extrapolates", "locality", "options", "source"]
    rows = [
        [
            s["scheme"],
            s["recurrence"],
            "max_size" if s["bounded"] else "any",
            "meets it" if s["content_dependent"] else "apart",
            s["memory"],
            s["extrapolation"],
            f"{s['default_decay']:g}",
            _options(s["options"]),
            str(s["source"]).split(",")[0],
        ]
        for s in lines
    ]
    print_table(heads, rows)
    print_note("content: whether positions are multiplied with it; options are set by --set learned=true, …")
    print_note("memory: memory for L tokens, D channels, H heads and K channels of a head")
    print_note("extrapolates: the claim of the source or of a survey; `ape report` shows measured scores")
    print_note("locality: the default of c in the locality bias c^distance")


@command("ape attentions clustered linear")
def attentions(
    names: Annotated[list[str] | None, typer.Argument(help="Names of kinds of attention. Default: all.")] = None,
    as_json: Json = False,
) -> None:
    """List kinds of attention.

    \f
    Raises `UsageError` for an unknown kind of attention.
    """
    from ape_cli import attention

    def line(name: str) -> dict[str, Any]:
        cls = attention.load(name)
        with user_parts.explained(cls):
            return {"attention": name, **cls.claims(), "options": attention.options(name)}

    lines = _lines(attention, line, names)
    print_json(lines) if as_json else _print_attentions(lines)


def _print_attentions(lines: Lines) -> None:
    """Print the table of kinds of attention."""
    takes = ("bias", "decay", "content", "dropout")
    rows = [
        [
            line["attention"],
            line["about"],
            ", ".join(claim for claim in takes if line[claim]),
            line["acts_in"],
            _options(line["options"]),
            line["cost"],
            str(line["source"]).split(",")[0],
        ]
        for line in lines
    ]
    print_table(["attention", "weights", "takes", "acts in", "options", "cost", "source"], rows)
    print_note(
        "takes: a scheme's bias; the locality bias (decay); terms of the dot product (content); attention dropout"
    )
    print_note("cost: of each head, for M queries and N keys with K channels; C is the number of clusters")


def _lines(package: Any, describe: Callable[[str], dict[str, Any]], names: list[str] | None) -> Lines:
    """What `describe` says of each of the names, without repetitions, or of every plug-in of a package.

    Raises the error of `load` for an unknown or damaged name that was given. Otherwise, a note is printed about each
    plug-in that has an error.
    """
    for name in names or ():
        package.load(name)
    lines = []
    for name in dict.fromkeys(names or package.names()):
        try:
            lines.append(describe(name))
        except ApeError as error:
            print_note_lines(f"left out: {error}")
    return lines


def _options(options: dict[str, Any]) -> str:
    """Options and their defaults as the text of a cell."""
    return ", ".join(f"{name} {shown(value)}" for name, value in options.items())
