"""Fixtures of the quick tests that the tests of this folder use too."""

from tests.runs.test_filters import filled

__all__ = ["filled"]
