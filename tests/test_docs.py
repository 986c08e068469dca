"""The documentation works as written: its commands and examples run, and its reference follows from the code."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest
import typer

from ape_cli import attention, position, tasks
from ape_cli.cli import app
from tests.conftest import ape as run
from tests.conftest import elsewhere, load_file

pytestmark = pytest.mark.usefixtures("forked_workers")

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
BLOCKS = [block for text in PAGES.values() for block in re.findall(r"```python\n(.*?)```", text, flags=re.S)]

# Other tests run these: they need a server, a cluster, a GPU, downloads, or all results of record.
ELSEWHERE = ("s3://", "--engine ray", "--preset paper", "cifar", "results/", "--to USER/")
BEFORE = {  # runs that a page takes for granted
    "docs/guides/reports.md": [
        ["sweep", "--schemes", "rope,orthogonal-seq,tree", "--tasks", "tree-ops,reverse", "--orders", "depth"],
    ]
}
TINY = ["--device", "cpu"]


def commands_of(text: str) -> list[list[str]]:
    """The words of each `ape` command in the blocks of shell code, also of commands that begin on another line."""
    lines = "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.S)).replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines if re.search(r"(^|\s)ape ", line)]
    return [line[line.index("ape") + 1 :] for line in words if "ape" in line]


COMMANDS = [(page, words) for page, text in PAGES.items() for words in commands_of(text)]


def test_every_block_of_python_is_run() -> None:
    """The tests below run these."""
    packages = ["position", "tasks", "attention", "training/loggers", "reports/views"]
    starts = [f"# ape_cli/{package}/" for package in packages]
    assert [next((s for s in starts if b.startswith(s)), b.split()[0]) for b in BLOCKS] == [*starts, *["import"] * 5]


@pytest.mark.slow
def test_the_example_scheme_is_one_new_file(tmp_path: Path) -> None:
    """The scheme is found in a user's folder on PYTHONPATH, is listed, and trains with its option."""
    (example,) = (b for b in BLOCKS if b.startswith("# ape_cli/position/window.py"))
    ape = elsewhere(tmp_path, "ape_cli/position/window.py", example)
    assert "window" in ape("schemes").stdout
    assert "relative" in ape("check", "window").stdout  # every law that the scheme claims holds
    words = ("train", "--scheme", "window", "--set", "width=2", "--task", "copy", "--preset", "tiny")
    assert "copy-window-42-" in ape(*words).stdout
    assert "window (width=2)" in ape("report", "--format", "markdown").stdout


@pytest.mark.slow
def test_the_example_attention_is_one_new_file(tmp_path: Path) -> None:
    (example,) = (b for b in BLOCKS if b.startswith("# ape_cli/attention/cosine.py"))
    ape = elsewhere(tmp_path, "ape_cli/attention/cosine.py", example)
    assert "8 of 8 laws hold" in ape("check", "cosine").stdout
    words = ("train", "--scheme", "rope", "--attention", "cosine", "--task", "copy", "--preset", "tiny")
    assert "copy-rope-42-" in ape(*words).stdout


@pytest.mark.slow
def test_the_example_task_is_one_new_file(tmp_path: Path) -> None:
    (example,) = (b for b in BLOCKS if b.startswith("# ape_cli/tasks/first_last.py"))
    ape = elsewhere(tmp_path, "ape_cli/tasks/first_last.py", example)
    ape("gen", "first-last", "--length-mean", "8", "--n", "50", "--n-validation", "5", "--n-test", "5")
    row = json.loads(ape("show", "first-last", "--row", "3", "--json").stdout)
    assert row["target_ids"] == row["source_ids"][1:] + row["source_ids"][:1]
    assert "first-last-rope-42-" in ape("train", "--scheme", "rope", "--task", "first-last", "--preset", "tiny").stdout


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_file_that_cannot_be_imported_stops_nothing_else(tmp_path: Path) -> None:
    ape = elsewhere(tmp_path, "ape_cli/position/torn.py", "import no_such_module\n")
    listed = ape("schemes")
    assert "rope" in listed.stdout
    assert "the file of scheme 'torn' cannot be imported" in listed.stderr
    asked = ape("check", "torn", code=1)
    assert "fix:     install 'no_such_module', correct the file, or" in asked.stdout
    assert "Traceback" not in asked.stderr + listed.stderr


