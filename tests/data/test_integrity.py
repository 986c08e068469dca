"""Changed files of a dataset: each is refused, also if the digests were computed again for the changed file."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ape_cli import tasks
from ape_cli.core.errors import DataError
from ape_cli.data import generation, manifest, verification
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.data.plan import DatasetPlan
from ape_cli.storage import files, parquet
from tests.conftest import ape
from tests.registered import edit, strip_digest


def copied(data: Dataset, tmp_path: Path) -> Path:
    return shutil.copytree(str(data.folder), tmp_path / "d")


def read(folder: Path) -> dict[str, Any]:
    """Everything that is read from a dataset. Raises `DataError`."""
    found = open_dataset(folder)
    splits = {name: found.split(name).table().to_pylist() for name in ("train", "validation", "test")}
    return splits | {"manifest": found.manifest.model_dump()}


def changed(folder: Path, change: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> None:
    """Changes the first shard of the training split, and computes its SHA-256 and the manifest's digest again."""
    path = folder / "data" / "train-00000-of-00002.parquet"
    table = change(pq.read_table(path))
    with parquet.writer(path, schema) as writer:
        writer.write_table(table)

    def known(fields: dict[str, Any]) -> None:
        fields["shards"]["train"][0]["sha256"] = files.sha256(path)

    edit(folder / "manifest.json", known)


def put(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))


def test_every_changed_byte_of_a_manifest_is_noticed(words: Dataset, tmp_path: Path) -> None:
    """Without the name of the digest, the content is the same and counts as unverified."""
    folder = copied(words, tmp_path)
    before, sealed = manifest.read_sealed_manifest(folder)
    assert sealed
    path = folder / "manifest.json"
    whole = path.read_bytes()
    chosen = random.Random(1)
    for place in [*chosen.sample(range(len(whole)), 200), *range(len(whole) - 90, len(whole))]:
        other = bytearray(whole)
        other[place] ^= 1 << chosen.randrange(8)
        path.write_bytes(other)
        try:
            after, sealed = manifest.read_sealed_manifest(folder)
        except DataError:
            continue
        assert not sealed
        assert after == before


def test_fewer_rows_than_the_manifest_says(words: Dataset, tmp_path: Path) -> None:
    folder = copied(words, tmp_path)
    changed(folder, lambda table: table.slice(0, 10), words.plan.shard)
    with pytest.raises(DataError, match=r"another number of rows[\s\S]*got: +10 rows\n +allowed: 64 rows"):
        open_dataset(folder)
    for row in ("5", "63"):
        assert "another number of rows" in ape("show", str(folder), "--row", row, code=1)[1]


@pytest.mark.parametrize("name", ["row", "source_ids", "target_ids", "size"])
def test_other_rows_than_those_that_were_generated(words: Dataset, tmp_path: Path, name: str) -> None:
    """One value of one row is another one, and every digest was computed again."""
    folder = copied(words, tmp_path)

    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[7] = list(reversed(values[7])) if isinstance(values[7], list) else values[7] + 1
        return put(table, name, values)

    changed(folder, change, words.plan.shard)
    split = open_dataset(folder).split("train")
    with pytest.raises(DataError, match="are not those that were generated: data/train-00000"):
        list(split.batches(8, seed=1))
    with pytest.raises(DataError, match="are not those that were generated"):
        open_dataset(folder).split("train").table()
    assert "are not those that were generated" in ape("verify", "--data", str(folder), code=1)[1]
    assert open_dataset(folder).split("test").table().num_rows == 40  # another split


def test_operators_under_other_names(operations: Dataset, tmp_path: Path) -> None:
    """The content sums cover the numbers of operators, and not their names."""
    folder = copied(operations, tmp_path)
    swap = {"extract": "truncate", "truncate": "extract"}
    names = [swap.get(name, name) for name in ("extract", "flip-extract", "truncate", "no-op")]

    def change(table: pa.Table) -> pa.Table:
        codes = table["op"].combine_chunks().indices
        column = pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()))
        return table.set_column(table.schema.get_field_index("op"), "op", column)

    changed(folder, change, operations.plan.shard)
    with pytest.raises(DataError, match=r"names other operators[\s\S]*got: +truncate, flip-extract, extract, no-op"):
        open_dataset(folder).split("train").table()


