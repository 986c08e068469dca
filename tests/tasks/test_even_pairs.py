"""even-pairs: pairs counted one by one. `test_chomsky.py` compares what is drawn with published rows."""

from __future__ import annotations

from ape_cli.core.vocabulary import SPLITS
from tests.tasks.contract import make, names_of, rows, source_of


def test_target_is_rederived() -> None:
    for split in SPLITS:
        for row in rows("even-pairs", split=split, sizes="1-40,500")[1]:
            text = "".join(row["source"])
            changes = sum(text[i : i + 2] in ("01", "10") for i in range(len(text)))
            assert row["target"] == [str(changes % 2)]
            assert row["size"] == len(text)


def test_samples_by_hand() -> None:
    """The first two are samples of the published program."""
    task, samples = make("even-pairs"), {"001110": "0", "0101001": "1", "0": "0", "1": "0", "10": "1"}
    assert names_of(task, task.target(source_of(task, [" ".join(text) for text in samples]))) == [*samples.values()]
