"""Mistakes in maps of positions."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
positions drawn by the place of a row in its batch
  RowPositions._keys  data/position_maps/test_contract.py::test_neither_the_batch_nor_padding_nor_processes_matter
  - rng.rows(self.seed, "position", rows)
  + rng.rows(self.seed, "position", np.arange(len(rows)))
positions of the first rows of a batch for a share of it
  collate  data/position_maps/test_contract.py::test_neither_the_batch_nor_padding_nor_processes_matter
  - numbers = window.row[chosen]
  + numbers = window.row[rows[: len(chosen)]]
positions drawn with a fixed seed in place of the run's
  RowPositions._keys  data/position_maps/test_contract.py::test_training_draws_in_each_epoch_and_evaluation_once
  - rng.rows(self.seed, "position", rows)
  + rng.rows(42, "position", rows)
a draw of positions that is not put in order
  Randomised.positions  data/position_maps/test_contract.py::test_positions_rise_and_both_sides_share_the_draw
  - ordered[index <= last]
  + ordered[index <= last][::-1]
a draw of positions with repetition
  Randomised.positions  data/position_maps/test_contract.py::test_positions_rise_and_both_sides_share_the_draw
  - first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
a draw of positions that prefers some of them
  Randomised.positions  data/position_maps/test_randomised.py::test_every_subset_is_equally_likely
  - ordered[index <= last]
  + ordered[first & (np.cumsum(first, axis=1) <= counts[:, None])]
positions drawn from 0, which is that of SOS
  Randomised.positions  data/position_maps/test_randomised.py::test_the_draw_of_all_is_all
  - 1 + rng.below(rng.bits(keys[:, None], np.arange(1, length + 1)), self.maximum)
  + rng.below(rng.bits(keys[:, None], np.arange(1, length + 1)), self.maximum)
as many positions drawn as the answer has tokens, so that they tell its length
  collate  data/position_maps/test_randomised.py::test_a_position_does_not_tell_the_length_of_the_answer
  - drawn.at(numbers, sources, drawn.places(source, source_positions), source_mask)
  + drawn.at(numbers, sources + count, drawn.places(source, source_positions), source_mask)
another draw of positions for the target than for the source
  collate  data/position_maps/test_contract.py::test_positions_rise_and_both_sides_share_the_draw
  - drawn.at(numbers, sources, input_places, np.arange(inputs.shape[1]) < count[:, None])
  + drawn.at(numbers + 1, sources, input_places, np.arange(inputs.shape[1]) < count[:, None])
SOS of an encoder-decoder moved from the empty path
  RowPositions.at  data/position_maps/test_contract.py::test_positions_rise_and_both_sides_share_the_draw
  - np.pad(drawn, ((0, 0), (1, 0)))
  + np.pad(drawn, ((0, 0), (1, 0)), constant_values=1)
positions beyond the greatest, for which a bounded scheme would take others
  RowPositions.at  data/position_maps/test_rules.py::test_positions_out_of_range_are_refused_wherever_they_are_read
  - (flat > 0) & ((positions < 1) | (positions > greatest))
  + (flat > 0) & (positions < 1)
sources beyond the capacity of a map, whose positions have no meaning
  RowPositions.check  data/position_maps/test_rules.py::test_a_source_beyond_the_capacity_is_refused
  - np.maximum(read - 1, sources)
  + read - 1
a draw of positions that depends on the longest row of the batch
  Randomised.positions  data/position_maps/test_rules.py::test_the_maps_of_ape_keep_every_rule
  - rng.bits(keys[:, None], np.arange(1, length + 1))
  + rng.bits(keys[:, None], np.arange(1, length + 1)[::-1])
positions shifted beyond the greatest
  Offset.greatest  data/position_maps/test_rules.py::test_the_maps_of_ape_keep_every_rule
  - most + self.maximum
  + most
the same draw of positions in every epoch
  RowPositions._keys  data/position_maps/test_contract.py::test_training_draws_in_each_epoch_and_evaluation_once
  - 0 if self.epoch is None else self.epoch + 1
  + 0 if self.epoch is None else 1
the positions of the first epoch drawn again in evaluation
  Split._collate  data/position_maps/test_contract.py::test_training_draws_in_each_epoch_and_evaluation_once
  - reading if seed is None else reading.of_epoch(epoch)
  + reading.of_epoch(epoch)
a shift of positions that never reaches its maximum
  Offset.positions  data/position_maps/test_offset.py::test_every_shift_is_equally_likely
  - self.maximum + 1
  + self.maximum
greedy decoding of words at places in place of the drawn positions
  _follow  evaluation/test_position_maps.py::test_what_is_written_is_what_teacher_forcing_predicts_after_it
  - _positions(written, batch, reading)
  + torch.arange(written.shape[1])[None].expand(len(written), -1)
greedy decoding of trees at places in place of the drawn positions
  _unfold  evaluation/test_position_maps.py::test_the_tree_unfolds_at_the_positions_of_the_batch
  - reading.is_line
  + False
the decoder-only model trained at places in place of the drawn positions
  collate  data/position_maps/test_contract.py::test_positions_rise_and_both_sides_share_the_draw
  - reading.is_line and drawn is None
  + reading.is_line
a bounded scheme made for places in place of the positions of the map
  _sized  experiment/test_mapping.py::test_a_bounded_scheme_is_made_for_the_greatest_position
  - positions.sampler.greatest(size)
  + size
equal positions of source and target, and nothing that tells them apart
  _of_sequences  data/position_maps/test_coupled.py::test_a_vector_tells_the_sides_apart
  - alike or not PositionReading.of(structure, read).is_line
  + not PositionReading.of(structure, read).is_line
an exported model that reads words at places in place of the positions of its map
  TrainedModel._of_words  evaluation/test_position_maps.py::test_an_export_reads_the_positions_of_the_run
  - collate(window, part, reading)
  + collate(window, part, PositionReading.of(structure, reading.structure, decoder_only=reading.decoder_only))
digits whose number begins in another row
  Abacus.places  data/position_maps/test_abacus.py::test_places_of_a_sum_by_hand
  - np.maximum.accumulate(np.where(is_digit, 0, index), axis=1)
  + np.maximum.accumulate(np.where(is_digit, 0, index))
places of digits that count from 0, which is that of other tokens
  Abacus.places  data/position_maps/test_abacus.py::test_positions_are_those_of_the_release
  - index - before
  + np.maximum(index - before - 1, 0)
digits whose place counts the tokens of the whole row
  Abacus.places  data/position_maps/test_abacus.py::test_places_of_a_sum_by_hand
  - index - before
  + np.where(is_digit, index, 0)
the symbol after the digits taken for one
  Abacus.places  data/position_maps/test_abacus.py::test_places_of_a_sum_by_hand
  - ids < FIRST_SYMBOL + self.digits
  + ids <= FIRST_SYMBOL + self.digits
a random start of numbers in evaluation
  Abacus.in_evaluation  data/position_maps/test_abacus.py::test_starts_are_drawn_in_training_alone
  - Abacus(1, self.digits)
  + self
a random start of numbers that begins at 0, or ends before its largest
  Abacus.positions  data/position_maps/test_abacus.py::test_every_start_is_equally_likely
  - rng.below(rng.bits(keys, np.array(1)), self.largest_start)
  + rng.below(rng.bits(keys, np.array(1)), self.largest_start) - 1
the answer's numbers at places along the line
  collate  data/position_maps/test_abacus.py::test_starts_are_drawn_in_training_alone
  - drawn.places(inputs, input_positions)
  + input_positions
greedy decoding at the places of the true answer
  _follow  data/position_maps/test_abacus.py::test_the_decoder_writes_at_the_places_of_what_it_wrote
  - _positions(written, batch, reading)
  + batch.input_positions[:, : written.shape[1]]
places of digits from the least significant one, which a decoder cannot know
  Abacus.places  data/position_maps/test_rules.py::test_the_maps_of_ape_keep_every_rule
  - index - before
  + np.where(is_digit, index[::-1], 0)
""")
