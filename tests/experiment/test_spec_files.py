"""`ape train --config FILE` trains what a file describes, and errors name the line of a TOML file."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ape_cli.cli import app
from ape_cli.data.loader import Dataset
from tests.conftest import ape, own_trees

TINY = ["--preset", "tiny", "--device", "cpu", "--set", "steps=4", "--no-eval"]
WORDS = ["train", "--scheme", "learned", "--task", "copy", "--seed", "7", "--set", "decay=0.9", "--set", "heads=2"]


def config_of(run: str, results: str = "results") -> dict[str, object]:
    """The configuration that a run recorded."""
    found: dict[str, object] = json.loads((Path(results) / "runs" / run / "run.json").read_text())["config"]
    return found


def first_run(*words: str) -> Path:
    """Train the first run of a project, and return its folder."""
    ape(*words, *TINY)
    (run,) = Path("results/runs").iterdir()
    return run


def trained(*words: str) -> str:
    """Train, and return the name of the run."""
    return str(json.loads(ape("train", *words, "--device", "cpu", "--no-eval", "--json")[0])["run"])


def test_a_run_is_trained_again_from_its_own_record(here: Path) -> None:
    """In another project: the dataset is generated again, and the weights are equal to the last bit."""
    run = first_run(*WORDS)
    shutil.copy(run / "run.json", "mine.json")
    assert trained("--config", "mine.json", "--results", "others", "--datasets", "elsewhere") == run.name
    again = Path("others/runs") / run.name
    assert (again / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()
    assert config_of(run.name) == config_of(run.name, "others")


def test_options_replace_fields_of_the_file(here: Path) -> None:
    """A configuration alone is enough. A new scheme gets its own locality bias and size, and steps replace epochs."""
    run = first_run(*WORDS)
    own = config_of(run.name)
    Path("mine.json").write_text(json.dumps(own))
    words = ["--config", "mine.json", "--data", "copy-tiny", "--set", "epochs=1", "--seed", "9"]
    assert config_of(trained(*words)) == own | {"seed": 9, "steps": None, "epochs": 1}
    words = ["--config", "mine.json", "--task", "copy", "--scheme", "alibi"]
    assert config_of(trained(*words)) == own | {"scheme": "alibi", "max_size": None, "decay": 1.0}
    refused = ape("train", "--config", str(run / "run.json"), "--order", "depth", "--device", "cpu", code=2)[1]
    assert "the configuration file already names a dataset" in refused


def test_another_attention_has_its_own_locality_bias(here: Path) -> None:
    """The default of the file's attention is not kept, but an explicit setting is."""
    run = first_run("train", "--scheme", "orthogonal-seq", "--task", "copy", "--attention", "linear")
    assert config_of(run.name)["decay"] == 1.0
    of_file = ["--config", str(run / "run.json"), "--attention", "dot"]
    assert config_of(trained(*of_file))["decay"] == 0.98
    assert config_of(trained(*of_file, "--set", "decay=0.5"))["decay"] == 0.5


def test_a_dataset_of_images_is_generated_again(here: Path) -> None:
    pytest.importorskip("sklearn")
    run = first_run("train", "--scheme", "none", "--task", "images")
    shutil.rmtree("datasets")
    assert trained("--config", str(run / "run.json"), "--results", "others", "--datasets", "elsewhere") == run.name


def test_a_dataset_of_own_trees_is_found_where_it_was(here: Path) -> None:
    """It cannot be generated without its source, and the message says what helps."""
    own_trees(Path("mine"))
    ape("gen", "trees", "--source", "mine", "--out", "datasets/mine")
    run = first_run("train", "--scheme", "rope", "--data", "datasets/mine")
    of_file = ["--config", str(run / "run.json"), "--results", "others", "--datasets", "elsewhere"]
    assert trained(*of_file) == run.name
    shutil.rmtree("datasets")
    refused = ape("train", *of_file, "--overwrite", "--device", "cpu", code=1)[1]
    assert "cannot be generated again" in refused
    assert "`data`" in refused


def test_what_is_no_configuration_is_refused(here: Path) -> None:
    def refused(text: str | None, *words: str, code: int = 2) -> str:
        if text is not None:
            Path("mine.json").write_text(text)
        return ape("train", "--config", "mine.json", *words, "--device", "cpu", code=code)[1]

    assert "cannot read a configuration from mine.json" in refused(None)
    assert "cannot read a configuration" in refused("{")
    assert "[1] is no object" in refused("[1]")
    assert "preset: Field required" in refused('{"scheme": "rope"}')
    assert "the configuration file has a preset" in refused("{}", "--preset", "tiny")
    assert "no scheme is named" in ape("train", "--task", "copy", code=2)[1]


