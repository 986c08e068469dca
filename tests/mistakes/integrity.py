"""Mistakes in the checks of files: a change that is not noticed, and a path that leaves its folder."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "the digest of a JSON file not compared",
        "is_sealed",
        "found.encode() != digits",
        "not digits",
        "storage/test_digests.py::test_every_changed_byte_of_json_is_noticed",
    ),
    Mistake(
        "the digest of tensors without the bytes after it",
        "_around",
        "total.update(view[place + len(ZEROS) :])",
        "pass",
        "storage/test_digests.py::test_every_changed_byte_of_tensors_is_noticed",
    ),
    Mistake(
        "a run.json of another run",
        "RunFiles.read",
        'about["run"] != self.name',
        "False",
        "runs/test_integrity.py::test_files_of_another_run_are_refused",
    ),
    Mistake(
        "weights and state of another run",
        "RunFiles._check_owner",
        "sealed and run != self.name",
        "False",
        "runs/test_integrity.py::test_a_state_that_was_altered_is_not_resumed",
    ),
    Mistake(
        "the history not compared with run.json",
        "RunFiles.check_file",
        "found != said",
        "False",
        "runs/test_integrity.py::test_a_changed_byte_is_noticed",
    ),
    Mistake(
        "weights registered without a check of their digest",
        "Run.finish",
        "self.check_tensors()",
        "",
        "runs/test_integrity.py::test_best_weights_that_were_altered_while_the_run_was_stopped",
    ),
    Mistake(
        "scores by size that are not compared with the overall scores",
        "_check_sum",
        "abs(there - total) > _ROUNDING * max(1.0, there)",
        "False",
        "runs/test_integrity.py::test_what_cannot_be_is_refused_although_the_digest_is_right",
    ),
    Mistake(
        "an evaluation under any name of a file",
        "contradiction",
        '("the name of the file", name, evaluation_name(fingerprint, split, evaluation["decode"]))',
        '("the name of the file", name, name)',
        "runs/test_integrity.py::test_a_second_evaluation_of_the_same_data_is_left_out_and_named",
    ),
    Mistake(
        "an accuracy above 1",
        "TrainingResult",
        "Field(ge=0, le=1)",
        "Field(ge=0)",
        "runs/test_integrity.py::test_what_cannot_be_is_refused_although_the_digest_is_right",
    ),
    Mistake(
        "a cursor that is taken as it is stored",
        "Cursor.parse",
        "not possible",
        "False",
        "runs/test_integrity.py::test_a_cursor_that_cannot_be_is_refused",
    ),
    Mistake(
        "one name for the temporary files of all writers",
        "_create",
        'path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")',
        'path.with_name(f".{path.name}.{secrets.token_hex(0):0>16}.tmp")',
        "storage/test_temporary.py::test_one_process_may_write_a_file_twice_at_once",
    ),
    Mistake(
        "a temporary file opened through a link",
        "_NEW",
        "os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC",
        "os.O_CREAT | os.O_RDWR | os.O_CLOEXEC",
        "storage/test_temporary.py::test_a_planted_link_is_not_followed",
    ),
    Mistake(
        "temporary files of other processes removed although they are in use",
        "_is_abandoned",
        "fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        "storage/test_temporary.py::test_what_a_killed_writer_leaves_is_removed_and_what_another_one_writes_is_kept",
    ),
    Mistake(
        "the task of a manifest as a part of a path without a check",
        "DatasetPlan",
        'Annotated[str, AfterValidator(partial(checked_name, "task"))]',
        "str",
        "data/test_integrity.py::test_the_name_of_a_task_cannot_leave_its_folder",
    ),
    Mistake(
        "rows of a shard that are not counted",
        "open_shard",
        "file.metadata.num_rows != shard.rows",
        "False",
        "data/test_integrity.py::test_fewer_rows_than_the_manifest_says",
    ),
    Mistake(
        "rows that are not compared with the content sums of the manifest",
        "ContentCheck.add",
        "not self._left[shard] and self._sums[shard] != self.shards[shard].content",
        "False",
        "data/test_integrity.py::test_other_rows_than_those_that_were_generated",
    ),
]
