"""Mistakes in the tasks on sequences that compute: addition, associative recall and flip-flop."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

_ADDITION = "tasks/test_addition.py"
_RECALL = "tasks/test_associative_recall.py"
_FLIP_FLOP = "tasks/test_flip_flop.py"

MISTAKES = [
    Mistake(
        "addition: a carry that reaches the sum of the next row",
        "carried",
        "into[starts[:-1]] = 0",
        "",
        f"{_ADDITION}::test_carries_run_as_far_as_digits_let_them",
    ),
    Mistake(
        "addition: a carry that passes through the ones from the row before",
        "carried",
        "decides[starts[:-1]] = starts[:-1]",
        "",
        f"{_ADDITION}::test_carries_run_as_far_as_digits_let_them",
    ),
    Mistake(
        "addition: a carry that moves only one place",
        "carried",
        "total[np.maximum.accumulate(decides)] >= base",
        "total >= base",
        f"{_ADDITION}::test_carries_run_as_far_as_digits_let_them",
    ),
    Mistake(
        "addition: a sum that loses its last carry",
        "Addition.answer",
        "digit[starts[1:] - 1] > 0",
        "False",
        f"{_ADDITION}::test_sums_by_hand",
    ),
    Mistake(
        "addition: a sum with a leading zero where there is no last carry",
        "Addition.answer",
        "digit[starts[1:] - 1] > 0",
        "True",
        f"{_ADDITION}::test_target_is_rederived",
    ),
    Mistake(
        "addition: reversed numbers whose sum is not reversed",
        "Addition.answer",
        "starts, symbol = self._written(digit, width, first)",
        "from dataclasses import replace\nstarts, symbol = replace(self, reverse=False)._written(digit, width, first)",
        f"{_ADDITION}::test_sums_by_hand",
    ),
    Mistake(
        "addition: numbers of unequal length aligned at their first digits",
        "Addition._read",
        "place = count[number] - 1 - place",
        "place = count.reshape(-1, 2).max(axis=1)[number // 2] - 1 - place",
        f"{_ADDITION}::test_sums_by_hand",
    ),
    Mistake(
        "addition: index hints that count from the first digit of each number",
        "Addition._written",
        "hint = self._plus + 1 + np.repeat(first, width) + place",
        "hint = self._plus + 1 + np.repeat(first, width) + ragged.places_of(starts)",
        f"{_ADDITION}::test_target_is_rederived",
    ),
    Mistake(
        "addition: index hints of the sum that start at 0",
        "Addition.answer",
        "first = source.symbol[ones - 1] - self._plus - 1",
        "",
        f"{_ADDITION}::test_target_is_rederived",
    ),
    Mistake(
        "addition: a random start that leaves the last carry without a hint of its own",
        "Addition.draw",
        "self.index_symbols - size",
        "self.index_symbols - size + 1",
        f"{_ADDITION}::test_the_start_of_hints_is_uniform_and_leaves_enough_for_the_sum",
    ),
    Mistake(
        "addition: operands with leading zeros",
        "Addition.draw",
        "leading = (beyond == -1) & (place > 0)",
        "leading = np.zeros(place.size, dtype=np.int64)",
        f"{_ADDITION}::test_target_is_rederived",
    ),
    Mistake(
        "addition: a number of one digit that is never 0",
        "Addition.draw",
        "leading = (beyond == -1) & (place > 0)",
        "leading = beyond == -1",
        f"{_ADDITION}::test_one_digit_may_be_zero",
    ),
    Mistake(
        "addition: two numbers from one stream, so that a number is added to itself",
        "Addition.draw",
        "rng.child(key, 'second')",
        "rng.child(key, 'first')",
        f"{_ADDITION}::test_numbers_are_drawn_as_described",
    ),
    Mistake(
        "associative recall: keys looked up among the pairs of all rows",
        "AssociativeRecall.answer",
        "name = row * self.keys + source.symbol",
        "name = source.symbol",
        f"{_RECALL}::test_target_is_rederived",
    ),
    Mistake(
        "associative recall: keys drawn with repetition, so that a query has two answers",
        "distinct",
        "columns[i + 1 :] += columns[i + 1 :] >= columns[i]",
        "columns[i + 1 :] += 0",
        f"{_RECALL}::test_target_is_rederived",
    ),
    Mistake(
        "associative recall: ranks decoded from the first element on, which is not uniform",
        "distinct",
        "range(count - 2, -1, -1)",
        "range(count - 1)",
        f"{_RECALL}::test_draws_without_repetition_are_uniform",
    ),
    Mistake(
        "associative recall: queries in the order of the pairs",
        "AssociativeRecall.draw",
        "distinct(rng.child(key, 'queries'), queries, self.pairs)",
        "np.tile(np.arange(queries), (rows, 1))",
        f"{_RECALL}::test_values_and_queries_are_uniform",
    ),
    Mistake(
        "associative recall: queries found by the number of pairs of the largest size",
        "AssociativeRecall.answer",
        "source.position >= 2 * source.size[row]",
        "source.position >= 2 * source.size.max()",
        f"{_RECALL}::test_answers_by_hand",
    ),
    Mistake(
        "flip-flop: what is ignored is stored",
        "FlipFlop.answer",
        "source.symbol == _WRITE",
        "(source.symbol == _WRITE) | (source.symbol == _IGNORE)",
        f"{_FLIP_FLOP}::test_target_is_rederived",
    ),
    Mistake(
        "flip-flop: a read that returns what was written first",
        "FlipFlop.answer",
        "source.symbol[last[reads] + 1]",
        "source.symbol[np.repeat(source.starts[:-1], count) + 1]",
        f"{_FLIP_FLOP}::test_answers_by_hand",
    ),
    Mistake(
        "flip-flop: a last instruction that need not be a read",
        "FlipFlop.draw",
        "order[begin[1:] - 1] = _READ",
        "order[begin[1:] - 1] = np.where(order[begin[1:] - 1] == _WRITE, _READ, order[begin[1:] - 1])",
        f"{_FLIP_FLOP}::test_target_is_rederived",
    ),
    Mistake(
        "flip-flop: a first instruction that need not be a write",
        "FlipFlop.draw",
        "order[begin[:-1]] = _WRITE",
        "",
        f"{_FLIP_FLOP}::test_target_is_rederived",
    ),
    Mistake(
        "flip-flop: the share of reads taken of all instructions",
        "FlipFlop._read",
        "(1 - self.ignore_probability) * self.read_share",
        "min(self.read_share, 1 - self.ignore_probability)",
        f"{_FLIP_FLOP}::test_instructions_are_drawn_as_in_the_paper",
    ),
    Mistake(
        "a sum in two splits, with its numbers exchanged",
        "Task.settle",
        "_split_of(self.identity(part))",
        "_split_of(part)",
        "tasks/test_addition.py::test_a_sum_is_in_one_split_however_it_is_written",
    ),
    Mistake(
        "a bounded scheme on sequences sized in the unit of the task instead of tokens",
        "settle",
        "data.structure == Seq() or LINE in (columns(read, data.structure) or [])",
        "LINE in (columns(read, data.structure) or []) and data.structure != Seq()",
        "models/test_factory.py::test_bounded_schemes_on_sequences_are_sized_in_tokens",
    ),
]
