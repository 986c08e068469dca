"""Places of digits within their numbers: by hand, from the release, in batches, and as the decoder writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ape_cli import experiment
from ape_cli.core import rng
from ape_cli.core.errors import CombinationError, UsageError
from ape_cli.core.vocabulary import EOS, FIRST_SYMBOL, SOS
from ape_cli.data import position_maps
from ape_cli.data.loader import Dataset, Split
from ape_cli.evaluation import evaluate
from ape_cli.evaluation.metrics import written
from ape_cli.models.factory import of_experiment
from tests.conftest import write
from tests.data.position_maps.plain import batches, drawn, of_rows
from tests.experiment.test_mapping import CPU, resolve

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("abacus_golden.json").read_text(encoding="utf-8"))
BOTH = pytest.mark.parametrize("joined", [False, True], ids=["encoder-decoder", "decoder"])


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Reversed sums of numbers of different lengths."""
    return write(tmp_path_factory.mktemp("sums") / "data", "addition", digits_mean=3, digits_std=1, reverse=True)


def by_hand(tokens: list[str], start: int = 1) -> list[int]:
    """The positions of the tokens of a text."""
    found, last = [], 0
    for token in tokens:
        last = (last + 1 if last else start) if token.isdigit() else 0
        found.append(last)
    return found


def sides(data: Dataset) -> dict[int, tuple[list[str], list[str]]]:
    """What is read of each training row, by the encoder and by the decoder, as text."""
    part = data.split("train")
    assert isinstance(part, Split)
    names = data.manifest.vocabulary
    table = part.table().to_pylist()
    return {
        row["row"]: (
            [*(names[i] for i in row["source_ids"]), "<eos>"],
            ["<sos>", *(names[i] for i in row["target_ids"])],
        )
        for row in table
    }


def test_places_of_a_sum_by_hand() -> None:
    """12+345=465, ones first: each number counts from 1. SOS, + and EOS have 0, and so has padding."""
    ids = [[FIRST_SYMBOL + "0123456789+".index(c) for c in "12+345"] + [EOS, 0], [SOS, 7, 9, 8, 0, 0, 0, 0]]
    places = position_maps.make("abacus").places(np.array(ids))
    assert places.tolist() == [[1, 2, 0, 1, 2, 3, 0, 0], [0, 1, 2, 3, 0, 0, 0, 0]]


def test_positions_are_those_of_the_release() -> None:
    """In evaluation, and in training from the first, a later and the last start."""
    ids, made = np.array(GOLDEN["ids"]), position_maps.make("abacus")
    places = made.places(ids)
    assert places.tolist() == GOLDEN["evaluation"]
    keys, most = rng.rows(3, "position", np.arange(5000)), int(places.max())
    table = np.pad(made.positions(keys, np.full(5000, most), most), ((0, 0), (1, 0)))
    starts = table[:, 1]
    assert (starts.min(), starts.max()) == (1, 100)
    for shift, expected in GOLDEN["training"].items():
        row = table[np.flatnonzero(starts == 1 + int(shift))[0]]
        assert row[places].tolist() == expected


def test_every_start_is_equally_likely() -> None:
    """Chi-squared with 4 degrees of freedom."""
    made = position_maps.make("abacus", largest_start=5)
    found = made.positions(rng.rows(3, "position", np.arange(5000)), np.full(5000, 2), 2)
    counts = np.bincount(found[:, 0], minlength=6)[1:]
    assert counts.size == 5
    assert ((counts - 1000) ** 2 / 1000).sum() < 18.5  # the 99.9% quantile
    assert made.greatest(7) == 11


@BOTH
def test_starts_are_drawn_in_training_alone(sums: Dataset, joined: bool) -> None:
    found, texts = drawn("abacus", joined=joined, largest_start=9), sides(sums)
    starts: dict[int | None, list[int]] = {}
    for epoch in (None, 0, 1):
        seed = {} if epoch is None else {"seed": 5, "epoch": epoch}
        for row, (source, read, both) in sorted(of_rows(batches(sums, found, **seed)).items()):
            start = source[0]
            starts.setdefault(epoch, []).append(start)
            assert [source, read] == [by_hand(text, start) for text in texts[row]]
            assert not both or both == source + read
    assert set(starts[None]) == {1}
    assert set(starts[0]) == set(starts[1]) == set(range(1, 10))
    assert starts[0] != starts[1]


@torch.no_grad()
@pytest.mark.parametrize(("scheme", "model"), [("learned", "decoder"), ("rope", "encoder-decoder")])
def test_the_decoder_writes_at_the_places_of_what_it_wrote(sums: Dataset, scheme: str, model: str) -> None:
    """Not at those of the true answer, because it may write a `+`, which begins a new number."""
    found = experiment.of(resolve("abacus", scheme, model=model), sums)
    made, seen = of_experiment(found).eval(), []
    torch.manual_seed(2)
    made.decoder_norm.weight.normal_()  # so that a model without training does not write what it reads
    for weight in made.decoder.parameters():
        weight.mul_(4.0)
    decode = made.decode

    def spy(ids: torch.Tensor, at: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        seen.append((ids, at))
        return decode(ids, at, *rest, **named)

    made.decode = spy
    task, read = evaluate.how_to_write(found)
    names = sums.manifest.vocabulary
    others = 0
    for batch in sums.split("test").batches(16, options=found.batch_options()):
        list(written(made, [batch], CPU, "fp32", task, read))
        ids, at = seen[-1]
        for row, positions, expected in zip(ids.tolist(), at.tolist(), batch.input_positions.tolist(), strict=True):
            assert positions == by_hand([names[i] for i in row])
            others += positions != expected[: len(positions)]
    assert others


def test_learned_has_a_vector_for_every_start(sums: Dataset) -> None:
    longest = sums.largest(sums.structure)
    found = experiment.of(resolve("abacus", "learned"), sums)
    assert found.config.max_size == longest + 99
    assert "max_size" not in found.variant


def test_what_are_no_digits_is_refused(words: Dataset, sums: Dataset, tmp_path: Path) -> None:
    binary = write(tmp_path / "binary", "addition", digits_mean=3, digits_std=1, base=2)
    experiment.of(resolve("abacus", digits=2), binary)
    for data, options, reason in (
        (words, {}, "not the digits of numbers, as they are in `addition`"),
        (binary, {}, "the first 2 symbols are digits, which is `digits=2`"),
        (sums, {"digits": 16}, "the first 10 symbols are digits, which is `digits=10`"),
        (sums, {"scheme": "none"}, "the scheme reads no positions"),
    ):
        with pytest.raises(CombinationError, match=reason):
            experiment.of(resolve("abacus", **options), data)
    for options in ({"largest_start": 0}, {"digits": 37}):
        with pytest.raises(UsageError, match=f"bad {next(iter(options))}"):
            position_maps.make("abacus", **options)
