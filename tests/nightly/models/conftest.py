"""Re-exports fixtures of the quick tests."""

from tests.models.test_own_files import file, trained

__all__ = ["file", "trained"]
