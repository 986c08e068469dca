"""Mistakes in scores by size and in plots."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "a mean of the datasets' means for a ratio of sums",
        "sizes.py",
        "(value * weight).sum() / weight.sum()",
        "value.mean()",
        "test_sizes.py::test_a_score_is_a_ratio_of_sums",
    ),
    Mistake(
        "exact match weighted by tokens",
        "sizes.py",
        '_WEIGHT = {"exact_match": "rows"}',
        "_WEIGHT: dict[str, str] = {}",
        "test_sizes.py::test_exact_match_is_over_rows",
    ),
    Mistake(
        "seeds pooled, not averaged",
        "sizes.py",
        '.group_by([*column, *CELL, "seed"], maintain_order=True)',
        ".group_by([*column, *CELL], maintain_order=True)",
        "test_sizes.py::test_seeds_are_averaged_each_by_itself",
    ),
    Mistake(
        "the largest size of training taken for a new one",
        "sizes.py",
        'pl.col("size").is_between(*limits)',
        'pl.col("size").is_between(*limits, closed="left")',
        "test_sizes.py::test_sizes_that_training_saw_are_marked",
    ),
    Mistake(
        "what training saw told by another split",
        "sizes.py",
        'task.sample(rows=block, split="train"',
        'task.sample(rows=block, split="test"',
        "test_sizes.py::test_what_training_saw_is_what_its_split_holds",
    ),
    Mistake(
        "what training saw told by the first rows alone",
        "sizes.py",
        "for first in range(0, rows, _BLOCK))",
        "for first in [0])",
        "test_sizes.py::test_what_training_saw_is_what_its_split_holds",
    ),
    Mistake(
        "sizes that training saw in one bin with others",
        "sizes.py",
        "(size < low, size > high, size // width)",
        "(False, False, size // width)",
        "test_sizes.py::test_bins",
    ),
    Mistake(
        "the shade of what training saw half a step short",
        "plots.py",
        "panel.seen[1] + 0.5",
        "panel.seen[1]",
        "test_plots.py::test_the_sizes_that_training_saw_are_shaded",
    ),
    Mistake(
        "colours that depend on which schemes are there",
        "plots.py",
        "colour, mark, dashes = look(str(row))",
        'colour, mark, dashes = f"C{len(axes.get_lines()) % 10}", "o", "-"',
        "test_plots.py::test_a_scheme_has_its_colour_whatever_stands_beside_it",
    ),
    Mistake(
        "colours that change from one process to the next",
        "looks.py",
        'int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")',
        "hash(text) % 2**64",
        "test_plots.py::test_looks_stay_what_they_are",
    ),
    Mistake(
        "unfinished runs in the means of learning curves",
        "curves.py",
        'run.status_in(about) != "finished" or ',
        "",
        "test_curves.py::test_what_is_not_finished_has_no_curve",
    ),
    Mistake(
        "figures that carry the date",
        "plots.py",
        '"svg": {"Date": None, "Creator": None}',
        '"svg": {"Creator": None}',
        "test_plots.py::test_files_are_what_they_say_and_the_same_each_time",
    ),
    Mistake(
        "one id in several figures of a page",
        "plots.py",
        "f'id=\"{name}-'",
        "'id=\"'",
        "test_plots.py::test_several_figures_stand_in_one_page",
    ),
    Mistake(
        "a title of a page that is not escaped",
        "page.py",
        'anchor, words = f"{name}-{number}", html.escape(table.title)',
        'anchor, words = f"{name}-{number}", table.title',
        "test_page.py::test_somebody_s_names_are_text",
    ),
    Mistake(
        "the last of several datasets alone evaluated",
        "evaluate.py",
        "[d for d in data if not _misfit(own, d)] if data else [None]",
        "[d for d in data[-1:] if not _misfit(own, d)] if data else [None]",
        "test_evaluate.py::test_pending_runs",
    ),
]
