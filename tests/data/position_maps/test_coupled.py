"""Equal positions of source and target in a decoder-only model, and the vector that tells them apart."""

from __future__ import annotations

from ape_cli import experiment
from ape_cli.data.loader import Dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import factory
from ape_cli.models.decoder import DecoderOnly
from tests.data.position_maps.plain import batches, drawn, of_rows


def test_positions_are_those_of_an_encoder_decoder(words: Dataset) -> None:
    plain = of_rows(batches(words, None))
    for row, (source, read, both) in of_rows(batches(words, drawn("coupled", joined=True))).items():
        assert (source, read) == plain[row][:2]
        assert source == list(range(1, len(source) + 1))
        assert both == [*source, *range(len(read))]  # SOS, which separates the two, is at 0


def test_a_vector_tells_the_sides_apart(words: Dataset) -> None:
    """And a bounded scheme is made for the longer of the two sides."""

    def model(positions: str) -> DecoderOnly:
        chosen = ExperimentSpec(preset="tiny", scheme="learned", model="decoder", positions=positions).config(
            "sequence"
        )
        wanted = experiment.complete(chosen, words)
        assert wanted.max_size == words.largest(words.structure, decoder_only=positions == "plain")
        made = factory.build(wanted, words.structure, words.ids)
        assert isinstance(made, DecoderOnly)
        return made

    assert model("plain").sides is None
    assert model("coupled").sides is not None
