"""Options as dataclasses, so that several commands share them, and the groups that are shared.

A parameter of a command whose type is such a class stands for all of its fields: `expanded` gives the command one
option for each of them, and calls it with an instance.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, get_type_hints

import typer

from ape_cli.cli.console import print_hint, print_names, print_note
from ape_cli.core.errors import ApeError, UsageError, messages_to
from ape_cli.storage.paths import StoragePath, local_path, storage_path

if TYPE_CHECKING:
    AnyPath: TypeAlias = StoragePath
else:
    AnyPath = Path  # Typer takes no unions; the parser makes a `StoragePath` of the text

# the groups of options in `--help`, in their order
OTHER, GRID, DATA, ROWS, MODEL, PLACES = "Options", "Grid of runs", "Data", "Rows", "Model", "Places"
PICTURE, TRAINED, TRAINING, SCORES, RUNS = "Picture", "A trained run", "Training", "Scores", "Which runs"
FORMAT, EXECUTION, EXISTING = "Format", "Execution", "Existing results"
OUTPUT, TASKS = "Folders and output", "Options of tasks"
PANELS = [OTHER, GRID, DATA, ROWS, MODEL, PLACES, PICTURE, TRAINED, TRAINING, SCORES, RUNS, FORMAT]
PANELS += [EXECUTION, EXISTING, OUTPUT, TASKS]


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


any_path, here = _parser(storage_path), _parser(local_path)  # `here` parses what can only be on this machine


def option(help_text: str, *flags: str, default: Any = None, panel: str | None = None, **more: Any) -> Any:
    """A field that is an option. `panel`: its group in `--help`, in place of the `PANEL` of its class.

    `more` are further arguments of `typer.Option`. Without `flags`, the flag follows from the name of the field.
    """
    return field(default=default, metadata={"flags": flags, "help": help_text, "rich_help_panel": panel} | more)


def path(help_text: str, *flags: str, metavar: str = "DIR", panel: str | None = None, default: Any = None) -> Any:
    """An `option` for a local folder or file, or an address in an object store."""
    return option(help_text, *flags, default=default, panel=panel, metavar=metavar, parser=any_path)


def refuse_idle(*options: tuple[bool, str, str]) -> None:
    """Raise `UsageError` for the first option that was given and has no effect.

    Each of `options` says whether this is so, names the flag, and gives the reason: `with --pack`.
    """
    for is_idle, name, reason in options:
        if is_idle:
            raise UsageError(f"{name} has no effect", got=f"{name} {reason}", fix="leave it out")


def listing(package: str) -> Callable[[bool], None]:
    """The callback of a flag that prints the parts of a package, such as its views, and exits."""

    def print_parts(asked: bool) -> None:
        if not asked:
            return
        with messages_to(print_note):  # options are read before the command prints messages
            print_names((part.name, part.about) for part in import_module(package).every())
        print_hint("--view NAME chooses one")
        raise typer.Exit

    return print_parts


def expanded(function: Callable[..., None]) -> Callable[..., None]:
    """The function of a command with the fields of dataclasses in place of the parameters of these types."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in groups:
            parameters += _parameters(groups[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{item.name: values.pop(item.name) for item in fields(group)})
        function(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters(group: Any) -> list[inspect.Parameter]:
    """The parameters of a function for the fields of a dataclass."""
    parameters, hints = [], get_type_hints(group)
    for item in fields(group):
        settings = dict(item.metadata)
        flags = settings.pop("flags")
        if hints[item.name] is bool:
            flags = flags or (flag(item.name),)  # without --no-…
        settings["rich_help_panel"] = settings["rich_help_panel"] or group.PANEL
        field_type: Any = hints[item.name]
        annotation = Annotated[field_type, typer.Option(*flags, **settings)]
        parameters.append(
            inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=annotation)
        )
    return parameters


def flags_of(options: Any) -> list[str]:
    """The flags of the options that are not at their defaults."""
    changed = [item for item in fields(options) if getattr(options, item.name) != item.default]
    return [str(item.metadata["flags"][-1]) if item.metadata["flags"] else flag(item.name) for item in changed]


def flag(name: str) -> str:
    """The flag of an option for its name in Python.

    >>> flag("depth_mean")
    '--depth-mean'
    """
    return f"--{name.replace('_', '-')}"


RESULTS, DATASETS = Path("results"), Path("datasets")
Dataset = Annotated[
    AnyPath,
    typer.Argument(parser=any_path, metavar="DATASET", help="Dataset: a folder, an address, or a name in --datasets."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)]


@dataclass(frozen=True)
class ResultsFolder:
    """Where runs are."""

    PANEL: ClassVar = OUTPUT
    results: AnyPath = path("Folder of the runs (local, s3://… or gs://…), or a file of packed runs.", default=RESULTS)


@dataclass(frozen=True)
class DatasetsFolder:
    """Where datasets are."""

    PANEL: ClassVar = OUTPUT
    datasets: AnyPath = path("Folder of the datasets: a local folder, s3://… or gs://…", default=DATASETS)


@dataclass(frozen=True)
class Folders(DatasetsFolder, ResultsFolder):
    """Where runs and datasets are."""


SIZES = """Sizes of the data (lengths, depths, sides, digits) instead of those of the preset, such as 1-20,30. The \
rows of the preset are divided evenly."""
TRAINING_ROWS = "Training rows, instead of those of the preset."
PRESET = "Preset: paper, neurips, medium, small or tiny. Default: paper on a GPU, else small."
PRECISION = "Precision: fp32, tf32 (only on GPUs) or bf16."
GENERALISE = """Also evaluate at other sizes, such as 30,50 or 30-40, with 1,000 test rows each. Without SIZES: 1, \
1.25, 1.5, 2, 3 and 5 times the largest training size (for trees, depth). `none`: no other sizes, not even those of a \
suite."""
DECODE = "Decoding: teacher (only teacher forcing), or greedy (both)."


@dataclass(frozen=True)
class RequestOptions:
    """The fields of an experiment that the command line gives (`ExperimentSpec`), and the file with the others."""

    PANEL: ClassVar = MODEL
    scheme: str | None = option("Positional encoding (`ape schemes` lists them). Required without --config.")
    structure: str | None = option("Structure that positions are read as, such as seq*tree(2).")
    attention: str | None = option("Kind of attention (`ape attentions` lists them). Default: dot.")
    positions: str | None = option(
        "Map of positions, such as randomised. Drawn again in each training epoch, and once per row for validation and "
        "evaluation. Default: plain."
    )
    model: str | None = option("Model: encoder-decoder, or decoder (decoder-only). Default: encoder-decoder.")
    data: AnyPath | None = path("Dataset: a folder, a name in --datasets, s3://… or gs://…", panel=DATA)
    task: str | None = option(
        "Task, such as copy or 'modular kind=parity'. Its dataset is generated with the sizes of the preset.",
        panel=DATA,
    )
    sizes: str | None = option(SIZES, panel=DATA)
    rows: int | None = option(TRAINING_ROWS, panel=DATA)
    order: str | None = option("Node order of trees: breadth, depth, breadth-to-depth, …", panel=DATA)
    source_order: str | None = option(
        "Node order of source trees. Default: that of the preset, or else --order.", panel=DATA
    )
    preset: str | None = option(PRESET, panel=TRAINING)
    seed: int | None = option("Seed for weights, batch order and dropout. Default: 42.", panel=TRAINING)
    file: AnyPath | None = path(
        "run.json of a run, or FILE.toml with the fields of an experiment. Other options override its fields.",
        "--config",
        metavar="FILE",
        panel=TRAINING,
    )
    settings: list[str] | None = option(
        "Set a field of the configuration (`ape fields` lists them); may be repeated.",
        "--set",
        metavar="KEY=VALUE",
        panel=TRAINING,
    )
    no_eval: bool = option("Skip the evaluation on the test split.", default=False, panel=TRAINING)
    generalise: str | None = option(GENERALISE, metavar="[SIZES]", panel=SCORES)
    decode: str | None = option(f"{DECODE} Default: teacher.", panel=SCORES)


@dataclass(frozen=True)
class ExistingRunOptions:
    """What happens to a run that exists already."""

    PANEL: ClassVar = EXISTING
    resume: bool = option("Resume a stopped run.", default=False)
    overwrite: bool = option("Delete an existing run and train it from scratch.", default=False)


DEVICE = "Device: auto, cpu or cuda."
THREADS = "Number of CPU threads. Default: all cores."


@dataclass(frozen=True)
class ExecutionOptions:
    """Where and how training runs, which changes its speed."""

    PANEL: ClassVar = EXECUTION
    device: str = option(DEVICE, default="auto")
    compiled: bool = option(
        "Compile the model with torch.compile. It helps only on a GPU, if at all.", "--compile", default=False
    )
    log: list[str] | None = option(
        "Metric logger: json-lines, tensorboard, trackio, wandb or your own; may be repeated.", metavar="NAME"
    )


@dataclass(frozen=True)
class RunFilter:
    """Which runs are listed or reported."""

    PANEL: ClassVar = RUNS
    scheme: list[str] | None = option("Only runs of this scheme; may be repeated.")
    task: list[str] | None = option(
        "Only runs of this task (tree-copy, `modular kind=parity`) or table column (tree-copy/depth); may be repeated."
    )
    preset: list[str] | None = option("Only runs of this preset; may be repeated.")
    sweep: Path | None = option("Only the runs of this sweep, on their own datasets.", metavar="FILE.toml", parser=here)
    conditions: list[str] | None = option(
        "Only runs that meet a condition on a column of `ape runs --json`, such as steps>=800, status=failed or "
        "dataset~tree (contains); may be repeated.",
        "--filter",
        metavar="CONDITION",
    )
