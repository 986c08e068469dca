"""Mistakes in the decoder-only model, in what schemes keep for each layer, and in what a resumed run is given."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
a gap between a source and its target, as padding in the middle of a row
  _without_gap  models/test_decoder.py::test_words_are_packed_without_a_gap
  - place, gap = np.arange(most), (source.shape[1] - lengths)[:, None]
  + place, gap = np.arange(most), (0 * lengths)[:, None]
positions of the target that begin again
  PositionReading.input_positions_of  models/test_decoder.py::test_words_are_packed_without_a_gap
  - return positions
  + return positions - sources.reshape(-1, *[1] * (positions.ndim - 1))
SOS at the empty path of the line, although the line continues
  PositionReading.input_positions_of  models/test_decoder.py::test_trees_keep_their_places_and_their_line_continues
  - positions[:, 0, axis] = sources + 1
  + positions[:, 0, axis] = 0
the label after the right one predicted
  collate  models/test_decoder.py::test_words_are_packed_without_a_gap
  - lengths[:, None] + np.arange(target_length + closes)
  + lengths[:, None] + 1 + np.arange(target_length + closes)
the vector of the source added to the target
  DecoderOnly.decode  models/test_decoder.py::test_the_model_is_the_plain_one
  - self.sides[1]
  + self.sides[0]
padding before a source that is attended to
  DecoderOnly.decode  models/test_decoder.py::test_the_model_is_the_plain_one
  - replace(AttentionContext.of(self.scheme, new, keys), causal=False)
  + replace(AttentionContext.of(self.scheme, new, keys), causal=False, keys=None)
kept keys moved to another place than their positions
  KVCache.move_to_end  models/test_decoder.py::test_the_model_is_the_plain_one
  - lengths[:, None]
  + lengths[:, None] + 1
layers of the decoder alone
  _of_sequences  models/test_decoder.py::test_a_configuration_decides_the_model
  - layers=encoder + decoder
  + layers=decoder
a decoder-only model whose layers are all as wide as the encoder's
  _of_sequences  models/test_transformer.py::test_each_layer_has_its_own_width
  - config.feed_forward_widths
  + config.d_ff
batches for an encoder-decoder given to a decoder-only model
  Experiment.batch_options  evaluation/test_decoding.py::test_greedy_agrees_with_teacher_forcing_where_all_is_right
  - BatchOptions(reading.structure, reading.decoder_only, reading.positions)
  + BatchOptions(reading.structure, False, reading.positions)
layers whose own weights are all the same
  Scheme.attach  position/test_layers.py::test_each_layer_has_weights_of_its_own
  - 1 + len(self.layers)
  + 1
the content of earlier tokens forgotten when a token is added
  KVCache.extended_content  position/test_layers.py::test_tokens_one_by_one_have_the_content_of_all
  - self._content = content if self._content is None else torch.cat([self._content, content], dim=1)
  + self._content = content
a scheme that is loaded alone without the weights of its layers
  load_scheme  position/test_layers.py::test_a_scheme_is_loaded_with_the_modules_of_its_layers
  - tensors = {name.removeprefix("scheme."): tensor for name, tensor in weights if name.startswith("scheme.")}
  + tensors = {n.removeprefix("scheme."): t for n, t in weights if n.startswith("scheme.") and ".layers." not in n}
moments of the optimiser in another memory layout than their parameter, after a resume
  unpack  models/test_checkpoint.py::test_moments_have_the_layout_of_their_parameter
  - torch.empty_like(parameter).copy_(tensors[f"optimiser.{name}.{k}"])
  + tensors[f"optimiser.{name}.{k}"]
the content of all keys given to a block of queries
  AttentionContext.part  attention/test_blocks.py::test_scores_of_content_in_blocks
  - self.content[:, :seen]
  + self.content
""")
