"""Mistakes in tasks on words, grids and images: sources, answers, splits, and how rows become batches."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
causal tags whose source is read ahead
  collate  data/test_tags.py::test_causal_tags_are_predicted_from_the_tokens_up_to_them
  - window.source.emptied() if reading.causal else window.source
  + window.source
in-context recall: the value of the last pair in place of the first
  InContextRecall.target  tasks/test_in_context_recall.py::test_rows_with_tags_by_hand
  - index[inverse.reshape(-1)]
  + np.maximum(index[inverse.reshape(-1)], np.arange(start.size) - 1)
in-context recall: tags one token late
  InContextRecall.target  tasks/test_mad.py::test_published_inputs_have_the_published_labels
  - behind[has_more] - 1 + i
  + behind[has_more] + i
in-context recall: a key recognised by its first token
  InContextRecall.target  tasks/test_in_context_recall.py::test_rows_with_tags_by_hand
  - np.column_stack([row, string])
  + np.column_stack([row, string[:, 0]])
in-context recall: a last key drawn among pairs, so that frequent keys are likelier
  InContextRecall.draw  tasks/test_in_context_recall.py::test_pairs_are_drawn_as_published
  - (first == column) & is_pair
  + is_pair
in-context recall: short keys in the test split
  InContextRecall.sample_for_split  tasks/test_in_context_recall.py::test_target_is_rederived
  - _LongKeys(**options)
  + InContextRecall(**options)
selective copying: blanks behind the last symbol
  SelectiveCopying.draw  tasks/test_selective_copying.py::test_symbols_and_places_are_uniform
  - rng.below(rng.bits(rng.child(key, 'blanks')[:, None], np.arange(blanks)), self.copied)
  + rng.below(rng.bits(rng.child(key, 'blanks')[:, None], np.arange(blanks)), self.copied + 1)
memorization: another order of the keys
  Memorization.value_of  tasks/test_mad.py::test_published_inputs_have_the_published_labels
  - np.argsort(shuffled)
  + shuffled
tags whose decoder reads the answers
  collate  data/test_tags.py::test_the_decoder_reads_the_source
  - _pad(window.source, target_most, chosen)
  + _pad(window.target, target_most, chosen)
a word over a group that is multiplied from the right to the left
  GroupWord.target  tasks/test_group_word.py::test_target_is_rederived
  - products[state[row], element[here]]
  + products[element[here], state[row]]
permutations composed like functions, the right one first
  _of_permutations  tasks/test_group_word.py::test_target_is_rederived
  - images[:, images].swapaxes(0, 1)
  + images[:, images]
words over the first elements of a group instead of its generators
  GroupWord.draw  tasks/test_group_word.py::test_cycle_navigation_is_the_published_one
  - self.drawn[word.symbol - FIRST_SYMBOL]
  + word.symbol - FIRST_SYMBOL
differences of an expression with their sides exchanged
  evaluate  tasks/test_modular.py::test_values_are_rederived
  - [x + y, x - y, x * y]
  + [x + y, y - x, x * y]
expressions: unary signs that are ignored
  evaluate  tasks/test_modular.py::test_published_forms_are_rederived
  - -symbol % modulus
  + symbol % modulus
expressions: the left part has the larger share
  random_expressions  tasks/test_modular.py::test_published_forms_are_drawn_as_published
  - rng.below(word, (length - 5) // step + 1)
  + (length - 5) // step - rng.below(word, (length - 5) // step + 1) // 2
modular arithmetic without precedence of products
  _simple  tasks/test_modular.py::test_published_forms_are_rederived
  - sign == modulus + TIMES
  + sign > modulus + TIMES
parity of zeros in place of ones
  Modular.target  tasks/test_modular.py::test_parity_is_rederived
  - np.bitwise_xor.reduceat(symbol, source.offsets[:-1])
  + np.bitwise_xor.reduceat(1 - symbol, source.offsets[:-1])
the lower of two middle arguments as the median
  _apply  tasks/test_list_ops.py::test_lists_are_rederived
  - (ranked[row, (count - 1) // 2] + ranked[row, count // 2]) // 2
  + ranked[row, (count - 1) // 2]
addition: a carry that reaches the sum of the next row
  carried  tasks/test_addition.py::test_carries_run_as_far_as_digits_let_them
  - into[offsets[:-1]] = 0
addition: a sum that loses its last carry
  Addition.target  tasks/test_addition.py::test_target_is_rederived
  - digit[offsets[1:] - 1] > 0
  + False
addition: index hints that count from the first digit of each number
  Addition._written  tasks/test_addition.py::test_target_is_rederived
  - hint = self._plus + 1 + np.repeat(first, width) + place
  + hint = self._plus + 1 + np.repeat(first, width) + ragged.indices_of(offsets)
associative recall: keys looked up among the pairs of all rows
  AssociativeRecall.target  tasks/test_associative_recall.py::test_target_is_rederived
  - name = row * len(self.id_names) + source.symbol
  + name = source.symbol
associative recall: keys drawn with repetition, so that a query has two answers
  distinct  tasks/test_associative_recall.py::test_target_is_rederived
  - columns[i + 1 :] += columns[i + 1 :] >= columns[i]
  + columns[i + 1 :] += 0
associative recall: queries in the order of the pairs
  AssociativeRecall.draw  tasks/test_associative_recall.py::test_values_and_queries_are_uniform
  - distinct(rng.child(key, 'queries'), queries, self.pairs)
  + np.tile(np.arange(queries), (rows, 1))
associative recall: gaps that grow with the power law
  AssociativeRecall._spread  tasks/test_associative_recall.py::test_gaps_follow_the_power_law
  - self.gap_power - 1.0
  + 1.0 - self.gap_power
even pairs: the first two bits compared
  EvenPairs.target  tasks/test_even_pairs.py::test_target_is_rederived
  - source.symbol[last]
  + source.symbol[first + (last > first)]
flip-flop: what is ignored is stored
  FlipFlop.target  tasks/test_flip_flop.py::test_target_is_rederived
  - source.symbol == _WRITE
  + (source.symbol == _WRITE) | (source.symbol == _IGNORE)
flip-flop: the share of reads taken of all instructions
  FlipFlop._read  tasks/test_flip_flop.py::test_instructions_are_drawn_as_in_the_paper
  - (1 - self.ignore_probability) * self.read_share
  + min(self.read_share, 1 - self.ignore_probability)
indirect indexing: left and right exchanged
  IndirectIndexing.target  tasks/test_indirect_indexing.py::test_questions_with_answers_by_hand
  - np.where(back, -distance, distance)
  + np.where(back, distance, -distance)
indirect indexing: the given symbol found in the question
  IndirectIndexing.target  tasks/test_indirect_indexing.py::test_target_is_rederived
  - source.position < source.size[row]
  + source.position == source.size[row] + 1
indirect indexing: shifts to the right alone
  IndirectIndexing.draw  tasks/test_indirect_indexing.py::test_questions_with_an_answer_are_equally_likely
  - rng.below(rng.child(key, 'side'), 2)
  + 0 * distance
odds first: the even places first, as in the published program
  OddsFirst.target  tasks/test_words.py::test_target_is_rederived
  - odd = (np.diff(source.offsets)[row] + 1) // 2
  - place = 2 * source.position - np.where(source.position < odd, 0, 2 * odd - 1)
  + even = np.diff(source.offsets)[row] // 2
  + place = 2 * source.position + np.where(source.position < even, 1, -2 * even)
bucket sort: rows sorted together
  BucketSort.target  tasks/test_words.py::test_target_is_rederived
  - np.sort(ragged.rows_of(source.offsets) * ids + source.symbol)
  + np.sort(0 * ragged.rows_of(source.offsets) * ids + source.symbol)
missing duplicate: no gap in the second copy
  MissingDuplicate.draw  tasks/test_missing_duplicate.py::test_gaps_and_bits_are_uniform
  - rng.below(rng.child(key, 'gap'), size // 2 * 2)
  + rng.below(rng.child(key, 'gap'), size // 2)
missing duplicate: the other copy looked for from the end of an odd length
  MissingDuplicate.target  tasks/test_missing_duplicate.py::test_target_is_rederived
  - half = np.diff(source.offsets)[row] // 2
  + half = (np.diff(source.offsets)[row] + 1) // 2
binary numbers: a number of 0 that is not drawn again
  positive  tasks/test_binary.py::test_target_is_rederived
  - pending = pending[np.add.reduceat(bit[at], cut[:-1]) == 0]
  + pending = pending[:0]
binary numbers: short sources that leave out 0
  BinaryOperation.draw  tasks/test_binary.py::test_signs_and_numbers_are_uniform
  - symbol[flipped] = 2 * FIRST_SYMBOL + 1 - symbol[flipped]
  + symbol[flipped] += 0
binary numbers: a pair in two splits, with its numbers exchanged
  BinaryOperation.identity  tasks/test_binary.py::test_a_pair_of_numbers_is_in_one_split
  - ragged.indices_of(offsets)[ones]
  + ragged.indices_of(source.offsets)[np.flatnonzero(source.symbol == FIRST_SYMBOL + 1)]
binary multiplication: the answer 0 to a source of length 1
  BinaryMultiplication.target  tasks/test_binary.py::test_target_is_rederived
  - np.minimum(np.diff(source.offsets) - 1, 1)
  + 1
square root: roots without leading zeros
  ComputeSqrt.target  tasks/test_binary.py::test_target_is_rederived
  - (np.diff(source.offsets) + 1) // 2
  + 1
solve equation: solutions of the wrong sign where x is subtracted
  SolveEquation.target  tasks/test_solve_equation.py::test_target_is_rederived
  - (symbol[source.offsets[row + 1] - 1] - zero) * (one - zero) % self.modulus
  + (symbol[source.offsets[row + 1] - 1] - zero) % self.modulus
solve equation: places after the last digit that take the last digit
  SolveEquation.draw  tasks/test_solve_equation.py::test_equations_are_drawn_as_published
  - np.where(after < cut[1:], after, first)
  + np.where(after < cut[1:], after, digit[np.searchsorted(digit, cut[1:]) - 1])
stack manipulation: the stack from bottom to top
  StackManipulation.target  tasks/test_stack_manipulation.py::test_target_is_rederived
  - bit[:, ::-1][kept[:, ::-1]]
  + bit[kept]
stack manipulation: bits that are removed and pushed again at the same height
  StackManipulation.target  tasks/test_stack_manipulation.py::test_target_is_rederived
  - np.minimum.accumulate(height[:, ::-1], axis=1)[:, ::-1]
  + np.minimum(height, height[:, -1:])
a sum in two splits, with its numbers exchanged
  Task.sample_for_split  tasks/test_addition.py::test_a_sum_is_in_one_split_however_it_is_written
  - _split_of(self.identity(part))
  + _split_of(part)
a tree that unfolds in the order of its source
  _Growth.__init__  evaluation/test_decoding.py::test_places_follow_from_the_symbols
  - self.task, self.first_in_first_out = task, task.order == "breadth"
  + self.task, self.first_in_first_out = task, (task.source_order or task.order) == "breadth"
a quarter turn the wrong way
  clockwise  tasks/test_grids.py::test_target_is_rederived
  - begin + (h - 1 - j) * w + i
  + begin + j * w + (w - 1 - i)
a ring shifted backwards
  RingShift.target  tasks/test_ring_shift.py::test_target_is_rederived
  - before = (np.arange(n) - offset) % n
  + before = (np.arange(n) + offset) % n
EOS on grids and rings
  collate  data/test_loader.py::test_grids_and_rings_carry_no_eos
  - source_end = reading.data == Seq()
  + source_end = not any(isinstance(s, Tree) for s in reading.data.simple)
the first row and column get the position of SOS
  PositionReading.positions_of  data/test_loader.py::test_positions_as_any_structure_that_the_data_has
  - of_data[..., c] + first
  + of_data[..., c]
the sampled normal truncated instead of rounded
  normal  tasks/test_words.py::test_lengths_are_rounded_not_truncated
  - np.floor(mean + std * z + 0.5)
  + np.floor(mean + std * z)
EOS in the source and not in the target
  collate  data/test_loader.py::test_words_carry_eos_in_source_and_target
  - source_end and not reading.tagged
  + False
a tree without the parent of a node
  _check_trees  data/test_loader.py::test_a_row_that_is_no_tree
  - np.isin(above[positions > 1], node).all()
  + True
one id for PAD and EOS
  EOS  tasks/test_contract.py::test_rows_of_every_task_stay_what_they_are
  - PAD, SOS, EOS, FIRST_SYMBOL = 0, 1, 2, 3
  + PAD, SOS, EOS, FIRST_SYMBOL = 0, 1, 0, 3
the stream of a row is seed + index
  rows  tasks/test_contract.py::test_seeds_and_splits_share_nothing
  - return bits(root, index)
  + return mix(np.array([seed], dtype=np.uint64) + np.asarray(index).astype(np.uint64))
the mask of the inputs applied to the targets
  Batch.label_mask  data/test_loader.py::test_words_carry_eos_in_source_and_target
  - return self.labels != self.ignore_index
  + return self.input_ids != self.ignore_index
splits that share sources
  Task.sample_for_split  tasks/test_contract.py::test_splits_of_few_sources_are_apart
  - _split_of(self.identity(part)) == split
  + np.ones(part.size.size, dtype=bool)
a bounded scheme for the mean size instead of the largest
  _sized  training/test_trainer.py::test_bounded_schemes_are_made_for_the_largest_size_of_training
  - max(1, largest)
  + max(1, round(data.mean_size))
the mean number of tokens taken at the mean size
  Sized.expected  tasks/test_contract.py::test_means_are_those_of_the_draws
  - float(sum(chance * value(size) for size, chance in enumerate(chances.tolist(), first) if chance))
  + float(value(round(mean)))
a box that is turned the other way
  BoxRotate.target  tasks/test_box_rotate.py::test_target_is_rederived
  - b, c = ((a + 1) % 3, (a + 2) % 3)
  + c, b = ((a + 1) % 3, (a + 2) % 3)
held-out images left in training as well
  Images._split  tasks/test_images.py::test_training_never_sees_what_is_held_out
  - ordered[split], ordered["train"] = _cut(*ordered["train"], of)
  + ordered[split], _ = _cut(*ordered["train"], of)
channels shuffled independently when pixels are shuffled
  _shuffled  tasks/test_images.py::test_shuffled_moves_whole_pixels
  - return np.take_along_axis(flat, order[:, :, None], axis=1).reshape(pixels.shape)
  + order = np.stack([np.roll(order, c, axis=1) for c in range(channels)], axis=2)
  + return np.take_along_axis(flat, order, axis=1).reshape(pixels.shape)
moments of all splits instead of the training images
  Images.moments  tasks/test_images.py::test_moments_are_of_the_training_images_alone
  - flat = self.splits(seed)["train"].pixels[:rows].reshape(-1, self.image[2])
  + flat = np.concatenate([s.pixels for s in self.splits(seed).values()]).reshape(-1, self.image[2])
one sub-policy of AutoAugment for the whole batch
  chosen  data/test_augmentation.py::test_sub_policies_are_drawn_alike_for_each_image
  - pair = POLICY[int(row[0] * len(POLICY))]
  + pair = POLICY[int(draws[0, 0] * len(POLICY))]
x and y exchanged in a translation
  _matrix  data/test_augmentation.py::test_operations_of_another_implementation
  - (1, 0, -shift, 0, 1, 0) if name == "translate-x" else (1, 0, 0, 0, 1, -shift)
  + (1, 0, -shift, 0, 1, 0) if name == "translate-y" else (1, 0, 0, 0, 1, -shift)
""")
