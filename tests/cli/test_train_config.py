"""`ape train --config FILE` trains what a file describes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import ape

TINY = ["--preset", "tiny", "--device", "cpu", "--set", "steps=4", "--no-eval"]
WORDS = ["train", "--scheme", "learned", "--task", "copy", "--seed", "7", "--set", "decay=0.9", "--set", "heads=2"]


def config_of(run: str, results: str = "results") -> dict[str, object]:
    """The configuration that a run recorded."""
    found: dict[str, object] = json.loads((Path(results) / "runs" / run / "run.json").read_text())["config"]
    return found


def trained(*words: str) -> str:
    """Train, and return the name of the run."""
    return str(json.loads(ape("train", *words, "--device", "cpu", "--no-eval", "--json")[0])["run"])


@pytest.mark.slow
def test_a_run_is_trained_again_from_its_own_record(here: Path) -> None:
    """In another project: the dataset is generated again, and the weights are equal to the last bit."""
    ape(*WORDS, *TINY)
    (run,) = Path("results/runs").iterdir()
    shutil.copy(run / "run.json", "mine.json")
    assert trained("--config", "mine.json", "--results", "others", "--datasets", "elsewhere") == run.name
    again = Path("others/runs") / run.name
    assert (again / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()
    assert config_of(run.name) == config_of(run.name, "others")


@pytest.mark.slow
def test_options_replace_fields_of_the_file(here: Path) -> None:
    """A configuration alone is enough. A new scheme gets its own locality bias and size, and steps replace epochs."""
    ape(*WORDS, *TINY)
    (run,) = Path("results/runs").iterdir()
    own = config_of(run.name)
    Path("mine.json").write_text(json.dumps(own))
    words = ["--config", "mine.json", "--data", "copy-tiny", "--set", "epochs=1", "--seed", "9"]
    assert config_of(trained(*words)) == own | {"seed": 9, "steps": None, "epochs": 1}
    words = ["--config", "mine.json", "--task", "copy", "--scheme", "alibi"]
    assert config_of(trained(*words)) == own | {"scheme": "alibi", "max_size": None, "decay": 1.0}
    refused = ape("train", "--config", str(run / "run.json"), "--order", "depth", "--device", "cpu", code=2)[1]
    assert "the configuration file already names a dataset" in refused


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


@pytest.mark.slow
def test_a_file_that_was_altered_and_another_dataset_are_refused(here: Path) -> None:
    ape(*WORDS, *TINY)
    (run,) = Path("results/runs").iterdir()
    text = (run / "run.json").read_text()
    altered = text.replace('"heads": 2', '"heads": 4')
    assert altered != text
    Path("mine.json").write_text(altered)
    assert "mine.json was altered" in ape("train", "--config", "mine.json", code=2)[1]
    unsealed = json.loads(altered)
    del unsealed["sha256"]
    unsealed["dataset"]["seed"] = 43
    Path("mine.json").write_text(json.dumps(unsealed))
    words = ["train", "--config", "mine.json", "--datasets", "other", "--device", "cpu"]
    assert "not the one that the configuration file names" in ape(*words, code=1)[1]
