"""The command line as a user sees it: real processes, output streams, exit codes and Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ape

APE = [sys.executable, "-m", "ape_cli"]
TINY = ["--n-validation", "30", "--n-test", "30"]


def test_the_user_s_own_three_lines(here: Path) -> None:
    """The three commands run in an empty folder, with smaller sizes, and each uses the output of the previous one."""
    out, _ = ape("gen", "tree-ops", "--n", "200", *TINY, "--depth-mean", "3")
    assert "datasets/tree-ops-breadth" in out
    out, err = ape("train", "--scheme", "orthogonal-tree", "--preset", "tiny")
    assert "datasets/tree-ops-breadth, the newest that orthogonal-tree can read" in err
    assert "--data DIR or --task TASK chooses another" in err
    assert "test token accuracy" in out
    out, _ = ape("report", "--format", "markdown")
    assert "| orthogonal-tree | " in out
    assert "tree-ops/breadth" in out


@pytest.mark.slow
def test_help_and_gen_never_import_torch(here: Path) -> None:
    for words in (["--help"], ["gen", "copy", "--n", "50", *TINY], ["tasks"], ["runs"], ["show", "datasets/copy"]):
        code = (
            f"import sys; sys.argv = {['ape', *words]!r}\nfrom ape_cli.cli import app\n"
            "try:\n    app()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
            "assert 'torch' not in sys.modules"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
    assert "import click" not in "".join(p.read_text() for p in (Path(__file__).parents[2] / "ape_cli").rglob("*.py"))


def test_help_imports_nothing_slow() -> None:
    """Help and completion have to come at once. Typer alone takes about as long as everything of ape beside it."""
    slow = {"torch", "numpy", "pyarrow", "polars", "pydantic", "rich", "urllib.request"}
    code = (
        "import sys; sys.argv = ['ape', '--help']\nfrom ape_cli.cli import app\n"
        "try:\n    app()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"print(*sorted({slow!r} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "\n"


def test_gen_again_and_otherwise(here: Path) -> None:
    words = ["gen", "copy", "--n", "100", *TINY, "--length-mean", "5", "--length-std", "1"]
    first = json.loads(ape(*words, "--json")[0])
    assert first["written"] == 160
    assert "nothing to do (160 rows: 100 train, 30 validation, 30 test)" in ape(*words)[0]
    assert json.loads(ape(*words, "--workers", "2", "--json")[0])["fingerprint"] == first["fingerprint"]
    _, err = ape(*words, "--seed", "43", code=1)
    assert "seed 42 there, 43 now" in err
    assert "--overwrite" in err
    again = ape(*words, "--seed", "43", "--overwrite")[0]
    assert "160 rows written (100 train, 30 validation, 30 test)" in again


@pytest.mark.slow
def test_train_eval_report_on_words(here: Path) -> None:
    out, err = ape("train", "--scheme", "rope", "--task", "reverse", "--preset", "tiny", "--no-eval")
    assert "datasets/reverse-tiny" in err
    assert "test token" not in out
    assert (
        "trained already" in ape("train", "--scheme", "rope", "--task", "reverse", "--preset", "tiny", "--no-eval")[1]
    )
    assert "nothing to report" in ape("report", code=1)[1]
    found = json.loads(ape("eval", "--json")[0])
    assert len(found) == 1
    assert found[0]["decode"] == "teacher"
    assert json.loads(ape("eval", "--json")[0]) == []  # already evaluated
    greedy = json.loads(ape("eval", "reverse-rope", "--decode", "greedy", "--json")[0])
    assert set(greedy[0]["overall"]) == {"token_accuracy", "exact_match", "rows", "tokens"}
    assert "rows of" in ape("eval", "reverse-rope")[0]
    lines = json.loads(ape("report", "--format", "json")[0])
    assert (
        ape("report", "--json")[0]
        == ape("report", "--format", "json", "--json")[0]
        == ape("report", "--format", "json")[0]
    )
    assert "one format at a time" in ape("report", "--json", "--format", "csv", code=2)[1]
    assert {
        "task",
        "order",
        "scheme",
        "attention",
        "preset",
        "decode",
        "split",
        "metric",
        "mean",
        "std",
        "seeds",
    } <= set(lines[0])
    assert 0 <= lines[0]["mean"] <= 1
    header = ape("report", "--format", "csv")[0].splitlines()[0]
    assert header.split(",") == list(lines[0])
    for style, begins in (("latex", "% Tables by"), ("html", "<!doctype html>"), ("markdown", "### Sequence tasks")):
        assert ape("report", "--format", style)[0].startswith(begins)
    ape("report", "--out", "table.md", "--against", "paper")
    assert "[97.00 ±0.8]" in Path("table.md").read_text()
    runs = json.loads(ape("runs", "--json")[0])
    assert runs[0]["status"] == "finished"


@pytest.mark.slow
def test_an_existing_dataset_that_a_task_does_not_use(here: Path) -> None:
    """`--task` trains on the preset's own data. A note names the other dataset, and the command that it gives works."""
    ape("gen", "tree-copy", "--n", "40", "--depth-mean", "2", "--depth-std", "0", *TINY)
    words = ["train", "--scheme", "rope", "--preset", "tiny", "--set", "steps=2"]
    _, err = ape(*words, "--task", "tree-copy")
    assert "data: datasets/tree-copy-breadth-tiny, at the sizes of preset tiny" in err
    assert "the existing datasets/tree-copy-breadth is not used" in err
    assert "--data datasets/tree-copy-breadth in place of --task" in err
    assert "is not used" not in ape(*words, "--task", "tree-copy", "--order", "depth")[1]
    assert "is not used" not in ape(*words, "--task", "copy")[1]
    _, err = ape(*words, "--data", "datasets/tree-copy-breadth")
    assert "is not used" not in err
    trained = json.loads(ape("runs", "--json")[0])
    assert {run["dataset"] for run in trained} >= {"tree-copy-breadth", "tree-copy-breadth-tiny"}


