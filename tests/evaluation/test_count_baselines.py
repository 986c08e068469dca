"""Baselines that only count, compared with counts by plain Python, and the file that keeps them."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Never

import polars as pl
import pytest

from ape_cli import tasks
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.evaluation.count_baselines import chance_by_size, count_baselines
from ape_cli.runs.registry import Registry
from ape_cli.structure import Seq, Tree
from tests.conftest import ape, write

MODULE = "ape_cli.evaluation.count_baselines"
Row = dict[str, Any]
PAD, SOS, EOS = 0, 1, 2


def keys_of(data: Dataset, row: Row, longest: int) -> dict[str, list[Any]]:
    """Returns the key of each table at each token of a target, by the name of the baseline.

    `longest`: the tokens of the longest source of the batch, which is the whole split in these tests.
    """
    source, target = row["source_ids"], row["target_ids"]
    if data.structure == Seq() and not (data.plan.tagged and len(source) == longest):
        source = [*source, EOS]
    symbol = dict(enumerate(source))
    places = range(len(target))
    keys: dict[str, list[Any]] = {"most frequent answer": [None for _ in places]}
    if not data.plan.tagged:
        keys["previous answer"] = [target[at - 1] if at else SOS for at in places]
        keys["previous answer and symbol"] = [
            (previous, symbol.get(at, PAD)) for at, previous in enumerate(keys["previous answer"])
        ]
        return keys
    keys["symbol"] = [symbol[at] for at in places]
    if data.plan.causal:
        keys["symbol and the one before"] = [(symbol.get(at - 1, PAD), symbol[at]) for at in places]
    else:
        keys["symbols before and after"] = [(symbol.get(at - 1, PAD), symbol.get(at + 1, PAD)) for at in places]
    if isinstance(data.structure, Tree):
        k, at_node = data.structure.branching, dict(zip(row["source_positions"], source, strict=True))
        family = [[(node - 2) // k + 1, *(k * (node - 1) + 2 + c for c in range(k))] for node in at_node]
        keys["parent and children"] = [tuple(at_node.get(place, PAD) for place in places) for places in family]
    return keys


def first_of_most(counts: Counter[int]) -> int:
    return max(sorted(counts), key=counts.__getitem__)


def by_hand(data: Dataset, split: str = "test") -> dict[str, dict[str, float]]:
    """The scores of all baselines, by dictionaries and loops over rows and their tokens."""
    train, rows = (data.split(name).table().to_pylist() for name in ("train", split))
    counts: dict[Any, Counter[int]] = defaultdict(Counter)
    for row in train:
        for name, keys in keys_of(data, row, max(len(one["source_ids"]) for one in train)).items():
            for key, label in zip(keys, row["target_ids"], strict=True):
                if label != PAD:
                    counts[name, key][label] += 1
    usual = counts["most frequent answer", None]
    right: dict[str, list[int]] = defaultdict(list)
    labels: list[int] = []
    for row in rows:
        keys = keys_of(data, row, max(len(one["source_ids"]) for one in rows))
        guesses = {
            name: [first_of_most(counts.get((name, key), usual)) for key in of_name] for name, of_name in keys.items()
        }
        if not data.plan.tagged:
            guesses["repeated answer"] = keys["previous answer"]
            often = Counter({answer: row["source_ids"].count(answer) for answer in usual})
            guesses["most frequent symbol of the source"] = [first_of_most(often)] * len(row["target_ids"])
        ends = data.structure == Seq() and not data.plan.tagged
        labels.append(sum(label != PAD for label in row["target_ids"]) + ends)
        for name, guess in guesses.items():
            pairs = zip(guess, row["target_ids"], strict=True)
            right[name].append(ends + sum(a == b for a, b in pairs if b != PAD))
    return {
        name: {
            "token_accuracy": sum(of_rows) / sum(labels),
            "exact_match": sum(a == b for a, b in zip(of_rows, labels, strict=True)) / len(rows),
        }
        for name, of_rows in right.items()
    }


CASES = [(name, {}) for name in tasks.names() if name not in ("images", "trees")]
CASES += [("associative-recall", {"pairs": 3, "queries": 2, "keys": 5, "values": 4, "length": 16})]
CASES += [("group-word", {"group": "symmetric-3", "answers": how}) for how in ("tags", "prefixes", "product")]


@pytest.mark.parametrize(("task", "options"), CASES, ids=[" ".join([n, *map(str, o.values())]) for n, o in CASES])
def test_all_scores_of_a_task_are_those_of_plain_python(
    task: str, options: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, also if rows are counted in many parts."""
    monkeypatch.setattr(f"{MODULE}._ROWS", 11)
    data = write(tmp_path / "data", task, rows=(120, 1, 40), **options)
    found, expected = count_baselines(data, "test"), by_hand(data)
    assert found.counted == expected
    assert list(found.counted) == list(expected)


