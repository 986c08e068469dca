"""Mistakes in the checks of a user's own schemes: a broken one is trained, or an old score is shown."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "an embed that discards the tokens is taken as sound",
        "_check",
        "torch.equal(one, other)",
        "False",
        "position/test_hooks.py::test_the_check_finds_each_mistake_once",
    ),
    Mistake(
        "hooks of the target are called with as many positions as those of the source",
        "_check",
        "_positions(scheme, rows, _M)",
        "_positions(scheme, rows, _N)",
        "position/test_hooks.py::test_a_wrong_shape_is_named",
    ),
    Mistake(
        "an axis of size 1 is allowed everywhere",
        "_expect",
        "{sizes.get(letter, 1) for letter in axis}",
        "{1, *(sizes.get(letter, 1) for letter in axis)}",
        "position/test_hooks.py::test_a_wrong_shape_is_named",
    ),
    Mistake(
        "the check of hooks draws from the global generator, so that all later weights differ",
        "check_hooks",
        "torch.random.fork_rng(devices=[])",
        "torch.random.fork_rng(devices=[], enabled=False)",
        "position/test_hooks.py::test_a_hook_that_draws_leaves_the_global_generator_as_it_is",
    ),
    Mistake(
        "an error in a hook of ape itself is shown as a mistake of the user",
        "_files",
        "issubclass(base, Scheme) and plugins.is_own(base)",
        "issubclass(base, Scheme)",
        "position/test_hooks.py::test_a_mistake_in_a_part_of_ape_keeps_its_traceback",
    ),
    Mistake(
        "a misspelt hook is not noticed",
        "without_hooks",
        "any(map(scheme.overrides, (*_HOOKS, *_ALSO)))",
        "True",
        "position/test_hooks.py::test_a_scheme_without_hooks_is_named",
    ),
    Mistake(
        "the digest of the file of a user's scheme is not recorded",
        "_train",
        "own_files(config)",
        "{}",
        "models/test_own_files.py::test_a_changed_file_is_named_once",
    ),
    Mistake(
        "a file that has changed since the training is not named",
        "changed",
        "then.get(what, now[what]) != now[what]",
        "False",
        "models/test_own_files.py::test_a_changed_file_is_named_once",
    ),
    Mistake(
        "a run that was trained before digests were recorded counts as changed",
        "changed",
        "then.get(what, now[what])",
        "then.get(what)",
        "models/test_own_files.py::test_a_run_without_digests_is_taken_as_it_is",
    ),
    Mistake(
        "a run is evaluated with a scheme that has changed, and the new score replaces the right one",
        "check_finished",
        "check_own_files(run, config)",
        "",
        "models/test_own_files.py::test_a_changed_file_is_named_once",
    ),
    Mistake(
        "a training is continued with a scheme that has changed",
        "run_trial",
        "check_own_files(run, config)",
        "None",
        "models/test_own_files.py::test_a_changed_file_is_named_once",
    ),
    Mistake(
        "seeds that were trained with different versions of a scheme's file are averaged",
        "described",
        "len(of_parts) > 1",
        "False",
        "reports/test_run_descriptions.py::test_seeds_of_two_versions_of_a_file_have_separate_rows",
    ),
    Mistake(
        "a row joins different versions of a scheme's file, one for each task",
        "described",
        "_PARTS(of_run)",
        "_OWN(of_run)",
        "reports/test_run_descriptions.py::test_a_row_has_one_version_in_all_columns",
    ),
    Mistake(
        "a sweep trains a run again each time, because it overwrites without a look at its file",
        "_train",
        "work.retrain and bool(changed(run, work.config))",
        "work.retrain",
        "models/test_own_files.py::test_a_sweep_trains_changed_runs_again",
    ),
    Mistake(
        "a misspelt hook beside a right one is not noticed",
        "without_hooks",
        "not idle and not meant",
        "not idle",
        "position/test_hooks.py::test_a_scheme_without_hooks_is_named",
    ),
    Mistake(
        "a scheme that adds absolute positions to the tokens counts as relative",
        "relative",
        "embedded[0] - embedded[1]",
        "embedded[0] - embedded[0]",
        "position/test_hooks.py::test_the_check_finds_each_mistake_once",
    ),
]
