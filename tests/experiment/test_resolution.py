"""Resolution: an experiment is the run that is trained, nothing is generated, and each value is worked out once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import CombinationError, UsageError
from ape_cli.data.loader import Dataset
from ape_cli.experiment import ExperimentSpec, of, resolve
from ape_cli.experiment.choice import find_dataset
from ape_cli.experiment.resolution import prepared
from ape_cli.structure import parse_structure
from tests.conftest import ape, write

TINY = ["--preset", "tiny", "--device", "cpu", "--set", "steps=4"]


def test_a_missing_dataset_is_described_and_not_generated(tmp_path: Path) -> None:
    """A bounded scheme gets its size from the data, so it has none yet, and the run has no name."""
    options = ExperimentSpec(preset="tiny", scheme="tree", task="tree-copy", order="depth")
    experiment = resolve(options, find_dataset(options, tmp_path))
    assert experiment.data.missing
    assert experiment.reading.structure == parse_structure("tree(2)")
    assert (experiment.config.max_size, experiment.is_named) == (None, False)
    assert list(tmp_path.iterdir()) == []
    ready = prepared(experiment)
    assert ready.is_named
    deepest = max(int(position).bit_length() - 1 for position in all_positions(tmp_path / "tree-copy-depth-tiny"))
    assert ready.config.max_size == deepest


def test_a_size_below_the_positions_of_a_map_is_refused_when_its_data_is_generated(tmp_path: Path) -> None:
    """It was refused only if the dataset existed already."""
    settings = {"maximum": 50, "max_size": 20}
    options = ExperimentSpec(preset="tiny", scheme="relative", task="copy", positions="randomised", set=settings)
    experiment = resolve(options, find_dataset(options, tmp_path))
    with pytest.raises(UsageError, match="beyond the size that relative is made for"):
        prepared(experiment)


def all_positions(folder: Path) -> list[int]:
    """The heap indices of all training rows, read without the package."""
    import pyarrow.parquet as pq

    files = sorted(folder.glob("data/train-*.parquet"))
    columns = [pq.read_table(file)[name] for file in files for name in ("source_positions", "target_positions")]
    return [position for column in columns for row in column.to_pylist() for position in row]


def test_a_dataset_of_several_experiments_is_opened_once(tmp_path: Path) -> None:
    requests = [ExperimentSpec(preset="tiny", scheme=scheme, task="copy") for scheme in ("rope", "alibi")]
    cache: dict[Any, Dataset] = {}
    one, other = (resolve(request, find_dataset(request, tmp_path, cache=cache)) for request in requests)
    assert one.data is other.data
    assert prepared(one).data is prepared(other).data


def test_the_variant_lists_what_differs_from_preset_and_scheme(tmp_path: Path) -> None:
    """The width of the decoder is never None, so that the command in a model card trains the same model."""
    data = write(tmp_path / "data", "copy", rows=(24, 8, 8))
    several = {"dropout": 0.25, "base": 500.0, "decay": 0.9}
    for preset, settings, variant in (
        ("tiny", {}, {}),
        ("tiny", several, several),
        ("neurips", {}, {}),
        ("neurips", {"d_ff": 512}, {"d_ff_decoder": 512}),
        ("neurips", {"d_ff": 96}, {"d_ff": 96, "d_ff_decoder": 96}),
        ("neurips", {"d_ff_decoder": 96}, {"d_ff_decoder": 96}),
    ):
        options = ExperimentSpec(preset=preset, scheme="rope", set=settings)
        assert of(options.config("sequence"), data).variant == variant, settings


def test_a_dry_run_names_the_run_that_is_trained(here: Path) -> None:
    words = ["train", "--scheme", "orthogonal-tree", "--task", "tree-copy", *TINY]
    plan = json.loads(ape(*words, "--dry-run", "--json")[0])
    assert (plan["run"], plan["state"], plan["dataset_missing"]) == (None, "new", True)
    assert list(here.iterdir()) == []
    name = json.loads(ape(*words, "--no-eval", "--json")[0])["run"]
    plan = json.loads(ape(*words, "--dry-run", "--json")[0])
    assert (plan["run"], plan["state"], plan["dataset_missing"]) == (name, "finished", False)
    assert (plan["structure"], plan["read_as"]) == ("tree(2)", "tree(2)")
    assert plan["config"] == json.loads((here / "results" / "runs" / name / "run.json").read_text())["config"]
    printed = ape(*words, "--dry-run")[0]
    assert f'run = "{name}"\nstate = "finished"\n' in printed
    assert 'read_as = "tree(2)"' in printed


def test_a_first_learning_rate_without_a_warm_up_is_refused(tmp_path: Path) -> None:
    data = write(tmp_path / "data", "copy", rows=(24, 8, 8))
    options = ExperimentSpec(preset="tiny", scheme="rope", set={"warmup": 0, "lr_initial": 1e-4})
    with pytest.raises(CombinationError, match="lr_initial has no effect without a warm-up"):
        of(options.config("sequence"), data)
    for settings in ({"warmup": 0}, {"lr_initial": 1e-4}):
        of(options.model_copy(update={"settings": settings}).config("sequence"), data)


def test_a_width_without_layers_is_refused(tmp_path: Path) -> None:
    data = write(tmp_path / "data", "copy", rows=(24, 8, 8))
    for model in ("encoder-decoder", "decoder"):
        options = ExperimentSpec(preset="neurips", scheme="rope", model=model, set={"encoder_layers": 0})
        with pytest.raises(UsageError, match=r"d_ff has no effect without encoder layers[\s\S]*d_ff=1024"):
            of(options.config("sequence"), data)
        options = options.model_copy(update={"settings": {"encoder_layers": 0, "d_ff": 1024}})
        assert of(options.config("sequence"), data).config.d_ff == 1024
