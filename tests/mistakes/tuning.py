"""Mistakes in the choice among settings by validation scores."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
a setting chosen by its test scores
  _scores  sweep/test_stages.py::test_no_test_score_changes_what_is_chosen
  - yield item.config.seed, tuning.validation(item.run)
  + yield item.config.seed, tuning.Validation(item.run.evaluations()[0][0]["overall"]["token_accuracy"], 0.0)
a setting chosen by the best of its seeds
  mean  runs/test_tuning.py::test_the_highest_mean_over_seeds_wins
  - fmean(one.accuracy for one in of)
  + max(one.accuracy for one in of)
a setting chosen by its mean over all seeds, although the chosen one has more
  best  runs/test_tuning.py::test_a_seed_that_only_one_setting_has_does_not_count
  - mean(of[seed] for seed in common)
  + mean(of.values())
a setting chosen before all of them are trained
  _choice  sweep/test_stages.py::test_a_group_with_an_unfinished_trial_is_left_open_and_named
  - item.state != "finished"
  + not item.run
a subset of settings without the default
  settings_of  sweep/test_combinations.py::test_a_subset_is_the_same_for_all_has_the_defaults_and_grows
  - setting in [*defaults]
  + False
""")
