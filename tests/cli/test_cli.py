"""The command line as a user sees it: output streams, exit codes and messages."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from ape_cli.cli.console import scores_in_words
from ape_cli.cli.evaluate import with_perplexity
from tests.conftest import ape
from tests.interpreters import python

TINY = ["--n-validation", "30", "--n-test", "30"]


def test_the_user_s_own_three_lines(here: Path) -> None:
    """The three commands run in an empty folder, with smaller sizes, and each uses the output of the previous one."""
    out, _ = ape("gen", "tree-ops", "--n", "200", *TINY, "--depth-mean", "3")
    assert "datasets/tree-ops-breadth" in out
    out, err = ape("train", "--scheme", "orthogonal-tree", "--preset", "tiny")
    assert "datasets/tree-ops-breadth, the newest that orthogonal-tree can read" in err
    assert "`--data` or `--task` chooses another" in err
    assert "test token accuracy" in out
    out, _ = ape("report", "--format", "markdown")
    assert "| orthogonal-tree | " in out
    assert "tree-ops/breadth" in out


def test_a_default_task_is_said_with_the_result(here: Path) -> None:
    """It trains two runs of one step. The second one finds the dataset of the first."""
    words = ("train", "--scheme", "rope", "--preset", "tiny", "--set", "steps=1", "--datasets", "one")
    out, _ = ape(*words)
    assert "data: reverse, the default task, because no dataset was found; --task or --data chooses another" in out
    assert "default task" not in ape(*words, "--seed", "1")[0]
    Path("one").rename("two")
    for command in (("eval",), ("draw", "--view", "attention", "--out", "a.svg", "--run")):
        ape(*command, "reverse-rope-42", "--datasets", "two")
        assert "no such dataset" in ape(*command, "reverse-rope-42", "--datasets", "three", code=1)[1]


def imported(*words: str) -> set[str]:
    """The modules that a command imports in a process of its own. It must succeed."""
    code = (
        f"import sys; sys.argv = {['ape', *words]!r}\nfrom ape_cli.cli import app\n"
        "try:\n    app()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    return set(python("-c", code).stderr.splitlines()[-1].split())


def test_help_imports_nothing_slow() -> None:
    """Help and completion have to come at once. Typer alone takes about as long as everything of ape beside it."""
    slow = {"torch", "numpy", "pyarrow", "polars", "pydantic", "rich", "urllib.request"}
    assert not slow & imported("--help")


def test_gen_again_and_otherwise(here: Path) -> None:
    words = ["gen", "copy", "--n", "100", *TINY, "--length-mean", "5", "--length-std", "1"]
    first = json.loads(ape(*words, "--json")[0])
    assert first["written"] == 160
    assert "nothing to do (160 rows: 100 train, 30 validation, 30 test)" in ape(*words)[0]
    assert json.loads(ape(*words, "--workers", "2", "--json")[0])["fingerprint"] == first["fingerprint"]
    _, err = ape(*words, "--seed", "43", code=1)
    assert "seed 42 there, 43 now" in err
    assert "`--overwrite`" in err
    again = ape(*words, "--seed", "43", "--overwrite")[0]
    assert "160 rows written (100 train, 30 validation, 30 test)" in again


def test_train_eval_report_on_words(here: Path) -> None:
    words = ("train", "--scheme", "rope", "--task", "reverse", "--preset", "tiny", "--no-eval")
    out, err = ape(*words)
    assert "datasets/reverse-tiny" in err
    assert "test token" not in out
    assert "trained already" in ape(*words)[1]
    assert "nothing to report" in ape("report", code=1)[1]
    found = json.loads(ape("eval", "--json")[0])
    assert len(found) == 1
    assert found[0]["decode"] == "teacher"
    for part in (found[0]["overall"], *found[0]["by_size"]):
        assert part["perplexity"] == pytest.approx(math.exp(part["cross_entropy"]))
    assert "perplexity" not in "".join(path.read_text() for path in Path("results").rglob("*.json"))
    assert json.loads(ape("eval", "--json")[0]) == []  # already evaluated
    greedy = json.loads(ape("eval", "reverse-rope", "--decode", "greedy", "--json")[0])
    assert set(greedy[0]["overall"]) == {"token_accuracy", "exact_match", "rows", "tokens"}
    shown = ape("eval", "reverse-rope")[0]
    assert "rows of" in shown
    assert re.search(rf"perplexity .*│ all .* {found[0]['overall']['perplexity']:.2f} │", shown, re.DOTALL)
    lines = json.loads(ape("report", "--json")[0])
    fields = "task order scheme attention preset decode split metric mean std seeds"
    assert set(fields.split()) <= set(lines[0])
    header = ape("report", "--format", "csv")[0].splitlines()[0]
    assert header.split(",") == list(lines[0])
    assert ape("report", "--format", "latex")[0].startswith("% Tables by")
    ape("report", "--out", "table.md", "--against", "paper")
    assert "[97.00 ±0.8]" in Path("table.md").read_text()
    assert json.loads(ape("runs", "--json")[0])[0]["status"] == "finished"


def test_an_existing_dataset_that_a_task_does_not_use(here: Path) -> None:
    """`--task` trains on the preset's own data. A note names the other dataset, and the command that it gives works."""
    ape("gen", "tree-copy", "--n", "40", "--depth-mean", "2", "--depth-std", "0", *TINY)
    words = ["train", "--scheme", "rope", "--preset", "tiny", "--set", "steps=2"]
    _, err = ape(*words, "--task", "tree-copy")
    assert "data: datasets/tree-copy-breadth-tiny, at the sizes of preset tiny" in err
    assert "the existing datasets/tree-copy-breadth is not used" in err
    assert "choose it with `--data` instead of `--task`" in err
    _, err = ape(*words, "--data", "datasets/tree-copy-breadth")
    assert "is not used" not in err


