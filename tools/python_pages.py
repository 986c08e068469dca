"""The reference pages of the Python interface: one for each public module, from its docstrings and signatures."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import textwrap
import tokenize
from typing import Any

import ape_cli
from ape_cli import adapters, attention, dataset, errors, load, position, registry, tasks
from ape_cli.data.batches import SequenceBatch
from ape_cli.data.loader import Split
from ape_cli.evaluation.sharing.trained_model import TrainedModel
from ape_cli.models.adapters.hugging_face import Encoding
from ape_cli.runs.run import Run
from tools.markdown_text import page, prose, table

MEMBERS: dict[str, dict[str, Any]] = {  # of each page: what it describes, by name
    "position": {
        "names": position.names,
        "make": position.make,
        "options": position.options,
        "load": position.load,
        "Scheme": position.Scheme,
        "Context": position.Context,
        "AttentionPair": position.AttentionPair,
        "Shape": position.Shape,
    },
    "attention": {
        "names": attention.names,
        "make": attention.make,
        "options": attention.options,
        "load": attention.load,
        "logits": attention.logits,
        "use_backend": attention.use_backend,
        "AttentionType": attention.AttentionType,
        "AttentionContext": attention.AttentionContext,
        "Attention": attention.Attention,
    },
    "tasks": {
        "names": tasks.names,
        "make": tasks.make,
        "options_of": tasks.options_of,
        "load": tasks.load,
        "BaseTask": tasks.BaseTask,
        "Task": tasks.Task,
        "Tokens": tasks.Tokens,
        "Source": tasks.Source,
        "option": tasks.option,
        "check_whole": tasks.check_whole,
        "letters": tasks.letters,
        "join": tasks.join,
    },
    "dataset": {"open": dataset.open, "Dataset": dataset.Dataset, "Split": Split, "SequenceBatch": SequenceBatch},
    "registry": {"open": registry.open, "Registry": registry.Registry, "Run": Run},
    "load": {"load": load, "TrainedModel": TrainedModel},
    "adapters": {
        "sdpa_inputs": adapters.sdpa_inputs,
        "flex_inputs": adapters.flex_inputs,
        "use_scheme": adapters.use_scheme,
        "Encoding": Encoding,
    },
    "errors": {name: getattr(errors, name) for name in errors.__all__},
}
METHODS = {  # of classes that also have methods for this package's own use: those that are described
    "Dataset": ["split", "ids", "name", "width", "largest_size"],
    "Split": ["batches", "steps", "table"],
    "SequenceBatch": ["inputs", "label_mask", "to"],
    "Registry": ["runs", "find", "only", "readable"],
    "Run": ["read", "status", "delete"],
    "BaseTask": ["sample", "structure", "id_names", "mean_size", "options"],
    "Tokens": [],
    "Task": ["draw", "target", "symbols", "store", "identity"],
    "Scheme": ["context", "embed", "rotate", "bias", "decay", "layer", "logits", "attach", "reads", "properties"],
    "AttentionType": ["attend"],
    "AttentionContext": ["of", "mask", "penalty"],
    "Attention": ["forward", "weights"],
    "Encoding": ["at"],
}
FIELDS = ("Scheme", "Context", "AttentionPair", "Shape", "AttentionType", "AttentionContext", "BaseTask", "Tokens")
FIELDS += ("Source", "SequenceBatch")  # classes whose fields are described by the comments beside them


def python_pages() -> dict[str, str]:
    """A page for each public module, and one that lists them."""
    about, contents = prose(ape_cli.__doc__).split("\n| module", 1)
    contents = "| module" + contents
    for name in MEMBERS:
        contents = contents.replace(f"| `{name}`", f"| [`{name}`](python/{name}.md)")
    return {"python.md": page("Python interface", about, contents)} | {
        f"python/{name}.md": _module(name, members) for name, members in MEMBERS.items()
    }


def _module(name: str, members: dict[str, Any]) -> str:
    """The page of a module: its docstring, and its functions and classes."""
    parts = [] if name == "load" else [prose(getattr(ape_cli, name).__doc__)]
    for member, value in members.items():
        parts += _class(name, member, value) if inspect.isclass(value) else _function(f"{name}.{member}", value)
    return page(f"ape_cli.{name}", *parts)


def _function(name: str, function: Any, level: int = 2) -> list[str]:
    """The section of a function, with its signature."""
    heading = f"{'#' * level} {name.split('.', 1)[1] if level == 2 else name}"
    return [heading, _signature("ape_cli.load" if name == "load.load" else name, function), prose(function.__doc__)]


def _class(module: str, name: str, cls: type) -> list[str]:
    """The section of a class: its docstring, its fields, and its methods."""
    parts = [f"## {name}"]
    if dataclasses.is_dataclass(cls) and "Task" not in name:
        parts += [_signature(f"{module}.{name}", cls)]
    parts += [prose(cls.__doc__)]
    if name in FIELDS:
        parts.append(table(["field", "type", "meaning"], _fields(cls)))
    for method in METHODS.get(name, [method for method in vars(cls) if not method.startswith("_")]):
        attribute = inspect.getattr_static(cls, method)
        called = inspect.unwrap(getattr(attribute, "__func__", attribute))
        if inspect.isfunction(called):
            parts += _function(f"{name}.{method}", called, level=3)
        elif documented := getattr(attribute, "fget", None) or getattr(attribute, "func", None):
            returned = inspect.signature(documented).return_annotation
            parts += [f"### {name}.{method}", f"```text\n{name}.{method}: {returned}\n```", prose(documented.__doc__)]
    return parts


def _signature(name: str, function: Any) -> str:
    """How a function is called, as a block of code. A long one has a line for each parameter."""
    given = list[str]()
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls") or parameter.name.startswith("_"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in given:
            given.append("*")
        stars = {parameter.VAR_KEYWORD: "**", parameter.VAR_POSITIONAL: "*"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        given.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
    returned = "" if inspect.isclass(function) else f" -> {signature.return_annotation}"
    line = f"{name}({', '.join(given)}){returned}"
    if len(line) > 100:
        line = f"{name}(\n" + "".join(f"    {text},\n" for text in given) + f"){returned}"
    return f"```text\n{line}\n```"


def _default(value: Any) -> str:
    """A default value. Objects, whose text would have an address, are an ellipsis."""
    text = repr(value)
    return "…" if text.startswith("<") else text


def _fields(cls: type) -> list[list[str]]:
    """The public fields of a class with their types, and the comments beside or above them."""
    source = textwrap.dedent(inspect.getsource(cls))
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    bare = {number for number in comments if source.splitlines()[number - 1].lstrip().startswith("#")}
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    rows = []
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
            above, line = list[str](), node.lineno - 1
            while line in bare:
                above, line = [comments[line], *above], line - 1
            beside = comments.get(node.end_lineno or 0, "")
            kind_of = ast.unparse(node.annotation)
            kind_of = kind_of.removeprefix("ClassVar[").removesuffix("]") if "ClassVar[" in kind_of else kind_of
            rows.append([f"`{ast.unparse(node.target)}`", f"`{kind_of}`", " ".join([*above, beside]).strip()])
    return rows
