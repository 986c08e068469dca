"""Mistakes in scores by size, in scores at checkpoints, and in plots."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "a report whose columns are cut off at the edge of the terminal",
        "_groups",
        "groups[-1] and width + FRAME > left",
        "False",
        "cli/test_width.py::test_a_wide_report_is_divided",
    ),
    Mistake(
        "the deviation of whichever of several equal best rows came first",
        "_underline",
        'pl.col("slack").max().over(column)',
        'pl.col("slack").drop_nulls().first().over(column)',
        "reports/test_underline.py::test_no_order_of_the_runs_changes_an_underline",
    ),
    Mistake(
        "equal means told apart by the rounding of their sums",
        "_underline",
        'tied = pl.col("score") >= pl.col("top") - _ROUNDING',
        'tied = pl.col("score") == pl.col("top")',
        "reports/test_underline.py::test_no_order_of_the_runs_changes_an_underline",
    ),
    Mistake(
        "the best mean taken only from the rows with the most seeds",
        "_underline",
        'top=pl.col("score").max().over(column)',
        'top=pl.col("score").filter(pl.col("seeds") == pl.col("seeds").max()).max().over(column)',
        "reports/test_underline.py::test_by_hand",
    ),
    Mistake(
        "the best mean taken over a whole table instead of a column",
        "_underline",
        'top=pl.col("score").max().over(column)',
        'top=pl.col("score").max()',
        "reports/test_underline.py::test_columns_are_judged_by_themselves",
    ),
    Mistake(
        "underlining explained in plain text, which has none",
        "_Captions.__rich_console__",
        "console.color_system is not None",
        "True",
        "reports/test_underline.py::test_where_nothing_can_be_underlined_the_rule_is_not_explained",
    ),
    Mistake(
        "the only row of a table underlined as the best",
        "Table.underlines",
        "len(self.rows) > 1",
        "True",
        "reports/test_underline.py::test_where_nothing_can_be_underlined_the_rule_is_not_explained",
    ),
    Mistake(
        "a mean of the datasets' means for a ratio of sums",
        "pool",
        "(value * weight).sum() / weight.sum()",
        "value.mean()",
        "reports/views/test_by_size.py::test_a_score_is_a_ratio_of_sums",
    ),
    Mistake(
        "exact match weighted by tokens",
        "_WEIGHT",
        '_WEIGHT = {"exact_match": "rows"}',
        "_WEIGHT: dict[str, str] = {}",
        "reports/views/test_by_size.py::test_exact_match_is_over_rows",
    ),
    Mistake(
        "seeds pooled, not averaged",
        "pool",
        '[*column, *CELL, "seed"]',
        "[*column, *CELL]",
        "reports/views/test_by_size.py::test_seeds_are_averaged_each_by_itself",
    ),
    Mistake(
        "datasets that only some runs were evaluated on pooled with the others",
        "apart",
        'sets.setdefault(frozenset(runs.filter(fingerprint=fingerprint)["id"]), [])',
        "sets.setdefault(frozenset(), [])",
        "reports/views/test_by_size.py::test_scores_of_one_table_are_of_the_same_rows",
    ),
    Mistake(
        "the largest size of training taken for a new one",
        "pool",
        'pl.col("size").is_between(*limits)',
        'pl.col("size").is_between(*limits, closed="left")',
        "reports/views/test_by_size.py::test_sizes_that_training_saw_are_marked",
    ),
    Mistake(
        "rows of the data counted once for each seed",
        "pool",
        "pl.col(*COUNTS).first()",
        "pl.col(*COUNTS).sum()",
        "reports/views/test_by_size.py::test_tables_and_programs_are_told_the_rows_and_tokens_of_each_cell",
    ),
    Mistake(
        "rows counted more than once because several seeds were evaluated on them",
        "pool",
        "stats.wilson(mean, rows)",
        "stats.wilson(mean, 2 * rows)",
        "reports/views/test_by_size.py::test_intervals_over_rows_and_over_seeds_are_two_things",
    ),
    Mistake(
        "operators on longer data pooled with those on the data of training",
        "ByOperator.read",
        '[*COLUMN, "op"]',
        '[*(c for c in COLUMN if c != "fingerprint"), "op"]',
        "reports/views/test_by_operator.py::test_orders_presets_and_evaluated_data_stand_apart",
    ),
    Mistake(
        "the highest cross-entropy taken for the best",
        "best",
        "choose = min if metric in SMALLER_IS_BETTER else max",
        "choose = max",
        "reports/views/test_by_epoch.py::test_cross_entropy_by_hand",
    ),
    Mistake(
        "the sizes that training saw read from another split",
        "seen",
        'split="train"',
        'split="test"',
        "reports/views/test_by_size.py::test_what_training_saw_is_what_its_split_holds",
    ),
    Mistake(
        "the sizes that training saw read from only the first rows",
        "seen",
        "range(0, rows, _BLOCK)",
        "[0]",
        "reports/views/test_by_size.py::test_what_training_saw_is_what_its_split_holds",
    ),
    Mistake(
        "sizes that training saw in one bin with others",
        "bins",
        "(size < low, size > high, size // width)",
        "(False, False, size // width)",
        "reports/views/test_by_size.py::test_bins",
    ),
    Mistake(
        "the best test epoch presented as chosen on validation",
        "best",
        "found[CHOSEN] = kept[-1]",
        "found[CHOSEN] = max(test)",
        "reports/views/test_by_epoch.py::test_a_checkpoint_by_hand",
    ),
    Mistake(
        "the first kept weights taken for the last",
        "best",
        "found[CHOSEN] = kept[-1]",
        "found[CHOSEN] = kept[0]",
        "reports/views/test_by_epoch.py::test_a_checkpoint_by_hand",
    ),
    Mistake(
        "a checkpoint that misses its own validation",
        "best",
        'pl.col("step") <= last',
        'pl.col("step") < last',
        "reports/views/test_by_epoch.py::test_a_checkpoint_by_hand",
    ),
    Mistake(
        "the best of the mean over seeds instead of the mean of each run's best",
        "lines",
        'best(history, place["step"], metric)',
        'best(pl.concat(h for *_, h in found).group_by("step").mean().sort("step"), place["step"], metric)',
        "reports/views/test_by_epoch.py::test_the_best_is_that_of_each_run",
    ),
    Mistake(
        "the paper's best by epoch beside what validation chose",
        "_theirs",
        'line["measure"] == BEST',
        'line["split"] == "test"',
        "reports/views/test_by_epoch.py::test_beside_the_paper_stands_what_was_chosen_as_theirs",
    ),
    Mistake(
        "a best over the part of a history that has test scores",
        "best",
        """
        if None not in test:
            found[BEST] = choose(test)
        """,
        """
        if any(test):
            found[BEST] = max(x for x in test if x is not None)
        """,
        "reports/views/test_by_epoch.py::test_nothing_is_invented_where_the_history_has_no_test",
    ),
    Mistake(
        "images in the tables of grid tasks",
        "_GROUP",
        '_GROUP = ["is_image", "structure", "preset"]',
        '_GROUP = ["structure", "preset"]',
        "reports/test_aggregation.py::test_images_have_a_table_of_their_own",
    ),
    Mistake(
        "some of the paper's images taken for its size",
        "_is_paper_size",
        "return _form(trained) == paper.SOURCE and everything",
        "return _form(trained) == paper.SOURCE",
        "reports/views/test_by_epoch.py::test_the_paper_s_size_is_all_of_its_images",
    ),
    Mistake(
        "a test curve over fewer seeds than the curve beside it",
        "learning",
        'pl.when(test.null_count() == 0).then(test.mean()).alias("test")',
        'test.mean().alias("test")',
        "reports/test_curves.py::test_images_have_the_test_curve_beside_the_other",
    ),
    Mistake(
        "the shading of the sizes that training saw is half a step short",
        "_curves",
        "panel.seen[1] + 0.5",
        "panel.seen[1]",
        "reports/test_plots.py::test_the_sizes_that_training_saw_are_shaded",
    ),
    Mistake(
        "colours that depend on which schemes are in the figure",
        "_curves",
        "chosen[str(row)]",
        'Look(f"C{len(axes.get_lines()) % 10}", "o", "-")',
        "reports/test_plots.py::test_a_scheme_has_its_colour_whatever_stands_beside_it",
    ),
    Mistake(
        "colours that change from one process to the next",
        "_hash",
        'int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")',
        "hash(text) % 2**64",
        "reports/test_palette.py::test_looks_stay_what_they_are",
    ),
    Mistake(
        "two variants with the same marker and line style",
        "_choose",
        """
        if taken.isdisjoint(_claims(name, look)):
            found[name] = look
            taken.update(_claims(name, look))
        else:
            displaced.append(name)
        """,
        """
        if look:
            found[name] = look
            taken.update(_claims(name, look))
        else:
            displaced.append(name)
        """,
        "reports/test_palette.py::test_a_figure_never_has_one_look_twice",
    ),
    Mistake(
        "two colours that look the same with deuteranopia",
        "_PALETTE",
        '("#9b4bb0", "P")',
        '("#c47dff", "P")',
        "reports/test_palette.py::test_any_two_schemes_with_a_colour_of_their_own_differ_to_everyone",
    ),
    Mistake(
        "a variant in the line style of the test split",
        "_DASHES",
        "(0, (2.2, 1.1))",
        '":"',
        "reports/test_palette.py::test_no_variant_is_dotted",
    ),
    Mistake(
        "an error of 0 that a logarithmic axis drops",
        "Scale.of",
        "np.where(errors > _ROUNDING, at, self.low if self.zero is None else self.zero)",
        "np.where(errors > _ROUNDING, at, np.nan)",
        "reports/test_scales.py::test_an_error_of_0_has_a_place_of_its_own",
    ),
    Mistake(
        "an error bar that adds a place for an error of 0 that no score has",
        "_of_errors",
        "len(some) == len(points)",
        "min(errors) > _ROUNDING",
        "reports/test_scales.py::test_a_bar_is_cut_where_the_axis_ends_and_never_moves_its_ends",
    ),
    Mistake(
        "a curve through points with few rows",
        "_curve",
        "np.where(few, math.nan, mean)",
        "mean",
        "reports/test_plots.py::test_a_point_with_few_rows_is_hollow_and_not_connected",
    ),
    Mistake(
        "30 rows taken for few",
        "_few",
        '(lines["rows"] < FEW)',
        '(lines["rows"] <= FEW)',
        "reports/test_plots.py::test_a_point_with_few_rows_is_hollow_and_not_connected",
    ),
    Mistake(
        "unfinished runs in the means of learning curves",
        "histories",
        'run.status_in(about) != "finished"',
        "False",
        "reports/test_curves.py::test_what_is_not_finished_has_no_curve",
    ),
    Mistake(
        "figures that contain the date",
        "_METADATA",
        '{"Date": None, "Creator": None}',
        '{"Creator": None}',
        "reports/test_plots.py::test_files_are_what_they_say_and_the_same_each_time",
    ),
    Mistake(
        "the same id in several figures of a page",
        "inline",
        "f'id=\"{name}-'",
        "'id=\"'",
        "reports/test_plots.py::test_several_figures_stand_in_one_page",
    ),
    Mistake(
        "a title of a page that is not escaped",
        "_section",
        'place, words = f"{name}-{number}", escaping.html(table.title)',
        'place, words = f"{name}-{number}", table.title',
        "reports/test_html_page.py::test_somebody_s_names_are_text",
    ),
    Mistake(
        "a filter that views of the runs ignore",
        "Registry.sound",
        "self.chosen.picks(kind)",
        "self.chosen is not None",
        "runs/test_filters.py::test_every_view_has_the_chosen_runs_alone",
    ),
    Mistake(
        "a task's order ignored by a filter",
        "kind",
        "parameters.get('source') if image else order",
        "parameters.get('source') if image else order and 'depth'",
        "runs/test_filters.py::test_every_view_has_the_chosen_runs_alone",
    ),
    Mistake(
        "an unknown name in a filter ignored if another name is known",
        "Filter.check",
        "name not in known",
        "set(names).isdisjoint(known)",
        "runs/test_filters.py::test_a_name_that_no_run_has_is_an_error",
    ),
    Mistake(
        "only the last of several datasets evaluated",
        "pending",
        "[d for d in data if not misfit(own, d)] if data else [None]",
        "[d for d in data[-1:] if not misfit(own, d)] if data else [None]",
        "evaluation/test_evaluate.py::test_pending_runs",
    ),
    Mistake(
        "an option that a view does not use is ignored",
        "View.rejects",
        "getattr(options, name) != getattr(Options, name)",
        "False",
        "reports/test_views.py::test_an_option_that_a_view_does_not_use_is_refused",
    ),
    Mistake(
        "text in a cell that is written as a number",
        "cell_text",
        "markup.number % cell if is_number(cell) else markup.escape(cell)",
        "markup.number % cell",
        "reports/test_views.py::test_text_in_a_cell_is_escaped",
    ),
    Mistake(
        "two tables of a LaTeX file with the same label",
        "_label",
        "label not in taken",
        "True",
        "reports/test_latex.py::test_each_table_has_a_caption_and_a_label_of_its_own",
    ),
    Mistake(
        "a page whose policy does not name its script",
        "_digest",
        "script.encode()",
        "script.strip().encode()",
        "reports/test_html_page.py::test_nothing_but_the_own_script_may_run_and_nothing_is_loaded",
    ),
    Mistake(
        "the present time in a page although SOURCE_DATE_EPOCH is set",
        "written",
        "told is None",
        "True",
        "reports/test_html_page.py::test_the_head_says_when_by_what_and_from_which_runs",
    ),
    Mistake(
        "seeds of a score in the order of their runs",
        "over_seeds",
        'pl.struct("seed", "value").sort_by("seed")',
        'pl.struct("seed", "value")',
        "reports/test_html_page.py::test_a_score_tells_its_seeds_and_its_sample",
    ),
    Mistake(
        "a page that sorts cross-entropy with the largest first",
        "Table.smaller_is_better",
        'self.unit.startswith("nats")',
        "False",
        "reports/test_html_page.py::test_a_score_tells_its_seeds_and_its_sample",
    ),
    Mistake(
        "a scheme without a palette index in the colour of another one",
        "_claims",
        '("colour", look.colour)',
        '("colour", scheme, look.colour)',
        "reports/test_palette.py::test_own_schemes_have_colours_of_their_own",
    ),
]
