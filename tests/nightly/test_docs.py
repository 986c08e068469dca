"""The commands of every page and the examples in Python run as written, and the site builds."""

from __future__ import annotations

import inspect
import re
import shutil
from ast import literal_eval
from pathlib import Path
from typing import Any

import pytest

import ape_cli
from ape_cli.runs.run import Run
from tests.conftest import ape as run
from tests.interpreters import python
from tests.test_docs import BLOCKS, COMMANDS, OWN_PARTS, PAGES, ROOT, TINY, is_elsewhere, run_page

pytestmark = pytest.mark.usefixtures("forked_workers")

RUN = [page for page in PAGES if any(page == other and not is_elsewhere(words) for other, words in COMMANDS)]


@pytest.mark.parametrize("page", [page for page in RUN if page != "README.md" and not page.startswith(OWN_PARTS)])
def test_the_commands_of_a_page_run(page: str, here: Path) -> None:
    run_page(page, here)


def example_of(documented: object) -> str:
    """The indented block of code in a docstring."""
    lines = inspect.cleandoc(documented.__doc__ or "").split("\n")
    return "\n".join(line[4:] for line in lines if line.startswith("    ") or not line)


def test_the_examples_of_a_loaded_model_and_of_a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("train", "--scheme", "rope", "--task", "tree-copy", "--preset", "tiny", *TINY)
    run("train", "--scheme", "rope", "--task", "copy", "--preset", "tiny", *TINY)
    run("export", "tree-copy", "--out", "tree-copy-model")
    capsys.readouterr()
    exec(example_of(ape_cli.load), {})
    assert isinstance(literal_eval(capsys.readouterr().out), list)
    exec(example_of(Run), {"registry": ape_cli.registry})
    name, accuracy = capsys.readouterr().out.split()
    assert name.startswith("copy-rope-42-")
    assert 0 <= float(accuracy) <= 1


def test_the_example_of_a_scheme_in_a_llama() -> None:
    pytest.importorskip("transformers")
    names: dict[str, Any] = {"adapters": ape_cli.adapters}
    exec(example_of(ape_cli.adapters.use_scheme), names)
    assert names["encoding"].scheme.name == "alibi"


@pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile")
@pytest.mark.parametrize(
    ("which", "made", "shape"),
    [
        ("attention.logits", "scores", (1, 8, 5, 5)),
        ("sdpa_inputs", "mixed", (1, 8, 5, 64)),
        ("flex_inputs", "mixed", (1, 8, 5, 64)),
        ("utils.checkpoint", "x", (1, 5, 64)),
        ("torch.compile(fullgraph", "q", (1, 4, 3, 16)),
        ("transformers", "loss", ()),
    ],
)
def test_the_examples_with_torch_run(which: str, made: str, shape: tuple[int, ...]) -> None:
    if which == "transformers":
        pytest.importorskip("transformers")
    (example,) = (b for b in BLOCKS if b.startswith("import torch") and which in b)
    names: dict[str, object] = {}
    exec(example, names)
    assert names[made].shape == shape  # type: ignore[attr-defined]


def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    """A link to a page or a heading that does not exist is a warning. No page loads anything from elsewhere."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for file in ("zensical.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / file, tmp_path)
    done = python("-m", "zensical", "build", "--strict", where=tmp_path)
    assert "No issues found" in done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loaded = re.findall(r"""<(?:script|link|img)[^>]*?(?:src|href)="(https?:[^"]*)""", page.read_text("utf-8"))
        assert not loaded, page.name
    assert "Keep a Changelog" in (tmp_path / "site" / "changelog" / "index.html").read_text("utf-8")
    assert "<math " in (tmp_path / "site" / "explanation" / "structures" / "index.html").read_text("utf-8")
