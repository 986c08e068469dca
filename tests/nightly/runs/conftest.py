"""Re-exports fixtures of the quick tests."""

from tests.runs.test_finishing import record, requests_wait

__all__ = ["record", "requests_wait"]
