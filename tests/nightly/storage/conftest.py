"""An S3 server with the bucket `ape`, for the tests of a file."""

from collections.abc import Iterator

import pytest

from tests.nightly.store import Server, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as found:
        found.bucket("ape")
        yield found
