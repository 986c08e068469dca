"""Fixtures of the quick tests that the tests of this folder use too."""

from tests.reports.test_views import filled

__all__ = ["filled"]
