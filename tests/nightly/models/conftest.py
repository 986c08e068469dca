"""Fixtures of the quick tests that the tests of this folder use too."""

from tests.models.test_checkpoint import stored
from tests.models.test_own_files import file, trained

__all__ = ["file", "stored", "trained"]