def test_another_dataset_is_refused(here: Path) -> None:
    run = first_run(*WORDS)
    shutil.rmtree("datasets")
    for field, value, message in (
        ("seed", 43, "not the dataset that the configuration file names"),
        ("name", "../../elsewhere", "cannot be a part of a path"),
    ):
        changed = json.loads((run / "run.json").read_text())
        changed["dataset"][field] = value
        Path("mine.json").write_text(json.dumps(changed))
        words = ["train", "--config", "mine.json", "--datasets", "other", "--device", "cpu"]
        assert message in ape(*words, code=1)[1]


@pytest.mark.parametrize("setting", ["heads=3", "base=-1", "decay=2"])
def test_bad_settings_write_nothing(here: Path, words: Dataset, setting: str) -> None:
    before = sorted(here.rglob("*"))
    for data in (["--task", "copy"], ["--data", str(words.folder)]):
        ape("train", "--scheme", "rope", *data, "--preset", "tiny", "--set", setting, "--device", "cpu", code=2)
        assert sorted(here.rglob("*")) == before


def test_a_width_replaces_that_of_the_decoder_in_a_file(here: Path) -> None:
    """In a configuration and in an experiment. Without it, the widths of the file stay, also if they are equal."""
    kept = ("d_ff", "d_ff_decoder")

    def widths(*words: str) -> list[object]:
        given = ["train", *words, "--task", "copy", "--device", "cpu", "--dry-run", "--json"]
        config = json.loads(ape(*given)[0])["config"]
        Path("mine.json").write_text(json.dumps(config))
        return [config[name] for name in kept]

    assert widths("--scheme", "rope", "--preset", "neurips") == [512, 1024]
    assert widths("--config", "mine.json") == [512, 1024]
    assert widths("--config", "mine.json", "--set", "d_ff=96", "--set", "d_ff_decoder=128") == [96, 128]
    assert widths("--config", "mine.json", "--set", "d_ff=64") == [64, None]
    assert widths("--config", "mine.json") == [64, None]
    Path("mine.toml").write_text('scheme = "rope"\npreset = "tiny"\nset = { d_ff_decoder = 32 }\n')
    assert widths("--config", "mine.toml") == [64, 32]
    assert widths("--config", "mine.toml", "--set", "d_ff=96") == [96, None]


EXPERIMENT = 'scheme = "rope"\ntask = "copy"\npreset = "tiny"\n'
SWEEP = 'schemes = ["rope"]\ntasks = ["copy"]\npreset = "tiny"\n'


def refused(name: str, text: str, *words: str) -> str:
    """What a command says about a TOML file with an error, in one line."""
    Path(name).write_text(text)
    command = ["train", "--config", name] if name == "e.toml" else ["sweep", name]
    done = CliRunner().invoke(app, [*command, "--device", "cpu", "--dry-run", *words])
    assert done.exit_code in (1, 2), text
    return re.sub(r"\n\s*(got|allowed|fix): +", r" | \1 ", done.stderr)


