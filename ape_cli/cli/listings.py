"""Tables of tasks, schemes, kinds of attention and runs, and of the measured laws.

The functions without `print_` return lines as dictionaries, which `--json` prints. Those with it print a table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ape_cli.cli.console import note, note_lines, print_table, say
from ape_cli.cli.values import shown
from ape_cli.core.errors import ApeError

if TYPE_CHECKING:  # imported where it is needed, because torch is slow to import
    from ape_cli.evaluation.laws import Finding

Lines = list[dict[str, Any]]


def _sound(names: Iterable[str], load: Callable[[str], object]) -> Iterator[str]:
    """Yield the names whose files can be loaded, and print a note about each of the others."""
    for name in names:
        try:
            load(name)
        except ApeError as error:
            note_lines(f"left out: {error}")
        else:
            yield name


def tasks() -> Lines:
    """All tasks, with structure, summary, options and source."""
    from ape_cli import tasks

    found = [tasks.make(name) for name in _sound(tasks.names(), tasks.load)]
    keys = ("task", "structure", "summary", "options", "source")
    return [dict(zip(keys, (t.name, t.structure, t.summary, t.options, t.source), strict=True)) for t in found]


def print_tasks(lines: Lines) -> None:
    """Print the table of tasks."""
    rows = [[t["task"], t["structure"], t["summary"], _options(t["options"])] for t in lines]
    print_table(["task", "structure", "target", "options and defaults"], rows)


def schemes(measure: bool, tick: Callable[[str], None]) -> Lines:
    """All schemes, with their properties for width 512, 8 heads and a size of 100 symbols or depth 7.

    `measure`: measure time and memory too. `tick` is called with a line of text before each measurement.
    """
    from ape_cli import position, structure

    found = []
    for name in _sound(position.names(), position.load):
        kind = position.load(name)
        deep = isinstance(structure.example(kind.structures[0]), structure.Tree)
        properties = position.make(name, max_size=7 if deep else 100).properties
        line = {"scheme": name, **dataclasses.asdict(properties)}
        line |= {"default_decay": kind.default_decay, "options": position.options(name)}
        if measure:
            from ape_cli.evaluation import profiling

            tick(f"measuring {name}")
            line["measured"] = dataclasses.asdict(profiling.measure(name))
        found.append(line)
    return found


def print_schemes(lines: Lines) -> None:
    """Print the tables of schemes, and notes that explain their columns."""
    heads = ["scheme", "reads", "acts on", "applied", "refers to", "learns", "sizes", "content"]
    rows = [
        [
            s["scheme"],
            _reads(s),
            s["injection"],
            s["recurrence"],
            "the path" if s["relative"] else "the origin" if s["injection"] != "none" else "nothing",
            f"{s['parameters']:,}" if s["learnable"] else "no",
            "max_size" if s["bounded"] else "any",
            "meets it" if s["content_dependent"] else "apart",
        ]
        for s in lines
    ]
    print_table(heads, rows)
    more = [
        [s["scheme"], s["memory"], s["extrapolation"], f"{s['default_decay']:g}", _options(s["options"]), _short(s)]
        for s in lines
    ]
    print_table(["scheme", "memory", "extrapolates", "locality", "options and defaults", "source"], more)
    note("reads: seq stands for any data along its linearisation; structures in brackets need --structure")
    note("learns: number of parameters at width 512, 8 heads, a size of 100 symbols or depth 7, default options")
    note("refers to: the path between two tokens, or the origin; content: whether positions are multiplied with it")
    note("memory: memory for L tokens, D channels, H heads and K channels of a head")
    note("extrapolates: the claim of the source or of a survey; `ape report` shows measured scores")
    note("locality: the default of c in the locality bias c^distance; options are set by --set learned=true, …")
    if lines and "measured" in lines[0]:
        _print_costs([s["measured"] for s in lines])


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
    print_table(heads, rows)
    note("measured: a training step of the model of preset small on 32 rows of 63 tokens, without locality bias;")
    note("memory is kept between forward and backward pass; time is the median of seven ratios to `none`")


def attentions() -> Lines:
    """All kinds of attention, with their claims and options."""
    from ape_cli import attention

    return [
        {"attention": name, **attention.load(name).claims(), "options": attention.options(name)}
        for name in _sound(attention.names(), attention.load)
    ]


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


def findings(names: Iterable[str], tick: Callable[[str], None]) -> list[Finding]:
    """Measure every law of the named schemes and kinds of attention, or of all if none is named.

    `tick` is called with a line of text before each of them. Raises `UsageError` for an unknown name.
    """
    from ape_cli.core.errors import pick
    from ape_cli.evaluation import laws

    chosen = [pick("scheme or attention", name, laws.subjects()) for name in dict.fromkeys(names)] or laws.subjects()
    found: list[Finding] = []
    for name in chosen:
        tick(f"checking {name}")
        found += laws.check(name)
    return found


def print_findings(found: list[Finding]) -> None:
    """Print tables of errors: operators, scores, behaviour in a model, attention. Then explain each failure."""
    from ape_cli.evaluation.laws import IN_A_MODEL, LAWS, OF_ATTENTION

    of_schemes = [f for f in found if f.structure is not None]
    names = list(LAWS)
    scores = names.index("relative")
    for title, part, columns in (
        ("operators", of_schemes, names[:scores]),
        ("scores and vectors", of_schemes, [n for n in names[scores:] if n not in IN_A_MODEL]),
        ("in a model", of_schemes, list(IN_A_MODEL)),
        ("attention", [f for f in found if f.structure is None], list(OF_ATTENTION)),
    ):
        if any(f.law in columns for f in part):
            _print_errors(title, [f for f in part if f.law in columns], columns)
    note("errors in float64 and float32 (limits 1e-9 and 1e-4; for the locality bias, which is float32, 1e-4 in both);")
    note("for uniqueness and reach, the smallest difference (at least 1e-4); exact: 0 in both; empty: not claimed")
    note("operators and scores: up to 10,000 steps and 40 levels; models: 300 and 12; with and without locality bias")
    for law, about in {f.law: f.about for f in found}.items():
        note(f"{law}: {about}")
    bad = [f for f in found if not f.holds]
    for f in bad:
        where = f" on {f.structure}" if f.structure else ""
        what = f.trouble or f"{f.float64:.1e} in float64, {f.float32:.1e} in float32"
        say(f"FAILS: {f.name}{where}, {f.law}: {f.about}: {what}{_not_claimed(f.law)}")
    say(f"{len(found) - len(bad)} of {len(found)} laws hold")


def _not_claimed(law: str) -> str:
    """A hint how a scheme declares that it does not claim a law."""
    claim = {"relative": "relative", "uniqueness": "unique", "shift": "isometric"}.get(law)
    return f" (a scheme that does not claim this law sets `{claim} = False`)" if claim else ""


def _print_errors(title: str, found: list[Finding], columns: list[str]) -> None:
    """Print one table of errors, with a column for each law that was measured."""
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for f in found:
        lines.setdefault((f.name, f.structure or ""), {})[f.law] = _error(f)
    columns = [c for c in columns if any(f.law == c for f in found)]
    keys = [title, "on"] if any(structure for _, structure in lines) else [title]
    rows = [[*where[: len(keys)], *(line.get(c, "") for c in columns)] for where, line in lines.items()]
    print_table([*keys, *columns], rows)


def _error(f: Finding) -> str:
    """The errors of a law in float64 and float32, as the text of a cell."""
    if f.trouble is not None:
        return "FAILS"
    text = "exact" if f.float64 == f.float32 == 0.0 else f"{f.float64:.0e} {f.float32:.0e}"
    return text if f.holds else f"{text} FAILS"


def print_runs(lines: Lines) -> None:
    """Print the table of runs."""
    rows = [
        [
            line["run"],
            line["variant"],
            line["status"],
            line["preset"],
            line["dataset"],
            "" if line["steps"] is None else f"{line['steps']:,}",
            "" if line["seconds"] is None else f"{line['seconds']:.0f}",
            "" if line["validation_token_accuracy"] is None else f"{line['validation_token_accuracy']:.2%}",
        ]
        for line in lines
    ]
    print_table(["run", "set", "status", "preset", "dataset", "steps", "seconds", "validation accuracy"], rows)


def _options(options: dict[str, Any]) -> str:
    """Options and their defaults as the text of a cell."""
    return ", ".join(f"{name} {shown(value)}" for name, value in options.items())