@pytest.mark.slow
def test_sizes_that_training_did_not_see(here: Path) -> None:
    """Data generated with --sizes evaluates a run that was trained on other sizes, and a run can train on it."""
    ape("train", "--scheme", "rope", "--task", "reverse", "--preset", "tiny")
    sizes = ("gen", "reverse", "--sizes", "15,12", "--n", "40", "--n-validation", "10", "--n-test", "20")
    assert "datasets/reverse-sizes-12-15: 140 rows written" in ape(*sizes)[0]
    assert "train row 2, length 12" in ape("show", "reverse-sizes-12-15", "--row", "2")[0]
    ape("eval", "--data", "reverse-sizes-12-15")
    asked = ("report", "--by", "size", "--metric", "exact_match", "--format", "json")
    rows = {line["size"]: (line["weight"], line["seen"]) for line in json.loads(ape(*asked)[0])}
    assert (rows[12], rows[15]) == ((20, False), (20, False))
    ape("train", "--scheme", "rope", "--data", "reverse-sizes-12-15", "--preset", "tiny")
    by_size = json.loads(ape(*asked)[0])
    assert {line["size"] for line in by_size if line["trained_on"] == "reverse-sizes-12-15"} == {12, 15}
    assert "bad --sizes" in ape("gen", "copy", "--sizes", "9,x", code=2)[1]
    assert "replaces the normal" in ape("gen", "copy", "--sizes", "9", "--length-mean", "100", code=2)[1]
    assert "size that their source gives them" in ape("gen", "images", "--sizes", "9", code=2)[1]


