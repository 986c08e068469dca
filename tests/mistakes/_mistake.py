"""Known mistakes: where each is in the code, and which test notices it.

They are written as text, like a diff:

    what is wrong
      name.of.the.definition  folder/test_file.py::test_name
      - right code
      + wrong code

The name and the right code are a place (see `_place.py`). The path of the test is relative to `tests/`. Code of several
lines has the sign on each line. Without wrong code, the right statements are deleted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    what: str
    where: str
    right: str
    wrong: str
    test: str


def read(text: str) -> list[Mistake]:
    mistakes = []
    for entry in re.split(r"\n(?=\S)", text.strip()):
        what, place, *lines = entry.splitlines()
        where, test = place.split()
        right, wrong = ("\n".join(line[4:] for line in lines if line[2] == sign) for sign in "-+")
        mistakes.append(Mistake(what, where, right, wrong, test))
    return mistakes
