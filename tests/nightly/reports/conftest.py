"""Re-exports fixtures of the quick tests."""

from tests.reports.test_views import filled

__all__ = ["filled"]
