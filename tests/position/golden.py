"""Values of other public implementations, by scheme (`golden/SCHEME.json`).

Each file says how its values were obtained: package, version and call. The packages are not dependencies. Nested lists
are arrays.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOLDEN: dict[str, Any] = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in (Path(__file__).with_name("golden")).glob("*.json")
}
