"""Re-exports fixtures of the quick tests."""

from tests.runs.test_filters import filled
from tests.runs.test_finishing import record, requests_wait
from tests.runs.test_integrity import where

__all__ = ["filled", "record", "requests_wait", "where"]