def test_a_manifest_of_an_earlier_version_is_unverified_until_gen_runs_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = ("gen", "reverse", "--n", "20", "--n-validation", "5", "--n-test", "5", "--out", str(tmp_path / "d"))
    ape(*words)
    path = tmp_path / "d" / "manifest.json"
    whole = path.read_bytes()
    strip_digest(path)
    before = read(tmp_path / "d")
    caplog.set_level("INFO")
    open_dataset(tmp_path / "d")
    assert "the manifest has no digest, so it is unverified" in caplog.text
    assert "complete and verified" in ape(*words)[0]
    assert path.read_bytes() == whole
    assert read(tmp_path / "d") == before


def test_gen_adds_no_digest_to_an_altered_manifest(tmp_path: Path) -> None:
    """The fields outside the fingerprint are compared with those that the task has."""
    words = ("gen", "reverse", "--n", "20", "--n-validation", "5", "--n-test", "5", "--out", str(tmp_path / "d"))
    ape(*words)
    path = tmp_path / "d" / "manifest.json"
    whole = path.read_text()
    for name in ("mean_size", "mean_tokens"):
        path.write_text(re.sub(rf'"{name}": [\d.]+', f'"{name}": 500.0', whole))
        strip_digest(path)
        altered = path.read_text()
        verified = ("verify", "--data", str(tmp_path / "d"))
        assert ape(*verified)[0].endswith("30 rows, unverified\n")
        assert json.loads(ape(*verified, "--json")[0])[0]["state"] == "unverified"
        assert f"was altered: {name} is not the one of the dataset\n  got:     500.0" in ape(*words, code=1)[1]
        assert path.read_text() == altered
    path.write_text(whole)
    assert ape(*verified)[0].endswith("30 rows, verified\n")


@pytest.mark.parametrize("seed", [-5, 2**63, 10**30])
def test_a_seed_that_no_dataset_has(words: Dataset, tmp_path: Path, seed: int) -> None:
    folder = copied(words, tmp_path)
    edit(folder / "manifest.json", lambda fields: fields["plan"].update(seed=seed))
    with pytest.raises(DataError, match=r"plan\.seed"):
        open_dataset(folder)


def interrupted(tmp_path: Path) -> tuple[Any, Any, Path]:
    """A task, a plan, and the folder of its dataset, of which some shards are generated."""
    task = tasks.make("reverse", length_mean=5, length_std=1)
    wanted = generation.plan(task, seed=1, rows={"train": 60, "validation": 5, "test": 5}, shard_rows=20)

    def stop(rows: int) -> None:
        if len(list((tmp_path / "d" / "data").glob("*.parquet"))) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generation.generate(task, wanted, tmp_path / "d", tick=stop)
    return task, wanted, tmp_path / "d"


def test_altered_records_of_an_interrupted_generation(tmp_path: Path) -> None:
    """A record of a shard that was altered is not believed: its shard is made again."""
    task, wanted, _ = interrupted(tmp_path)
    reference = generation.generate(task, wanted, tmp_path / "reference").manifest
    record = tmp_path / "d" / "data" / ".train-00000-of-00003.parquet.json"
    record.write_text(record.read_text().replace('"shared": 0', '"shared": 1'))
    outcome = generation.generate(task, wanted, tmp_path / "d")
    assert outcome.manifest == reference
    assert outcome.written == 70 - 20
    assert json.loads((tmp_path / "d" / "manifest.json").read_text())["shards"]["train"][0]["shared"] == 0


def test_a_record_with_a_new_digest_is_compared_with_the_rows(tmp_path: Path) -> None:
    task, wanted, folder = interrupted(tmp_path)
    reference = generation.generate(task, wanted, tmp_path / "reference").manifest
    record = folder / "data" / ".train-00000-of-00003.parquet.json"
    edit(record, lambda found: found["shard"].update(content=[1, 2]))
    assert generation.generate(task, wanted, folder).manifest == reference


@pytest.mark.parametrize("text", ["5", "null", "true", "[]", '{"shard": 7}', "{"])
@pytest.mark.parametrize("name", [".plan.json", "data/.train-00000-of-00003.parquet.json"])
def test_records_of_an_interrupted_generation_that_are_none(tmp_path: Path, name: str, text: str) -> None:
    task, wanted, folder = interrupted(tmp_path)
    (folder / name).write_text(text)
    if name == ".plan.json":
        with pytest.raises(DataError, match="no plan says to which dataset they belong"):
            generation.generate(task, wanted, folder)
    else:
        assert generation.generate(task, wanted, folder).written == 70 - 20