def test_show(here: Path) -> None:
    ape("gen", "tree-rotate", "--n", "40", *TINY, "--depth-mean", "2", "--depth-std", "0", "--order", "depth")
    out, _ = ape("show", "tree-rotate-depth", "--row", "3")
    assert "tree-rotate, train row 3, depth 2" in out
    assert "in depth order" in out
    assert json.loads(ape("show", "datasets/tree-rotate-depth", "--split", "test", "--json")[0])["row"] == 0
    assert "no such row" in ape("show", "tree-rotate-depth", "--row", "40", code=2)[1]
    few = ["--n", "20", "--n-validation", "5", "--n-test", "5"]
    ape("gen", "grid-rotate", *few, "--side-mean", "3", "--side-std", "0", "--out", "g")
    row = json.loads(ape("show", "g", "--json")[0])
    a, b, c, d, e, f, g, h, i = (chr(ord("a") + x - 3) for x in row["source_ids"])
    shown = [" ".join(line.split()) for line in ape("show", "g")[0].splitlines()]
    expected = [f"{a} {b} {c} {g} {d} {a}", f"{d} {e} {f} {h} {e} {b}", f"{g} {h} {i} {i} {f} {c}"]
    assert shown[3:6] == expected
    ape("gen", "ring-shift", *few, "--ring", "4", "--out", "r")
    offset, *ring = json.loads(ape("show", "r", "--json")[0])["source_ids"]
    out = ape("show", "r")[0]
    assert f"+{offset - 23}" in out
    assert "  ".join(f"{i}:{chr(ord('a') + x - 3)}" for i, x in enumerate(ring)) in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["gen", "copyy"], 2, "did you mean 'copy'"),
        (["gen", "copy", "--out", "/dev/null/x"], 1, "cannot write"),
        (["train", "--scheme", "rope", "--data", "nowhere"], 1, "no such dataset"),
        (["train", "--scheme", "rope", "--preset", "huge"], 2, "medium, neurips, paper, small, tiny"),
        (["train", "--scheme", "rope", "--set", "d_modl=5"], 2, "did you mean 'd_model'"),
        (["train", "--scheme", "rope", "--data", "x", "--task", "copy"], 2, "`--data` already names a dataset"),
        (["train", "--scheme", "rope", "--resume", "--task", "copy", "--preset", "tiny"], 2, "no such run"),
        (["eval", "nothing"], 2, "no runs in results"),
        (["eval", "--batch-size", "0"], 2, "bad --batch-size"),
        (["report"], 1, "ape train"),
        (["report", "--out", "table.pdf"], 2, "--format"),
        (["report", "--plot-format", "png"], 2, "--plot-format has no effect"),
        (["train", "--scheme", "rope", "--data", ""], 2, "is empty; . is the current folder"),
    ],
)
def test_bad_input_gets_one_clear_message(here: Path, words: list[str], code: int, message: str) -> None:
    out, err = ape(*words, code=code)
    assert message in err
    assert "Traceback" not in err
    assert out == ""


def test_a_scheme_that_cannot_read_a_task_is_named_before_data_are_generated(here: Path) -> None:
    for words, code in ((["orthogonal-tree"], 1), (["rope", "--structure", "tree(2)"], 2)):
        message = ape("train", "--scheme", *words, "--task", "copy", "--preset", "tiny", code=code)[1]
        assert "cannot read" in message
        assert not Path("datasets").exists()


def test_an_infinite_perplexity_is_null_in_json() -> None:
    """e^800 is more than a float64 can hold, and JSON has no infinity."""
    found = {"rows": 2, "overall": {"cross_entropy": 800.0}, "by_size": [{"cross_entropy": 0.0}, {"tokens": 1}]}
    assert with_perplexity(found) == {
        "rows": 2,
        "overall": {"cross_entropy": 800.0, "perplexity": None},
        "by_size": [{"cross_entropy": 0.0, "perplexity": 1.0}, {"tokens": 1}],
    }
    overall = {"token_accuracy": 0.5, "exact_match": 0.0, "cross_entropy": 800.0}
    assert scores_in_words(overall, "sequence").endswith("cross-entropy 800.0000 nats, perplexity inf")


def test_an_option_given_twice_is_refused(here: Path) -> None:
    for words in (["--branching", "4", "--set", "branching=3"], ["--binarise", "--set", "binarise=false"]):
        message = ape("gen", "tree-copy", "--n", "8", *words, code=2)[1]
        assert "is given twice" in message
    assert not Path("datasets").exists()
