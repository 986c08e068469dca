"""Fixtures of the nightly tests: Chromium, and what they share with the quick tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.test_every_pair import of_tasks
from tests.test_results_page import counts

__all__ = ["counts", "of_tasks"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium: that of the system (`apt-get install chromium`) or of Playwright (`playwright install chromium`).

    The test is skipped if it or the packages are not installed.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs `pip install playwright`")
    pytest.importorskip("axe_playwright_python", reason="needs `pip install axe-playwright-python`")
    with sync_api.sync_playwright() as playwright:
        found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
        own = playwright.chromium.executable_path
        path = next(iter(found), own if Path(own).exists() else None)
        if path is None:
            pytest.skip("needs Chromium: `apt-get install chromium`, or `playwright install chromium`")
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # root has no sandbox
        started = playwright.chromium.launch(executable_path=path, args=arguments)
        yield started
        started.close()
