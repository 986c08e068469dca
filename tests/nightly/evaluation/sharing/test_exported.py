"""An exported model of images, for which a run on images is trained."""

from __future__ import annotations

import pytest

from ape_cli.core.errors import UsageError
from ape_cli.data.loader import Dataset
from tests.evaluation.sharing.conftest import Both
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
