"""The compiler of torch is imported for FlexAttention only. The test starts its own interpreter."""

from __future__ import annotations

import subprocess
import sys


def test_the_compiler_is_imported_for_flex_only() -> None:
    """The import takes about a second, which commands that do not use FlexAttention must not wait for."""
    code = """
import sys
import torch
from ape_cli import attention, position
from ape_cli.attention import Link
scheme = position.make("none", d_model=4, heads=1)
context = scheme.context(torch.tensor([[1, 2, 3]]))
x, link = torch.ones(1, 1, 3, 4), Link.of(scheme, context, context)
for backend in ("plain", "fused", "flex"):
    with attention.use_backend(backend):
        attention.make("dot").mix(scheme, x, x, x, link, 0.0)
    print(backend, "torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["plain False", "fused False", "flex True"]
