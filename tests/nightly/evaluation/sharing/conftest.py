"""Fixtures of the quick tests that the tests of this folder use too."""

from tests.evaluation.sharing.conftest import of_pictures, of_trees, of_words, pictures

__all__ = ["of_pictures", "of_trees", "of_words", "pictures"]
