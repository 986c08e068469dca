"""`ape tasks`, `ape schemes`, `ape attentions` and `ape fields`: what there is, as tables or as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer

from ape_cli.cli._app import command
from ape_cli.cli.algebra_output import Lines, add_algebra, print_algebra
from ape_cli.cli.console import (
    print_hint,
    print_json,
    print_note,
    print_note_lines,
    print_result,
    print_table,
    shown,
)
from ape_cli.cli.options import EXECUTION, THREADS, Json, flag, refuse_idle
from ape_cli.core import user_parts
from ape_cli.core.errors import ApeError, pick


@command("ape tasks tree-rotate")
def tasks(
    names: Annotated[list[str] | None, typer.Argument(help="Tasks to describe. Default: list all.")] = None,
    suite: Annotated[str | None, typer.Option(help="List the tasks of a suite: chomsky, mad, or FILE.toml.")] = None,
    as_json: Json = False,
) -> None:
    """List all tasks, or describe some with their options.

    \f
    Raises `UsageError` for an unknown task or suite.
    """
    from ape_cli import tasks

    if suite is not None:
        refuse_idle((bool(names), " ".join(names or ()), "with --suite"))
        _print_suite(suite, as_json)
        return

    def line(name: str) -> dict[str, Any]:
        with user_parts.explained(tasks.load(name)):
            task = tasks.make(name)
            about = {"structure": task.structure, "summary": task.summary}
            return {"task": name, **about, "options": task.options, "source": task.source}

    lines = _lines(tasks, line, names)
    if as_json:
        print_json(lines)
        return
    if not names:
        print_table(["task", "structure", "target"], [[t["task"], t["structure"], t["summary"]] for t in lines])
        print_hint(
            "`ape tasks TASK` lists the options of a task; `ape tasks --suite chomsky` lists the tasks of a suite"
        )
        return
    for number, entry in enumerate(lines):
        if number:
            print_result("")
        print_result(f"{entry['task']}: {entry['summary']}")
        print_result(f"structure: {entry['structure']}")
        if entry["source"]:
            print_result(f"source: {entry['source']}")
        options = tasks.options_of(tasks.load(entry["task"])).values()
        rows = [[flag(option.name), shown(option.default), option.help] for option in options]
        print_table(["option", "default", "meaning"], rows)


def _print_suite(name: str, as_json: bool) -> None:
    """Print the tasks of a suite, with the commands that generate their data."""
    from ape_cli.experiment import suites

    suite = suites.load(name)
    lines: Lines = [
        {
            "task": of.name,
            "group": of.group,
            "here": of.text,
            "command": suites.command(of),
            "sweep": ({"model": of.model} if of.model else {}) | dict(of.settings),
        }
        for of in suite.tasks
    ]
    if as_json:
        print_json(lines)
        return
    print_result(f"{name}: {suite.summary}")
    if suite.source:
        print_result(f"source: {suite.source}")
    heads = ["task", "group", "command"] if any(line["group"] for line in lines) else ["task", "command"]
    print_table(heads, [[line[head] for head in heads] for line in lines])
    trained: dict[str, list[str]] = {}
    for line in lines:
        if line["sweep"]:
            words = ", ".join(f"{key}={shown(value)}" for key, value in line["sweep"].items())
            trained.setdefault(words, []).append(line["task"])
    for words, of in trained.items():
        print_note(f"a sweep trains {', '.join(of)} with {words}")
    print_hint(f"`ape sweep --suite {name} --schemes rope,alibi` trains on all of them")


@command("ape schemes rope alibi --wide")
def schemes(
    names: Annotated[list[str] | None, typer.Argument(help="Names of schemes. Default: all.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure time and memory relative to `none` (takes a minute).")
    ] = False,
    algebra: Annotated[
        bool, typer.Option("--algebra", help="Also measure which representation each scheme is, and its special cases.")
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
    Raises `UsageError` for an unknown scheme or model.
    """
    from ape_cli import position, structure
    from ape_cli.models.device import choose_device
    from ape_cli.runs.config import MODELS

    refuse_idle(
        (threads is not None and not (measure or algebra), "--threads", "without --measure or --algebra"),
        (model is not None and not measure, "--model", "without --measure"),
    )
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

        for entry in lines:
            print_hint(f"measuring {entry['scheme']}")
            # the table of all schemes has each in a model where it acts
            elsewhere = model and names is None and position.load(entry["scheme"]).obstacle(model)
            entry["measured"] = dataclasses.asdict(profiling.measure(entry["scheme"], None if elsewhere else model))
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
    print_note("content: whether positions multiply it or stay apart; set options with --set learned=true, …")
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
    if as_json:
        print_json(lines)
        return
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
    takes_what = "a scheme's bias; the locality bias (decay); terms of the dot product (content); attention dropout"
    print_note(f"takes: {takes_what}")
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


