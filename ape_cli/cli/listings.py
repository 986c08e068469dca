"""What there is, as tables: tasks, schemes and attentions with their properties, and the laws as measured.

Lines are dictionaries, as `--json` gives them; `print_…` draws them for people.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ape_cli.cli.console import note, print_table
from ape_cli.core.errors import ApeError

if TYPE_CHECKING:  # torch comes in where it is needed
    from ape_cli.evaluation.laws import Finding

Lines = list[dict[str, Any]]


def _sound(names: Iterable[str], load: Callable[[str], object]) -> Iterator[str]:
    """The names whose files can be loaded; of the others it says why not."""
    for name in names:
        try:
            load(name)
        except ApeError as error:
            note(f"left out: {error}")
        else:
            yield name


def tasks() -> Lines:
    from ape_cli import tasks

    found = [tasks.make(name) for name in _sound(tasks.names(), tasks.load)]
    keys = ("task", "structure", "summary", "options", "source")
    return [dict(zip(keys, (t.name, t.structure, t.summary, t.options, t.source), strict=True)) for t in found]


def print_tasks(lines: Lines) -> None:
    rows = [[t["task"], t["structure"], t["summary"], _options(t["options"])] for t in lines]
    print_table(["task", "structure", "target", "options and defaults"], rows)


def schemes(measure: bool, tick: Callable[[str], None]) -> Lines:
    """Properties at width 512, 8 heads, sized at 100 symbols or depth 7; with `measure`, costs as well."""
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
    note("reads: any data along its linearisation where it is seq; in brackets what --structure has to ask for")
    note("learns: parameters at width 512, 8 heads, sized at 100 symbols or depth 7, default options")
    note("refers to: the path between two tokens, or the origin; content: whether positions meet it multiplicatively")
    note("memory: what is made for L tokens in D channels, K of each of H heads")
    note("extrapolates: what the source or a survey claims; how well each performs: `ape report`")
    note("locality: the default of c in the locality bias c^distance; options: --set learned=true, …")
    if lines and "measured" in lines[0]:
        _print_costs([s["measured"] for s in lines])


def _reads(line: dict[str, Any]) -> str:
    """What a scheme reads; in brackets what it reads if that is asked for alone."""
    asked = [pattern for pattern in line["structures"] if line["flat"] and pattern != "seq"]
    others = [pattern for pattern in line["structures"] if pattern not in asked]
    return ", ".join(others) + (f" ({', '.join(asked)})" if asked else "")


def _short(line: dict[str, Any]) -> str:
    """Authors and year of a source."""
    return str(line["source"]).split(",")[0]


def _print_costs(lines: Lines) -> None:
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
    note("measured: a training step of preset small's model on 32 rows of 63 tokens, without locality bias;")
    note("memory is what is kept between forward and backward, time the median of seven ratios to `none`")


def attentions() -> Lines:
    from ape_cli import attention

    return [
        {"attention": name, **attention.load(name).claims(), "options": attention.options(name)}
        for name in _sound(attention.names(), attention.load)
    ]


def print_attentions(lines: Lines) -> None:
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
    """Every law of these schemes and attentions (of all, if none is named), measured."""
    from ape_cli.core.errors import pick
    from ape_cli.evaluation import laws

    chosen = [pick("scheme or attention", name, laws.subjects()) for name in dict.fromkeys(names)] or laws.subjects()
    found: list[Finding] = []
    for name in chosen:
        tick(f"checking {name}")
        found += laws.check(name)
    return found


def print_findings(found: list[Finding]) -> None:
    """The algebra of the schemes, their manners in a model, the attentions; then what fails, in words."""
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
    note("errors in float64 and float32 (limits 1e-9 and 1e-4; of the locality bias 1e-4 in both, it is float32);")
    note("of uniqueness and reach the smallest difference (at least 1e-4); exact: 0 in both; empty: not claimed")
    note("operators and scores reach 10,000 steps and 40 levels, models 300 and 12, with the locality bias off and on")
    for law, about in {f.law: f.about for f in found}.items():
        note(f"{law}: {about}")
    bad = [f for f in found if not f.holds]
    for f in bad:
        where = f" on {f.structure}" if f.structure else ""
        what = f.trouble or f"{f.float64:.1e} in float64, {f.float32:.1e} in float32"
        print(f"FAILS: {f.name}{where}, {f.law}: {f.about}: {what}{_not_claimed(f.law)}")
    print(f"{len(found) - len(bad)} of {len(found)} laws hold")


def _not_claimed(law: str) -> str:
    """How a scheme says that it does not claim a law."""
    claim = {"relative": "relative", "uniqueness": "unique", "shift": "isometric"}.get(law)
    return f" (a scheme that does not claim it says `{claim} = False`)" if claim else ""


def _print_errors(title: str, found: list[Finding], columns: list[str]) -> None:
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for f in found:
        lines.setdefault((f.name, f.structure or ""), {})[f.law] = _error(f)
    columns = [c for c in columns if any(f.law == c for f in found)]
    keys = [title, "on"] if any(structure for _, structure in lines) else [title]
    rows = [[*where[: len(keys)], *(line.get(c, "") for c in columns)] for where, line in lines.items()]
    print_table([*keys, *columns], rows)


def _error(f: Finding) -> str:
    if f.trouble is not None:
        return "FAILS"
    text = "exact" if f.float64 == f.float32 == 0.0 else f"{f.float64:.0e} {f.float32:.0e}"
    return text if f.holds else f"{text} FAILS"


def print_runs(lines: Lines) -> None:
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
    return ", ".join(f"{name} {_value(value)}" for name, value in options.items())


def _value(value: Any) -> str:
    if value is None or value == ():
        return "—"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
