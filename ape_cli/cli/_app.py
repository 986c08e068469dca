"""The application, and what all commands share: common options, error messages and exit statuses."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

import ape_cli
from ape_cli.cli._help import EXECUTION, OUTPUT, RUNS, HelpfulCommand
from ape_cli.cli.console import note, tell
from ape_cli.core.errors import ApeError, DataError, suggestion
from ape_cli.core.messages import messages_to
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import StoragePath, local_path, storage_path

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich would more than double the time of `ape --help`
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Compare positional encodings: generate structured data, train one shared transformer "
    "with any scheme, evaluate it, and print the paper's tables.",
)


if TYPE_CHECKING:
    from ape_cli.runs.record import OwnCode

    Somewhere: TypeAlias = StoragePath
else:
    Somewhere = Path  # Typer takes no unions; `_place` parses the text into a `StoragePath`


def somewhere(about: str, *names: str, metavar: str = "DIR", group: str | None = None) -> Any:
    """An option for a local folder or file, or an address in an object store.

    `about`: its help text; `group`: the title under which `--help` lists it.
    """
    return typer.Option(*names, parser=_place, metavar=metavar, help=about, rich_help_panel=group)


def _parser(parse: Callable[[Any], StoragePath]) -> Callable[[Any], StoragePath]:
    """A parser of paths for Typer. It raises `BadParameter` where `parse` raises `ApeError`, and for an empty text."""

    def parsed(text: Any) -> StoragePath:
        if text == "":  # an unset variable of a shell, which must not mean the current folder
            raise typer.BadParameter("the name of the file or folder is empty; . is the current folder")
        try:
            return parse(text)
        except ApeError as error:
            raise typer.BadParameter(str(error)) from None

    return parsed


_place, here = _parser(storage_path), _parser(local_path)  # `here` parses what can only be on this machine


Dataset = Annotated[
    Somewhere,
    typer.Argument(parser=_place, metavar="DATASET", help="Dataset: a folder, an address, or a name under --datasets."),
]
Results = Annotated[
    Somewhere,
    somewhere("Folder in which runs are registered: a local folder, s3://… or gs://…", "--results", group=OUTPUT),
]
Datasets = Annotated[
    Somewhere,
    somewhere("Folder that contains the datasets: a local folder, s3://… or gs://…", "--datasets", group=OUTPUT),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)]
Schemes = Annotated[
    list[str] | None, typer.Option("--scheme", help="Only runs of this scheme; may be repeated.", rich_help_panel=RUNS)
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        help="Only runs of this task (tree-copy) or column (tree-copy/depth); may be repeated.",
        rich_help_panel=RUNS,
    ),
]
Presets = Annotated[
    list[str] | None, typer.Option("--preset", help="Only runs of this preset; may be repeated.", rich_help_panel=RUNS)
]
Log = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Metric logger: json-lines, tensorboard, trackio, wandb or your own; may be repeated.",
        rich_help_panel=EXECUTION,
    ),
]
Threads = Annotated[
    int | None, typer.Option(help="Number of CPU threads. Default: all cores.", rich_help_panel=EXECUTION)
]
RESULTS, DATASETS = Path("results"), Path("datasets")


def stop_signals() -> list[signal.Signals]:
    """The signals that ask a command to stop. SIGHUP, the end of the terminal, is not one of them under `nohup`."""
    asked = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if asked else [])]


@contextmanager
def on_stop(handler: Callable[[int, Any], Any]) -> Iterator[None]:
    """Within the block, `handler` handles the `stop_signals`. In other threads than the main one, it does not."""
    before: dict[signal.Signals, Any] = {}
    try:
        with suppress(ValueError):  # only the main thread may set signal handlers
            for number in stop_signals():
                before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def command(
    example: str, *, name: str | None = None, cls: type[HelpfulCommand] = HelpfulCommand, option: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command of the same name, or of `name`.

    `example` ends its help. `option` is proposed if the user gives a word that the command does not take.
    """
    kind = type(cls.__name__, (cls,), {"option": option})

    def register(function: Callable[..., None]) -> Callable[..., None]:
        return app.command(name, cls=kind, epilog=example)(_guarded(function))

    return register


def _guarded(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function print user errors without a traceback, and exit with the right status.

    SIGTERM and SIGHUP are handled like Ctrl-C. Afterwards, signals are handled as before the command.
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            with on_stop(signal.default_int_handler), messages_to(note):
                function(*args, **kwargs)
        except (ApeError, OSError) as error:
            raise typer.Exit(tell(error)) from None
        except KeyboardInterrupt:
            note("interrupted: run the same command again to continue")
            raise typer.Exit(130) from None

    return run


def _version(wanted: bool) -> None:
    """Print the version and exit, if it is wanted."""
    if wanted:
        print(f"ape {ape_cli.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of `ape` itself."""


def note_unreadable(bad: list[str]) -> None:
    """Print a note for each thing that cannot be read and is left out."""
    for line in bad:
        note(f"left out: {line}")


def note_changed(own: Collection[OwnCode]) -> set[str]:
    """Print a note about each of the user's schemes whose code has changed since some of these runs were trained.

    Returns the names of these runs.
    """
    if not own:
        return set()
    from ape_cli.models.own_files import changes, outdated  # it imports torch

    for change in changes(own, "`ape sweep … --retrain-changed`"):
        note(change)
    return outdated(own)


def dataset_folder(data: StoragePath, datasets: StoragePath = DATASETS) -> StoragePath:
    """The folder of a dataset that is given as a folder or by its name in `datasets`.

    If neither exists, the argument is returned as it is.
    """
    if isinstance(data, RemotePath):
        return data
    named = datasets / str(data)
    return named if named.exists() and not data.exists() else data


def dataset_names(datasets: StoragePath) -> list[str]:
    """The names of the complete datasets in a folder, sorted."""
    return sorted(path.parent.name for path in datasets.glob("*/manifest.json"))


def folder_options(results: StoragePath = RESULTS, datasets: StoragePath = DATASETS) -> list[str]:
    """The words with which a command finds these folders: none for the usual ones."""
    words = [] if results == RESULTS else ["--results", str(results)]
    return words if datasets == DATASETS else [*words, "--datasets", str(datasets)]


def existing_dataset(data: StoragePath, datasets: StoragePath = DATASETS) -> StoragePath:
    """`dataset_folder`, for a dataset that has to exist. Raises `DataError` that lists the datasets that do."""
    if isinstance(data, RemotePath):
        return data
    try:
        folder = dataset_folder(data, datasets)
        if folder.exists():
            return folder
    except OSError:  # reading it says more
        return data
    names = dataset_names(datasets)
    raise DataError(
        "no such dataset",
        got=str(data),
        allowed=f"a folder, or one of those in {datasets}: {', '.join(names) or 'none'}",
        fix=suggestion(str(data), names, "generate one with `ape gen TASK --out DIR`"),
    )
