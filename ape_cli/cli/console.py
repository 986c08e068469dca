"""Printing on a terminal: results go to stdout, progress and notes to stderr."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from ape_cli.core import escaping
from ape_cli.core.errors import ApeError, cut, remedy
from ape_cli.core.numbers import perplexity, perplexity_text
from ape_cli.core.slow_steps import slow_step

if TYPE_CHECKING:  # rich is imported when it is used
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment


_NAMED = 80  # characters of a file's name in an error
# as messages name fields, for example `data` and `device=cuda`, but not methods: "`log` of logger …"
_FIELD = re.compile(r"`([a-z]\w*)(?:=([^`]*))?`(?! of [a-z])")
_flags: dict[str, str] = {}  # the options of the command that runs, by the names of their fields


def name_fields(flags: dict[str, str]) -> None:
    """Name fields by these options in notes and errors: `data` is printed as `--data`, `decay=1` as `--set decay=1`."""
    _flags.clear()
    _flags.update(flags)


def _as_typed(text: str) -> str:
    """A message with options in place of fields."""

    def typed(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name in _flags:
            return f"`{_flags[name]}`" if value is None else f"`{_flags[name]} {value}`"
        return match[0] if value is None or "set" not in _flags else f"`--set {name}={value}`"

    return _FIELD.sub(typed, text)


def print_note(line: str) -> None:
    """Print a note on stderr: a line break in a name becomes visible. On a terminal, it is folded between words."""
    print(_folded(_as_typed(line), sys.stderr), file=sys.stderr)


def _folded(line: str, stream: TextIO, indent: int = 0) -> str:
    """A line of text as it is printed, folded between words if the stream is a terminal. `indent`: of further lines."""
    shown = escaping.one_line(escaping.redacted(line))
    if not stream.isatty():
        return shown
    width = shutil.get_terminal_size().columns
    hanging = " " * min(indent, width // 2)
    return textwrap.fill(shown, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def print_hint(line: str) -> None:
    """Print a note about progress, or about what else there is, on a terminal only."""
    if sys.stderr.isatty():
        print_note(line)


def print_note_lines(text: str) -> None:
    """Print a text of several lines on stderr, such as the message of an error. Commands in it can be copied."""
    for line in _as_typed(text).split("\n"):
        print(escaping.one_line(escaping.redacted(line)), file=sys.stderr)


def print_error(error: ApeError | OSError) -> int:
    """Print a user error on stderr, and return the exit status of the program.

    Nothing is printed if the reader of a pipe has gone.
    """
    if isinstance(error, BrokenPipeError):
        return 1
    shown = user_error(error)
    print_note_lines(f"error: {shown}")
    return shown.exit_code


def user_error(error: ApeError | OSError) -> ApeError:
    """The error itself, or the message for an error of the system, in which a long name is cut."""
    if isinstance(error, ApeError):
        return error
    got, what = error.strerror or str(error), "cannot read or write"
    if isinstance(error.filename, str | os.PathLike):
        what = f"cannot use {cut(os.fspath(error.filename), _NAMED)}"
    return ApeError(what, got=got, fix=remedy(error))


def print_result(line: str, indent: int = 0) -> None:
    """Print a line of the result on stdout. On a terminal, it is folded between words, with an indent."""
    print(_folded(line, sys.stdout, indent), flush=True)


def print_commands(commands: Iterable[str]) -> None:
    """Print commands on stdout, each as one line, so that they can be copied from a narrow terminal too."""
    for command in commands:
        print(f"  {escaping.one_line(escaping.redacted(command))}", flush=True)


def print_names(entries: Iterable[tuple[str, str]]) -> None:
    """Print names and what they are, one in a line, with the descriptions below each other."""
    lines = dict(entries)
    width = max(map(len, lines))
    for name, about in lines.items():
        print_result(f"{name:<{width}}  {about}", indent=width + 2)


def draw(drawn: Any) -> None:
    """Print a rich table or tree on stdout. In a pipe or a file, it is 160 columns wide, or as wide as COLUMNS says."""
    from rich.console import Console

    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ  # rich reads both
    Console(width=None if is_known else 160).print(Visible(drawn))


class Visible:
    """A rich table or tree whose texts are escaped for a terminal. The control codes of rich itself are kept."""

    def __init__(self, drawn: Any) -> None:
        """Keep the table or tree."""
        self.drawn = drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """Yield the segments with escaped texts."""
        from rich.segment import Segment

        for text, style, control in console.render(self.drawn, options):
            yield Segment(text if control else escaping.terminal(text), style, control)


def print_json(value: Any) -> None:
    """Print a result as JSON on stdout."""
    print(escaping.json(value))


@contextmanager
def rows_bar(total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal. Yields a function that is called with numbers of finished rows."""
    if not sys.stderr.isatty():
        with slow_step(f"generating {total:,} rows"):
            yield lambda rows: None
        return
    from rich import progress
    from rich.console import Console

    done, left = progress.MofNCompleteColumn(), progress.TimeRemainingColumn()
    columns = ("generating", progress.BarColumn(), done, "rows", left)
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        job = bar.add_task("rows", total=total)
        yield lambda rows: bar.advance(job, rows)


def clock(seconds: float) -> str:
    """Seconds as minutes and seconds, or as hours, minutes and seconds.

    >>> clock(59.6), clock(3725), clock(90_061)
    ('1:00', '1:02:05', '25:01:01')
    """
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def accuracy_of(modality: str) -> str:
    """The name of the accuracy for a kind of model: an image has a single label, so its accuracy is not of tokens."""
    return "accuracy" if modality == "image" else "token accuracy"


def scores_in_words(overall: dict[str, Any], modality: str) -> str:
    """The scores over all rows of an evaluation, of a model of a kind."""
    exact = "" if modality == "image" else f", exact match {overall['exact_match']:.2%}"
    entropy = ""
    if (nats := overall.get("cross_entropy")) is not None:
        entropy = f", cross-entropy {nats:.4f} nats, perplexity {perplexity_text(perplexity(nats))}"
    return f"{accuracy_of(modality)} {overall['token_accuracy']:.2%}{exact}{entropy}"


def print_table(heads: list[str], rows: list[list[str]], numbers: Collection[str] = ()) -> None:
    """Print rows of text as a table. The names in the first column are not folded.

    `numbers`: the heads of the columns that are aligned on the right.
    """
    from ape_cli.reports.terminal import listing

    draw(listing(heads, [[escaping.one_line(text) for text in row] for row in rows], numbers))


def shown(value: Any) -> str:
    """The value of an option or a setting as text; a dash for none.

    >>> shown(None), shown(True), shown(0.98), shown(1e-7), shown("both")
    ('—', 'true', '0.98', '1e-07', 'both')
    """
    if value is None or value == ():
        return "—"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
