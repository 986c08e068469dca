"""The README's commands and an example run as written, and the reference follows from the code."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import torch
import typer

import ape_cli
from ape_cli import attention, position, tasks
from ape_cli.cli import app
from tests.conftest import ape as run
from tests.conftest import elsewhere, load_file
from tools import reference

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
    """A test runs each of these blocks: one here, the others in `tests/nightly/test_docs.py`."""
    packages = ["position", "position", "tasks", "attention", "data/position_maps", "training/loggers", "reports/views"]
    starts = [f"# ape_cli/{package}/" for package in packages]
    assert [next((s for s in starts if b.startswith(s)), b.split()[0]) for b in BLOCKS] == [*starts, *["import"] * 5]


def test_the_example_scheme_is_one_new_file(tmp_path: Path) -> None:
    """The scheme is found in a user's folder on PYTHONPATH, is listed, and trains with its option.

    It takes 2 seconds, because each of the four commands is a process of its own.
    """
    (example,) = (b for b in BLOCKS if b.startswith("# ape_cli/position/window.py"))
    ape = elsewhere(tmp_path, "ape_cli/position/window.py", example)
    assert "window" in ape("schemes").stdout
    assert "relative" in ape("check", "window").stdout  # every law that the scheme claims holds
    words = ("train", "--scheme", "window", "--set", "width=2", "--task", "copy", "--preset", "tiny")
    assert "copy-window-42-" in ape(*words).stdout
    assert "window (width=2)" in ape("report", "--format", "markdown").stdout


def test_the_example_map_is_one_new_file(tmp_path: Path) -> None:
    """A map in a user's folder trains with its option, and its run says whose code it is."""
    (example,) = (b for b in BLOCKS if b.startswith("# ape_cli/data/position_maps/stretched.py"))
    ape = elsewhere(tmp_path, "ape_cli/data/position_maps/stretched.py", example)
    words = ("--positions", "stretched", "--set", "most=8", "--task", "copy", "--preset", "tiny")
    assert "copy-learned-42-" in ape("train", "--scheme", "learned", *words).stdout
    assert "positions=stretched" in ape("report", "--format", "markdown").stdout
    about = json.loads(next(tmp_path.glob("results/runs/*/run.json")).read_text())
    assert list(about["own_files"]) == ["position map 'stretched'"]
    assert about["config"]["max_size"] % 8 == 0


def test_the_example_of_content_is_the_scheme_forget(tmp_path: Path) -> None:
    """The example has the scores of `forget` with the same gates. `tests/nightly/test_docs.py` trains it."""
    (example,) = (b for b in BLOCKS if b.startswith("# ape_cli/position/fox.py"))
    file = tmp_path / "fox.py"
    file.write_text(example)
    shape = position.make("forget", d_model=16, heads=2).shape
    schemes = load_file(file).Fox(shape), position.make("forget", d_model=16, heads=2)
    scores = []
    for scheme in schemes:
        gates = scheme.layers[scheme.attach("decoder", 0)]
        torch.nn.init.constant_(gates.project.weight, 0.3)
        torch.nn.init.constant_(gates.project.bias, -0.2)
        x, q, k = torch.arange(3 * 16.0).sin().view(3, 1, 1, 16).expand(-1, 1, 5, -1).cumsum(2)
        q, k = (each.unflatten(-1, (2, 8)).transpose(1, 2) for each in (q[:, 3:], k))
        at = torch.arange(5)[None]
        contexts = scheme.context(at[:, 3:], causal=True), scheme.context(at, causal=True)
        scores.append(attention.logits(scheme, q, k, *contexts, content=gates(x)))
    assert torch.allclose(*scores)


def test_every_command_is_one() -> None:
    """The commands, their options and the kinds of their values exist. Nothing is run."""
    group = typer.main.get_command(app)
    with typer.Context(group) as above:
        for page, words in COMMANDS:
            try:
                group.commands[words[0]].make_context(words[0], list(words[1:]), parent=above)  # type: ignore[attr-defined]
            except Exception as error:
                pytest.fail(f"{page}: ape {shlex.join(words)}: {error}")


def is_elsewhere(words: list[str]) -> bool:
    return any(part in " ".join(words) for part in ELSEWHERE)


def test_the_commands_of_the_readme_run(here: Path) -> None:
    """They generate, train three runs and report, which takes 4 seconds."""
    run_page("README.md", here)


def run_page(page: str, here: Path) -> None:
    """Runs the commands of a page in their order, in an empty folder, at preset tiny and with few rows and steps."""
    project = here / "path" / "to" / "project"
    project.mkdir(parents=True)
    for number in range(1, 13):  # functions of different shapes
        lines = "".join(f"def f{i}(x):\n    return x{' + x' * number}{' * x' * i}\n" for i in range(9))
        (project / f"m{number}.py").write_text(lines)
    for words in [*BEFORE.get(page, []), *commands_of(PAGES[page])]:
        if not is_elsewhere(words):
            run(*small(words))


def small(words: list[str]) -> list[str]:
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


def test_the_reference_follows_from_the_code() -> None:
    """If this fails, run `make docs` and commit the pages."""
    made = dict(reference.pages())
    for name, text in made.items():
        assert text == PAGES.get(f"docs/reference/{name}"), name
    assert {f"docs/reference/{name}" for name in made if "/" in name} == {
        page for page in PAGES if re.match(r"docs/reference/\w+/", page)
    }  # no page of a part that is gone


def test_every_page_is_in_the_navigation() -> None:
    """A new scheme or task gets a page, which `zensical.toml` has to list."""
    nav = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    listed = re.findall(r"[\w./-]+\.md", json.dumps(nav))
    assert sorted(listed) == sorted(page.removeprefix("docs/") for page in PAGES if page.startswith("docs/"))


def test_every_public_name_of_a_page_is_described() -> None:
    """Each page of the Python interface has an example, and a section for each public function and class."""
    for name in ape_cli.__all__:
        text = PAGES[f"docs/reference/python/{name}.md"]
        assert ">>> " in text or name == "load", name  # `tests/nightly/test_docs.py` runs the example of `load`
        assert "\n## " in text, name
    for name in ("Scheme", "Context", "Link"):
        section = PAGES["docs/reference/python/position.md"].split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert "```pycon" in section, name