def test_lists(here: Path) -> None:
    tasks = {t["task"]: t for t in json.loads(ape("tasks", "--json")[0])}
    plain = {"depth_mean": 7.0, "depth_std": 1.0, "branching": 2, "binarise": False, "vocabulary": 128, "sizes": []}
    assert tasks["tree-ops"]["options"] == plain
    schemes = {s["scheme"]: s for s in json.loads(ape("schemes", "--json")[0])}
    assert schemes["rope"]["relative"]
    assert schemes["orthogonal-tree"]["default_decay"] == 0.98
    assert "mirror image" in ape("tasks")[0]
    assert "\n\nc3: expressions" in ape("tasks", "copy", "c3")[0]  # an empty line between two tasks
    assert "transformer-xl" in ape("schemes")[0]
    attentions = {a["attention"]: a for a in json.loads(ape("attentions", "--json")[0])}
    assert attentions["clustered"]["options"] == {"clusters": 16, "iterations": 5}
    assert not attentions["linear"]["bias"]
    assert "Vyas et al. 2020" in ape("attentions")[0]
    assert "no runs" in ape("runs")[1]


def test_show(here: Path) -> None:
    ape("gen", "tree-rotate", "--n", "40", *TINY, "--depth-mean", "2", "--depth-std", "0", "--order", "depth")
    out, _ = ape("show", "tree-rotate-depth", "--row", "3")
    assert "tree-rotate, train row 3, depth 2" in out
    assert "├──" in out
    assert "in depth order" in out
    row = json.loads(ape("show", "datasets/tree-rotate-depth", "--split", "test", "--json")[0])
    assert row["row"] == 0
    assert "no such row" in ape("show", "tree-rotate-depth", "--row", "40", code=2)[1]
    assert "no such dataset" in ape("show", "nothing", code=1)[1]


def test_show_draws_each_structure(here: Path) -> None:
    few = ["--n", "20", "--n-validation", "5", "--n-test", "5"]
    ape("gen", "grid-rotate", *few, "--side-mean", "3", "--side-std", "0", "--out", "g")
    row = json.loads(ape("show", "g", "--json")[0])
    a, b, c, d, e, f, g, h, i = (chr(ord("a") + x - 3) for x in row["source_ids"])
    out = ape("show", "g")[0]
    assert "grid-rotate, train row 0, longer side 3" in out
    for left, right in (
        (f"{a} {b} {c}", f"{g} {d} {a}"),
        (f"{d} {e} {f}", f"{h} {e} {b}"),
        (f"{g} {h} {i}", f"{i} {f} {c}"),
    ):
        assert any(
            left in line.split("│")[1] and right in line.split("│")[2] for line in out.splitlines() if "│" in line
        )
    ape("gen", "ring-shift", *few, "--ring", "4", "--out", "r")
    offset, *ring = json.loads(ape("show", "r", "--json")[0])["source_ids"]
    out = ape("show", "r")[0]
    assert "ring-shift, train row 0, ring 4" in out
    assert f"+{offset - 23}" in out
    assert "  ".join(f"{i}:{chr(ord('a') + x - 3)}" for i, x in enumerate(ring)) in out
    ape("gen", "tree-copy", *few, "--depth-mean", "1", "--depth-std", "0", "--branching", "3", "--out", "t")
    out = ape("show", "t")[0]
    assert "── x" in out
    assert out.count("├──") == 4  # two of the three children are not the last, in source and target
    words = ["gen", "tree-copy", *few, "--depth-mean", "1", "--depth-std", "0", "--branching", "3", "--binarise"]
    ape(*words, "--out", "b")
    out = ape("show", "b")[0]
    assert out.count("left x") == 2  # the first child, in source and target
    assert out.count("right x") == 4  # its two siblings, in source and target


def test_grids_and_rings_train(here: Path) -> None:
    """A scheme for sequences trains on their linearisation, with the preset's sizes."""
    for task, sizes in (("grid-rotate", {"side_mean": 3, "side_std": 0.5}), ("ring-shift", {"ring": 6})):
        _, err = ape("train", "--scheme", "rope", "--task", task, "--preset", "tiny", "--set", "steps=4")
        assert f"datasets/{task}-tiny" in err
        plan = json.loads((here / "datasets" / f"{task}-tiny" / "manifest.json").read_text())["plan"]
        assert plan["parameters"] == sizes | {"vocabulary": 20}
    assert "Tasks on grid(2)" in ape("report", "--format", "markdown")[0]