def test_tables_of_each_split_are_those_of_plain_python(tmp_path: Path) -> None:
    """Also with few rows and many symbols, where most keys have equally frequent labels: the lowest id is chosen."""
    data = write(tmp_path / "data", "reverse", length_mean=4, length_std=1, vocabulary=3)
    for split in ("validation", "test"):
        assert count_baselines(data, split).counted == by_hand(data, split)
    data = write(tmp_path / "few", "copy", rows=(30, 1, 200), length_mean=3, length_std=1, vocabulary=8)
    assert count_baselines(data, "test").counted == by_hand(data)


def test_written_products_are_a_table_and_tags_are_not(tmp_path: Path) -> None:
    """A table of (previous product, symbol) has all products that are written one by one."""
    form = {"group": "symmetric-3", "length_mean": 8, "length_std": 1}
    written = write(tmp_path / "prefixes", "group-word", answers="prefixes", **form)
    assert count_baselines(written, "test").counted["previous answer and symbol"]["exact_match"] == 1.0
    tags = count_baselines(write(tmp_path / "tags", "group-word", **form), "test").counted
    assert set(tags) == {"most frequent answer", "symbol", "symbols before and after"}
    assert max(scores["exact_match"] for scores in tags.values()) < 0.1


@pytest.mark.parametrize(
    ("task", "options"), [("stack-manipulation", {}), ("in-context-recall", {"sizes": (8, 14)}), ("tree-copy", {})]
)
def test_chance_at_each_size_is_that_of_its_rows(task: str, options: Row, tmp_path: Path) -> None:
    """For targets that may be empty, for tags, and for targets without an end."""
    data = write(tmp_path / "data", task, rows=(120, 1, 40), **options)
    train, test = (data.split(split).table().to_pylist() for split in ("train", "test"))
    usual = first_of_most(Counter(i for row in train for i in row["target_ids"] if i != PAD))
    end, found = (
        data.structure == Seq() and not data.plan.tagged,
        chance_by_size(data.split("train"), data.split("test")),
    )
    assert found.keys() == {row["size"] for row in test}
    for size, chance in found.items():
        labels = [[i for i in row["target_ids"] if i != PAD] for row in test if row["size"] == size]
        right = [labels_of_row.count(usual) for labels_of_row in labels]
        tokens = sum(map(len, labels)) + end * len(labels)
        assert chance["token_accuracy"] == (sum(right) + end * len(labels)) / tokens
        assert chance["exact_match"] == sum(a == len(b) for a, b in zip(right, labels, strict=True)) / len(labels)


def test_a_fixed_map_is_a_table(tmp_path: Path) -> None:
    data = write(tmp_path / "data", "memorization", rows=(200, 1, 40), keys=9)
    assert count_baselines(data, "test").counted["symbol and the one before"]["exact_match"] == 1.0


@pytest.mark.parametrize("order", ["breadth", "depth"])
@pytest.mark.parametrize("branching", [2, 3])
def test_hidden_labels_by_their_neighbours_and_families(order: str, branching: int, here: Path) -> None:
    """Labels that depend on those of the parent and the children."""
    lines = [f"(f{a} (g{a} (x{a}) (y{a})) (h{a} (z{a}) (n{b})))" for a in range(6) for b in range(20)]
    random.Random(1).shuffle(lines)
    (here / "trees.txt").write_text("\n".join(lines))
    words = ["--source", "trees.txt", "--format", "s-expr", "--task", "mask", "--mask-rate", "0.25"]
    ape("gen", "trees", *words, "--branching", str(branching), "--order", order, "--out", "data")
    data = open_dataset("data")
    found = count_baselines(data, "test").counted
    assert found == by_hand(data)
    assert found["parent and children"]["token_accuracy"] > found["most frequent answer"]["token_accuracy"]


