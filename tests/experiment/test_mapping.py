"""Maps of positions in experiments: names, sizes, labels, and what is refused, each with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli import experiment, position
from ape_cli.core.errors import CombinationError, UsageError
from ape_cli.data.loader import BatchOptions, Dataset
from ape_cli.experiment import ExperimentSpec, spec
from ape_cli.runs import config
from ape_cli.runs.config import Config
from tests.conftest import ape, write

CPU = torch.device("cpu")


def resolve(positions: str, scheme: str = "rope", **options: Any) -> Config:
    modality = options.pop("modality", "sequence")
    named = {name: options.pop(name) for name in ("model", "structure", "attention") if name in options}
    return ExperimentSpec(
        preset="tiny",
        scheme=scheme,
        positions=positions,
        set={"steps": 4, "validate_every_steps": 2} | options,
        **named,
    ).config(modality)


def test_options_reach_the_map(words: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = experiment.of(resolve("randomised", maximum=99), words).batch_options().positions
    assert (drawn.sampler.maximum, drawn.seed, drawn.decoder_only) == (99, 42, False)
    decoder = experiment.of(resolve("offset", model="decoder", scheme="learned"), words).batch_options()
    assert decoder.decoder_only
    assert decoder.positions.decoder_only
    assert experiment.of(resolve("plain"), words).batch_options() == BatchOptions(words.structure)
    with pytest.raises(UsageError, match="unknown setting"):
        resolve("plain", maximum=3)
    with pytest.raises(UsageError, match="bad maximum"):
        experiment.of(resolve("randomised", maximum=0), words)
    monkeypatch.setitem(spec._PARTS, "scheme", lambda name: {"maximum": 1})
    with pytest.raises(UsageError, match="an option of scheme rope and of positions offset"):
        ExperimentSpec(preset="tiny", scheme="rope", positions="offset", set={"maximum": 2}).config("sequence")


@pytest.mark.parametrize(
    ("positions", "options", "reason"),
    [
        ("randomised", {"scheme": "none"}, "the scheme reads no positions, so it would have no effect"),
        ("randomised", {"scheme": "forget", "model": "decoder"}, "the scheme reads no positions"),
        ("coupled", {"scheme": "contextual", "model": "decoder"}, "the scheme reads no positions"),
        ("coupled", {}, "in an encoder-decoder, positions always restart in the target"),
        ("offset", {"model": "decoder"}, "differences of positions alone, so it would have no effect"),
        ("offset", {"scheme": "alibi", "model": "decoder"}, "differences of positions alone"),
        ("offset", {"scheme": "none", "model": "decoder", "decay": 0.9}, "differences of positions alone"),
        ("randomised", {"scheme": "xpos", "model": "decoder", "maximum": 40_000}, "too far from the start for xpos"),
        ("randomised", {"scheme": "learned", "max_size": 50}, "beyond the size that learned is made for"),
        ("plain", {"scheme": "t5", "model": "decoder", "cross": False}, "has no effect in a decoder-only model"),
    ],
)
def test_what_has_no_effect_or_no_room_is_refused(
    words: Dataset, positions: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        experiment.of(resolve(positions, **options), words)


def test_what_acts_is_allowed(words: Dataset, trees: Dataset, grids: Dataset) -> None:
    """Every scheme that reads words, in both models, and trees and grids that are read along their linearisation."""
    for scheme in position.names():
        kind = position.load(scheme)
        if not any(pattern in kind.structures for pattern in ("seq", "*")):
            continue
        if not position.reads_positions(position.make(scheme, 32, 4, structure="seq", max_size=20)):
            assert scheme in {"none", "contextual", "forget", "path", "selective-rope"}
            continue
        for model in ("encoder-decoder", "decoder"):
            for positions in ("randomised", *(["coupled"] if model == "decoder" else [])):
                if model == "decoder" or not kind.causal_only:
                    experiment.of(resolve(positions, scheme, model=model), words)
        if not kind.causal_only:
            experiment.of(resolve("offset", scheme), words)
    experiment.of(resolve("offset", "orthogonal-seq", model="decoder", side="query"), words)  # it is not relative
    experiment.of(resolve("randomised", "none", decay=0.9), words)  # a locality bias reads positions
    for data in (trees, grids):
        experiment.of(resolve("randomised", "rope", structure="seq"), data)
        for model in ("encoder-decoder", "decoder"):
            experiment.of(resolve("randomised", "alibi", model=model), data)


def test_other_coordinates_are_refused(trees: Dataset, grids: Dataset, tmp_path: Path) -> None:
    """Heap indices, rows and columns are no places along a line. A sweep leaves such trials out."""
    for scheme, data, more in (
        ("orthogonal-tree", trees, {}),
        ("orthogonal", trees, {"structure": "seq*tree(2)"}),
        ("orthogonal-grid", grids, {}),
    ):
        with pytest.raises(CombinationError, match="these positions are places in a structure"):
            experiment.of(resolve("randomised", scheme, **more), data)
    pictures = write(tmp_path / "digits", "images", source="digits")
    with pytest.raises(UsageError, match="the tokens of an image are not read along a line"):
        experiment.of(resolve("offset", modality="image", steps=4), pictures)


def test_a_bounded_scheme_is_made_for_the_greatest_position(words: Dataset) -> None:
    one, both = (words.largest(words.structure, decoder_only=joined) for joined in (False, True))
    for positions, model, size in (
        ("plain", "encoder-decoder", one),
        ("randomised", "encoder-decoder", 2048),
        ("randomised", "decoder", 2048),
        ("offset", "encoder-decoder", one + 500),
        ("offset", "decoder", both + 500),
        ("coupled", "decoder", one),
    ):
        found = experiment.of(resolve(positions, "learned", model=model), words)
        assert found.config.max_size == size, (positions, model)
        assert experiment.of(resolve(positions, "learned", model=model, max_size=size), words).config == found.config
        assert "max_size" not in found.variant
    larger = experiment.of(resolve("randomised", "learned", max_size=3000), words)
    assert larger.variant["max_size"] == 3000


def test_names_and_labels(words: Dataset, trees: Dataset) -> None:
    """A map is part of the name of a run and of its label in tables. Without one, both are as before."""
    plain, mapped, other = (
        experiment.of(resolve(name, **more), words)
        for name, more in (("plain", {}), ("randomised", {}), ("randomised", {"maximum": 99}))
    )
    assert len({found.config.digest("f") for found in (plain, mapped, other)}) == 3
    fields = plain.config.model_dump(exclude={"positions", "positions_options"})
    assert config.read_config(fields).digest("f") == plain.config.digest("f")
    assert "positions" not in plain.variant
    assert mapped.variant == {**plain.variant, "positions": "randomised"}
    assert other.variant == {**plain.variant, "positions": "randomised", "maximum": 99}
    chosen = resolve("randomised", "orthogonal", structure="seq")
    assert experiment.of(chosen, trees).variant["positions"] == "randomised"
    bias = experiment.of(resolve("randomised", "none", decay=0.9), words)
    assert bias.variant == {**plain.variant, "positions": "randomised", "decay": 0.9}


def test_rows_are_checked_before_anything_is_written(here: Path) -> None:
    """The dataset of the task has answers of twice the length."""
    words = ("train", "--scheme", "rope", "--positions", "randomised", "--task", "repeat", "--preset", "tiny")
    _, error = ape(*words, code=2)
    assert "`--set answer=2`" in error
    assert not (here / "results").exists()
    ape(*words, "--set", "answer=2", "--set", "steps=1")
    assert (here / "results").exists()


def test_a_configuration_file_brings_its_map(words: Dataset, tmp_path: Path) -> None:
    """Unless the command line names another. Then options and the size of a bounded scheme are not taken over."""
    chosen = experiment.of(resolve("randomised", "learned", maximum=99), words).config
    run, steps = spec.of_config(chosen), ExperimentSpec(set={"steps": 2})
    taken = spec.merge(run, steps).config("sequence")
    assert (taken.positions, taken.positions_options, taken.max_size) == ("randomised", {"maximum": 99}, 99)
    plain = spec.merge(run, ExperimentSpec(positions="plain", set={"steps": 2})).config("sequence")
    assert (plain.positions, plain.positions_options, plain.max_size) == ("plain", {}, None)
    bare = spec.merge(run, steps).with_scheme("none").config("sequence")
    assert (bare.positions, bare.positions_options, bare.scheme) == ("plain", {}, "none")