GRID = ("train", "--scheme", "orthogonal-grid", "--task", "grid-copy", "--preset", "tiny")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["gen", "copyy"], 2, "did you mean 'copy'"),
        (["gen", "copy", "--n", "-5"], 2, "train rows"),
        (["gen", "copy", "--order", "depth"], 2, "not a task on trees"),
        (["gen", "copy", "--depth-mean", "3"], 2, "unknown option of copy"),
        (["gen", "c3", "--vocabulary", "9"], 2, "unknown option of c3"),
        (["gen", "copy", "--branching", "3"], 2, "unknown option of copy"),
        (["gen", "copy", "--binarise"], 2, "unknown option of copy"),
        (["gen", "tree-copy", "--side-mean", "3"], 2, "unknown option of tree-copy"),
        (["gen", "grid-copy", "--ring", "3"], 2, "unknown option of grid-copy"),
        (["gen", "grid-copy", "--order", "depth"], 2, "not a task on trees"),
        (["gen", "tree-copy", "--set", "binarise=1"], 2, "true or false"),
        (["gen", "tree-copy", "--branching", "9", "--binarise"], 2, "binarised tree(9)"),
        (["gen", "tree-ops", "--vocabulary", "16"], 2, "too small for unique nodes"),
        (["gen", "copy", "--n", "many"], 2, "--n"),
        (["gen", "copy", "--out", "/dev/null/x"], 1, "cannot write"),
        (["gen", "copy", "--workers", "0"], 2, "workers"),
        (["gen", "copy", "--set", "lenght_mean=5"], 2, "did you mean 'length_mean'"),
        (["train", "--scheme", "rope", "--set", "base=Infinity", "--task", "copy", "--preset", "tiny"], 2, "bad base"),
        (["train", "--scheme", "rope", "--data", "nowhere"], 1, "no such dataset"),
        (["train", "--scheme", "ropes"], 2, "did you mean 'rope'"),
        (["train", "--scheme", "rope", "--preset", "huge"], 2, "medium, paper, small, tiny"),
        (["train", "--scheme", "rope", "--set", "d_modl=5"], 2, "did you mean 'd_model'"),
        (["train", "--scheme", "rope", "--set", "d_model"], 2, "KEY=VALUE"),
        ([*GRID, "--set", "distance=euclidian"], 2, "did you mean 'euclidean'"),
        ([*GRID, "--set", "distance=euclidean", "--set", "decay=1"], 2, "no effect without a locality bias"),
        ([*GRID, "--set", "distance=euclidean", "--attention", "linear"], 2, "no effect without a locality bias"),
        (["train", "--scheme", "rope", "--attention", "liner"], 2, "did you mean 'linear'"),
        (["train", "--scheme", "rope", "--set", "attention=linear"], 2, "it is an option: --attention"),
        (["train", "--scheme", "relative", "--attention", "linear", "--task", "copy", "--preset", "tiny"], 2, "a bias"),
        (["train", "--scheme", "rope", "--set", "heads=3", "--task", "copy", "--preset", "tiny"], 2, "heads"),
        (["train", "--scheme", "tree", "--task", "copy", "--preset", "tiny"], 1, "cannot read"),
        (["train", "--scheme", "rope", "--data", "x", "--task", "copy"], 2, "--data already names a dataset"),
        (["train", "--scheme", "rope", "--device", "tpu"], 2, "auto, cpu, cuda"),
        (["train", "--scheme", "rope", "--precision", "fp64"], 2, "bf16, fp32, tf32"),
        (["train", "--scheme", "rope", "--precision", "tf32", "--device", "cpu"], 2, "TF32 needs a GPU"),
        (["train", "--scheme", "rope", "--resume", "--task", "copy", "--preset", "tiny"], 2, "no such run"),
        (["train", "--scheme", "rope", "--seed", "-1"], 2, "--seed VALUE"),
        (["train", "--scheme", "rope", "--set", "seed=3"], 2, "it is an option: --seed"),
        (["train", "--scheme", "rope", "--set", "steps=null"], 2, "KEY=VALUE"),
        (["train", "--scheme", "rope", "--set", "steps=3", "--set", "steps=5"], 2, "set twice"),
        (["train", "--scheme", "rope", "--threads", "0"], 2, "--threads"),
        (["train"], 2, "--scheme"),
        (["eval", "nothing"], 2, "unknown run"),
        (["eval", "--split", "dev"], 2, "unknown split"),
        (["eval", "--decode", "beam"], 2, "unknown decoding"),
        (["report"], 1, "ape train"),
        (["report", "--format", "word"], 2, "unknown format"),
        (["report", "--out", "table.pdf"], 2, "--format"),
        (["report", "--split", "dev"], 2, "unknown split"),
        (["report", "--by", "length"], 2, "unknown grouping"),
        (["report", "--by", "size"], 1, "ape eval"),
        (["report", "--by", "size", "--against", "paper"], 2, "no scores by size"),
        (["report", "--by", "size", "--compare", "rope", "none"], 2, "over all sizes"),
        (["report", "--by", "size", "--format", "html"], 2, "always has the tables by size"),
        (["report", "--by", "epoch"], 1, "ape train"),
        (["report", "--by", "epoch", "--compare", "rope", "none"], 2, "of the weights that were kept"),
        (["report", "--by", "epoch", "--format", "html"], 2, "always has the tables by epoch"),
        (["report", "--by", "epoch", "--metric", "exact_match"], 2, "not measured while a run trains"),
        (["report", "--by", "epoch", "--metric", "bleu"], 2, "unknown metric"),
        (["report", "--by", "epoch", "--decode", "greedy"], 2, "leave --decode out"),
        (["report", "--by", "epoch", "--split", "validation"], 2, "leave --split out"),
        (["report", "--by", "epoch", "--interval", "--format", "csv"], 2, "always has the interval"),
        (["report", "--plot-format", "png"], 2, "--plot-format needs --plots"),
        (["report", "--plots", "p", "--plot-format", "gif"], 2, "pdf, png, svg"),
        (["report", "--plots", "p", "--compare", "rope", "none"], 2, "no plots"),
        (["report", "--axis", "error"], 2, "add --plots DIR or --format html"),
        (["report", "--axis", "log", "--plots", "p"], 2, "error, score"),
        (["report", "--axis", "error", "--plots", "p", "--metric", "cross_entropy"], 2, "has no error"),
        (["report", "--axis", "error", "--format", "html", "--compare", "rope", "none"], 2, "no plots"),
        (["reprot"], 2, "report"),
        (["report", "--plots", ""], 2, "is empty; . is the current folder"),
        (["gen", "copy", "--out", ""], 2, "is empty; . is the current folder"),
        (["train", "--scheme", "rope", "--data", ""], 2, "is empty; . is the current folder"),
    ],
)
def test_bad_input_gets_one_clear_message(here: Path, words: list[str], code: int, message: str) -> None:
    out, err = ape(*words, code=code)
    assert message in err
    assert "Traceback" not in err
    assert out == ""


