"""Sweeps and engines."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "runs that are finished are trained again",
        "agenda.py",
        'state = run.status if (run.folder / "run.json").exists() else "new"',
        'state = "new"',
        "test_sweep.py::test_dry_run_says_what_would_be_done_and_does_nothing",
    ),
    Mistake(
        "a run that was stopped is not resumed",
        "sweep.py",
        "resume=None",
        "resume=False",
        "test_sweep.py::test_killed_or_stopped_and_started_again_nothing_is_trained_twice",
    ),
    Mistake(
        "a run whose worker is dying is given up at once",
        "sweep.py",
        'if time.monotonic() - since > _PATIENCE:\n                return {"state": "elsewhere"}',
        "raise",
        "test_sweep.py::test_a_run_that_another_process_holds",
    ),
    Mistake(
        "an estimate that does not depend on the number of steps",
        "agenda.py",
        "* steps * config.batch_size * data.mean_tokens",
        "* 800 * config.batch_size * data.mean_tokens",
        "test_sweep.py::test_an_estimate_scales_with_the_work",
    ),
    Mistake(
        "the shards of a sweep overlap",
        "agenda.py",
        "items[number - 1 :: of]",
        "items[number - 1 :: of - 1 or 1]",
        "test_sweep.py::test_shards_share_a_sweep_out",
    ),
    Mistake(
        "a time left as if one trial ran at a time",
        "live.py",
        "for seconds in known) / at_once",
        "for seconds in known)",
        "test_sweep.py::test_the_watch_tells_how_long_it_will_take",
    ),
    Mistake(
        "a job whose process was killed is lost",
        "engine/local.py",
        "waiting.appendleft(job)",
        "pass",
        "engine/test_local.py::test_a_job_whose_process_is_killed_begins_again",
    ),
    Mistake(
        "workers outlive the process that they work for",
        "engine/local.py",
        "    _end_with_the_parent()\n    while",
        "    while",
        "engine/test_local.py::test_workers_end_with_their_parent",
    ),
    Mistake(
        "workers are ended in the middle of a step",
        "engine/local.py",
        "worker.process.terminate()",
        "worker.process.kill()",
        "engine/test_local.py::test_closing_asks_what_runs_to_stop",
    ),
    Mistake(
        "every worker takes all cores",
        "engine/local.py",
        "str(threads)",
        "str(cores())",
        "engine/test_local.py::test_workers_have_numbers_and_share_the_cores",
    ),
]
