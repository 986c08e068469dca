"""Fixtures of the quick tests that the tests of this folder use too."""

from tests.cli.test_stopped import straight

__all__ = ["straight"]
