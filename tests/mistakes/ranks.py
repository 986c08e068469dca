"""Mistakes in the training of one run by several processes."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "each rank divides by the labels of its own rows",
        "TrainingStep.__call__",
        "batch.counts",
        "(int(batch.label_mask.sum()), int(batch.source_mask.sum()))",
        "training/test_data_parallel.py::test_the_mean_of_the_ranks_gradients_is_that_of_the_whole_batch",
    ),
    Mistake(
        "gradients of ranks averaged, not summed",
        "TrainingStep.update",
        "(total / labels * self.setup.execution.group.size).backward()",
        "(total / labels).backward()",
        "training/test_data_parallel.py::test_the_mean_of_the_ranks_gradients_is_that_of_the_whole_batch",
    ),
    Mistake(
        "the same dropout masks on all ranks",
        "DistributedGroup.seed",
        "return int(np.random.SeedSequence([seed, self.rank, step]).generate_state(1)[0])",
        "return seed",
        "training/test_data_parallel.py::test_each_rank_drops_out_on_its_own",
    ),
    Mistake(
        "a resumed rank continues with the dropout stream of the first rank",
        "restore_streams",
        'of_rank(name, rank) for name in ("rng.cpu", "rng.cuda")',
        'of_rank(name, 0) for name in ("rng.cpu", "rng.cuda")',
        "training/test_data_parallel.py::test_a_rank_that_the_state_does_not_know_begins_a_stream",
    ),
    Mistake(
        "a rank without rows trains on the first row again",
        "collate",
        "target if asked else np.full_like(target, PAD)",
        "target",
        "training/test_data_parallel.py::test_a_share_without_rows_asks_for_nothing",
    ),
    Mistake(
        "a share padded to its own longest row",
        "collate",
        "side.length_of(rows).max(initial=0)",
        "side.length_of(own).max(initial=0)",
        "training/test_data_parallel.py::test_shares_are_the_rows_of_the_batch_as_it_is_padded",
    ),
    Mistake(
        "validation on only the first rank's share",
        "Validator.score",
        "execution.group.pooled(teacher_forced(self.setup.model, batches, execution.device, config.precision))",
        "teacher_forced(self.setup.model, batches, execution.device, config.precision)",
        "training/test_data_parallel.py::test_two_ranks_come_to_what_one_process_comes_to",
    ),
    Mistake(
        "every rank reports why the run failed",
        "joined",
        "speaks = group.speaks()",
        "speaks = group.speaks() is not None",
        "training/test_data_parallel.py::test_ranks_that_diverge_say_so_once",
    ),
    Mistake(
        "a process group that outlives an error, so that its threads may abort the process",
        "_free_group",
        "traceback.clear_frames(cause.__traceback__)",
        "",
        "training/test_data_parallel.py::test_after_an_error_the_process_group_is_freed",
    ),
    Mistake(
        "a process group that lives on in default arguments of torch",
        "DistributedGroup.together",
        'import_module("torch.distributed.nn.functional")',
        "pass",
        "training/test_data_parallel.py::test_no_thread_of_the_group_outlives_it",
    ),
]
