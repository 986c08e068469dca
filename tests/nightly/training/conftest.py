"""Re-exports fixtures of the quick tests."""

from tests.training.test_image_runs import data

__all__ = ["data"]
