"""Sources of trees: files, folders, patterns and Parquet files; bad files of every kind; and limits of size."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ape_cli.core.errors import ApeError, DataError, UsageError
from ape_cli.storage import tree_formats, tree_sources
from ape_cli.storage.tree_formats.json import JsonFormat
from ape_cli.storage.tree_sources import TreeSource, read_trees
from tests.storage.tree_formats.reading import check_laws

FUNCTION = "def f(x):\n    return x\n"


def put(folder: Path, **files: str | bytes) -> str:
    """Writes files and returns the folder; `a__b_py` is the file `a/b.py`."""
    for name, content in files.items():
        stem, _, suffix = name.replace("__", "/").rpartition("_")
        path = folder / f"{stem}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(folder)


def tokens(source: TreeSource) -> list[tuple[int, int, list[str]]]:
    for _, _, tree in source.trees:
        check_laws(tree)
    return [(file, document, tree.token) for file, document, tree in source.trees]


# Which files are read ---------------------------------------------------------------------------


def test_a_folder_is_read_in_the_order_of_paths(tmp_path: Path) -> None:
    files = {"b_json": "2", "a__z_json": "3", "a_json": "1", "a__A_JSON": "4", "c_txt": "no", "_hidden__x_json": "{"}
    put(tmp_path / "my data", **files)
    (tmp_path / "my data" / ".git").mkdir()
    (tmp_path / "my data" / ".git" / "x.json").write_text("{")
    (tmp_path / "my data" / "_hidden" / "x.json").unlink()
    source = read_trees(str(tmp_path / "my data"))
    paths = ["a.json", "a/A.JSON", "a/z.json", "b.json"]
    assert list(source.files.items()) == [
        (p, hashlib.sha256((tmp_path / "my data" / p).read_bytes()).hexdigest()) for p in paths
    ]
    assert tokens(source) == [(0, 0, ["1"]), (1, 0, ["4"]), (2, 0, ["3"]), (3, 0, ["2"])]
    assert (source.name, source.formats, source.unit, source.skipped) == ("my-data", ["json"], "document", [])


def test_documents_are_numbered_within_their_file(tmp_path: Path) -> None:
    source = read_trees(put(tmp_path, a_jsonl="1\n2\n", b_jsonl="3\n"))
    assert tokens(source) == [(0, 0, ["1"]), (0, 1, ["2"]), (1, 0, ["3"])]
    source = read_trees(str(tmp_path), unit="file")
    assert tokens(source) == [(0, 0, ["file", "1", "2"]), (1, 0, ["file", "3"])]


def test_one_file_needs_no_suffix_if_its_format_is_named(tmp_path: Path) -> None:
    put(tmp_path, a_txt="(S (NP a))")
    assert tokens(read_trees(str(tmp_path / "a.txt"), format="s-expr")) == [(0, 0, ["S", "NP", "a"])]
    with pytest.raises(DataError, match="no file of a known format"):
        read_trees(str(tmp_path / "a.txt"))


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("**/*.json", ["a.json", "x/b.json", "x/y/c.json"]),
        ("x/**", ["b.json", "y/c.json"]),
        ("x/[a-b].json", ["b.json"]),
    ],
)
def test_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, paths: list[str]) -> None:
    put(tmp_path, a_json="1", x__b_json="2", x__y__c_json="3", x__y__d_txt="no")
    assert list(read_trees(str(tmp_path / pattern)).files) == paths
    monkeypatch.chdir(tmp_path)
    assert list(read_trees(pattern).files) == paths


def test_several_formats_need_a_choice(tmp_path: Path) -> None:
    put(tmp_path, a_json="1", b_py=FUNCTION)
    with pytest.raises(UsageError, match="files of several formats"):
        read_trees(str(tmp_path))
    assert read_trees(str(tmp_path), format="json").formats == ["json"]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("none", "no such file, folder or pattern"),
        ("", "has no name"),
        ("s3://a/b", "must be a local path"),
    ],
)
def test_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ApeError, match=message):
        read_trees(where)


def test_units_and_no_trees(tmp_path: Path) -> None:
    where = put(tmp_path, a_py="x = 1\n")
    with pytest.raises(DataError, match=r"no tree in the source \(unit function\)\n  got:     1 file \(.py\)"):
        read_trees(where)
    with pytest.raises(UsageError, match="allowed: function, file, subtree"):
        read_trees(where, unit="sentence")
    put(tmp_path, a_py=FUNCTION)
    source = read_trees(where, unit="subtree")
    assert (source.unit, tokens(source)[0][2][0]) == ("subtree", "f")


# Links and special files ------------------------------------------------------------------------


def test_links_are_not_followed_but_named(tmp_path: Path) -> None:
    put(tmp_path / "outside", secret_json='"secret"')
    put(tmp_path / "in", a_json="1", sub__b_json="2")
    (tmp_path / "in" / "sub" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "self").symlink_to("self")
    (tmp_path / "in" / "link.json").symlink_to(tmp_path / "outside" / "secret.json")
    (tmp_path / "in" / "far").symlink_to(tmp_path / "outside")
    for where in ("in", "in/**"):
        source = read_trees(str(tmp_path / where))
        assert tokens(source) == [(0, 0, ["1"]), (1, 0, ["2"])]
        assert [path for path, _ in source.skipped] == ["far", "link.json", "self", "sub/loop"]
        assert {reason for _, reason in source.skipped} == {"a symbolic link, which is not followed"}
    (tmp_path / "named").symlink_to(tmp_path / "in")  # the user names this one
    assert len(read_trees(str(tmp_path / "named")).trees) == 2
    with pytest.raises(DataError, match="cannot read"):
        read_trees(str(tmp_path / "in" / "self"), format="json")


# Bad files --------------------------------------------------------------------------------------


def test_a_bad_file_is_named_with_its_line(tmp_path: Path) -> None:
    where = put(tmp_path, a_json="1", b_json="[1,\n2", c_json=b"\xff", d_json="4")
    with pytest.raises(DataError) as caught:
        read_trees(where)
    assert caught.value.got == "line 2: no valid JSON: Expecting ',' delimiter"
    assert str(tmp_path / "b.json") in caught.value.what
    source = read_trees(where, skip_bad=True)
    assert list(source.files) == ["a.json", "d.json"]
    assert tokens(source) == [(0, 0, ["1"]), (1, 0, ["4"])]
    assert [path for path, _ in source.skipped] == ["b.json", "c.json"]
    assert source.skipped[0][1] == "line 2: no valid JSON: Expecting ',' delimiter"


def test_only_files_that_are_read_decide_what_documents_are(tmp_path: Path) -> None:
    """The first file begins as a tree with labels, but it is none."""
    bad = '{"label": "a", "children": [{"lable": "b"}]}'
    source = read_trees(put(tmp_path / "one", a_json=bad, b_json="[1]", c_json='{"b": 2}'), skip_bad=True)
    assert tokens(source) == [(0, 0, ["array", "1"]), (1, 0, ["object", '"b"', "2"])]
    where = parquet(tmp_path, text=[bad, "[1]", '{"label": "a"}', "[2]"])
    source = read_trees(where, format="json", skip_bad=True)
    assert tokens(source) == [(0, 1, ["array", "1"]), (0, 3, ["array", "2"])]


# Limits -------------------------------------------------------------------------------------


def test_limits_of_a_source_and_of_a_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = put(tmp_path, a_json="[1]", b_json="[2]", c_json="[3, 4, 5, 6]")
    limits = [
        (tree_sources, "_MOST_FILES", 2, "too many files"),
        (tree_sources, "_MOST_TREES", 2, "too many trees"),
        (tree_sources, "_MOST_NODES", 8, "too many trees"),
        (tree_sources, "_MOST_LEVELS", 1, "too deep"),
        (tree_sources, "_FILE_BYTES", 3, "more than 3 bytes"),
        (tree_formats, "_MOST_NODES", 3, "a tree has more than 3 nodes"),
        (JsonFormat, "most_bytes", 3, "it has 12 bytes"),
    ]
    for place, name, value, message in limits:
        with monkeypatch.context() as patched:
            patched.setattr(place, name, value)
            with pytest.raises(ApeError, match=message):
                read_trees(where)


# Parquet ----------------------------------------------------------------------------------------


def parquet(folder: Path, **columns: object) -> str:
    pq.write_table(pa.table(columns), folder / "x.parquet")
    return str(folder / "x.parquet")


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.large_binary()])
def test_each_row_of_a_column_is_a_document(tmp_path: Path, kind: pa.DataType) -> None:
    rows = ["1\n2", "", '"é"', "3"]
    where = parquet(tmp_path, number=[1, 2, 3, 4], text=pa.array(rows, pa.string()).cast(kind))
    source = read_trees(where, format="json-lines")
    assert tokens(source) == [(0, 0, ["1"]), (0, 0, ["2"]), (0, 2, ['"é"']), (0, 3, ["3"])]
    assert source.files == {"x.parquet": hashlib.sha256(Path(where).read_bytes()).hexdigest()}
    assert (source.name, source.formats) == ("x", ["json-lines"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("html", '<meta charset="iso-8859-1"><p>café</p>'),
        ("xml", '<?xml version="1.0" encoding="iso-8859-1"?><p>café</p>'),
        ("python", "# -*- coding: latin-1 -*-\ndef f():\n    return 'café'"),
    ],
)
def test_strings_are_decoded_already_and_bytes_declare_their_encoding(tmp_path: Path, name: str, text: str) -> None:
    for column in (text, text.encode("latin-1")):
        trees = read_trees(parquet(tmp_path, text=[column]), format=name).trees
        assert any("café" in token for token in trees[0][2].token)


def test_texts_in_encodings_without_a_dictionary_and_of_a_type_of_their_own(tmp_path: Path) -> None:
    """Other programs write delta encodings and JSON columns, which pyarrow 21 reads as an extension type."""
    rows, where = [str(number) for number in range(1500)], tmp_path / "x.parquet"
    for kind in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        pq.write_table(pa.table({"a": rows}), where, use_dictionary=False, column_encoding={"a": kind})
        assert [token for _, _, (token,) in tokens(read_trees(str(where), format="json"))] == rows
    source = read_trees(parquet(tmp_path, a=pa.ExtensionArray.from_storage(pa.json_(), pa.array(rows))), format="json")
    assert [token for _, _, (token,) in tokens(source)] == rows


def test_a_folder_of_parquet_files(tmp_path: Path) -> None:
    """Each row is a document. The files are read in the order of their paths."""
    for name, texts in (("b", ["4", "5"]), ("a", ["1", "2", "3"])):
        Path(parquet(tmp_path, text=texts, other=texts)).rename(tmp_path / f"{name}.parquet")
    (tmp_path / "notes.json").write_text("9")
    for where in (tmp_path, tmp_path / "*.parquet"):
        source = read_trees(str(where), format="json", column="text")
        assert list(source.files) == ["a.parquet", "b.parquet"]
        assert [token for _, _, (token,) in tokens(source)] == list("12345")
    assert list(read_trees(str(tmp_path), format="json").files) == ["notes.json"]
    with pytest.raises(UsageError, match="the texts of Parquet files need a format"):
        read_trees(str(tmp_path), column="text")
    (tmp_path / "notes.json").unlink()
    with pytest.raises(UsageError, match=r"the text column is ambiguous"):
        read_trees(str(tmp_path), format="json")


def test_the_column_of_a_parquet_file(tmp_path: Path) -> None:
    where = parquet(tmp_path, a=["1"], b=["2"], c=[3], d=[b"4"])
    for column, token in {"b": "2", "d": "4"}.items():
        assert tokens(read_trees(where, format="json", column=column)) == [(0, 0, [token])]
    for fields, message in (
        ({"format": "json"}, "is ambiguous"),
        ({"format": "json", "column": "c"}, "unknown text column"),
        ({}, "need a format"),
    ):
        with pytest.raises(UsageError, match=message):
            read_trees(where, **fields)
    with pytest.raises(UsageError, match="only a Parquet file has columns"):
        read_trees(put(tmp_path / "other", a_json="1"), column="a")


def test_bad_rows(tmp_path: Path) -> None:
    where = parquet(tmp_path, text=["1", "{", None, "4"])
    with pytest.raises(DataError, match=r"cannot read .*x.parquet\n  got:     row 1: line 1: no valid JSON"):
        read_trees(where, format="json")
    source = read_trees(where, format="json", skip_bad=True)
    assert tokens(source) == [(0, 0, ["1"]), (0, 3, ["4"])]
    assert [path for path, _ in source.skipped] == ["x.parquet row 1", "x.parquet row 2"]
    assert source.skipped[1][1] == "null instead of text"


def test_a_dataset_in_the_folder_is_not_a_source(tmp_path: Path) -> None:
    """`ape gen trees --source .` writes into a folder of its source. The second time, that is left out."""
    (tmp_path / "a.json").write_text('{"a": 1}')
    before = read_trees(str(tmp_path))
    made = tmp_path / "datasets" / "made"
    (made / "data").mkdir(parents=True)
    (made / "manifest.json").write_text('{"b": 2}')
    after = read_trees(str(tmp_path))
    assert after.files == before.files
    assert after.skipped == [("datasets/made", "a dataset of this program")]
