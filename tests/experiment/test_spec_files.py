"""`ape train --config FILE` trains what a file describes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

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


def test_a_size_that_followed_from_the_data_of_a_run_does_not_stay_on_other_data(here: Path) -> None:
    about = json.loads((first_run(*WORDS) / "run.json").read_text())
    asked = about | {"variant": about["variant"] | {"max_size": about["config"]["max_size"]}}
    for content, size in ((about, None), (asked, about["config"]["max_size"])):  # None: known once there is data
        Path("mine.json").write_text(json.dumps(content))
        words = ["--config", "mine.json", "--task", "copy", "--sizes", "30", "--device", "cpu", "--dry-run", "--json"]
        assert json.loads(ape("train", *words)[0])["config"]["max_size"] == size


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
    assert "`--data`" in refused


def test_what_is_no_configuration_is_refused(here: Path) -> None:
    def refused(text: str | None, *words: str, code: int = 2) -> str:
        if text is not None:
            Path("mine.json").write_text(text)
        return ape("train", "--config", "mine.json", *words, "--device", "cpu", code=code)[1]

    assert "cannot read a configuration from mine.json" in refused(None)
    assert "cannot read a configuration" in refused("{")
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


EXPERIMENT = 'scheme = "rope"\ntask = "copy"\npreset = "tiny"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'{EXPERIMENT}shceme = "rope"', "unknown field of an experiment"),
        (f"{EXPERIMENT}seed = -1", "bad value of seed"),
        (f'{EXPERIMENT}seed = "x"', "fix:     for example `seed=42`"),
        (f'{EXPERIMENT}sizes = "x"', "bad `sizes`"),
        (f'{EXPERIMENT}generalise = "x"', "bad `generalise`"),
        (f'{EXPERIMENT}decode = "greed"', "did you mean 'greedy'?"),
        (f'{EXPERIMENT}order = "deep"', "unknown order"),
        (f'{EXPERIMENT}structure = "sq"', "bad structure"),
        (f'{EXPERIMENT}model = "decodr"', "'encoder-decoder' or 'decoder'"),
        (f"{EXPERIMENT}set = {{ dropout = 2 }}", "bad value of dropout"),
        (f"{EXPERIMENT}set = {{ lr_pek = 3 }}", "did you mean 'lr_peak'?"),
        (f"{EXPERIMENT}set.max_size = 9", "leave max_size out"),
        (f"{EXPERIMENT}set = {{ base = 'x' }}", "bad base"),
        (f"{EXPERIMENT}set = {{ epochs = 1, steps = 2 }}", "exclude each other"),
        (f"{EXPERIMENT}set = {{ d_model = nan }}", "bad value of d_model"),
        ('scheme = "rope"\nsizes = [3]', "`sizes` needs a task"),
        (f'{EXPERIMENT}data = "."', "`data` already names a dataset"),
        ('task = "copy"', "no scheme is named"),
        ("scheme = rope", "is not TOML"),
    ],
)
def test_a_file_with_an_error_is_refused(here: Path, text: str, message: str) -> None:
    Path("e.toml").write_text(text)
    assert message in ape("train", "--config", "e.toml", "--device", "cpu", "--dry-run", code=2)[1]
    assert [path.name for path in here.iterdir()] == ["e.toml"]
