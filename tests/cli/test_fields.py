"""`ape fields` lists exactly what `--set` accepts, with the values that runs have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ape_cli import attention, position
from ape_cli.core.errors import UsageError
from ape_cli.experiment import ExperimentSpec
from ape_cli.runs import config
from tests.conftest import ape


def listed(*words: str) -> dict[str, dict[str, Any]]:
    return {line["field"]: line for line in json.loads(ape("fields", *words, "--json")[0])}


@pytest.mark.parametrize("scheme", ["rope", "t5", "orthogonal-grid"])
def test_every_field_can_be_set_and_no_other(scheme: str) -> None:
    fields = listed("--scheme", scheme)

    def resolve(key: str, value: Any) -> config.Config:
        return ExperimentSpec(preset="small", scheme=scheme, set={key: value}).config("sequence")

    run = ExperimentSpec(preset="small", scheme=scheme).config("sequence")
    for key, line in fields.items():
        if line["value"] is not None:
            changed = resolve(key, line["value"])
            if key not in ("decay", *position.options(scheme)):
                assert changed == run, key  # the listed value is the one that a run has
        assert line["meaning"].endswith("."), key
    assert set(type(run).model_fields) - set(fields) == config._FIXED
    with pytest.raises(UsageError, match="unknown setting"):
        resolve("nothing", 1)


def test_every_option_of_ours_has_a_meaning() -> None:
    for package in (position, attention):
        for name in package.names():
            assert set(package.options(name)) == set(package.load(name).option_help), name


def test_the_locality_bias_is_that_of_the_scheme() -> None:
    assert listed()["decay"]["value"] is None
    assert listed("--scheme", "rope")["decay"]["value"] == 1
    assert listed("--scheme", "orthogonal-tree")["decay"]["value"] == 0.98


def test_images_and_presets() -> None:
    assert "augment" in listed("--images")
    assert "augment" not in listed()
    assert (listed("--preset", "paper")["d_model"]["value"], listed()["d_model"]["value"]) == (512, 128)
    assert listed("--attention", "clustered")["clusters"]["value"] == 16
    assert "no settings for images" in ape("fields", "--images", "--preset", "medium", code=2)[1]
    assert "did you mean 'rope'?" in ape("fields", "--scheme", "RoPE", code=2)[1]
