"""Mistakes in reading image datasets. Each still gives images, but the wrong ones or with wrong labels."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

_PLANES = "flat.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)"

MISTAKES = [
    Mistake(
        "colour planes read as interleaved pixels",
        "_from_planes",
        _PLANES,
        "flat.reshape(-1, 32, 32, 3)",
        "storage/sources/test_cifar.py::test_a_record_is_planes_of_rows",
    ),
    Mistake(
        "rows and columns of a plane swapped",
        "_from_planes",
        _PLANES,
        "flat.reshape(-1, 3, 32, 32).transpose(0, 3, 2, 1)",
        "storage/sources/test_cifar.py::test_a_record_is_planes_of_rows",
    ),
    Mistake(
        "blue first (planes)",
        "_from_planes",
        _PLANES,
        _PLANES + "[..., ::-1]",
        "storage/sources/test_cifar.py::test_a_record_is_planes_of_rows",
    ),
    Mistake(
        "blue first (encoded images)",
        "_decoded",
        "pixels = np.asarray(upright)",
        "pixels = np.asarray(upright) if gray else np.asarray(upright)[..., ::-1]",
        "storage/sources/test_parquet.py::test_what_is_converted",
    ),
    Mistake(
        "coarse labels read as fine ones (binary)",
        "_VERSIONS",
        '{"fine": 1, "coarse": 0}',
        '{"fine": 0, "coarse": 1}',
        "storage/sources/test_cifar.py::test_cifar_100_is_the_same_in_every_format",
    ),
    Mistake(
        "the first of several label columns used without asking",
        "_label",
        "len(candidates) == 1",
        "True",
        "storage/sources/test_parquet.py::test_which_labels_is_asked_where_it_is_not_clear",
    ),
    Mistake(
        "a foreign pickle loaded with Python's pickle",
        "load",
        "found = _Machine().run(content)",
        'found = __import__("pickle").loads(content, encoding="bytes")',
        "storage/sources/test_pickled.py::test_anything_else_is_one_error_and_nothing_happens",
    ),
    Mistake(
        "the checksum of an archive never read",
        "in_tar",
        "_to_its_end(path, tar)",
        "",
        "storage/sources/test_cifar.py::test_an_archive_with_a_flipped_bit_or_without_an_archive",
    ),
    Mistake(
        "text labels numbered separately in each split",
        "read",
        "_labels.numbers(values, classes)",
        "_labels.numbers(values, sorted(set(values.to_pylist())) if columns.classes is None else classes)",
        "storage/sources/test_parquet.py::test_texts_are_classes_in_their_order_over_all_splits",
    ),
]