@pytest.mark.slow
def test_the_example_of_a_loaded_model_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in commands_of(PAGES["docs/guides/share.md"])[:2]:
        run(*_small(words))
    (example,) = (b for b in BLOCKS if b.startswith("import ape_cli"))
    exec(example, {})
    answers = literal_eval(capsys.readouterr().out.splitlines()[-1])
    assert [type(answer) for answer in answers] == [list, list]


@pytest.mark.slow
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


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[f"{page}: {' '.join(words)}" for page, words in COMMANDS])
def test_every_command_is_one(page: str, words: list[str]) -> None:
    """The command, its options and the kinds of their values exist. Nothing is run."""
    group = typer.main.get_command(app)
    command = group.commands[words[0]]  # type: ignore[attr-defined]
    with typer.Context(group) as above:
        command.make_context(words[0], list(words[1:]), parent=above)


def _is_elsewhere(words: list[str]) -> bool:
    return any(part in " ".join(words) for part in ELSEWHERE)


RUN = [page for page in PAGES if any(page == other and not _is_elsewhere(words) for other, words in COMMANDS)]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_the_commands_of_a_page_run(page: str, here: Path) -> None:
    """In their order, in an empty folder, at preset tiny and with few rows and steps."""
    project = here / "path" / "to" / "project"
    project.mkdir(parents=True)
    for number in range(1, 13):  # functions of different shapes
        lines = "".join(f"def f{i}(x):\n    return x{' + x' * number}{' * x' * i}\n" for i in range(9))
        (project / f"m{number}.py").write_text(lines)
    for words in [*BEFORE.get(page, []), *commands_of(PAGES[page])]:
        if not _is_elsewhere(words):
            run(*_small(words))


def _small(words: list[str]) -> list[str]:
    """A command at preset tiny, with few rows and steps."""
    words = ["42" if word == "42-44" else re.sub(r"\bsmall\b", "tiny", word) for word in words]
    for option in ("--n", "--n-test"):
        if option in words and int(words[words.index(option) + 1]) > 50:
            words[words.index(option) + 1] = "50"
    if words[0] == "gen" and "--n" not in words and words[1] not in ("images", "trees"):
        words += ["--n", "50", "--n-validation", "10", "--n-test", "10"]
    if words[0] in ("train", "sweep"):
        words += TINY if "--preset" in words else ["--preset", "tiny", *TINY]
    return words + (["--workers", "1", "--threads", "1"] if words[0] == "sweep" else [])


def test_the_readme_is_short() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 150


def test_the_commands_that_text_names_exist() -> None:
    commands = {c.name or c.callback.__name__ for c in app.registered_commands}
    assert set(re.findall(r"`ape ([a-z]+)", " ".join(PAGES.values()))) <= commands


@pytest.mark.parametrize(
    ("page", "head", "names"),
    [
        ("tasks", "task | the target", tasks.names()),
        ("schemes", "scheme | how it acts", position.names()),
        ("attention", "attention | the weight of a key", attention.names()),
    ],
)
def test_its_tables_name_everything(page: str, head: str, names: list[str]) -> None:
    text = PAGES[f"docs/explanation/{page}.md"]
    table = text[text.index(f"\n| {head} ") :].split("\n\n")[0]
    named = {name for row in table.splitlines()[3:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
    assert len(named) > 7
    assert named == set(names)


def test_the_readme_counts_what_there_is() -> None:
    told = re.findall(r"\*\*(\d+) (tasks|encodings)\*\*|and (\d+) kinds of attention", PAGES["README.md"])
    assert [int(a or c) for a, _, c in told] == [len(tasks.names()), len(position.names()), len(attention.names())]


def test_the_reference_follows_from_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, run `make docs` and commit the pages."""
    reference = load_file(ROOT / "tools" / "reference.py")
    monkeypatch.setattr(reference, "PAGES_OF", tmp_path)
    reference.main()
    for path in sorted(tmp_path.iterdir()):
        assert path.read_text(encoding="utf-8") == PAGES[f"docs/reference/{path.name}"], path.name
    assert len(list(tmp_path.iterdir())) == 7


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    """A link to a page or a heading that does not exist is a warning. No page loads anything from elsewhere."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loaded = re.findall(r"""<(?:script|link|img)[^>]*?(?:src|href)="(https?:[^"]*)""", page.read_text("utf-8"))
        assert not loaded, page.name