def begin(*words: str, cwd: Path) -> subprocess.Popen:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes inherit that SIGINT is ignored
    return subprocess.Popen(
        [*APE, *words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for(condition, process: subprocess.Popen) -> None:
    for _ in range(1200):
        if condition():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("it never happened")


LONG = ["train", "--scheme", "orthogonal-seq", "--task", "copy", "--preset", "tiny", "--seed", "5",
        "--set", "steps=200", "--set", "validate_every_steps=10", "--set", "dropout=0.1"]  # fmt: skip


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """What the run prints, and its weights, if nothing stops it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("straight"))
        printed, _ = ape(*LONG)
        (weights,) = Path("results/runs").glob("*/model.safetensors")
        return printed, weights.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_process_is_resumed_to_the_same_weights(
    here: Path, straight: tuple[str, bytes], sign: signal.Signals
) -> None:
    process = begin(*LONG, cwd=here)
    wait_for(lambda: list(here.glob("results/runs/*/state/state.safetensors")), process)
    os.kill(process.pid, sign)
    _, err = process.communicate(timeout=60)
    if sign != signal.SIGKILL:
        assert process.returncode == 130, err
        assert "--resume to continue" in err
        assert "Traceback" not in err
    (folder,) = here.glob("results/runs/*")
    assert json.loads((folder / "run.json").read_text())["status"] != "finished"
    assert "stopped" in ape("runs")[0]
    assert "--resume" in ape(*LONG, code=1)[1]
    resumed, _ = ape(*LONG, "--resume")
    printed, weights = straight
    assert resumed.splitlines()[1:] == printed.splitlines()[1:]
    assert (folder / "model.safetensors").read_bytes() == weights


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupted_generation_is_gone_on_from(here: Path, workers: str) -> None:
    words = ["gen", "copy", "--n", "60000", *TINY, "--shard-rows", "2000", "--workers", workers]
    process = begin(*words, "--out", "broken", cwd=here)
    wait_for(lambda: len(list(here.glob("broken/data/train-*.parquet"))) >= 2, process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "run the same command again to continue" in err
    assert "Traceback" not in err
    assert not (here / "broken" / "manifest.json").exists()
    assert not list(here.glob("broken/data/.*.tmp"))
    finished = json.loads(ape(*words, "--out", "broken", "--json")[0])
    assert 0 < finished["written"] < 60_060
    assert json.loads(ape(*words, "--out", "whole", "--json")[0])["fingerprint"] == finished["fingerprint"]


def test_a_scheme_that_cannot_read_a_task_is_named_before_data_are_generated(here: Path) -> None:
    for words, code in ((["orthogonal-tree"], 1), (["rope", "--structure", "tree(2)"], 2)):
        message = ape("train", "--scheme", *words, "--task", "copy", "--preset", "tiny", code=code)[1]
        assert "cannot read" in message
        assert not Path("datasets").exists()


def test_the_folder_of_a_dataset_is_named_once(here: Path) -> None:
    ape("gen", "copy", *TINY, "--n", "8", "--datasets", "mine")
    assert Path("mine", "copy", "manifest.json").exists()
    message = ape("gen", "copy", "--n", "8", "--datasets", "mine", "--out", "other", code=2)[1]
    assert "--out already names the folder" in message
    assert not Path("other").exists()


def test_an_option_given_twice_is_refused(here: Path) -> None:
    for words in (["--branching", "4", "--set", "branching=3"], ["--binarise", "--set", "binarise=false"]):
        message = ape("gen", "tree-copy", "--n", "8", *words, code=2)[1]
        assert "is given twice" in message
    assert not Path("datasets").exists()


def test_an_empty_structure_is_no_structure(here: Path) -> None:
    message = ape("train", "--scheme", "orthogonal", "--structure", "", "--task", "copy", "--preset", "tiny", code=2)[1]
    assert "bad structure" in message


def test_greedy_stands_beside_teacher_forcing(here: Path) -> None:
    ape("train", "--scheme", "orthogonal-tree", "--task", "tree-copy", "--preset", "tiny", "--set", "steps=2")
    table = ape("eval", "--decode", "greedy")[0]
    assert "token accuracy, teacher" in table
    assert "exact match, teacher" in table


@pytest.mark.slow
def test_several_datasets_at_once(here: Path) -> None:
    """The result is that of one dataset after another. A run that fits none is skipped, or an error if it was named."""
    few = ["--n", "60", "--n-validation", "5", "--n-test", "20", "--length-std", "1"]
    for name, mean in (("short", "4"), ("long", "12")):
        ape("gen", "reverse", *few, "--length-mean", mean, "--out", f"datasets/{name}")
    for scheme in ("rope", "none"):
        ape("train", "--scheme", scheme, "--data", "datasets/short", "--preset", "tiny", "--set", "steps=2")
    ape("train", "--scheme", "rope", "--task", "copy", "--preset", "tiny", "--set", "steps=2")
    both = json.loads(ape("eval", "--data", "short", "--data", "long", "--decode", "greedy", "--json")[0])
    pairs = {(e["run"].rsplit("-", 2)[0], e["dataset"]) for e in both}
    assert len(both) == 4
    assert pairs == {(f"reverse-{s}", d) for s in ("rope", "none") for d in ("short", "long")}
    by_size = json.loads(ape("report", "--by", "size", "--decode", "greedy", "--format", "json")[0])
    assert {line["decode"] for line in by_size} == {"greedy"}
    assert sum(line["weight"] for line in by_size) == sum(e["overall"]["tokens"] for e in both)
    kept = {path: path.read_text() for path in here.glob("results/runs/*/eval/*greedy.json")}
    assert len(kept) == 4
    for path in kept:
        path.unlink()
    for name in ("long", "short"):
        out, err = ape("eval", "--data", name, "--decode", "greedy")
        assert "--by size" in err
        assert "left out: 1 finished run of another task, structure or vocabulary than this dataset" in err
        scores = [line for line in out.splitlines() if f" on {name} (test, greedy): token accuracy " in line]
        assert len(scores) == 2
        assert out.count(f"{name}: token accuracy of always answering the most frequent symbol") == 1
        assert len(out.splitlines()) == 3
    assert {path: path.read_text() for path in here.glob("results/runs/*/eval/*greedy.json")} == kept
    assert "nothing to evaluate" in ape("eval", "--data", "short", "--data", "short", "--decode", "greedy")[1]
    named = json.loads(ape("eval", "reverse-none", "--data", "short", "--data", "short", "--json")[0])
    assert len(named) == 1
    message = ape("eval", "copy-rope", "--data", "short", "--data", "long", code=1)[1]
    assert message.count("another task or order than the run") == 2


@pytest.mark.slow
def test_by_size_plots_and_a_page(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reports cover longer words than those of training, with matplotlib and without it."""
    ape("gen", "reverse", "--n", "60", *TINY, "--length-mean", "5", "--length-std", "0", "--out", "datasets/short")
    ape("gen", "reverse", "--n", "6", *TINY, "--length-mean", "8", "--length-std", "0", "--out", "datasets/long")
    ape("train", "--scheme", "rope", "--data", "datasets/short", "--preset", "tiny", "--set", "steps=2")
    ape("eval", "--data", "long")
    table = ape("report", "--by", "size", "--format", "markdown")[0]
    assert "| scheme | 5 (seen) | 8 |" in table
    assert "reverse by length, token accuracy" in table
    lines = json.loads(ape("report", "--by", "size", "--format", "json")[0])
    assert [(line["size"], line["seen"]) for line in lines] == [(5, True), (8, False)]
    assert ape("report", "--by", "size", "--format", "csv")[0].splitlines()[0].split(",") == list(lines[0])
    out, err = ape("report", "--plots", "p", "--plot-format", "png", "--plot-format", "svg", "--format", "markdown")
    assert out == ape("report", "--format", "markdown")[0]
    names = {f"{name}.{kind}" for name in ("scores", "by-size", "learning-curves") for kind in ("png", "svg")}
    assert {path.name for path in Path("p").iterdir()} == names
    assert all(f"written: p/{name}" in err for name in names)
    ape("report", "--plots", "q", "--by", "size")
    assert {path.name for path in Path("q").iterdir()} == {"scores.svg", "by-size.svg", "learning-curves.svg"}
    assert (here / "q" / "scores.svg").read_bytes() == (here / "p" / "scores.svg").read_bytes()
    ape("report", "--plots", "e", "--axis", "error")
    assert (here / "e" / "scores.svg").read_bytes() != (here / "p" / "scores.svg").read_bytes()
    page = ape("report", "--format", "html")[0]
    assert page.count("<figure class=") == 8  # three views of three metrics, without curves of exact match
    assert page.count('<svg role="img"') == 11  # the scores have a second panel for the other dataset
    assert "reverse by length" in page
    assert "logarithmic scale" not in page
    scaled = ape("report", "--format", "html", "--axis", "error")[0]
    assert scaled.count("on a logarithmic scale") == 5  # the same without cross-entropy, which has no error
    err = ape("report", "--metric", "exact_match", "--out", "page.html")[1]
    assert "exact match is not measured while a run trains" in err
    page = Path("page.html").read_text()
    assert page.count("<figure class=") == 8
    assert 'name="metric" value="exact_match" autocomplete="off" checked' in page
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "[plots]', then run" in ape("report", "--plots", "r", code=1)[1]
    assert "[plots]', then run" in ape("report", "--format", "html", "--axis", "error", code=1)[1]
    assert not Path("r").exists()
    page = ape("report", "--format", "html")[0]
    assert "<svg" not in page
    assert "Without plots, which need matplotlib" in page
    assert "reverse by length" in page


@pytest.mark.slow
def test_images_are_told_as_images(here: Path) -> None:
    """A run on images is trained, evaluated by class, reported halfway and at the end, and shown on an HTML page."""
    words = ["--task", "images", "--preset", "tiny", "--set", "steps=4", "--set", "validate_every_steps=1"]
    out, err = ape("train", "--scheme", "sinusoidal", *words)
    assert "images/s" in err
    assert "validation accuracy" in out
    assert "test accuracy" in out
    table = ape("eval", "images-sinusoidal")[0]
    (found,) = json.loads(ape("eval", "images-sinusoidal", "--json")[0])
    assert [line["class"] for line in found["by_class"]] == list("0123456789")
    (seven,) = (line for line in table.splitlines() if "│ 7 " in line)
    assert f"{found['by_class'][7]['token_accuracy']:.2%}" in seven
    shown = ape("report", "--format", "markdown")[0]
    assert "Images, top-1 accuracy" in shown
    for text in (err, out, table, shown):
        assert [word for word in ("token", "exact match", "decoding") if word in text] == []
    shown = ape("report", "--by", "epoch", "--format", "markdown")[0]
    assert shown.count("| scheme | @2 steps | @4 steps |") == 3
    lines = json.loads(ape("report", "--by", "epoch", "--against", "paper", "--format", "json")[0])
    places = [(line["measure"], line["step"]) for line in lines]
    measures = ("validation", "test, chosen on validation", "test, best by epoch")
    assert places == [(measure, step) for step in (2, 4) for measure in measures]
    assert lines[4]["mean"] == found["overall"]["token_accuracy"]
    header = ape("report", "--by", "epoch", "--against", "paper", "--format", "csv")[0].splitlines()[0]
    assert header.split(",") == list(lines[0])
    ape("report", "--by", "epoch", "--plots", "p")
    assert {path.name for path in Path("p").iterdir()} == {"scores.svg", "learning-curves.svg"}  # images have one size
    for metric, first in (("token_accuracy", 0), ("cross_entropy", 1)):
        page = ape("report", "--metric", metric, "--format", "html")[0]
        tables = re.findall("by epoch, (top-1 accuracy|cross-entropy): test, best by epoch</h3>", page)
        assert tables == ["top-1 accuracy", "cross-entropy"][:: -1 if first else 1]
        assert page.count('name="metric"') == 2  # exact match would be the same as top-1 accuracy
    shown = ape("report", "--by", "epoch", "--metric", "cross_entropy", "--format", "markdown")[0]
    assert shown.count("cross-entropy in nats an image") == 3


@pytest.mark.slow
def test_reports_without_plots_never_import_matplotlib(here: Path) -> None:
    ape("train", "--scheme", "rope", "--task", "copy", "--preset", "tiny", "--set", "steps=2")
    code = (
        "import sys; sys.argv = ['ape', 'report', '--by', 'size']\nfrom ape_cli.cli import app\n"
        "try:\n    app()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "assert 'matplotlib' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
