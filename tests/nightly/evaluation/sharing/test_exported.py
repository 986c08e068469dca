"""Exported models for which runs are trained: of images, and with another width in the decoder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.core.errors import UsageError
from ape_cli.data.loader import Dataset
from tests.evaluation.sharing.conftest import Both, exported_and_loaded
from tests.evaluation.sharing.test_exported import check_same_predictions


def test_predictions_on_images_are_those_of_the_run(of_pictures: Both, pictures: Dataset) -> None:
    check_same_predictions(of_pictures, pictures)
    _, model = of_pictures
    (batch,) = model.batches(pictures.split("test"))
    best = [model.vocabulary[i] for i in model.logits(batch)[:, 0].argmax(-1)]
    assert model.predict(pictures.split("test")) == best
    assert model.predict(batch.pixels, batch_size=7) == model.predict(batch.pixels.numpy()) == best
    for wrong in (batch.pixels.float(), batch.pixels[:, :-1], ["a"]):
        with pytest.raises(UsageError, match="uint8"):
            model.predict(wrong)


@pytest.mark.parametrize("model", ["encoder-decoder", "decoder"])
def test_each_layer_of_an_export_has_its_own_width(model: str, words: Dataset, tmp_path: Path) -> None:
    """The model card names the width of the decoder if it differs from that of the preset."""
    for width in (48, 64):
        both = exported_and_loaded(words, tmp_path / str(width), model=model, d_ff_decoder=width)
        check_same_predictions(both, words)
        weights = dict(both[1].module.named_parameters())
        found = [len(weight) for name, weight in weights.items() if name.endswith("ff.inner.bias")]
        assert found == [64, width]
        assert ("d_ff_decoder=48" in (tmp_path / str(width) / "out" / "README.md").read_text()) == (width == 48)
