"""What the Tab key completes: the names of plug-ins, runs and datasets, and closed lists of values.

Names are those of files and folders, so that nothing here imports a plug-in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from ape_cli.cli.options import DATASETS, RESULTS
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError
from ape_cli.core.vocabulary import SPLITS

Values: TypeAlias = Callable[[Any], Iterable[str]]  # the context of a command -> the values of one of its parameters


def _plugins(package: str) -> Values:
    """The names of the plug-ins of a package, such as `position`."""
    return lambda ctx: sorted(plugins.locations(f"ape_cli.{package}"))


def _closed(*names: str) -> Values:
    """A closed list of values."""
    return lambda ctx: names


def _runs(ctx: Any) -> list[str]:
    """The names of the runs in --results: those of the folders there."""
    return _folders(ctx.params.get("results") or RESULTS, "runs", "run.json")


def _datasets(ctx: Any) -> list[str]:
    """The names of the complete datasets in --datasets."""
    return _folders(ctx.params.get("datasets") or DATASETS, "", "manifest.json")


def _folders(root: Any, below: str, file: str) -> list[str]:
    """The names of the folders in `root`/`below` that contain a file. Object stores are not asked for theirs."""
    try:
        return sorted(path.parent.name for path in Path(str(root), below).glob(f"*/{file}"))
    except OSError:
        return []


def _suites(ctx: Any) -> list[str]:
    """The names of the suites."""
    return sorted(plugins.toml_files((folder / "suites" for folder in plugins.folders("ape_cli.tasks")), "suites"))


_SCHEMES, _TASKS, _ATTENTIONS = _plugins("position"), _plugins("tasks"), _plugins("attention")
_ORDERS = _closed("breadth", "depth", "breadth-to-depth", "depth-to-breadth")


# The values of the parameters of all commands, by flag, or by name if a parameter is an argument. A parameter of a
# single command has the command before it. Lists separated by commas are completed word by word.
VALUES: dict[str, Values] = {
    "--scheme": _SCHEMES,
    "--schemes": _SCHEMES,
    "schemes names": _SCHEMES,
    "draw scheme": _SCHEMES,
    "--task": _TASKS,
    "--tasks": _TASKS,
    "gen task": _TASKS,
    "--suite": _suites,
    "tasks names": _TASKS,
    "--attention": _ATTENTIONS,
    "--attentions": _ATTENTIONS,
    "attentions names": _ATTENTIONS,
    "draw --attention": _closed("encoder", "decoder", "cross"),
    "check names": lambda ctx: sorted({*_SCHEMES(ctx), *_ATTENTIONS(ctx)}),
    "--positions": _plugins("data.position_maps"),
    "--log": _plugins("training.loggers"),
    "--engine": _plugins("core.executors"),
    "report --view": _plugins("reports.views"),
    "draw --view": _plugins("reports.pictures"),
    "runs": _runs,
    "run": _runs,
    "--run": _runs,
    "--data": _datasets,
    "show data": _datasets,
    "--preset": _closed("paper", "neurips", "medium", "small", "tiny"),
    "--model": _closed("encoder-decoder", "decoder"),
    "--models": _closed("encoder-decoder", "decoder"),
    "--order": _ORDERS,
    "--source-order": _closed("breadth", "depth"),
    "--orders": _ORDERS,
    "--split": _closed(*SPLITS),
    "--decode": _closed("teacher", "greedy"),
    "--device": _closed("auto", "cpu", "cuda"),
    "--precision": _closed("fp32", "tf32", "bf16"),
    "--metric": _closed("token_accuracy", "exact_match", "cross_entropy", "perplexity"),
    "--against": _closed("neurips", "paper"),
    "gen --format": _plugins("storage.tree_formats"),
    "report --format": _closed("rich", "markdown", "latex", "csv", "json", "html"),
}
_LISTS = {"--schemes", "--tasks", "--attentions", "--positions", "--models", "--orders"}  # of `ape sweep`


def complete(parameters: Iterable[Any], command: str) -> None:
    """Let the parameters of a command complete their values."""
    for parameter in parameters:
        name = parameter.opts[-1]
        values = VALUES.get(f"{command} {name}") or VALUES.get(name)
        if values is not None:
            parameter.shell_complete = _completer(values, several=command == "sweep" and name in _LISTS)


def _completer(values: Values, several: bool) -> Callable[[Any, str], list[Any]]:
    """A method `shell_complete` of a parameter. `several`: its value is a list, separated by commas."""

    def completed(ctx: Any, incomplete: str) -> list[Any]:
        from typer._click.shell_completion import CompletionItem

        before, comma, word = incomplete.rpartition(",") if several else ("", "", incomplete)
        try:
            return [CompletionItem(before + comma + value) for value in values(ctx) if value.startswith(word)]
        except ApeError:  # two plug-ins have the same name; every command says so
            return []

    return completed
