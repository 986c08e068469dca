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
        """
        self._guard()
        self._copy(str(local), None, self.path, self.bucket.system)
        """,
        "self._copy(str(local), None, self.path, self.bucket.system)",
        "storage/test_locks.py::test_who_has_lost_it_writes_no_more",
    ),
    Mistake(
        "a lease acquired by reading the claims before writing one",
        "Lease.acquire",
        """
        self._write()
        claims = {c.name: c for c in _claims(self.lock)}
        """,
        """
        claims = {c.name: c for c in _claims(self.lock)}
        self._write()
        claims[self.claim.name] = self.claim
        """,
        "storage/test_locks.py::test_of_many_that_come_at_once_one_gets_it",
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
        "_expires(c) > now",
        "_expires(c)",
        "storage/test_object_store.py::test_the_second_writer_is_refused_until_the_first_is_forgotten",
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
        "folders of Google's store that exist only in the names of objects not listed",
        "RemotePath.iterdir",
        'all_of_it = self.bucket.kind == "gs"',
        "all_of_it = False",
        "storage/test_object_store.py::test_google_s_store_as_far_as_a_stand_in_tells",
    ),
]
