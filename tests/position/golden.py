"""Values of other public implementations, and how they were obtained (`golden.json`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))
