"""Re-exports fixtures of the quick tests."""

from tests.runs.test_filters import filled
from tests.runs.test_integrity import where

__all__ = ["filled", "where"]
