"""The commands of every page and the examples in Python run as written, and the site builds."""

from __future__ import annotations

import json
import re
import shutil
from ast import literal_eval
from pathlib import Path

import pytest

from tests.conftest import ape as run
from tests.conftest import elsewhere
from tests.interpreters import python
from tests.test_docs import BLOCKS, COMMANDS, PAGES, ROOT, commands_of, is_elsewhere, run_page, small

pytestmark = pytest.mark.usefixtures("forked_workers")

RUN = [page for page in PAGES if any(page == other and not is_elsewhere(words) for other, words in COMMANDS)]


@pytest.mark.parametrize("page", [page for page in RUN if page != "README.md"])
def test_the_commands_of_a_page_run(page: str, here: Path) -> None:
    run_page(page, here)


def test_the_example_of_content_is_one_new_file(tmp_path: Path) -> None:
    (example,) = (b for b in BLOCKS if b.startswith("# ape_cli/position/fox.py"))
    ape = elsewhere(tmp_path, "ape_cli/position/fox.py", example)
    assert "8 of 8 laws hold" in ape("check", "fox").stdout
    words = ("train", "--scheme", "fox", "--task", "reverse", "--preset", "tiny")
    assert "reverse-fox-42-" in ape(*words, "--model", "decoder").stdout
    assert "acts only in causal attention" in ape(*words, code=2).stderr


def test_the_example_attention_is_one_new_file(tmp_path: Path) -> None:
    (example,) = (b for b in BLOCKS if b.startswith("# ape_cli/attention/cosine.py"))
    ape = elsewhere(tmp_path, "ape_cli/attention/cosine.py", example)
    assert "8 of 8 laws hold" in ape("check", "cosine").stdout
    words = ("train", "--scheme", "rope", "--attention", "cosine", "--task", "copy", "--preset", "tiny")
    assert "copy-rope-42-" in ape(*words).stdout


def test_the_example_task_is_one_new_file(tmp_path: Path) -> None:
    (example,) = (b for b in BLOCKS if b.startswith("# ape_cli/tasks/first_last.py"))
    ape = elsewhere(tmp_path, "ape_cli/tasks/first_last.py", example)
    ape("gen", "first-last", "--length-mean", "8", "--n", "50", "--n-validation", "5", "--n-test", "5")
    row = json.loads(ape("show", "first-last", "--row", "3", "--json").stdout)
    assert row["target_ids"] == row["source_ids"][1:] + row["source_ids"][:1]
    assert "first-last-rope-42-" in ape("train", "--scheme", "rope", "--task", "first-last", "--preset", "tiny").stdout


def test_the_example_logger_and_view_are_one_new_file_each(tmp_path: Path) -> None:
    (logger,) = (b for b in BLOCKS if b.startswith("# ape_cli/training/loggers/printed.py"))
    (view,) = (b for b in BLOCKS if b.startswith("# ape_cli/reports/views/steps.py"))
    elsewhere(tmp_path, "ape_cli/training/loggers/printed.py", logger)
    ape = elsewhere(tmp_path, "ape_cli/reports/views/steps.py", view)
    words = ("--set", "steps=20", "--set", "validate_every_steps=10", "--device", "cpu", "--preset", "tiny")
    lines = ape("train", "--scheme", "rope", "--task", "copy", *words, "--log", "printed").stdout.splitlines()
    assert [line.split()[1] for line in lines[:2]] == ["10/20:", "20/20:"]
    run = lines[0].split()[0]
    assert f"| {run} | 20 |" in ape("report", "--view", "steps", "--format", "markdown").stdout
    assert f"{run} & $20$" in ape("report", "--view", "steps", "--format", "latex").stdout.replace("\\_", "_")
    assert '<h2 id="steps">Steps</h2>' in ape("report", "--format", "html").stdout
    refused = ape("report", "--view", "steps", "--interval", code=2).stderr
    assert "the view steps does not use --interval" in refused


def test_the_example_of_a_loaded_model_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in commands_of(PAGES["docs/guides/share.md"])[:2]:
        run(*small(words))
    (example,) = (b for b in BLOCKS if b.startswith("import ape_cli"))
    exec(example, {})
    answers = literal_eval(capsys.readouterr().out.splitlines()[-1])
    assert [type(answer) for answer in answers] == [list, list]


@pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile")
@pytest.mark.parametrize(
    ("which", "made", "shape"),
    [
        ("attention.logits", "scores", (1, 8, 5, 5)),
        ("sdpa_inputs", "mixed", (1, 8, 5, 64)),
        ("flex_inputs", "mixed", (1, 8, 5, 64)),
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
