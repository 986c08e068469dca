"""Re-exports fixtures of the quick tests."""

from tests.evaluation.sharing.conftest import of_pictures, of_trees, of_words, pictures

__all__ = ["of_pictures", "of_trees", "of_words", "pictures"]
