"""The packages and files of `ape_cli` are ordered: each imports only from earlier ones. Only some import torch."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ape_cli"

# The packages in the order of the pipeline, and the modules of each that may import torch.
# CONTRIBUTING.md lists the packages in this order.
PIPELINE = {
    "core": "none",
    "storage": "none",
    "structure": "none",
    "tasks": "none",
    "data": "augmentation, batches, collation, image_batches, loader, position_plan",
    "runs": "none",
    "position": "all",
    "attention": "all",
    "experiment": "resolution",
    "models": "all",
    "evaluation": "all",
    "training": "all",
    "sweep": "none",
    "reports": "none",
    "cli": "none",
}
# Modules beside the packages: the parts of the public surface whose implementation is in a package.
PUBLIC = {"adapters": "models", "errors": "core", "dataset": "data", "registry": "runs"}

FILES = sorted(p for p in PACKAGE.rglob("*.py") if p not in (PACKAGE / "__init__.py", PACKAGE / "__main__.py"))
ORDER = list(PIPELINE)


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """The modules of the package that each of its modules imports, at any place of the file."""
    paths = {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in PACKAGE.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): ast.parse(path.read_text()) for name, path in paths.items()}
    edges: dict[str, set[str]] = {}
    for module, tree in modules.items():
        named: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{module} has a relative import"
                parts = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= parts if parts <= modules.keys() else {str(node.module), *parts}
        edges[module] = (named & modules.keys()) - {module}
    return edges


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """The syntax tree of every file, parsed once."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def package_of(path: Path) -> str:
    """Returns the package or public module of `ape_cli` that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_torch(tree: ast.Module) -> bool:
    """Returns whether a module imports torch: at the top, in a function or for annotations."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        if any(name.split(".")[0] == "torch" for name in names):
            return True
    return False


def test_a_package_imports_only_from_those_above_it(imports: dict[str, set[str]]) -> None:
    """A public module imports only its implementation."""
    edges = [(importer, imported) for importer, others in imports.items() for imported in others]
    assert len(edges) > 1000
    for importer, imported in edges:
        own, other = f"{importer}.".split(".")[1], f"{imported}.".split(".")[1]
        if own in PUBLIC:
            assert other == PUBLIC[own], importer
        elif own in PIPELINE:
            assert other in ORDER[: ORDER.index(own) + 1], f"{importer} imports {imported}"


def test_no_two_files_import_each_other(imports: dict[str, set[str]]) -> None:
    """There is an order of all files in which each imports only from earlier ones."""
    TopologicalSorter(imports).prepare()  # raises an error that has the circle


def test_every_file_is_in_a_package_of_the_table() -> None:
    assert {package_of(p) for p in FILES} == {*PIPELINE, *PUBLIC}
    assert len(PIPELINE) <= 15


def test_only_the_modules_of_the_table_import_torch(trees: dict[Path, ast.Module]) -> None:
    for path, tree in trees.items():
        allowed = PIPELINE.get(package_of(path), "none")
        if allowed != "all" and path.stem not in allowed.split(", "):
            assert not imports_torch(tree), f"{path} imports torch"


def test_no_two_public_classes_have_one_name(trees: dict[Path, ast.Module]) -> None:
    places: dict[str, list[str]] = {}
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert not {name: files for name, files in places.items() if len(files) > 1}


def test_contributing_lists_the_packages() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in re.findall(r"^- `(\w+)`: ", text, flags=re.M) if name in PIPELINE] == ORDER


def test_the_model_knows_no_scheme_by_name() -> None:
    """The model, the loop, the metrics, the loader and `attention`, except for its rules, contain no scheme's name.

    The same modules, except `attention`, contain no name of a kind of attention.
    """
    from ape_cli import attention, position

    named = ["models/transformer", "evaluation/metrics", "data/collation", "data/loader"]
    named += [f"training/{name}" for name in ("trainer", "schedule", "cuda_graphs")]
    ours = [PACKAGE / f"{name}.py" for name in named]
    for path in (*ours, *(PACKAGE / "attention").glob("[!_]*.py"), PACKAGE / "attention" / "_kind.py"):
        for scheme in set(position.names()) - {"none"}:  # `reduction="none"` does not name the scheme
            assert f'"{scheme}"' not in path.read_text(), (path, scheme)
    for path in ours:
        for kind in attention.names():
            assert f'"{kind}"' not in path.read_text(), (path, kind)


def named_tasks(tree: ast.Module, names: set[str]) -> set[str]:
    """The tasks that a module names as a string: in a comparison, a `match`, a subscript, or a key or member."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.MatchValue | ast.Subscript | ast.Dict | ast.Set | ast.List | ast.Tuple):
            parts = node.keys if isinstance(node, ast.Dict) else ast.iter_child_nodes(node)
            found |= {part.value for part in parts if isinstance(part, ast.Constant)} & names
    return found


# Options, and values of options, that are words which other tasks have for a name.
OWN_WORDS = {"addition": {"reverse"}, "packing": {"compression"}}
OWN_WORDS |= {name: {"copy"} for name in ("_tree_corpus", "selective_copying", "trees")}
TABLE = PACKAGE / "reports" / "layout.py"  # the order of the paper's tables; other tasks come after it


def test_no_file_names_a_task(trees: dict[Path, ast.Module]) -> None:
    """What is special about a task is a property of the task, so that a new task changes no other file."""
    from ape_cli import tasks

    for path, tree in trees.items():
        if path == TABLE:
            continue
        found = named_tasks(tree, set(tasks.names()) - OWN_WORDS.get(path.stem, set()))
        assert not found, f"{path} names {found}"