def test_an_error_names_the_line_of_its_field(here: Path) -> None:
    for text, line, message in (
        ('shceme = "rope"', 4, "unknown field of an experiment"),
        ("seeds = [1]", 4, "fix did you mean 'seed'?"),
        ("# seed = 3\n\nseed = -1", 6, "bad value of seed | got -1 | allowed greater than or equal to 0"),
        ('seed = "x"', 4, "bad seed of an experiment | got 'x' | allowed a valid integer | fix for example seed = 42"),
        ('sizes = [1, "a"]', 4, "bad `sizes`"),
        ('sizes = "x"', 4, "bad `sizes`"),
        ('generalise = "x"', 4, "bad `generalise`"),
        ('decode = "greed"', 4, "did you mean 'greedy'?"),
        ('order = "deep"', 4, "unknown order"),
        ('order = "depth"', 4, "copy is not a task on trees"),
        ('precision = "tf32"', 4, "`precision=fp32`"),
        ('attention = "lnear"', 4, "did you mean 'linear'?"),
        ('structure = "sq"', 4, "bad structure"),
        ('positions = "x"', 4, "unknown position map"),
        ('model = "decodr"', 4, "did you mean 'decoder'?"),
        ("[tune]", 4, "[tune] belongs to a sweep"),
        ("set = { lr_peak = 1e-3, dropout = 2 }", 4, "got 2 | allowed less than 1 | fix for example `dropout=0.0`"),
        ("[set]\nlr_peak = 1e-3\nlr = 3", 6, "did you mean 'lr_peak'?"),
        ("set.max_size = 9", 4, "fix leave max_size out"),
        ("[set]\n\n'base' = \"x\"", 6, "bad base"),
        ("set = { epochs = 1, steps = 2 }", 4, "epochs and steps exclude each other"),
        (
            "set = 5",
            4,
            "bad set of an experiment | got 5 | allowed a table | fix for example set = { lr_peak = 0.001 }",
        ),
        ("set = { d_model = nan }", 4, "bad value of d_model"),
        ("set = { decay = [1, 0.9] }", 4, "bad value of decay"),
    ):
        told = refused("e.toml", EXPERIMENT + text)
        assert f"error: e.toml, line {line}: " in told, (text, told)
        assert message in told, (text, told)
    for text, message in (
        ('scheme = "rop"\ntask = "copy"', "e.toml, line 1: unknown scheme"),
        ('scheme = "rope"\ndata = "none"', "e.toml, line 2: no such dataset"),
        ('scheme = "rope"\nsizes = [3]', "e.toml, line 2: `sizes` needs a task"),
        ('scheme = "rope"\ntask = "copy"\ndata = "."', "e.toml, line 3: `data` already names a dataset"),
        ('scheme = "t5"\ntask = "copy"\nattention = "linear"', "e.toml, line 3: "),
        ('task = "copy"', "error: e.toml: no scheme is named"),
        ("", "error: e.toml: no scheme is named"),
        ("scheme = rope", "e.toml is not TOML"),
    ):
        told = refused("e.toml", text)
        assert message in told, (text, told)
    assert "cannot read the file" in ape("train", "--config", "none.toml", code=2)[1]
    assert sorted(path.name for path in here.iterdir()) == ["e.toml"]


def test_an_error_names_the_line_in_the_file_of_a_sweep(here: Path) -> None:
    """If several grids have the field, the error names the file alone."""
    for text, place, message in (
        ("seeds = [1,\n  'x']", ", line 4", "bad seeds.1 of a sweep"),
        ("seed = [1]", ", line 4", "did you mean 'seeds'?"),
        ('models = "decoder"', ", line 4", 'fix for example models = ["encoder-decoder"]'),
        ('data = ["none"]', ", line 4", "no such dataset"),
        ("set = { lr_peak = [[1]] }", ", line 4", "fix for example set = "),
        ("[[grid]]\nset = { dropout = 0 }\n[[grid]]\nset = { dropout = [0, 2] }", "", "bad value of dropout"),
        ("[[grid]]\nset = { decay = 1 }\n[[grid]]\nset = { dropout = 2 }", ", line 7", "bad value of dropout"),
        ("[tune]\nset = { lr_peak = [1, 1] }", ", line 5", "a value of lr_peak is repeated"),
        ("[tune]\nseeds = [7]\nset = { lr_peak = [1, 2] }", ", line 5", "seeds of [tune]"),
        ("[tune]\ntrials = 7\nset = { lr_peak = [1, 2] }", ", line 5", "fix leave `trials` out"),
        ("[tune]\nset = { lr_peak = [1, 2] }\nnew = 1", ", line 6", "unknown field of [tune]"),
        ("[tune]\nseeds = [42]", ", line 4", "`tune` names no setting"),
        ("grid = 3", ", line 4", "fix write [[grid]]"),
    ):
        told = refused("s.toml", f"{SWEEP}{text}\n")
        assert f"error: s.toml{place}: " in told, (text, told)
        assert message in told, (text, told)
    assert "s.toml: the sweep names no schemes | got none" in refused("s.toml", "seeds = [1]")
    assert "s.toml: the sweep names no schemes" in ape("report", "--sweep", "s.toml", code=2)[1]


def test_an_error_about_an_option_does_not_name_the_file(here: Path) -> None:
    for name, base in (("e.toml", EXPERIMENT), ("s.toml", f"{SWEEP}set = {{ dropout = 0 }}")):
        for words, message in (
            (["--preset", "tinyy"], "error: unknown preset"),
            (["--set", "dropout=2"], "error: bad value of dropout | got 2 | allowed less than 1"),
            (["--generalise", "x"], "error: bad `generalise`"),
        ):
            assert message in refused(name, base, *words), (name, words)
