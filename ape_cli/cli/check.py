"""`ape check`: measure the laws that schemes and kinds of attention claim, and explain each failure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ape_cli.cli._app import command
from ape_cli.cli.console import print_hint, print_json, print_note, print_result, print_table
from ape_cli.cli.options import EXECUTION, THREADS, Json
from ape_cli.core import plugins, runtime
from ape_cli.core.errors import NeedsError

if TYPE_CHECKING:  # imported where it is needed, because torch is slow to import
    from ape_cli.evaluation.laws import Finding


_MEASURED = (
    "errors in float64 and float32 (limits 1e-9 and 1e-4; for the locality bias, which is float32, 1e-4 in both);",
    "uniqueness and reach: the smallest difference, which must be at least 1e-4; exact: 0 in both",
    "operators and scores: up to 10,000 steps and 40 levels; models: 300 and 12; with and without locality bias",
)


@command("ape check rope")
def check(
    names: Annotated[list[str] | None, typer.Argument(help="Names of parts, such as schemes. Default: all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also list all rules and laws, with their errors.")] = False,
    threads: Annotated[int | None, typer.Option(help=THREADS, rich_help_panel=EXECUTION)] = None,
    as_json: Json = False,
) -> None:
    """Check the rules and laws of schemes and other parts. Exits with status 1 if one fails."""
    runtime.share_cores()
    from ape_cli.evaluation import laws
    from ape_cli.models.device import choose_device
    from ape_cli.training import loggers
    from ape_cli.training.loggers._rules import RULES

    choose_device("cpu", threads)

    def of_logger(name: str) -> Iterator[Finding]:
        """Apply the rules for metric loggers to a logger."""

        def made() -> Any:
            """The class of the logger. Raises `NeedsError` for one of ape that writes elsewhere than into the run."""
            cls: Any = loggers.load(name)
            if cls.needs and not plugins.is_user_class(cls):
                raise NeedsError(f"the logger {name} needs {cls.needs}, and perhaps a server")
            return cls

        return laws.check_rules("logger", name, made, RULES)

    checks = laws.CHECKS | {"logger": (loggers, of_logger)}
    chosen = list(dict.fromkeys(names or []))
    laws.check_names(chosen, checks)
    findings: list[Finding] = []
    for name in chosen or dict.fromkeys(name for package, _ in checks.values() for name in package.names()):
        print_hint(f"checking {name}")
        findings += laws.check(name, checks)
    if as_json:
        print_json([dataclasses.asdict(f) for f in findings])
    else:
        _print_findings(findings, every)
    if not all(f.holds for f in findings):
        raise typer.Exit(1)


def _print_findings(findings: list[Finding], every: bool) -> None:
    """Print how many rules and laws hold, and explain each failure. `every`: print a table of each kind of part too."""
    failed = [f for f in findings if not f.holds]
    print_result(f"{len(findings) - len(failed)} of {len(findings)} rules and laws hold")
    for failure in _failures(failed):
        for line in f"FAILS: {failure}".split("\n"):  # the parts of an error
            print_result(line)
    if not every:
        print_note("--all prints every rule and law with its error")
        return
    for part in dict.fromkeys(f.part for f in findings):
        measured = [f for f in findings if f.part == part and f.law != "import"]
        if measured:
            rows = [[f.name, f.structure or "", f.law, _error(f)] for f in measured]
            print_table([part, "on", "rule or law", "error"], rows)
    if any(f.float64 is not None for f in findings):
        for line in _MEASURED:
            print_note(line)
    for law, about in dict.fromkeys((f.law, f.about) for f in findings if f.law != "import"):
        print_note(f"{law}: {about}")


def _failures(failed: list[Finding]) -> list[str]:
    """A text for each law that does not hold. Laws and rules of one subject that fail for one reason share a text."""
    from ape_cli.evaluation import laws

    reasons: dict[tuple[str, str], list[str]] = {}
    texts: list[str] = []
    for f in failed:
        subject = f"{f.name} on {f.structure}" if f.structure else f.name
        if f.trouble is None:
            claim = laws.CLAIMS.get(f.law) if f.part == "scheme" else None
            fix = f"\n  fix:     correct the code, or its claim `{claim}`" if claim else ""
            texts.append(f"{subject}, {f.law}: {f.about}: {f.float64:.1e} in float64, {f.float32:.1e} in float32{fix}")
        else:
            reasons.setdefault((subject, f.trouble), []).extend([f.law] if f.law != "import" else [])
    return texts + [f"{', '.join([subject, *laws])}: {trouble}" for (subject, trouble), laws in reasons.items()]


def _error(f: Finding) -> str:
    """The errors of a law in float64 and float32, or whether a rule holds, as the text of a cell."""
    if f.trouble is not None:
        return "FAILS"
    if f.float64 is None or f.float32 is None:  # a rule
        return "holds"
    text = "exact" if f.float64 == f.float32 == 0.0 else f"{f.float64:.0e} {f.float32:.0e}"
    return text if f.holds else f"{text} FAILS"
