"""The README's commands and an example run as written, and the generated pages follow from the code."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer

from ape_cli import position
from ape_cli.cli import app
from tests.conftest import ape as run
from tools import algebra, pages

pytestmark = pytest.mark.usefixtures("forked_workers")

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
BLOCKS = [  # tests/test_readme.py runs that of the README
    block
    for page, text in PAGES.items()
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.S)
    if page != "README.md"
]

# Other tests run these: they need a server, a cluster, a GPU, downloads, or all results of record.
ELSEWHERE = ("s3://", "--engine ray", "--preset paper", "cifar", "results/", "--to USER/", "--verdicts")
OWN_PARTS = "docs/guides/add-"  # pages whose commands need the files of their examples: `test_docs_extend.py`
BEFORE = {  # runs that a page takes for granted
    "docs/guides/troubleshooting.md": [["train", "--scheme", "rope", "--task", "copy"]],
    "docs/guides/reports.md": [
        ["sweep", "--schemes", "sinusoidal,rope,orthogonal-tree", "--tasks", "tree-rotate,tree-ops", "--seeds", "1,2"],
    ],
}
TINY = ["--device", "cpu"]


def commands_of(text: str) -> list[list[str]]:
    """The words of each `ape` command in the blocks of shell code, also of commands that begin on another line."""
    lines = "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.S)).replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines if re.search(r"(^|\s)ape ", line)]
    return [line[line.index("ape") + 1 :] for line in words if "ape" in line]


COMMANDS = [(page, words) for page, text in PAGES.items() for words in commands_of(text)]


def test_every_command_is_one() -> None:
    """The commands, their options and the kinds of their values exist. Nothing is run."""
    group = typer.main.get_command(app)
    with typer.Context(group) as above:
        for page, words in COMMANDS:
            if page.startswith(OWN_PARTS):
                continue  # their options exist only where their files are
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
    """Runs the commands of a page in their order, in an empty folder, at preset tiny and with few rows and steps.

    A block of TOML whose first line is the name of a file is written to it.
    """
    project = here / "path" / "to" / "project"
    project.mkdir(parents=True)
    for number in range(1, 13):  # functions of different shapes
        lines = "".join(f"def f{i}(x):\n    return x{' + x' * number}{' * x' * i}\n" for i in range(9))
        (project / f"m{number}.py").write_text(lines)
    for name, text in re.findall(r"```toml\n# (\S+\.toml)\n(.*?)```", PAGES[page], flags=re.S):
        (here / name).write_text(text)
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


def test_generated_pages_are_up_to_date() -> None:
    """It takes 5 seconds, because the page of representations measures all schemes."""
    outdated = pages.outdated()
    assert not outdated, f"out of date: {', '.join(outdated)}. Run `make docs` and commit these files."
    measured = PAGES["docs/explanation/algebra.md"]
    assert all(f"\n| `{name}` |" in measured for name in position.names())
    assert measured.count(f"\n{algebra.END}\n") == 2


def test_every_page_is_in_the_navigation() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    listed = re.findall(r"[\w./-]+\.md", json.dumps(nav))
    assert len(listed) == len(set(listed))
    written = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    assert not (missing := written - set(listed)), f"add {missing} to `nav` in zensical.toml"
    assert not (gone := set(listed) - written), f"{gone} in `nav` of zensical.toml do not exist"