def resealed(folder: Path, change: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> None:
    """`changed`, with new content sums and a new fingerprint as well."""
    changed(folder, change, schema)
    path = folder / "data" / "train-00000-of-00002.parquet"
    found = json.loads((folder / "manifest.json").read_text())
    plan = DatasetPlan.model_validate(found["plan"])
    found["shards"]["train"][0]["content"] = list(verification.content_of(path, plan))
    shards = {
        split: [manifest.Shard.model_validate(part) for part in parts] for split, parts in found["shards"].items()
    }
    made = manifest.fingerprint(plan, found["vocabulary"], shards)
    edit(folder / "manifest.json", lambda fields: fields.update(shards=found["shards"], fingerprint=made))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("row", 2**64 - 1, "a row has another number"),
        ("source_ids", [65_535] * 9, "a source id is not in the vocabulary"),
        ("source_ids", [3] * 30, "not each source id has a position"),
        ("target_positions", [0], "not each target id has a position"),
    ],
)
def test_rows_that_cannot_be_although_every_digest_is_right(
    words: Dataset, tmp_path: Path, name: str, value: Any, message: str
) -> None:
    folder = copied(words, tmp_path)

    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[7] = value
        return put(table, name, values)

    (resealed if name == "row" else changed)(folder, change, words.plan.shard)
    assert message in ape("verify", "--data", str(folder), code=1)[1]
    with pytest.raises(DataError, match=message):
        list(open_dataset(folder).split("train").batches(8, seed=1))
    if name != "row":
        assert message in ape("show", str(folder), "--row", "7", code=1)[1]


def test_names_that_are_not_text(operations: Dataset, tmp_path: Path) -> None:
    """The names of operators and of columns are read as they are stored."""
    folder = copied(operations, tmp_path)

    def change(table: pa.Table) -> pa.Table:
        codes = table["op"].combine_chunks().indices
        names = pa.array([b"extract", b"\xff\xfe", b"truncate", b"no-op"]).view(pa.string())
        column = pa.DictionaryArray.from_arrays(codes, names)
        return table.set_column(table.schema.get_field_index("op"), "op", column)

    changed(folder, change, operations.plan.shard)
    for words in (("verify", "--data", str(folder)), ("show", str(folder), "--row", "0")):
        assert "not UTF-8" in ape(*words, code=1)[1]
    path = folder / "data" / "train-00000-of-00002.parquet"
    path.write_bytes(path.read_bytes().replace(b"source_ids", b"source_\xff\xfes"))
    edit(folder / "manifest.json", lambda fields: fields["shards"]["train"][0].update(sha256=files.sha256(path)))
    assert "cannot read" in ape("verify", "--data", str(folder), code=1)[1]


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "a/b", "..", ".hidden", "copy\x1b[2J", ""])
def test_the_name_of_a_task_cannot_leave_its_folder(words: Dataset, tmp_path: Path, name: str) -> None:
    """The task is outside the fingerprint, and becomes a part of the name of a run."""
    folder = copied(words, tmp_path)
    edit(folder / "manifest.json", lambda fields: fields["plan"].update(task=name))
    with pytest.raises(DataError, match=r"plan.task: the task cannot be a part of a path"):
        manifest.read_manifest(folder)
    ape("train", "--data", str(folder), "--scheme", "rope", "--results", str(tmp_path / "results"), code=1)
    assert {path.name for path in tmp_path.iterdir()} == {"d"}


@pytest.mark.parametrize("more", [(), ("--overwrite",)])
def test_a_linked_folder_of_shards_is_not_written_into(tmp_path: Path, more: tuple[str, ...]) -> None:
    """It may be that of another dataset, whose shards would be replaced."""
    words = ("gen", "copy", "--n", "6", "--n-validation", "2", "--n-test", "2", "--length-mean", "5", "--out")
    (tmp_path / "other").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "data").symlink_to("../other")
    assert "data is a symbolic link" in ape(*words, str(tmp_path / "mine"), *more, code=1)[1]
    assert list((tmp_path / "other").iterdir()) == []


def test_a_folder_whose_name_looks_like_an_address(here: Path) -> None:
    """pyarrow would take the relative path for the address of a file system."""
    ape("gen", "copy", "--n", "6", "--n-validation", "2", "--n-test", "2", "--length-mean", "5", "--out", "mem:/y")
    assert "verified" in ape("verify", "--data", "mem:/y")[0]
    settings = ("--preset", "tiny", "--set", "steps=1", "--device", "cpu", "--results", "mem:/results")
    ape("train", "--scheme", "rope", "--data", "mem:/y", *settings)
