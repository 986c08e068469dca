"""What the Tab key completes: the values of options and arguments, and the options of a task.

A Tab must feel immediate. Therefore names of plug-ins, runs and datasets are those of files and folders, the options of
a task are read from its source text, and nothing here imports a plug-in or a large library.
"""

from __future__ import annotations

import ast
import os
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ape_cli.cli.options import DATASETS, RESULTS
from ape_cli.core import plugins
from ape_cli.core.errors import ApeError
from ape_cli.core.vocabulary import SPLITS

Values: TypeAlias = Callable[[Any], Iterable[str]]  # the context of a command -> the values of one of its parameters

_WIDTH = 70  # of the help of an option


def _plugins(package: str) -> Values:
    """The names of the plug-ins of a package, such as `position`."""
    return lambda ctx: sorted(plugins.places(f"ape_cli.{package}"))


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
        with os.scandir(Path(root, below)) as entries:
            return sorted(one.name for one in entries if os.path.exists(f"{one.path}/{file}"))  # noqa: PTH110
    except OSError:
        return []


_SCHEMES, _TASKS, _ATTENTIONS = _plugins("position"), _plugins("tasks"), _plugins("attention")


def _published(ctx: Any) -> list[str]:
    """The sources of published numbers: the files of the package, and those in the current folder."""
    folders = plugins.folders("ape_cli.reports.published")
    names = sorted(path.stem for folder in folders for path in folder.glob("*.toml"))
    return names + sorted(map(str, Path().glob("*.toml")))


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
    "report --compare": _SCHEMES,
    "--data": _datasets,
    "show data": _datasets,
    "push what": lambda ctx: [*_runs(ctx), *_datasets(ctx)],
    "--preset": _closed("paper", "neurips", "medium", "small", "tiny"),
    "--model": _closed("encoder-decoder", "decoder"),
    "--models": _closed("encoder-decoder", "decoder"),
    "--order": _closed("breadth", "depth"),
    "--source-order": _closed("breadth", "depth"),
    "--orders": _closed("breadth", "depth", "breadth-to-depth", "depth-to-breadth"),
    "--split": _closed(*SPLITS),
    "--decode": _closed("teacher", "greedy"),
    "--device": _closed("auto", "cpu", "cuda"),
    "--precision": _closed("fp32", "tf32", "bf16"),
    "--metric": _closed("token_accuracy", "exact_match", "cross_entropy", "perplexity"),
    "--against": _published,
    "--by": _closed("size", "op", "epoch"),
    "--best-by": _closed("validation"),
    "--axis": _closed("score", "error"),
    "gen --format": _plugins("storage.tree_formats"),
    "report --format": _closed("rich", "markdown", "latex", "csv", "json", "html"),
    "--plot-format": _closed("svg", "png", "pdf"),
    "new kind": _closed("scheme", "task", "attention"),
}
_LISTS = {"--schemes", "--tasks", "--attentions", "--positions", "--models", "--orders"}  # of `ape sweep`


def needed(modules: Collection[str]) -> Collection[str]:
    """The modules of commands that have to be imported: for a Tab after the name of a command, only its own."""
    if not os.environ.get("_APE_COMPLETE", "").startswith("complete_"):
        return modules
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return [name for name in line.split()[1:2] if name in modules] or modules


def complete(parameters: Iterable[Any], command: str, more: Mapping[str, Collection[str]] = {}) -> None:
    """Let the parameters of a command complete their values. `more`: closed lists of values, by flag.

    Values that the command line has already are kept as text, because converting them imports pydantic. Some shells
    show the help of an option, for which there is one line.
    """
    for one in parameters:
        one.process_value = lambda ctx, value: value
        one.help = textwrap.shorten((one.help or "").partition(". ")[0], _WIDTH, placeholder=" …")
        name = one.opts[-1]
        values = _closed(*more[name]) if more.get(name) else VALUES.get(f"{command} {name}") or VALUES.get(name)
        if values is not None:
            one.shell_complete = _completer(values, several=command == "sweep" and name in _LISTS)


def _completer(values: Values, several: bool) -> Callable[[Any, str], list[Any]]:
    """A method `shell_complete` of a parameter. `several`: its value is a list, separated by commas."""

    def completed(ctx: Any, incomplete: str) -> list[Any]:
        from typer._click.shell_completion import CompletionItem

        before, comma, word = incomplete.rpartition(",") if several else ("", "", incomplete)
        given = set(before.split(","))
        try:
            return [
                CompletionItem(before + comma + value)
                for value in values(ctx)
                if value.startswith(word) and value not in given
            ]
        except ApeError:  # two plug-ins have the same name; every command says so
            return []

    return completed


@dataclass(frozen=True)
class DeclaredOption:
    """An option of a task, as the source text of its class declares it."""

    name: str
    kind: str
    help: str
    among: tuple[str, ...]
    default: None = None


def task_options(task: str) -> list[DeclaredOption]:
    """The options of a task: those that the classes in its file declare and inherit.

    There are none if the file cannot be read, or if the task is an entry point.
    """
    place = plugins.places("ape_cli.tasks").get(task)
    if not isinstance(place, Path):
        return []
    try:
        found = _Classes(place)
        return list({one.name: one for name in found.defined for one in found.options(name)}.values())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []


class _Classes:
    """The classes that a file defines, and those that it imports from this package."""

    def __init__(self, file: Path) -> None:
        body = ast.parse(file.read_bytes()).body
        self.defined = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
        imports = [node for node in body if isinstance(node, ast.ImportFrom) and node.module]
        self._modules = {alias.name: str(node.module) for node in imports for alias in node.names}

    def options(self, name: str) -> Iterator[DeclaredOption]:
        """The options of a class, those of its base classes first."""
        node = self.defined.get(name)
        if node is None:
            module = self._modules.get(name, "")
            stems = plugins.folders(module) if module.startswith("ape_cli.") else []  # of other modules, none
            files = [file for stem in stems for file in (stem.with_suffix(".py"), stem / "__init__.py")]
            for file in [file for file in files if file.is_file()][:1]:
                yield from _Classes(file).options(name)
            return
        for base in node.bases:
            word = base.value if isinstance(base, ast.Subscript) else base  # Base[Kind]
            yield from self.options(word.id if isinstance(word, ast.Name) else getattr(word, "attr", ""))
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                declared = _declared(line.target.id, line.annotation, line.value)
                yield from [declared] if declared else []


def _declared(field: str, annotation: ast.expr, call: Any) -> DeclaredOption | None:
    """The option that a field of a class declares, by a call of `option` or `tasks.option`; None for another field."""
    function = getattr(call, "func", None)
    if "option" not in (getattr(function, "id", None), getattr(function, "attr", None)):
        return None
    words: Mapping[str, Any] = {word.arg: word.value for word in call.keywords if word.arg}
    help = words.get("help", call.args[1] if len(call.args) > 1 else None)
    among: Collection[Any] = _literal(words.get("among")) or ()
    kind = ast.unparse(annotation).removesuffix(" | None")
    return DeclaredOption(_literal(words.get("name")) or field, kind, str(_literal(help) or ""), tuple(map(str, among)))


def _literal(value: ast.expr | None) -> Any:
    """The value of an expression; None if it is not a literal."""
    try:
        return None if value is None else ast.literal_eval(value)
    except ValueError:
        return None