def print_costs(lines: Lines) -> None:
    """Print the table of measured costs, and notes that explain it."""
    heads = ["scheme", "on", "model", "parameters", "extra memory, MiB", "memory / none", "time / none"]
    rows = [
        [
            c["scheme"],
            c["structure"],
            c["model"],
            f"{c['parameters']:,}",
            f"{c['extra_memory_mib']:.2f}",
            f"{c['memory_ratio']:.2f}",
            f"{c['time_ratio']:.2f}",
        ]
        for c in lines
    ]
    print_table(heads, rows, numbers=heads[3:])
    print_note("measured: a training step of the model of preset small on 32 rows of 63 tokens, without locality bias;")
    print_note("memory is kept between forward and backward pass; time is the median of seven ratios to `none`")


_MANY = 10**9  # limits from here on are only a protection
_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}  # of options of plug-ins, by their defaults
_ENDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


@command("ape fields --scheme rope")
def fields(
    scheme: Annotated[str | None, typer.Option(help="Also list the options of this scheme.")] = None,
    attention: Annotated[str | None, typer.Option(help="Also list the options of this kind of attention.")] = None,
    positions: Annotated[str | None, typer.Option(help="Also list the options of this map of positions.")] = None,
    preset: Annotated[str, typer.Option(help="Preset to show: paper, neurips, medium, small or tiny.")] = "small",
    images: Annotated[bool, typer.Option("--images", help="List the fields of image models.")] = False,
    as_json: Json = False,
) -> None:
    """List the fields that `--set KEY=VALUE` accepts. Values are those of a preset.

    \f
    Raises `UsageError` for an unknown scheme, attention, map of positions or preset, and for a preset without a model
    for images.
    """
    lines = listed(preset, "image" if images else "sequence")
    for name, package in ((scheme, "position"), (attention, "attention"), (positions, "data.position_maps")):
        if name is not None:
            plugins = import_module(f"ape_cli.{package}")
            about, default = plugins.load(name).option_help, f"Option of {name}."
            lines += [
                {
                    "field": key,
                    "value": value,
                    "allowed": _KINDS.get(type(value), ""),
                    "meaning": about.get(key, default),
                }
                for key, value in plugins.options(name).items()
                if value is not None  # other values are for Python alone
            ]
    if scheme is not None:
        from ape_cli import position

        (decay,) = (line for line in lines if line["field"] == "decay")
        decay["value"] = position.load(scheme).default_decay if decay["value"] is None else decay["value"]
    if as_json:
        print_json(lines)
        return
    rows = [[line["field"], shown(line["value"]), line["allowed"], line["meaning"]] for line in lines]
    print_table(["field", preset, "allowed", "meaning"], rows)
    print_note("for example: ape train --scheme rope --set lr_peak=0.001")
    if scheme is None:
        print_note("`ape fields --scheme rope` also lists the options of a scheme")
    print_note("—: not set; another field, the scheme or the data decides")


def listed(preset: str, modality: str) -> list[dict[str, Any]]:
    """The fields of a configuration that can be set, in their order."""
    from ape_cli.runs import config

    chosen = config.preset(preset).of(modality)
    lines = []
    for name in config.settable(modality):
        field = config.KINDS[modality].model_fields[name]
        value = chosen.get(name, None if field.is_required() else field.default)
        allowed = _allowed(field.metadata, whole=field.annotation in (int, int | None))
        lines.append({"field": name, "value": value, "allowed": allowed, "meaning": field.description})
    return lines


def _allowed(limits: list[Any], whole: bool) -> str:
    """The limits of a number in words. Empty if there are none.

    >>> from annotated_types import Ge, Gt, Le, Lt
    >>> _allowed([Gt(0), Le(200)], whole=True), _allowed([Gt(0)], whole=True), _allowed([Ge(0), Lt(1)], whole=False)
    ('1 to 200', '1 or more', 'at least 0, below 1')
    """
    ends = {end: getattr(limit, end) for limit in limits for end in _ENDS if hasattr(limit, end)}
    if whole and ends:
        low, high = ends.get("ge", ends.get("gt", -1) + 1), ends.get("le", _MANY)
        return f"{low} to {high:,}" if high < _MANY else f"{low} or more"
    return ", ".join(f"{word} {ends[end]:,}" for end, word in _ENDS.items() if end in ends)
