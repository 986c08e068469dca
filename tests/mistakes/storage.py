"""Mistakes in object stores: what is no longer whole, and two writers of one thing."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "the manifest uploaded before the dataset is whole",
        "gen.py",
        '        files.write_text(out / "README.md", card(manifest, task))\n'
        '        files.write_text(schema.manifest_path(out), manifest.model_dump_json(indent=2) + "\\n")\n',
        '        files.write_text(schema.manifest_path(out), manifest.model_dump_json(indent=2) + "\\n")\n'
        '        files.write_text(out / "README.md", card(manifest, task))\n',
        "test_object_store.py::test_the_manifest_comes_last",
    ),
    Mistake(
        "half an object uploaded when its writer fails",
        "files.py",
        "        try:\n            yield temporary\n        except OSError as error:  # this machine's",
        "        try:\n            with suppress(BaseException):\n                yield temporary\n"
        "        except OSError as error:  # this machine's",
        "test_place.py::test_an_object_is_whole_or_absent",
    ),
    Mistake(
        "a lease that is not checked before an upload",
        "place/_remote.py",
        "        self._guard()\n        self._copy(str(local), None",
        "        self._copy(str(local), None",
        "test_lease.py::test_who_has_lost_it_writes_no_more",
    ),
    Mistake(
        "a lease taken by who looks before it writes",
        "lease.py",
        "            self._write()\n            claims = {c.name: c for c in _claims(self.lock)}\n",
        "            claims = {c.name: c for c in _claims(self.lock)}\n            self._write()\n"
        "            claims[self.claim.name] = self.claim\n",
        "test_lease.py::test_of_many_that_come_at_once_one_gets_it",
    ),
    Mistake(
        "a lease that its holder does not renew",
        "lease.py",
        "                self.renew()",
        "                pass",
        "test_lease.py::test_a_holder_renews",
    ),
    Mistake(
        "a lease held by who was killed, for ever",
        "lease.py",
        "if _expires(c) > now]",
        "if _expires(c)]",
        "test_object_store.py::test_the_second_writer_is_refused_until_the_first_is_forgotten",
    ),
    Mistake(
        "a network that is down taken for a damaged run",
        "record.py",
        "isinstance(error, FileNotFoundError | PlaceError)",
        "isinstance(error, FileNotFoundError)",
        "test_object_store.py::test_a_server_that_goes_away_does_not_look_like_damage",
    ),
    Mistake(
        "the server of an address forgotten in the address of its files",
        "place/_remote.py",
        'return f"{self.bucket.kind}://{self.path}" + (f"?{self.bucket.query}" if self.bucket.query else "")',
        'return f"{self.bucket.kind}://{self.path}"',
        "test_place.py::test_the_options_go_with_what_is_in_it",
    ),
    Mistake(
        "folders of Google's store that only the names of their files tell of, not seen",
        "place/_remote.py",
        'all_of_it = self.bucket.kind == "gs"',
        "all_of_it = False",
        "test_object_store.py::test_google_s_store_as_far_as_a_stand_in_tells",
    ),
]
