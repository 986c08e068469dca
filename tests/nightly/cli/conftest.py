"""Re-exports fixtures of the quick tests."""

from tests.cli.test_stopped import straight

__all__ = ["straight"]
