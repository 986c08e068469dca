"""Mistakes in sweeps and in the engines that run jobs."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "two datasets that had the same name are taken for one",
        "PastRuns.dataset",
        "return found[0] if len(found) == 1 else None",
        "return found[0] if found else None",
        "sweep/test_trial_data.py::test_a_name_that_two_datasets_had_does_not_tell_which_one",
    ),
    Mistake(
        "the order of the source is lost in the record of a dataset",
        "_recorded",
        'order, source_order = linearisation.parse(told["order"])',
        'order, source_order = linearisation.parse(told["order"])[0], None',
        "sweep/test_trial_data.py::test_the_facts_are_those_of_the_dataset",
    ),
    Mistake(
        "a sweep generates a dataset of a preset for one that is gone",
        "generate",
        """
        if data.remembered:
            open_dataset(data.folder)
        """,
        "",
        "sweep/test_trial_data.py::test_nothing_is_trained_on_a_dataset_that_is_gone",
    ),
    Mistake(
        "runs that are finished are trained again",
        "_state",
        'state = run.status if (run.folder / "run.json").exists() else "new"',
        'state = "new"',
        "sweep/test_sweep.py::test_dry_run_says_what_would_be_done_and_does_nothing",
    ),
    Mistake(
        "a run that was stopped is not resumed",
        "_train",
        "ExistingRun.RESUME_OR_START",
        "ExistingRun.REFUSE",
        "sweep/test_sweep.py::test_killed_or_stopped_and_started_again_nothing_is_trained_twice",
    ),
    Mistake(
        "a run that a dying worker still holds is given up at once",
        "_train",
        """
        if time.monotonic() - since > _PATIENCE:
            return {"state": "elsewhere"}
        """,
        "raise",
        "sweep/test_sweep.py::test_a_run_that_another_process_holds",
    ),
    Mistake(
        "an estimate that does not depend on the number of steps",
        "PastRuns.seconds",
        "statistics.median_high(self.paces[key]) * steps",
        "statistics.median_high(self.paces[key]) * 800",
        "sweep/test_sweep.py::test_an_estimate_scales_with_the_work",
    ),
    Mistake(
        "the shards of a sweep overlap",
        "shard",
        "items[number - 1 :: of]",
        "items[number - 1 :: of - 1 or 1]",
        "sweep/test_sweep.py::test_shards_share_a_sweep_out",
    ),
    Mistake(
        "a remaining time that assumes one trial at a time",
        "Watch.time_left",
        "sum(usual if seconds is None else seconds for seconds in known) / at_once",
        "sum(usual if seconds is None else seconds for seconds in known)",
        "sweep/test_sweep.py::test_the_watch_tells_how_long_it_will_take",
    ),
    Mistake(
        "a job whose process was killed is lost",
        "Local.work",
        "waiting.appendleft(job)",
        "pass",
        "core/executors/test_local.py::test_a_job_whose_process_is_killed_begins_again",
    ),
    Mistake(
        "workers outlive the process that they work for",
        "_serve",
        "_end_with_the_parent()",
        "",
        "core/executors/test_local.py::test_workers_end_with_their_parent",
    ),
    Mistake(
        "workers are ended in the middle of a step",
        "_Pool.close",
        "worker.process.terminate()",
        "worker.process.kill()",
        "core/executors/test_local.py::test_closing_asks_what_runs_to_stop",
    ),
    Mistake(
        "every worker takes all cores",
        "_Pool.__init__",
        "str(threads)",
        "str(cores())",
        "core/executors/test_local.py::test_workers_have_numbers_and_share_the_cores",
    ),
    Mistake(
        "nothing is said at once when a sweep is stopped",
        "Watch.stop",
        "self.stopping = True",
        "",
        "sweep/test_sweep.py::test_the_table_of_a_sweep_fits_80_columns_and_is_right_after_ctrl_c",
    ),
    Mistake(
        "data are generated before it is found that the scheme cannot read them",
        "preset_dataset",
        "check(wanted.structure)",
        "",
        "cli/test_cli.py::test_a_scheme_that_cannot_read_a_task_is_named_before_data_are_generated",
    ),
]
