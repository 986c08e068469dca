"""The options of tasks become options of `ape gen`. The command line contains no list of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ape_cli import tasks
from tests.conftest import ape

STUTTER = '''
"""The task `stutter`: each symbol of a word several times in a row. (An example.)"""

from dataclasses import dataclass

import numpy as np

from ape_cli.core import ragged
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._words import Words


@dataclass(frozen=True, kw_only=True)
class Stutter(Words):
    summary = "each symbol several times in a row: ab -> aabb"

    times: int = option(2, "How often each symbol is written.")
    mark: str = "plain"  # a field without a line of help is an option too
    spaced: bool = option(False, "An option that is a flag.")
    ring: float = option(1.5, "A number, where the task ring-shift has a whole number.")

    def target(self, source: Source) -> Tokens:
        offsets = source.offsets * self.times
        position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
        return Tokens(offsets, position, np.repeat(source.symbol, self.times))
'''


def test_every_option_of_a_task_is_an_option_of_gen_for_this_task() -> None:
    assert "--length-mean" not in ape("gen", "--help")[0]
    for task in tasks.names():
        shown = re.sub(r"\s+", " ", ape("gen", task, "--help")[0]).replace("- ", "-")
        for name, option in tasks.options_of(tasks.load(task)).items():
            assert shown.count(f" --{name.replace('_', '-')} ") == 1, (task, name)
            assert option.help.rstrip(".") in shown, (task, name)
    assert "did you mean 'copy'" in ape("gen", "copyy", "--length-mean", "5", code=2)[1]


def test_given_rows_are_of_each_size_and_the_default_is_a_total() -> None:
    rows = tasks.make("copy", sizes="1-7").rows({"train": 50, "validation": None, "test": 0}, seed=42)
    assert rows == {"train": 350, "validation": 1001, "test": 0}  # 1,000, rounded up to 143 of each size


def test_an_array_in_a_json_file_is_one_tree_and_the_error_names_the_other_format(here: Path) -> None:
    objects = [{"name": letter, "list": [1, 2]} for letter in "abcdefgh"]
    Path("one.json").write_text(json.dumps(objects))
    error = ape("gen", "trees", "--source", "one.json", code=1)[1]
    assert "fix:     write one object per line into a `.jsonl` file: each line is a tree, with labels if" in error
    assert "it has only the keys `label` and `children`; `--labels token` keeps its values\n" in error
    Path("each.jsonl").write_text("\n".join(map(json.dumps, objects)))
    assert "8 of 8 trees" in ape("gen", "trees", "--source", "each.jsonl")[1]


def test_equal_numbers_make_equal_manifests(here: Path) -> None:
    """An interrupted dataset is completed by the same command, however its numbers are typed."""
    counts = ("--n", "5", "--n-validation", "2", "--n-test", "2")
    typed = (["--length-mean", "8", "--length-std", "0"], ["--set", "length_mean=8", "--set", "length_std=-0.0"])
    plans = set()
    for number, words in enumerate((*typed, ["--length-mean", "8.0", "--length-std", "-0"])):
        ape("gen", "copy", *counts, *words, "--out", str(number))
        plans.add(json.dumps(json.loads(Path(str(number), "manifest.json").read_text())["plan"]))
    assert len(plans) == 1
    assert '"length_mean": 8.0, "length_std": 0.0' in plans.pop()


def test_a_dataset_of_a_preset_is_that_of_its_own_command(here: Path) -> None:
    """A preset may have 6 for a parameter that the command line reads as 6.0."""
    ape("train", "--task", "copy", "--preset", "tiny", "--scheme", "none", "--set", "steps=1", "--no-eval")
    card = (here / "datasets" / "copy-tiny" / "README.md").read_text()
    words = next(line for line in card.splitlines() if line.strip().startswith("ape gen")).split()[1:]
    assert "complete and verified" in ape(*words, "--out", "datasets/copy-tiny")[0]


def test_long_labels_are_stored_whole_and_shown_shortened(here: Path) -> None:
    """And a split without rows is noted: all trees that are held out have unknown labels, so they are equal."""
    labels = ["a" * 90 + str(number) for number in range(30)]
    Path("long.json").write_text(json.dumps([{"label": "r", "children": [{"label": label}]} for label in labels]))
    _, said = ape("gen", "trees", "--source", "long.json", "--out", "long")
    assert "no rows of test: the source has too few different rows" in said
    assert set(labels) > set(json.loads(Path("long/manifest.json").read_text())["vocabulary"][5:])
    for shown in (Path("long/README.md").read_text(), ape("show", "long")[0].replace("\n", "")):
        assert "a" * 79 + "…" in shown
        assert "a" * 80 not in shown
