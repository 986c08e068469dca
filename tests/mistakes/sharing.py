"""Mistakes in exported models and their uploads."""

from __future__ import annotations

from tests.mistakes._mistake import Mistake

MISTAKES = [
    Mistake(
        "an exported model that dropout disturbs",
        "TrainedModel.__init__",
        "module.eval()",
        "module.train()",
        "evaluation/sharing/test_exported.py::test_predictions_on_words_are_those_of_the_run",
    ),
    Mistake(
        "files of two exports taken for one",
        "read_export",
        "found != said",
        "False",
        "evaluation/sharing/test_exported.py::test_files_of_another_export_are_refused",
    ),
    Mistake(
        "an answer with one symbol more than was asked for",
        "_window",
        "max_tokens - 1",
        "max_tokens",
        "evaluation/sharing/test_exported.py::test_words_are_written_until_their_end",
    ),
    Mistake(
        "something private uploaded to a public repository",
        "_push",
        "private and not api.repo_info(repository, repo_type=kind).private",
        "False",
        "evaluation/sharing/test_hub.py::test_what_should_be_private_is_never_public",
    ),
    Mistake(
        "shards of an earlier dataset left in the repository",
        "_push",
        'kind == "dataset"',
        "False",
        "evaluation/sharing/test_hub.py::test_a_dataset_arrives_whole_and_replaces_another",
    ),
]
