"""Mistakes in object storage: incomplete data, and two writers of the same object."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "the manifest uploaded before the dataset is whole",
        "generate",
        r"""
        files.write_text(out / "README.md", card(manifest, task))
        write_manifest(out, manifest)
        """,
        r"""
        write_manifest(out, manifest)
        files.write_text(out / "README.md", card(manifest, task))
        """,
        "storage/test_object_store.py::test_the_manifest_comes_last",
    ),
    Mistake(
        "an incomplete object uploaded when its writer fails",
        "_uploading",
        "yield temporary",
        """
        with suppress(BaseException):
            yield temporary
        """,
        "storage/test_paths.py::test_an_object_is_whole_or_absent",
    ),
    Mistake(
        "a lease that is not checked before an upload",
        "RemotePath.upload",
        "guard is None",
        "True",
        "storage/test_locks.py::test_who_has_lost_it_writes_no_more",
    ),
    Mistake(
        "an object replaced whatever its version is",
        "replace",
        "mode=mode",
        'mode="overwrite"',
        "storage/test_leases.py::test_a_late_upload_is_rejected",
    ),
    Mistake(
        "an own write taken for that of another process because its answer was lost",
        "replace",
        "found != content",
        "True",
        "storage/test_flaky_store.py::test_one_holder_although_answers_are_lost",
    ),
    Mistake(
        "a request that is not repeated after a lost connection",
        "again",
        "range(RETRIES)",
        "range(0)",
        "storage/test_flaky_store.py::test_one_holder_although_answers_are_lost",
    ),
    Mistake(
        "a late upload that stays because the holder of the lock gives up",
        "RemotePath._upload_guarded",
        "guard.versions.pop(self.path)",
        "pass",
        "storage/test_leases.py::test_a_late_upload_that_comes_first_is_replaced",
    ),
    Mistake(
        "a lease that its holder does not renew",
        "Lease.keep",
        "self.renew()",
        "pass",
        "storage/test_locks.py::test_a_holder_renews",
    ),
    Mistake(
        "a lease of a killed process that never expires",
        "Lease.acquire",
        "found.expires > self._store_time()",
        "found.expires > 0",
        "storage/test_locks.py::test_one_that_is_not_renewed_is_taken_over",
    ),
    Mistake(
        "a process that removes the lock of its successor",
        "Lease._write_again",
        "found.lease != self.id",
        "False",
        "storage/test_locks.py::test_one_that_is_not_renewed_is_taken_over",
    ),
    Mistake(
        "the lock of the next holder removed because the answer to a removal was lost",
        "Lease.release",
        """
        if not self._write_again() or not self.is_ours():
            break
        """,
        "",
        "storage/test_flaky_store.py::test_a_removal_whose_answer_was_lost_spares_the_next_holder",
    ),
    Mistake(
        "a removal of a lock that names no version",
        "remove",
        "bucket.once(headers)",
        "bucket.once({})",
        "storage/test_locks.py::test_a_late_removal_is_rejected",
    ),
    Mistake(
        "a removal of a lock that is repeated although it may still arrive",
        "is_over",
        "any(word in said for word in _TIMED_OUT)",
        "False",
        "storage/test_flaky_store.py::test_a_removal_that_may_still_arrive_is_not_repeated",
    ),
    Mistake(
        "a lock on a store that ignores the conditions of writes",
        "Lease.acquire",
        "self._check_conditions()",
        "pass",
        "storage/test_leases.py::test_a_store_that_ignores_conditions_is_refused",
    ),
    Mistake(
        "a lease given up because the answer to its renewal was lost",
        "Lease._write_again",
        "found.lease != self.id",
        "True",
        "storage/test_leases.py::test_a_renewal_whose_answer_was_lost_is_ours",
    ),
    Mistake(
        "a renewal that waits as long as a large upload may take",
        "_for_upload",
        "size <= _SHORT",
        "False",
        "storage/test_leases.py::test_a_renewal_without_an_answer_is_repeated",
    ),
    Mistake(
        "a lock left behind by a process that was interrupted while it wrote it",
        "held",
        """
        stack.callback(lease.release)
        holder = lease.acquire()
        """,
        """
        holder = lease.acquire()
        stack.callback(lease.release)
        """,
        "storage/test_leases.py::test_interrupted_while_the_lock_is_written",
    ),
    Mistake(
        "a lock left behind by a process whose store failed after the lock was written",
        "held",
        "holder = lease.acquire()",
        """
        try:
            holder = lease.acquire()
        except ApeError:
            stack.pop_all()
            raise
        """,
        "storage/test_leases.py::test_the_store_fails_after_the_lock_is_written",
    ),
    Mistake(
        "an object left behind by each process that was killed while it asked for the time",
        "Lease._store_time",
        'f"{self.lock.name}.now"',
        'f"{self.lock.name}.{self.id}.now"',
        "storage/test_leases.py::test_killed_while_it_asks_for_the_time",
    ),
    Mistake(
        "a lease that is checked before the version of the object is known",
        "RemotePath._upload_guarded",
        """
        if self.path not in guard.versions:
            guard.versions[self.path] = _requests.version(self.bucket, self.key)
        guard.check()
        """,
        """
        guard.check()
        if self.path not in guard.versions:
            guard.versions[self.path] = _requests.version(self.bucket, self.key)
        """,
        "storage/test_leases.py::test_a_lease_that_runs_out_before_the_first_upload",
    ),
    Mistake(
        "a file removed by a process that has lost its lock",
        "RemotePath.unlink",
        "check=guard.check",
        "check=lambda: None",
        "storage/test_locks.py::test_who_has_lost_it_writes_no_more",
    ),
    Mistake(
        "a file removed by a process that has lost its lock between two attempts",
        "delete",
        "again(once)",
        "check() or again(lambda: obstore.delete(bucket.store, key))",
        "storage/test_flaky_store.py::test_the_removal_of_a_file_is_not_repeated_after_the_lock_is_lost",
    ),
    Mistake(
        "a server named by the environment used in place of the one in the address",
        "_s3",
        'config["aws_endpoint_url_s3"] = _with_scheme(endpoint, given)',
        'config["endpoint"] = _with_scheme(endpoint, given)',
        "storage/test_paths.py::test_the_environment_names_the_server",
    ),
    Mistake(
        "a network failure reported as a damaged run",
        "read",
        "isinstance(error, FileNotFoundError | PlaceError)",
        "isinstance(error, FileNotFoundError)",
        "storage/test_object_store.py::test_a_server_that_goes_away_does_not_look_like_damage",
    ),
    Mistake(
        "the server of a location missing in the addresses of its files",
        "RemotePath.__str__",
        'return f"{self.bucket.kind}://{self.path}" + (f"?{self.bucket.query}" if self.bucket.query else "")',
        'return f"{self.bucket.kind}://{self.path}"',
        "storage/test_paths.py::test_the_options_go_with_what_is_in_it",
    ),
    Mistake(
        "an empty object that stands for a folder taken for a file in it",
        "listing",
        'about["path"] != key',
        "True",
        "storage/test_paths.py::test_a_marker_of_another_program_is_an_empty_folder",
    ),
    Mistake(
        "a temporary file that stays until the upload is over",
        "_uploading",
        "path.upload(temporary, lambda: discard(temporary))",
        "path.upload(temporary)",
        "storage/test_locks.py::test_a_process_that_is_killed_after_an_upload_leaves_no_temporary_file",
    ),
]
