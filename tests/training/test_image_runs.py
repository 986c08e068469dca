"""Runs on images: training, batches, and the settings that follow from the data."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from ape_cli import experiment, tasks
from ape_cli.core.errors import UsageError
from ape_cli.data import generation
from ape_cli.data.loader import BatchOptions, Dataset, ImageSplit, open_dataset
from ape_cli.evaluation import evaluate
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import factory
from ape_cli.runs import config
from ape_cli.runs.registry import open_registry
from ape_cli.storage.sources import ImageSource, LabelledImages
from ape_cli.tasks import images
from ape_cli.training import trial
from ape_cli.training.execution import Execution
from ape_cli.training.trainer import Trainer

CPU = torch.device("cpu")
SIZES = {"d_model": 16, "d_ff": 16, "heads": 2, "steps": 6, "batch_size": 16, "validate_every_steps": 2}


def bars(count: int, seed: int, wrong: int = 0) -> LabelledImages:
    """6 x 6 images of gray noise with a bright column. Its place is the label, plus `wrong` modulo 6."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(6, size=count)
    pixels = rng.integers(60, size=(count, 6, 6, 1)).astype(np.uint8)
    pixels[np.arange(count), :, labels] = 255
    return LabelledImages(pixels, (labels + wrong) % 6)


def write(folder: Path, monkeypatch: pytest.MonkeyPatch, shuffled: bool = False, **changed: LabelledImages) -> Dataset:
    """A dataset of bars. `changed`: other images of a split."""
    splits = {"train": bars(90, 1), "test": bars(40, 2)} | changed
    found = ImageSource("bars", [f"column {i}" for i in range(6)], splits)
    with monkeypatch.context() as patch:
        patch.setattr(images, "open_source", lambda where, label: found)
        made = tasks.make("images", source="bars", shuffled=shuffled)
        generation.generate(made, generation.plan(made, seed=3, rows=made.available(3), shard_rows=50), folder)
    return open_dataset(folder)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    return write(tmp_path / "bars", monkeypatch)


def wanted(scheme: str = "orthogonal-grid", **settings: Any) -> config.Config:
    return ExperimentSpec(preset="tiny", scheme=scheme, seed=1, set=SIZES | settings).config("image")


def run(data: Dataset, where: Path, scheme: str = "orthogonal-grid", **settings: Any) -> trial.Trial:
    return trial.run_trial(experiment.of(wanted(scheme, **settings), data), open_registry(where), Execution(CPU))


# The loop


def test_it_learns(data: Dataset, tmp_path: Path) -> None:
    done = run(data, tmp_path / "results", steps=120, validate_every_steps=40, lr_peak=0.01)
    assert done.evaluation is not None
    assert done.evaluation["overall"]["token_accuracy"] > 0.95


def test_the_test_split_is_recorded_and_chooses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The labels of the test split are all wrong, so its best weights are the worst of the other splits."""
    data = write(tmp_path / "bars", monkeypatch, test=bars(40, 2, wrong=1))
    done = run(data, tmp_path / "results", steps=60, validate_every_steps=10, lr_peak=0.01)
    history = done.run.history()
    validation, test = (history[f"{name}_token_accuracy"].to_list() for name in ("validation", "test"))
    assert max(test[1:]) < max(test[0], 0.2) < max(validation)  # it falls while validation rises
    lost = history["validation_loss"].to_list()
    best = max(range(len(lost)), key=lambda i: (validation[i], -lost[i]))
    result = done.run.read().outcome
    assert (result.best_step, result.best_accuracy) == (history["step"][best], validation[best])
    assert done.evaluation is not None
    assert done.evaluation["overall"]["token_accuracy"] == pytest.approx(test[best])  # the same weights


def test_of_equal_validations_the_lower_loss_is_kept(
    data: Dataset, words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accuracies and losses as if they had been measured. Runs on sequences keep the first of equal accuracies."""
    measured = [(0.5, 0.9), (0.8, 0.7), (0.7, 0.1), (0.8, 0.6), (0.8, 0.6), (0.8, 0.65)]

    def kept(found: Dataset, wanted: config.Config) -> tuple[int, list[bool] | None]:
        left = iter([SimpleNamespace(token_accuracy=a, cross_entropy=b) for a, b in measured])
        last = []

        def scored(trainer: Trainer, split: Any) -> Any:
            last[:] = [next(left)] if split.name == "validation" else last
            return last[0]

        monkeypatch.setattr(Trainer, "score", scored)
        loop = Trainer(experiment.of(wanted, found), None, Execution(CPU))
        best = loop.run().best_step
        return best, [row["kept"] for row in loop.progress.history] if "kept" in loop.progress.history[0] else None

    assert kept(data, wanted(steps=6, validate_every_steps=1)) == (4, [True, True, False, True, False, False])
    text = ExperimentSpec(preset="tiny", scheme="none", set={"steps": 6, "validate_every_steps": 1}).config("sequence")
    assert kept(words, text) == (2, None)


