"""Fixtures of the quick tests that the tests of this folder use too."""

from tests.training.test_image_runs import data

__all__ = ["data"]
