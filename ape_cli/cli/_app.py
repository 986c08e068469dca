"""What every command shares: the application, common options, errors as messages and exit statuses."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

import ape_cli
from ape_cli.cli.console import note
from ape_cli.core.errors import ApeError
from ape_cli.core.messages import messages_to
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import StoragePath, storage_path

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich would more than double the time of `ape --help`
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Positional encodings, compared: generate structured data, train one shared transformer "
    "with any scheme, evaluate it, print the paper's tables.",
)


if TYPE_CHECKING:
    Somewhere: TypeAlias = StoragePath
else:
    Somewhere = Path  # Typer takes no unions; what `_place` makes of the text is a Place


def somewhere(about: str, *names: str, metavar: str = "DIR") -> Any:
    """An option that takes a folder (or a file), or an address in an object store."""
    return typer.Option(*names, parser=_place, metavar=metavar, help=about)


def _place(text: str | StoragePath) -> StoragePath:
    try:
        return storage_path(text)
    except ApeError as error:
        raise typer.BadParameter(str(error)) from None


Dataset = Annotated[
    Somewhere, typer.Argument(parser=_place, metavar="DATASET", help="Folder or address, or its name under datasets/.")
]
Results = Annotated[Somewhere, somewhere("Where runs are registered: a folder, s3://… or gs://…", "--results")]
Datasets = Annotated[Somewhere, somewhere("Where datasets are: a folder, s3://… or gs://…", "--datasets")]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
Schemes = Annotated[
    list[str] | None, typer.Option("--scheme", help="Only runs of this scheme; several: the option again.")
]
Tasks = Annotated[
    list[str] | None,
    typer.Option("--task", help="Only runs of this task, tree-copy, or column, tree-copy/depth; may be repeated."),
]
Presets = Annotated[
    list[str] | None, typer.Option("--preset", help="Only runs of this preset; several: the option again.")
]
Log = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Log metrics: json-lines, tensorboard, or your own; may be repeated."),
]
Threads = Annotated[int | None, typer.Option(help="CPU threads; default all cores.")]
RESULTS, DATASETS = Path("results"), Path("datasets")


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Print a user's error without a traceback, and end with the right status. SIGTERM is a Ctrl-C."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        with suppress(ValueError):  # signals are the main thread's alone
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with messages_to(note):
                function(*args, **kwargs)
        except ApeError as error:
            note(f"error: {error}")
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            note("interrupted: the same command goes on from what is done")
            raise typer.Exit(130) from None
        except BrokenPipeError:
            raise typer.Exit(1) from None
        except OSError as error:
            note(f"error: {error}")
            raise typer.Exit(1) from None

    return run


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ape {ape_cli.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="And exit.")] = False,
) -> None:
    pass


def note_unreadable(bad: list[str]) -> None:
    for line in bad:
        note(f"left out: {line}")


def dataset_folder(data: StoragePath, datasets: StoragePath = DATASETS) -> StoragePath:
    """A dataset's folder, or its name in `datasets`; as it was given where there is neither."""
    if isinstance(data, RemotePath):
        return data
    named = datasets / str(data)
    return named if named.exists() and not data.exists() else data
