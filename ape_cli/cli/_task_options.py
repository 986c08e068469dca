"""The options of tasks as options of `ape gen`.

They come from the tasks themselves (`tasks.options_of`), so a new task brings its own options. Options that several
tasks have in common are one option of the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ape_cli.cli._help import TASKS, HelpfulCommand, last_word
from ape_cli.core.errors import ApeError, UsageError

if TYPE_CHECKING:
    from ape_cli.tasks import TaskOption

_KEY, _WORDS = "ape_cli.task_options", "ape_cli.words"
_TYPES = {"bool": bool, "int": int, "float": float}
# In the names of parameters: FORM_task_option_NAME. The form says how the value is read.
OPTION_OF_TASKS = "_task_option_"


class TaskCommand(HelpfulCommand):
    """A command with the options of all tasks beside its own. `given_options` returns their values.

    `--help` beside the name of a task shows only the options of that task.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. Its words are kept, because `--help` ends the command before they are parsed."""
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)

    def listed(self, ctx: Any) -> list[Any]:
        """The parameters that `--help` lists."""
        from ape_cli import tasks

        found, named = self.get_params(ctx), self._named(ctx)
        if named is None:
            return found
        own = tasks.options_of(tasks.load(named))
        about = {option: _about(one) for option, one in own.items()}
        return [one for one in map(partial(_of_task, about), found) if one is not None]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example: one of the task that the command line names, if it names one."""
        if (named := self._named(ctx)) is not None:
            self.epilog = example(named)
        super().format_epilog(ctx, formatter)

    def _named(self, ctx: Any) -> str | None:
        """The task that the command line names; None if it names none."""
        from ape_cli import tasks

        names = tasks.names()
        return next((word for word in ctx.meta[_WORDS] if word in names), None)

    def get_params(self, ctx: Any) -> list[Any]:
        """The command's parameters, the options of the tasks, then `--help`."""
        own = super().get_params(ctx)
        taken = {flag for parameter in own for flag in parameter.opts}
        return [*own[:-1], *(one for one in _options() if taken.isdisjoint(one.opts)), *own[-1:]]

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Its function does not get the options of tasks, because it does not know their names."""
        names = [name for name in ctx.params if OPTION_OF_TASKS in name]
        ctx.meta[_KEY] = {name: ctx.params.pop(name) for name in names}
        return super().invoke(ctx)


def example(task: str) -> str:
    """A command that generates data for a task."""
    from ape_cli import tasks

    source = tasks.options_of(tasks.load(task)).get("source")
    return f"ape gen {task} " + ("--n 5000" if source is None else f"--source {source.default or 'PATH'}")


def given_options(ctx: typer.Context, settings: list[str]) -> dict[str, Any]:
    """The options of the task that the command line gives, as options of their own or in `settings` (KEY=VALUE).

    Raises `UsageError` if an option is given twice or cannot be given like this.
    """
    from ape_cli.runs.config import parse_settings

    given = {}
    for parameter, value in ctx.meta[_KEY].items():
        if value is not None:
            form, _, name = parameter.partition(OPTION_OF_TASKS)
            given[name] = _READ[form](name, value)
    more = parse_settings(settings)
    if own := next((key for key in ("order", "source_order") if key in more), None):
        option = flag(own)
        fix = f"write {option} {more[own]}"
        raise UsageError(f"{own} has an option of its own", got=f"--set {own}={more[own]}", fix=fix)
    if twice := sorted(given.keys() & more.keys()):
        both = f"{given[twice[0]]} and {more[twice[0]]}"
        raise UsageError(f"{twice[0]} is given twice", got=both, fix="give it once, as an option or with --set")
    return given | more


@contextmanager
def named_as_options(task: str) -> Iterator[None]:
    """Within the block, errors say `--depth-mean`, and not `depth_mean`, which is its name in Python.

    Names of one word are left as they are, because they may be words of a sentence.
    """
    from ape_cli import tasks

    try:
        yield
    except UsageError as error:
        with suppress(ApeError):  # the task itself may be unknown
            for name in tasks.options_of(tasks.load(task)):
                if "_" in name:
                    error = _renamed(error, name, flag(name))
        raise error from None


def _renamed(error: UsageError, name: str, option: str) -> UsageError:
    """The error with an option in place of a name, except where the name is quoted or is set (`name=…`)."""
    rename = partial(re.sub, rf"(?<![\w'-]){name}(?![\w=])", option)
    fix = None if error.fix is None else rename(error.fix)
    return UsageError(rename(error.what), got=error.got, allowed=error.allowed, fix=fix)


def _options() -> list[Any]:
    """One option of the command line for each option that some task has."""
    from ape_cli import tasks

    found: dict[str, dict[str, tasks.TaskOption]] = {}
    for task in tasks.names():
        with suppress(ApeError):  # a plug-in's file may be broken; an error follows if its task is asked for
            for option in tasks.options_of(tasks.load(task)).values():
                found.setdefault(option.name, {})[task] = option

    def function(**given: Any) -> None: ...

    # Typer makes options from the signature of a function
    wanted = [_parameter(name, of) for name, of in found.items()]
    function.__signature__ = Signature(wanted)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in wanted}
    made = typer.Typer(add_completion=False)
    made.command()(function)
    return list(typer.main.get_command(made).params)


def _parameter(name: str, of: dict[str, TaskOption]) -> Parameter:
    """The parameter of a function for the option of a name. `of`: what each task that has it says of it."""
    kinds = {option.kind for option in of.values()}
    kind = kinds.pop() if len(kinds) == 1 else "any"
    form = "list" if kind.startswith("tuple") else "any" if kind == "any" else "plain"
    metavar = "30,40,60" if form == "list" else None if kind == "bool" else last_word(name)
    about = typer.Option(flag(name), help=_help(of), show_default=False, metavar=metavar, rich_help_panel=TASKS)
    annotation = Annotated[_TYPES.get(kind, str) | None, about]  # type: ignore[valid-type]
    return Parameter(f"{form}{OPTION_OF_TASKS}{name}", Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _of_task(about: dict[str, str], one: Any) -> Any | None:
    """A parameter with the help of one task; None for an option that this task does not have. `about`: its options."""
    option = one.name.partition(OPTION_OF_TASKS)[2]
    if option:
        one.help = about.get(option)
    return None if option and option not in about else one


def flag(name: str) -> str:
    """The option of the command line for an option of tasks."""
    return f"--{name.replace('_', '-')}"


def _help(of: dict[str, TaskOption]) -> str:
    """The help of an option: what it is, the tasks that have it, and their defaults."""
    texts = list(dict.fromkeys(option.help for option in of.values() if option.help))
    defaults: dict[str, list[str]] = {}
    for task, option in of.items():
        defaults.setdefault(_text(option.default), []).append(task)
    if len(defaults) == 1:
        (default,) = defaults
        ends = [f"{', '.join(of)}{f'; default {default}' if default else ''}"]
    else:
        ends = [f"{', '.join(tasks)}: default {default or 'none'}" for default, tasks in defaults.items()]
    return f"{' '.join(texts)} [{'; '.join(ends)}]".strip()


def _about(option: TaskOption) -> str:
    """The help of an option of one task."""
    default = _text(option.default)
    return f"{option.help}{f'  [default: {default}]' if default else ''}".strip()


def _text(default: Any) -> str:
    """A default as text; empty for none."""
    if default in (None, (), False):
        return ""
    return f"{default:g}" if isinstance(default, float) else str(default)


def _whole_numbers(name: str, text: str) -> list[int]:
    """The numbers of `--sizes 30,40,60`. Raises `UsageError` for anything else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        allowed, given = "whole numbers, separated by commas", flag(name)
        raise UsageError(f"bad {given}", got=repr(text), allowed=allowed, fix=f"for example {given} 30,40,60")
    return [int(part) for part in parts]


def _setting(name: str, text: str) -> Any:
    """A value as `--set NAME=TEXT` gives it, for an option whose type differs between tasks."""
    from ape_cli.runs.config import parse_settings  # slow to import

    return parse_settings([f"{name}={text}"])[name]


_READ: dict[str, Callable[[str, Any], Any]] = {
    "plain": lambda name, value: value,
    "list": _whole_numbers,
    "any": _setting,
}