def test_accuracy_by_class_adds_up(data: Dataset, tmp_path: Path) -> None:
    done = run(data, tmp_path / "results")
    assert done.evaluation is not None
    parts = pl.DataFrame(done.evaluation["by_class"])
    assert parts["class"].to_list() == [c for c in data.manifest.vocabulary if c in parts["class"].to_list()]
    labels = data.split("test").table()["label"].to_numpy()
    assert parts["rows"].to_list() == np.bincount(labels, minlength=6)[np.unique(labels)].tolist()
    correct = (parts["token_accuracy"] * parts["rows"]).sum()
    assert correct / 40 == pytest.approx(done.evaluation["overall"]["token_accuracy"])
    assert "by_op" not in done.evaluation


def test_another_dataset_is_brought_to_the_scale_of_training(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same test images with other training images have other moments and the same scores."""
    dim = LabelledImages(bars(90, 5).pixels // 4, bars(90, 5).labels)
    other = write(tmp_path / "dim", monkeypatch, train=dim)
    assert other.manifest.moments != data.manifest.moments
    done = run(data, tmp_path / "results")
    assert done.evaluation is not None
    again = evaluate.evaluate(done.run, other, split="test", decode="teacher", device=CPU)
    assert again["overall"] == done.evaluation["overall"]


# Batches


def test_shares_are_the_batch(data: Dataset) -> None:
    """Each image is augmented as in the whole batch. A share without a row of its own has no labels."""
    train = data.split("train")
    assert isinstance(train, ImageSplit)
    how: dict[str, Any] = {"epoch": 3, "augment": ("crop", "flip")}
    whole = list(train.batches(7, 5, **how))
    for of in (2, 3):
        parts = [list(train.batches(7, 5, share=(i, of), **how)) for i in range(of)]
        for number, batch in enumerate(whole):
            for i in range(of):
                assert torch.equal(parts[i][number].pixels, batch.pixels[i::of])
                assert torch.equal(parts[i][number].labels, batch.labels[i::of])
                assert parts[i][number].counts == batch.counts
    lonely = next(train.batches(1, 5, share=(1, 2)))
    assert lonely.labels.tolist() == [[-1]]
    assert lonely.counts == (1, 0)


def test_augmentation_is_of_training_alone_and_new_in_each_epoch(data: Dataset) -> None:
    settled = experiment.complete(wanted(augment="crop,flip"), data)
    assert experiment.of(settled, data).batch_options() == BatchOptions()
    assert experiment.of(settled, data).batch_options(training=True) == BatchOptions(augment=("crop", "flip"))
    train = data.split("train")
    assert isinstance(train, ImageSplit)

    def seen(**how: Any) -> dict[int, np.ndarray]:
        batches = list(train.batches(16, 5, **how))
        return {int(row): image.numpy() for b in batches for row, image in zip(b.row, b.pixels, strict=True)}

    plain, one, other = seen(), seen(augment=("crop",)), seen(augment=("crop",), epoch=1)
    assert sum(not np.array_equal(plain[row], one[row]) for row in plain) > 60
    assert sum(not np.array_equal(one[row], other[row]) for row in plain) > 60
    with pytest.raises(UsageError, match="augmentation needs a seed"):
        next(train.batches(16, augment=("crop",)))


def test_each_rate_reaches_the_layers(data: Dataset) -> None:
    """Stochastic depth grows linearly from none in the first layer to its rate in the last."""
    rates = {"dropout": 0.1, "attention_dropout": 0.2, "stochastic_depth": 0.3}
    model: Any = factory.of_experiment(experiment.of(wanted(encoder_layers=4, **rates), data))
    assert [layer.skip for layer in model.encoder] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    for layer in model.encoder:
        assert (layer.dropout.p, layer.ff.dropout, layer.self_attention.dropout) == (0.1, 0.1, 0.2)
        layer.dropout.p = layer.ff.dropout = layer.self_attention.dropout = layer.skip = 0.0
    assert model.dropout.p == 0.1
    pixels = next(data.split("train").batches(4)).pixels
    assert not torch.equal(model(pixels), model(pixels))  # what is left acts on the embedded tokens


# The settings that follow from the data


@pytest.mark.parametrize("scheme", ["orthogonal-grid", "rope", "sinusoidal"])
def test_tokens_stand_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    """Images of 4 x 6 pixels, pooled with a stride of 2, have 2 rows of 3 tokens."""
    pixels = np.random.default_rng(0).integers(256, size=(60, 4, 6, 1)).astype(np.uint8)
    wide = LabelledImages(pixels, np.arange(60) % 2)
    data = write(tmp_path / "wide", monkeypatch, train=wide, test=wide)
    model = factory.of_experiment(experiment.of(wanted(scheme), data))
    grid = [[1, 1], [1, 2], [1, 3], [2, 1], [2, 2], [2, 3]]
    assert model.positions.tolist() == [grid if scheme == "orthogonal-grid" else [1, 2, 3, 4, 5, 6]]


def test_settled_by_the_images(data: Dataset) -> None:
    pixels = {"convolution_size": 1, "pool_size": 1, "pool_stride": 1}
    assert experiment.complete(wanted("learned"), data).max_size == 9  # 6 x 6 pixels, 3 x 3 tokens
    assert experiment.complete(wanted("learned", **pixels), data).max_size == 36
    assert experiment.complete(wanted("orthogonal-grid"), data).decay == 0.98
    paper = ExperimentSpec(preset="paper", scheme="none").config("image")
    assert experiment.complete(paper, data).augment == "crop,flip,autoaugment"
    assert experiment.complete(wanted(augment="flip,crop"), data).augment == "crop,flip"
    assert experiment.complete(wanted(), data).augment == "none"
    digits = data.manifest.plan.model_copy(update={"parameters": {"source": "digits"}})
    upright = Dataset(data.folder, data.manifest.model_copy(update={"plan": digits}))
    assert experiment.complete(paper, upright).augment == "crop"  # a mirrored digit is not a digit, unless asked for
    assert experiment.complete(paper.model_copy(update={"augment": "flip"}), upright).augment == "flip"


def test_settings_of_the_other_model_are_refused(data: Dataset, words: Dataset) -> None:
    for call, message in (
        (lambda: wanted(decoder_layers=2), "unknown setting"),
        (
            lambda: ExperimentSpec(preset="tiny", scheme="rope", set={"pool_stride": 1}).config("sequence"),
            "unknown setting",
        ),
        (lambda: wanted(encoder_layers=0), "bad value of encoder_layers"),
        (lambda: experiment.complete(wanted(augment="crop,flop"), data), "unknown"),
        (lambda: experiment.complete(wanted(pool_stride=6), data), "single token"),
        (lambda: experiment.complete(wanted("rope"), words), "for images"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