@pytest.mark.parametrize("task", ["copy --vocabulary 3", "tree-copy"])
def test_the_constant_guess_is_the_share_of_the_most_frequent_symbol(task: str, here: Path) -> None:
    ape("gen", *task.split(), "--n", "40", "--n-validation", "30", "--n-test", "300", "--out", "made")
    rows = pl.read_parquet(here / "made" / "data" / "test-*.parquet")["target_ids"].to_list()
    end = [] if task == "tree-copy" else [2]  # only words end with EOS
    counts = Counter(symbol for row in rows for symbol in [*row, *end])
    assert count_baselines(open_dataset("made"), "test").constant_guess == max(counts.values()) / counts.total()


def test_the_most_frequent_class_is_that_of_training(here: Path) -> None:
    pytest.importorskip("sklearn")
    ape("gen", "images", "--source", "digits", "--out", "made")
    splits = (pl.read_parquet(here / "made" / "data" / f"{split}-*.parquet") for split in ("train", "test"))
    train, test = (Counter(rows["label"].to_list()) for rows in splits)
    found = count_baselines(open_dataset("made"), "test")
    assert found.constant_guess == max(test.values()) / test.total()
    usual = test[min(label for label, count in train.items() if count == max(train.values()))] / test.total()
    assert usual < found.constant_guess
    assert found.counted == {"most frequent class": {"token_accuracy": usual, "exact_match": usual}}


# The file


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return Path(str(write(tmp_path / "data", "reverse", rows=(60, 10, 10), vocabulary=3).folder))


@pytest.fixture
def only_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after whose call nothing can be counted."""

    def fail(*arguments: object) -> Never:
        raise AssertionError("it was counted again")

    return lambda: monkeypatch.setattr(f"{MODULE}._counted", fail)


def test_a_split_is_counted_once(made: Path, only_read: Callable[[], None]) -> None:
    """By whoever opens the dataset, and in a copy of it. The numbers are the same to the last bit."""
    first = count_baselines(open_dataset(made), "test")
    shutil.copytree(made, made.with_name("copy"))
    only_read()
    for folder in (made, made.with_name("copy")):
        assert count_baselines(open_dataset(folder), "test") == first
    assert sorted(path.name for path in (made / "baselines").iterdir()) == ["test.json"]
    with pytest.raises(AssertionError, match="counted again"):
        count_baselines(open_dataset(made), "validation")


def test_a_file_that_is_damaged_or_of_other_data_is_written_again(made: Path) -> None:
    file = made / "baselines" / "test.json"
    first = count_baselines(open_dataset(made), "test")
    good = json.loads(file.read_text())
    usual = {"counted": {"most frequent answer": good["counted"]["most frequent answer"]}}
    for changes in ({"fingerprint": "0" * 64}, usual, {"constant_guess": 1.5}, {"more": 1}):
        file.write_text(json.dumps(good | changes))
        assert count_baselines(open_dataset(made), "test") == first, changes
        assert json.loads(file.read_text()) == good, changes


def test_scores_that_cannot_be_stored_are_counted(made: Path) -> None:
    first = count_baselines(open_dataset(made), "test")
    shutil.rmtree(made / "baselines")
    (made / "baselines").write_text("not a folder")
    assert count_baselines(open_dataset(made), "test") == first


def test_training_and_evaluation_count_once(here: Path, only_read: Callable[[], None]) -> None:
    """Another seed and `ape eval` read the file."""
    words = ["train", "--scheme", "none", "--task", "copy", "--preset", "tiny", "--device", "cpu", "--set", "steps=1"]
    first = json.loads(ape(*words, "--json")[0])["baselines"]
    ape("eval", "copy-none-42", "--split", "validation")
    (run,), data = Registry(here / "results"), open_dataset(here / "datasets" / "copy-tiny")
    stored = {evaluation["split"]: evaluation["baselines"] for evaluation in run.evaluations()[0]}
    assert stored == {split: count_baselines(data, split).counted for split in ("validation", "test")}
    only_read()
    assert json.loads(ape(*words, "--json", "--seed", "2")[0])["baselines"] == first
    evaluated = json.loads(ape("eval", "copy-none-42", "copy-none-2-", "--json")[0])
    assert [one["baselines"] for one in evaluated] == [first["counted"]] * 2
