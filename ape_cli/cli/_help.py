"""The help of a command: options in named groups, what each takes in capital letters, and an example at the end."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from typer.core import TyperCommand

# The groups in which options are listed, in this order. An option names its group with `rich_help_panel`.
DATA, PLACES, MODEL, TRAINING = "Data", "Places", "Model", "Training"
SCORES, RUNS, GRID = "Scores", "Which runs", "Grid of runs"
PICTURE, TRAINED = "Picture", "A trained run"
EXECUTION, EXISTING, FORMAT = "Execution", "Existing results", "Format"
ROWS, OUTPUT, TASKS = "Rows", "Folders and output", "Options of tasks"
OTHER = "Options"  # of options without a group
_FIRST = (OTHER, GRID, DATA, ROWS, MODEL, PLACES, PICTURE, TRAINED, TRAINING, SCORES, RUNS, FORMAT)
_ORDER = (*_FIRST, EXECUTION, EXISTING, OUTPUT, TASKS)

_STRAY = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((?P<words>\S.*)\)")
_HYPHEN = "\u2011"  # stands for a hyphen while lines are folded, so that names such as tree-copy stay whole


class HelpfulCommand(TyperCommand):
    """A command whose `--help` shows groups of options.

    `option` is proposed if the user gives a word that the command does not take, for example `--scheme `.
    """

    option: ClassVar[str] = ""
    WORDS: ClassVar = "ape_cli.words"  # where the context has the words of the command line

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. The error about a word that is no argument names the option that takes it."""
        ctx.meta[self.WORDS] = list(args)
        flags = {word.partition("=")[0] for word in args}  # parsing takes the words off the list
        try:
            return list(super().parse_args(ctx, args))
        except Exception as error:
            told = getattr(error, "message", "")
            stray = _STRAY.fullmatch(told) if isinstance(told, str) else None
            if self.option and stray is not None and self.option.split()[0] not in flags:
                word = f"{self.option}{stray['words'].split()[0]}"
                error.message = f"{told}; did you mean: ape {self.name} {word}"  # type: ignore[attr-defined]
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters. Each that takes a value says which, for example `--seed SEED`."""
        found = super().get_params(ctx)
        for one in found:
            if one.metavar is None and not getattr(one, "is_flag", False):
                one.metavar = last_word(one.opts[-1])
        return found

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of the line of usage: `[OPTIONS] TASK`."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def get_help(self, ctx: Any) -> str:
        """The text of `--help`."""
        return str(super().get_help(ctx)).replace(_HYPHEN, "-")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options by group."""
        groups: dict[str, list[Any]] = {}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is not None:
                names = one.metavar if one.param_type_name == "argument" else record[0]
                groups.setdefault(self._group(one), []).append((names, record[1].replace("-", _HYPHEN)))
        for title in sorted(groups, key=_place):
            with formatter.section(title):
                formatter.write_dl(groups[title])

    def _group(self, one: Any) -> str:
        """The title under which a parameter is listed."""
        if one.param_type_name == "argument":
            return "Arguments"
        return OUTPUT if "--help" in one.opts else getattr(one, "rich_help_panel", None) or OTHER

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example, which is not folded, so that it can be copied."""
        if self.epilog:
            with formatter.section("Example"):
                for line in self.epilog.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def last_word(name: str) -> str:
    """The last word of a name in capitals: `--source-order` takes an ORDER."""
    return name.replace("_", "-").split("-")[-1].upper()


def _place(title: str) -> int:
    """The place of a group. Arguments come first, and groups of other packages before the folders."""
    if title == "Arguments":
        return -1
    return _ORDER.index(title) if title in _ORDER else _ORDER.index(OUTPUT) - 1
