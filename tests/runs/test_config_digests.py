"""The digest of a configuration is a part of the name of its run, so it never changes.

The expected values are those of the version that trained the committed runs.
"""

from typing import Any

import pytest

from ape_cli.experiment import ExperimentSpec, spec
from ape_cli.runs.config import PRESETS, parse_settings, read_config

FINGERPRINT = "0" * 63 + "1"
PAPER, SMALL, TINY = (PRESETS[name] for name in ("paper", "small", "tiny"))
LATER_FIELDS = {
    "attention": "linear",
    "attention_options": {"feature": "elu"},
    "label_smoothing": 0.1,
    "positions_scale": 0.5,
    "dropout_places": "branches",
}


def images(preset: str) -> dict[str, Any]:
    """The settings of a preset for images."""
    return PRESETS[preset].of("image") | {"preset": preset}


@pytest.mark.parametrize(
    ("config", "digest", "without_seed"),
    [
        (PAPER.sequence | {"preset": "paper", "scheme": "rope"}, "5940358b", "98588e72"),
        (
            SMALL.sequence
            | {"preset": "small", "scheme": "orthogonal", "structure": "tree(2)*seq", "seed": 43}
            | {"scheme_options": {"flow": True}},
            "7236aea0",
            "b84410bb",
        ),
        (
            TINY.sequence | {"preset": "tiny", "scheme": "learned", "max_size": 7} | LATER_FIELDS,
            "cb28175d",
            "e9eb409b",
        ),
        (
            images("paper") | {"scheme": "orthogonal-grid", "augment": "crop,flip,autoaugment", "decay": 0.98},
            "bc2062cb",
            "9db3c487",
        ),
        (
            images("small") | {"scheme": "sinusoidal", "augment": "crop,flip", "decay": 1.0} | {"label_smoothing": 0.0},
            "8e07e456",
            "336995d0",
        ),
    ],
    ids=["sequence", "structure", "fields added later", "image", "image at default"],
)
def test_the_digest_of_a_configuration_is_frozen(config: dict[str, Any], digest: str, without_seed: str) -> None:
    checked = read_config(config)
    assert checked.digest(FINGERPRINT) == digest
    assert checked.digest(FINGERPRINT, without=("seed",)) == without_seed


def test_equal_values_have_one_name() -> None:
    """However a number is typed: as a setting, and as an option of a scheme, of the attention or of the map."""
    for kept, typed in (
        ({"dropout": 0}, "dropout=-0.0"),
        ({"dropout": 0.0}, "dropout=-0"),
        ({"lr_final": 0}, "lr_final=-0.0"),
        ({"lr_peak": 0.001}, "lr_peak= 1e-3"),
        ({"weight_decay": 1}, "weight_decay=1.0"),
        ({"base": 100}, "base=1e2"),
        ({"partial": 1.0}, "partial=1"),
        ({"maximum": 9}, "maximum=9"),
    ):
        digests = {
            ExperimentSpec(preset="tiny", scheme="rope", positions="offset", set=settings)
            .config("sequence")
            .digest(FINGERPRINT)
            for settings in (kept, parse_settings([typed]))
        }
        assert len(digests) == 1, typed


def test_a_nested_zero_has_no_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(spec._PARTS, "scheme", lambda name: {"rates": None})

    def digest(value: Any) -> str:
        return ExperimentSpec(preset="tiny", scheme="own", set={"rates": value}).config("sequence").digest(FINGERPRINT)

    assert digest([0.5, [-0.0]]) == digest([0.5, [0.0]]) != digest([0.5, [1.0]])


def test_a_stored_configuration_keeps_its_digest() -> None:
    """A run that was trained with -0.0 is still read, with the name that it has."""
    fields = TINY.sequence | {"preset": "tiny", "scheme": "rope"}
    old, new = (read_config(fields | {"dropout": zero}).digest(FINGERPRINT) for zero in (-0.0, 0.0))
    assert (old, new) == ("6be419a1", "f057f10f")


def test_the_width_of_the_decoder_counts_only_if_it_differs() -> None:
    """So runs of before this field keep their names, and a model has one name however its widths are written."""
    wide = {"d_ff_decoder": 2 * TINY.sequence["d_ff"]}
    plain, same, wider = (
        ExperimentSpec(preset="tiny", scheme="rope", set=settings).config("sequence")
        for settings in ({}, {"d_ff_decoder": TINY.sequence["d_ff"]}, wide)
    )
    assert plain == same
    assert plain.digest(FINGERPRINT) == "f057f10f" != wider.digest(FINGERPRINT)
    assert (plain.feed_forward_widths, wider.feed_forward_widths) == ([64, 64], [64, 128])


def test_the_memory_counts_only_if_it_differs() -> None:
    plain, same, other = (
        ExperimentSpec(preset="tiny", scheme="rope", set=settings).config("sequence").digest(FINGERPRINT)
        for settings in ({}, {"memory": "all"}, {"memory": "last"})
    )
    assert plain == same == "f057f10f" != other
