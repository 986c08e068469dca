"""Mistakes in statistics over rows, sizes and seeds."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
count baselines that are counted on the split that they are scored on
  _counted  evaluation/test_count_baselines.py::test_tables_of_each_split_are_those_of_plain_python
  - _counts(train, asked)
  + _counts(scored, asked)
equally frequent labels of a table chosen by the highest id
  _counted  evaluation/test_count_baselines.py::test_tables_of_each_split_are_those_of_plain_python
  - descending=[True, False]
  + descending=[True, True]
the standard deviation of a population instead of a sample
  over_seeds  reports/test_aggregation.py::test_mean_and_deviation_over_seeds
  - score.std().alias
  + score.std(ddof=0).alias
the interval of few seeds computed as for many
  critical  reports/test_aggregation.py::test_the_interval_by_hand
  - return math.sqrt(freedom) * math.tan(low)
  + return 1.959964
the interval of one score instead of the mean's
  half_width  reports/test_aggregation.py::test_the_interval_by_hand
  - critical(count - 1) / math.sqrt(count)
  + critical(count - 1)
pairs of scores by their order instead of their seed
  lines  reports/views/test_paired.py::test_pairs_by_hand
  - [(ours[seed], theirs[seed]) for seed in seeds]
  + list(zip(ours.values(), theirs.values()))
the interval of two samples instead of pairs
  _paired  reports/views/test_paired.py::test_what_is_added_to_both_changes_nothing
  - std, half = stats.spread(differences)
  + std, half = stats.spread([a for a, _ in pairs])
sums that differ only by rounding counted as unequal
  sign_flip  reports/test_stats.py::test_sign_flips_written_out
  - abs(math.fsum(differences)) - rounding
  + abs(math.fsum(differences))
runs of another size compared with the published ones
  Published.is_own_size  reports/published/test_published.py::test_another_size_has_no_difference
  - bool(line["preset_size"])
  + True
a model of another size taken for the paper's, because its preset is
  has_preset_size  reports/published/test_published.py::test_a_run_has_the_paper_s_size_only_with_its_model_and_steps
  - same and not config.decoder_only and has_preset_data(config.preset, trained)
  + has_preset_data(config.preset, trained)
a difference that is exactly the margin told from it by rounding
  Judged.follows  test_verdicts.py::test_the_rule
  - abs(self.difference) <= self.margin + stats.ROUNDING
  + abs(self.difference) <= self.margin
a published interval taken for a standard deviation
  Published.deviation  reports/published/test_published.py::test_the_deviation_behind_an_interval
  - shown / width if width else shown
  + shown
verdicts on perplexity that compare the numbers, not their logarithms
  Judged.scaled  test_verdicts.py::test_the_rule_for_perplexity
  - math.log(score) if METRICS[self.number.metric].exponential else score
  + score
verdicts on runs whose data has other sizes than the published data, though runs on that data exist
  _evidence  reports/views/test_verdicts.py::test_runs_on_data_of_the_published_sizes_come_first
  - not as_published
  + True
the deviation of whichever of several equal best rows came first
  mark  reports/test_underline.py::test_no_order_of_the_runs_changes_an_underline
  - pl.col("slack").max().over(shown)
  + pl.col("slack").drop_nulls().first().over(shown)
the best mean taken only from the rows with the most seeds
  mark  reports/test_underline.py::test_by_hand
  - top=pl.col("score").max().over(shown)
  + top=pl.col("score").filter(pl.col("seeds") == pl.col("seeds").max()).max().over(shown)
the best mean taken over a whole table instead of a column
  mark  reports/test_underline.py::test_columns_are_judged_by_themselves
  - top=pl.col("score").max().over(shown)
  + top=pl.col("score").max()
a column whose settings were tuned takes the marks from all columns
  mark  reports/test_layout.py::test_each_column_is_tuned_or_not
  - untuned=pl.col("several").any().over(table)
  + untuned=pl.col("several").any().over(TABLE)
schedules of one scheme taken for columns that are tuned
  mark  reports/test_layout.py::test_several_schedules_are_several_settings_by_epoch_too
  - pl.col("training").n_unique().over(*table, "scheme", "method") > 1
  + pl.col("training").n_unique().over(*shown, "scheme", "method") > 1
the end of a schedule compared with the middle of another
  lines  reports/test_layout.py::test_the_middle_of_a_schedule_is_not_compared_with_the_end_of_another
  - pl.col("is_end").n_unique().over(*TABLE, "column", "checkpoint") > 1
  + pl.lit(False)
tasks pooled on which a row has other settings
  _TABLE  reports/views/test_paired.py::test_rows_with_other_settings_have_a_table_of_their_own
  - _TABLE = ["preset", "a", "b"]
  + _TABLE = ["preset"]
means that differ by rounding counted as better
  _exact  reports/views/test_paired.py::test_equal_means_of_tasks_are_equal
  - 0.0 if abs(difference) <= stats.ROUNDING else difference
  + difference
the change on the test split given as that on validation
  _moved  reports/test_best_by.py::test_each_change_is_on_the_split_of_its_table
  - {"validation": stored} | pairs
  + {"validation": pairs[options.split]} | pairs
a mean of the datasets' means for a ratio of sums
  pool  reports/views/test_by_size.py::test_a_score_is_a_ratio_of_sums
  - (value * weight).sum() / weight.sum()
  + value.mean()
the exponential of a mean over rows instead of tokens
  read_parts  reports/test_perplexity.py::test_one_size_of_two_datasets_and_a_bin_of_two_sizes
  - _WEIGHT.get(options.metric, "tokens")
  + _WEIGHT.get(options.metric, "rows")
equal rows of a dataset counted each
  counted  reports/test_distinct_rows.py::test_few_distinct_inputs_of_a_size
  - rows.unique([part, "source"], keep="first", maintain_order=True)
  + rows
equal rows of two datasets counted twice
  without_repetition  reports/test_distinct_rows.py::test_data_that_shares_some_rows_is_left_out
  - of_size.is_in(sources.implode()).any()
  + of_size.sort().equals(sources.sort())
rows that are not known pooled with others
  without_repetition  reports/test_distinct_rows.py::test_rows_that_cannot_be_drawn_again
  - sources is None or of_size is None or of_size.is_in(sources.implode()).any()
  + sources is not None and of_size is not None and of_size.is_in(sources.implode()).any()
rows that were drawn again taken for those that were evaluated
  of_evaluations  reports/test_distinct_rows.py::test_rows_that_cannot_be_drawn_again
  - rows is not None and _counts(rows, "size").equals(wanted)
  + rows is not None
a mean of the perplexities of sizes
  pool  reports/test_perplexity.py::test_one_size_of_two_datasets_and_a_bin_of_two_sizes
  - (value * weight).sum() / weight.sum()
  + ((value.exp() * weight).sum() / weight.sum()).log()
the perplexity of the mean over seeds instead of the mean of the perplexities
  over_seeds  reports/test_perplexity.py::test_three_seeds_by_hand
  - score.mean()
  + value.mean().exp()
an interval of a perplexity that is symmetric
  over_seeds  reports/test_perplexity.py::test_three_seeds_by_hand
  - scored(high).alias("high")
  + (2 * pl.col("mean") - scored(low)).alias("high")
an interval of a perplexity that reaches below 1
  over_seeds  reports/test_perplexity.py::test_the_interval_ends_at_1
  - low.clip(0.0)
  + pl.when(IS_SHARE).then(low.clip(0.0)).otherwise(low)
perplexities compared in pairs instead of their logarithms
  lines  reports/test_perplexity.py::test_pairs_have_a_ratio_by_hand
  - seed["value"]
  + seed["score"]
the largest perplexity taken for the best
  Metric.is_share  reports/test_perplexity.py::test_smaller_is_better
  - self.units[0] == "%"
  + self.units[0] in ("%", "")
exact match weighted by tokens
  _WEIGHT  reports/views/test_by_size.py::test_exact_match_is_over_rows
  - _WEIGHT = {"exact_match": "rows"}
  + _WEIGHT: dict[str, str] = {}
seeds pooled, not averaged
  pool  reports/views/test_by_size.py::test_seeds_are_averaged_each_by_itself
  - [*column, *CELL, "seed"]
  + [*column, *CELL]
the highest cross-entropy taken for the best
  best  reports/views/test_by_epoch.py::test_cross_entropy_by_hand
  - choose = max if METRICS[metric].is_share else min
  + choose = max
the best test epoch presented as chosen on validation
  best  reports/views/test_by_epoch.py::test_a_checkpoint_by_hand
  - measures[CHOSEN] = chosen[-1]
  + measures[CHOSEN] = max(test)
the best of the mean over seeds instead of the mean of each run's best
  lines  reports/views/test_by_epoch.py::test_the_best_is_that_of_each_run
  - best(history, checkpoint["step"], metric)
  + best(pl.concat(h for _, h in of_runs).group_by("step").mean().sort("step"), checkpoint["step"], metric)
unfinished runs in the means of learning curves
  histories  reports/views/test_by_epoch.py::test_what_is_not_finished_or_has_no_history_is_left_out
  - run.run.status_in(run.record) != "finished"
  + False
seeds that were trained with different versions of a scheme's file are averaged
  CodeVersions.told  reports/test_run_descriptions.py::test_seeds_of_two_versions_of_a_file_have_separate_rows
  - len(self._versions[PARTS(record.config)]) > 1
  + False
a mean over rows instead of a mean over unseen sizes
  over_unseen  reports/views/test_generalisation.py::test_two_numbers_by_hand
  - pl.col("value").mean()
  + (pl.col("value") * pl.col("rows")).sum() / pl.col("rows").sum()
the largest training size counted as unseen
  over_unseen  reports/views/test_generalisation.py::test_two_numbers_by_hand
  - (pl.col("size") > pl.col("largest"))
  + (pl.col("size") >= pl.col("largest"))
unseen sizes with a handful of rows
  over_unseen  reports/views/test_generalisation.py::test_two_numbers_by_hand
  - pl.col("counted") & (pl.col("size") > pl.col("largest"))
  + pl.col("size") > pl.col("largest")
sizes between those that training lists counted as seen
  Seen.has  reports/views/test_by_size.py::test_listed_sizes_leave_gaps
  - size in self.listed if self.listed else self.smallest <= size <= self.largest
  + self.smallest <= size <= self.largest
a large size that is reached by chance after smaller ones were not
  reach  reports/views/test_generalisation.py::test_the_largest_size_needs_all_smaller_ones
  - break
  + continue
the interval of one side where two are meant
  wilson  reports/views/test_generalisation.py::test_two_kinds_of_intervals
  - (1 + CONFIDENCE) / 2
  + CONFIDENCE
an interval of a share that rounding puts above 1
  wilson  reports/test_stats.py::test_wilson_s_interval_ends_at_0_and_1_and_has_the_share
  - min(1.0, max(share, (middle + half) / scale))
  + (middle + half) / scale
settings chosen by the score of the report instead of the validation score
  _trials  reports/test_best_by.py::test_a_row_for_each_scheme_with_what_the_choice_moved
  - score = tuning.validation(run)
  + score = Validation(run.evaluations()[0][0]["overall"]["token_accuracy"], 0.0)
settings chosen by their best seed instead of their mean
  mean  runs/test_tuning.py::test_the_highest_mean_over_seeds_wins
  - fmean(run.accuracy for run in of_runs)
  + max(run.accuracy for run in of_runs)
settings with equal mean scores told apart by the rounding of their means
  choose  runs/test_tuning.py::test_means_that_differ_by_rounding_are_equal
  - _equal(score.accuracy, highest)
  + score.accuracy == highest
what the choice moved taken over unequal seeds
  _moved  reports/test_best_by.py::test_a_seed_that_only_one_setting_has_does_not_choose
  - moved = {split: fmean(of_split) for split, of_split in differences.items() if of_split}
  + moved = {"test": fmean(of_run[run] for run in trial.runs.values()) - fmean(map(of_run.get, default.runs.values()))}
an overlap that counts a row only if its source is in training exactly once
  _count  data/test_overlap.py::test_the_overlap_is_that_of_the_rows
  - np.searchsorted(seen, keys, "right") > np.searchsorted(seen, keys)
  + np.searchsorted(seen, keys, "right") == np.searchsorted(seen, keys) + 1
sources compared by their symbols, without positions
  _sides  data/test_overlap.py::test_the_overlap_is_that_of_the_rows
  - rng.content(starts, where, ids.values.to_numpy())
  + rng.content(starts, ragged.indices_of(starts), ids.values.to_numpy())
a setting chosen by its test scores
  _choice  sweep/test_stages.py::test_no_test_score_changes_what_is_chosen
  - tuning.validation(item.run)
  + tuning.Validation(item.run.evaluations()[0][0]["overall"]["token_accuracy"], 0.0)
a setting chosen by its mean over all seeds, although the chosen one has more
  choose  runs/test_tuning.py::test_a_seed_that_only_one_setting_has_does_not_count
  - mean(by_seed[seed] for seed in common)
  + mean(by_seed.values())
the most frequent class of the scored split taken for that of training
  _counted  evaluation/test_count_baselines.py::test_the_most_frequent_class_is_that_of_training
  - classes.mode().min()
  + of_split.mode().min()
splits of a task taken for apart whatever its options
  _division  data/test_overlap.py::test_another_dataset_of_a_task_may_divide_the_same_sources_otherwise
  - {k: v for k, v in data.parameters.items() if k not in sizes}
  + {}
unseen sizes of one table counted in another
  over_unseen  reports/views/test_unseen.py::test_each_table_of_a_column_has_its_own_sizes_and_chance
  - [*column, *CELL, "column"]
  + [*column, *CELL]
the loss of another validation than that of the weights that were kept
  validation  runs/test_tuning.py::test_the_scores_of_a_run_are_those_of_the_weights_that_it_kept
  - kept[0]["validation_loss"]
  + min(row["validation_loss"] for row in run.history_table().to_pylist())
stored validation scores counted beside an evaluation of the same weights on the same data
  evaluated  reports/test_best_by.py::test_an_evaluation_takes_the_place_of_stored_scores_on_its_own_data_alone
  - own not in {(evaluation["fingerprint"], evaluation["split"], evaluation["decode"]) for evaluation in evaluations}
  + True
stored validation scores replaced by those on other data
  evaluated  reports/test_best_by.py::test_an_evaluation_takes_the_place_of_stored_scores_on_its_own_data_alone
  - own not in {(evaluation["fingerprint"], evaluation["split"], evaluation["decode"]) for evaluation in evaluations}
  + split not in {evaluation["split"] for evaluation in evaluations}
the rule with the best token accuracy shown for every metric
  beside  reports/test_baselines.py::test_chance_and_the_best_rule
  - max(rules, key=lambda rule: rule[1], default=(None, None))
  + max(rules, key=lambda rule: by_name[rule[0]]["token_accuracy"], default=(None, None))
a size with just enough rows left out
  _beyond  reports/views/test_generalisation.py::test_two_numbers_by_hand
  - pl.col("rows") >= FEW
  + pl.col("rows") > FEW
verdicts on data of other sizes than those of the preset
  _evidence  reports/views/test_verdicts.py::test_runs_on_data_of_the_published_sizes_come_first
  - as_published or has_preset_data(of["preset"], record.dataset)
  + True
verdicts on the data that the fewest runs have
  _evidence  reports/views/test_verdicts.py::test_a_source_of_one_s_own_needs_no_file_of_verdicts
  - -len(of_rank[rank])
  + len(of_rank[rank])
a bin of sizes drawn at its smallest size
  panels  reports/views/test_by_size.py::test_a_point_of_a_plot_is_in_the_middle_of_its_bin
  - (pl.col("first") + pl.col("last")) / 2
  + pl.col("first")
published numbers beside validation scores
  beside  reports/published/test_published.py::test_a_number_stands_beside_test_scores_on_the_training_data_alone
  - (line["decode"], line["split"], line["fingerprint"]) == ("teacher", "test", line["trained_fingerprint"])
  + (line["decode"], line["fingerprint"]) == ("teacher", line["trained_fingerprint"])
published numbers beside scores on other data than those of training
  beside  reports/published/test_published.py::test_a_number_stands_beside_test_scores_on_the_training_data_alone
  - (line["decode"], line["split"], line["fingerprint"]) == ("teacher", "test", line["trained_fingerprint"])
  + (line["decode"], line["split"]) == ("teacher", "test")
operators of rows that are for tests at other sizes
  read_parts  reports/views/test_by_operator.py::test_orders_presets_and_evaluated_data_stand_apart
  - ~pl.col("test_only") if part == "op" else pl.lit(True)
  + pl.lit(True)
baselines of the test split stored with the scores on another one
  _baselines  evaluation/test_count_baselines.py::test_training_and_evaluation_count_once
  - {"baselines": count_baselines(data, split).counted}
  + {"baselines": count_baselines(data, "test").counted}
sizes beyond training drawn as they are, on an axis of multiples
  Generalisation.plot  reports/views/test_generalisation.py::test_two_seeds_have_no_band
  - x="multiple"
  + x="size"
test rows counted behind the validation scores of a history
  lines  reports/views/test_by_epoch.py::test_the_paper_s_size_is_all_of_its_images
  - data.rows[split]
  + data.rows["test"]
chance on one of several datasets for that on all of them
  pool  reports/views/test_by_size.py::test_chance_is_a_ratio_of_sums_too
  - (chance * weight).sum() / weight.sum()
  + chance.min()
""")
