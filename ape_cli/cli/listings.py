"""Tables of tasks, schemes, kinds of attention and runs.

The functions without `print_` return lines as dictionaries, which `--json` prints. Those with it print a table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from ape_cli.cli._task_options import example, flag
from ape_cli.cli.console import hint, note, note_lines, print_table, say
from ape_cli.cli.values import shown
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError

T = TypeVar("T")
Lines = list[dict[str, Any]]


def _sound(names: Iterable[str], describe: Callable[[str], T]) -> list[T]:
    """What `describe` returns for each name. A note is printed about each plug-in that has an error."""
    found = []
    for name in names:
        try:
            found.append(describe(name))
        except ApeError as error:
            note_lines(f"left out: {error}")
    return found


def tasks() -> Lines:
    """All tasks, with structure, summary, options and source."""
    from ape_cli import tasks

    def line(name: str) -> dict[str, Any]:
        with plugins.explained("task", tasks.load(name)):
            made = tasks.make(name)
            return {
                "task": name,
                "structure": made.structure,
                "summary": made.summary,
                "options": made.options,
                "source": made.source,
            }

    return _sound(tasks.names(), line)


def print_tasks(lines: Lines) -> None:
    """Print the table of tasks."""
    print_table(["task", "structure", "target"], [[t["task"], t["structure"], t["summary"]] for t in lines])
    hint("`ape tasks TASK` lists the options of a task")


def print_task(line: dict[str, Any]) -> None:
    """Print a task with its options."""
    from ape_cli import tasks

    say(f"{line['task']}: {line['summary']}")
    say(f"structure: {line['structure']}")
    if line["source"]:
        say(f"source: {line['source']}")
    options = tasks.options_of(tasks.load(line["task"])).values()
    rows = [[flag(option.name), shown(option.default), option.help] for option in options]
    print_table(["option", "default", "meaning"], rows)
    hint(f"for example: {example(line['task'])}")


def schemes() -> Lines:
    """All schemes, with their properties for width 512, 8 heads and a size of 100 symbols or depth 7."""
    from ape_cli import position, structure

    def line(name: str) -> dict[str, Any]:
        kind = position.load(name)
        with plugins.explained("scheme", kind):
            deep = isinstance(structure.example(kind.structures[0]), structure.Tree)
            properties = position.make(name, max_size=7 if deep else 100).properties
            about = {"default_decay": kind.default_decay, "options": position.options(name)}
            return {"scheme": name, **dataclasses.asdict(properties), **about}

    return _sound(position.names(), line)


def measure(lines: Lines, tick: Callable[[str], None]) -> None:
    """Add the measured time and memory to lines of schemes. `tick` is called with a text before each of them."""
    from ape_cli.evaluation import profiling

    for line in lines:
        tick(f"measuring {line['scheme']}")
        line["measured"] = dataclasses.asdict(profiling.measure(line["scheme"]))


def print_schemes(lines: Lines, wide: bool) -> None:
    """Print the table of schemes, or two with all properties if it is `wide`, and notes that explain their columns."""
    heads = ["scheme", "reads", "acts on", "refers to", "learns"]
    rows = [
        [
            s["scheme"],
            _reads(s),
            s["injection"],
            "the path" if s["relative"] else "the origin" if s["injection"] != "none" else "nothing",
            f"{s['parameters']:,}" if s["learnable"] else "no",
        ]
        for s in lines
    ]
    print_table(heads, rows, numbers=["learns"])
    if wide:
        _print_more(lines)
    note("reads: seq stands for any data along its linearisation; structures in brackets need --structure")
    note("refers to: the path between two tokens, or the origin")
    note("learns: number of parameters at width 512, 8 heads, a size of 100 symbols or depth 7, default options")
    if not wide:
        hint("--wide shows more properties; `ape fields --scheme NAME` lists the options of a scheme")
    if lines and "measured" in lines[0]:
        _print_costs([s["measured"] for s in lines])


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
            _short(s),
        ]
        for s in lines
    ]
    print_table(heads, rows)
    note("content: whether positions are multiplied with it; options are set by --set learned=true, …")
    note("memory: memory for L tokens, D channels, H heads and K channels of a head")
    note("extrapolates: the claim of the source or of a survey; `ape report` shows measured scores")
    note("locality: the default of c in the locality bias c^distance")


def _reads(line: dict[str, Any]) -> str:
    """The structures that a scheme reads; those that have to be asked for are in brackets."""
    asked = [pattern for pattern in line["structures"] if line["flat"] and pattern != "seq"]
    others = [pattern for pattern in line["structures"] if pattern not in asked]
    return ", ".join(others) + (f" ({', '.join(asked)})" if asked else "")


def _short(line: dict[str, Any]) -> str:
    """The authors and the year of a source."""
    return str(line["source"]).split(",")[0]


def _print_costs(lines: Lines) -> None:
    """Print the table of measured costs, and notes that explain it."""
    heads = ["scheme", "on", "parameters", "extra memory, MiB", "memory / none", "time / none"]
    rows = [
        [
            c["scheme"],
            c["structure"],
            f"{c['parameters']:,}",
            f"{c['extra_memory_mib']:.2f}",
            f"{c['memory_ratio']:.2f}",
            f"{c['time_ratio']:.2f}",
        ]
        for c in lines
    ]
    print_table(heads, rows, numbers=heads[2:])
    note("measured: a training step of the model of preset small on 32 rows of 63 tokens, without locality bias;")
    note("memory is kept between forward and backward pass; time is the median of seven ratios to `none`")


def attentions() -> Lines:
    """All kinds of attention, with their claims and options."""
    from ape_cli import attention

    def line(name: str) -> dict[str, Any]:
        kind = attention.load(name)
        with plugins.explained("attention", kind):
            return {"attention": name, **kind.claims(), "options": attention.options(name)}

    return _sound(attention.names(), line)


def print_attentions(lines: Lines) -> None:
    """Print the table of kinds of attention."""
    takes = ("bias", "decay", "content", "dropout")
    rows = [
        [
            kind["attention"],
            kind["about"],
            ", ".join(k for k in takes if kind[k]),
            kind["acts_in"],
            _options(kind["options"]),
            kind["cost"],
            _short(kind),
        ]
        for kind in lines
    ]
    print_table(["attention", "weights", "takes", "acts in", "options", "cost", "source"], rows)
    note("takes: a scheme's bias; the locality bias (decay); terms of the dot product (content); attention dropout")
    note("cost: of each head, for M queries and N keys with K channels; C is the number of clusters")


def print_runs(lines: Lines, wide: bool, old: Collection[str] = ()) -> None:
    """Print the table of runs: the essential columns, or all of them if it is `wide`.

    `old`: names of runs with older code than the present one.
    """
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "run": lambda line: line["run"],
        "set": lambda line: line["variant"],
        "status": lambda line: line["status"] + (", older code" if line["run"] in old else ""),
        "preset": lambda line: line["preset"],
        "dataset": lambda line: line["dataset"],
        "steps": lambda line: "" if line["steps"] is None else f"{line['steps']:,}",
        "seconds": lambda line: "" if line["seconds"] is None else f"{line['seconds']:,.0f}",
        "validation": lambda line: _percent(line["validation_token_accuracy"]),
    }
    heads = list(columns) if wide else ["run", "status", "validation"]
    numbers = ["steps", "seconds", "validation"]
    print_table(heads, [[columns[name](line) for name in heads] for line in lines], numbers)
    hint("validation: best accuracy on the validation split; `ape report` has the scores of the test split")
    if not wide:
        hint("--wide adds settings, preset, dataset, steps and seconds")


def _percent(accuracy: float | None) -> str:
    """An accuracy as text; empty for none."""
    return "" if accuracy is None else f"{accuracy:.2%}"


def _options(options: dict[str, Any]) -> str:
    """Options and their defaults as the text of a cell."""
    return ", ".join(f"{name} {shown(value)}" for name, value in options.items())
