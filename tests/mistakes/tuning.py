"""Mistakes in the choice among settings by validation scores."""

from __future__ import annotations

from tests.mistakes._mistake import read

MISTAKES = read("""
a setting chosen by its test scores
  _choice  sweep/test_stages.py::test_no_test_score_changes_what_is_chosen
  - tuning.validation(item.run)
  + tuning.Validation(item.run.evaluations()[0][0]["overall"]["token_accuracy"], 0.0)
a setting chosen by the best of its seeds
  mean  runs/test_tuning.py::test_the_highest_mean_over_seeds_wins
  - fmean(run.accuracy for run in of_runs)
  + max(run.accuracy for run in of_runs)
a setting chosen by its mean over all seeds, although the chosen one has more
  choose  runs/test_tuning.py::test_a_seed_that_only_one_setting_has_does_not_count
  - mean(by_seed[seed] for seed in common)
  + mean(by_seed.values())
a setting chosen before all of them are trained
  _choice  sweep/test_stages.py::test_a_group_with_an_unfinished_trial_is_left_open_and_named
  - item.state != "finished"
  + not item.run
a subset of settings without the default
  settings_of  sweep/test_combinations.py::test_a_subset_is_the_same_for_all_has_the_defaults_and_grows
  - setting in [*defaults]
  + False
""")
