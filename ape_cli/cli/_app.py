"""The application, and what all commands share: common options, error messages and exit statuses."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from ape_cli.cli import completion
from ape_cli.cli.console import name_fields, print_error, print_note
from ape_cli.cli.options import DATASETS, EXECUTION, EXISTING, OTHER, OUTPUT, PANELS, expanded
from ape_cli.core import memory
from ape_cli.core.errors import ApeError, DataError, messages_to, suggestion
from ape_cli.core.runtime import version
from ape_cli.core.user_parts import explained
from ape_cli.storage.paths import StoragePath

# the commands in `ape --help`
COMMANDS = {
    "Data": ("gen", "show"),
    "Train and evaluate": ("train", "sweep", "eval"),
    "Report and draw": ("report", "draw"),
    "Schemes, tasks and other parts": ("tasks", "schemes", "attentions", "fields", "check", "new"),
    "Runs and files": ("runs", "rm", "doctor", "verify", "export", "push"),
}


class Commands(TyperGroup):
    """All commands. `--help` lists them in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the first sentence of its help."""
        width = max(map(len, self.commands))
        for title, names in COMMANDS.items():
            lines = ((f"{name:<{width}}", self.commands[name].get_short_help_str(formatter.width)) for name in names)
            with formatter.section(title):
                formatter.write_dl(list(lines))


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich would more than double the time of `ape --help`
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Compare positional encodings: generate structured data, train the same transformer "
    "with any scheme, evaluate it, and print tables of scores.",
)


if TYPE_CHECKING:
    from ape_cli.runs.record import UserCode


@contextmanager
def on_stop(handler: Callable[[int, Any], Any]) -> Iterator[None]:
    """Within the block, `handler` handles Ctrl-C, SIGTERM and the end of the terminal, which `nohup` ignores.

    In other threads than the main one, it does not.
    """
    before: dict[signal.Signals, Any] = {}
    hangup = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else []
    try:
        with suppress(ValueError):  # only the main thread may set signal handlers
            for number in (signal.SIGINT, signal.SIGTERM, *hangup):
                before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


class Command(TyperCommand):
    """A command whose `--help` shows groups of options, and that prints user errors without a traceback."""

    WORDS: ClassVar = "ape_cli.words"  # where the context has the words of the command line
    BARE: ClassVar = {"--generalise": "auto"}  # options that may stand without their numbers, and what they mean then

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line."""
        ctx.meta[self.WORDS] = list(args)
        for index, (word, following) in enumerate(zip(args, [*args[1:], ""], strict=False)):
            # what follows is not its value: an option, a file or nothing
            if word in self.BARE and (not following or following.startswith("-") or following.endswith(".toml")):
                args[index] = f"{word}={self.BARE[word]}"
        return list(super().parse_args(ctx, args))

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters. Each that takes a value says which, for example `--seed SEED`."""
        params = super().get_params(ctx)
        for parameter in params:
            if parameter.metavar is None and not getattr(parameter, "is_flag", False):
                parameter.metavar = last_word(parameter.opts[-1])
        if ctx.resilient_parsing:  # the Tab key
            completion.complete(params, str(ctx.info_name))
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of the line of usage: `[OPTIONS] TASK`."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options by group."""
        groups: dict[str, list[Any]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                groups.setdefault("Arguments", []).append((parameter.metavar, record[1]))
            else:
                is_help = "--help" in parameter.opts
                group = OUTPUT if is_help else getattr(parameter, "rich_help_panel", None) or OTHER
                groups.setdefault(group, []).append(record)
        for title in sorted(groups, key=_panel_index):
            with formatter.section(title):
                formatter.write_dl(groups[title])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example, which is not folded, so that it can be copied."""
        if self.epilog:
            with formatter.section("Example"):
                for line in self.epilog.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")

    def _flags(self, ctx: Any) -> dict[str, str]:
        """The options by the names of fields in messages, where `task` is --tasks of a sweep.

        If a TOML file has the fields of the request, only options that are no such fields are included.
        """
        parameters = self.get_params(ctx)
        if str(ctx.params.get("file")).endswith(".toml"):
            parameters = [item for item in parameters if item.rich_help_panel in (EXECUTION, EXISTING, OUTPUT)]
        names = [name for item in parameters for name in item.opts if name.startswith("--")]
        flags = {name[2:].replace("-", "_"): name for name in names}
        if "schemes" not in flags:
            return flags
        return {field.removesuffix("s"): name for field, name in flags.items()} | flags

    def invoke(self, ctx: Any) -> Any:
        """Run the command. SIGTERM and SIGHUP are handled like Ctrl-C. Afterwards, signals are handled as before."""
        name_fields(self._flags(ctx))
        handled = on_stop(signal.default_int_handler)
        try:
            with handled, messages_to(print_note), explained():
                return super().invoke(ctx)
        except (ApeError, OSError) as error:
            raise typer.Exit(print_error(error)) from None
        except (MemoryError, RuntimeError) as error:
            if not memory.ran_out(error):
                raise
            raise typer.Exit(print_error(memory.out_of_memory(error))) from None
        except KeyboardInterrupt:
            print_note("interrupted: run the same command again to continue")
            raise typer.Exit(130) from None


def last_word(name: str) -> str:
    """The last word of a name in capitals: `--source-order` takes an ORDER."""
    return name.replace("_", "-").split("-")[-1].upper()


def _panel_index(title: str) -> int:
    """The index of a group in `--help`. Arguments come first, and groups of other packages before the folders."""
    if title == "Arguments":
        return -1
    return PANELS.index(title) if title in PANELS else PANELS.index(OUTPUT) - 1


F = TypeVar("F", bound=Callable[..., None])


def command(example: str, *, name: str | None = None, cls: type[Command] = Command) -> Callable[[F], F]:
    """Register a function as a command of the same name, or of `name`. `example` ends its help."""

    def register(function: F) -> F:
        app.command(name, cls=cls, epilog=example)(expanded(function))
        return function

    return register


def _version(show: bool) -> None:
    """Print the version and exit, if it is wanted."""
    if show:
        print(f"ape {version()}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of `ape` itself."""


def note_changed(trained_with: Collection[UserCode]) -> set[str]:
    """Print a note about each of the user's schemes whose code has changed since some of these runs were trained.

    Returns the names of these runs.
    """
    if not trained_with:
        return set()
    from ape_cli.models.factory import change, changed  # it imports torch

    outdated = changed(trained_with)
    for part, runs in outdated.items():
        print_note(change(part, runs))
    return {run for runs in outdated.values() for run in runs}


def dataset_folder(data: StoragePath, datasets: StoragePath = DATASETS) -> StoragePath:
    """The folder of a dataset that is given as a folder or by its name in `datasets`.

    If neither exists, the argument is returned as it is.
    """
    named = datasets / str(data)
    return named if named.exists() and not data.exists() else data


def existing_dataset(data: StoragePath, datasets: StoragePath = DATASETS) -> StoragePath:
    """`dataset_folder`, for a dataset that has to exist. Raises `DataError` that lists the datasets that do."""
    try:
        folder = dataset_folder(data, datasets)
        if folder.exists():
            return folder
    except OSError:  # reading it says more
        return data
    names = sorted(path.parent.name for path in datasets.glob("*/manifest.json"))
    raise DataError(
        "no such dataset",
        got=str(data),
        allowed=f"a folder, or one of those in {datasets}: {', '.join(names) or 'none'}",
        fix=suggestion(str(data), names, "generate one with `ape gen TASK --out DIR`"),
    )
