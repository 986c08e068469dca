"""Random sets of runs, as people have them: several settings, unequal tasks, copied and repeated data, schedules."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

from ape_cli.runs.run import write_history
from tests.registered import edit, vouch
from tests.reports.test_aggregation import add
from tests.reports.test_distinct_rows import Data
from tests.reports.test_distinct_rows import put as register

SETTINGS: list[dict[str, Any]] = [
    {},
    {},
    {"lr_peak": 0.003},
    {"d_model": 64},
    {"steps": 200},
    {"lr_peak": 0.003, "d_model": 64},
]
TASKS = [("copy", None), ("reverse", None), ("tree-copy", "breadth"), ("tree-copy", "depth"), ("tree-ops", "depth")]
OTHER = "b" * 64  # a dataset that runs are also evaluated on


def make(where: Path, seed: int) -> None:
    """Register a random set of runs. Scores are numbers of 180 rows, so that ties are common."""
    rng = random.Random(seed)
    presets = ["small"] if rng.random() < 0.7 else ["small", "tiny"]
    schemes, settings = (
        rng.sample(["none", "rope", "alibi"], rng.choice([2, 3])),
        rng.sample(SETTINGS, rng.choice([1, 2, 3])),
    )
    level = rng.choice([100, 170, 178])
    for preset in presets:
        for task, order in rng.sample(TASKS, rng.choice([1, 2, 3])):
            datasets = [(f"{task}-small", 0)] + [(f"{task}-more", 1)] * (rng.random() < 0.2)
            for scheme in schemes:
                for of in rng.sample(settings, rng.randint(1, len(settings))):
                    for name, number in datasets:
                        for one in rng.sample([1, 2, 3, 4], rng.choice([1, 2, 3, 3])):
                            copied = f"{name}-copied" if rng.random() < 0.2 and number == 0 else name
                            data = hashlib.sha256(f"{task} {order} {preset} {number}".encode()).hexdigest()
                            given: dict[str, Any] = {"task": task, "order": order, "preset": preset, "variant": of}
                            put(where, rng, level, scheme, one, given | {"name": copied, "fingerprint": data})


def put(where: Path, rng: random.Random, level: int, scheme: str, seed: int, given: dict[str, Any]) -> None:
    """A finished run with a history, and perhaps an evaluation on other data."""
    if rng.random() < 0.2:
        add(where, scheme, rng.randint(level, 180) / 180, seed, evaluated=OTHER, **given)
    folder = add(where, scheme, rng.randint(level, 180) / 180, seed, **given)
    scores = [rng.randint(level, 180) / 180 for _ in range(given["variant"].get("steps", 400) // 100)]
    best = max(range(len(scores)), key=scores.__getitem__)
    rows = [
        {"step": 100 * number, "validation_token_accuracy": score, "validation_loss": rng.randint(1, 3) / 4}
        for number, score in enumerate(scores, 1)
    ]
    write_history(folder / "history.parquet", rows)
    steps = {"steps": 100 * len(scores), "best_step": 100 * (best + 1)}
    edit(folder / "run.json", lambda about: about["result"].update(steps))
    vouch(folder)


def make_sizes(where: Path, seed: int) -> None:
    """Register runs on short words, evaluated on their own and on other data, which may share rows."""
    rng = random.Random(seed)
    words = {"vocabulary": rng.choice([3, 20])}
    own = Data("copy", {"sizes": list(range(1, rng.choice([4, 6])))} | words, rng.choice([30, 60]))
    others = [
        Data(
            f"copy-{number}",
            {"sizes": (sizes := sorted(rng.sample([3, 4, 6, 8, 9, 12], rng.choice([1, 2, 3]))))} | words,
            len(sizes) * rng.choice([10, 20, 40]),
            seed=rng.choice([1, 1, 2]),
            test_only=rng.random() < 0.5,
        )
        for number in range(rng.choice([1, 2, 3]))
    ]
    for scheme in ("rope", "alibi"):
        for one in rng.sample([1, 2, 3], rng.choice([1, 2, 2])):
            evaluated = [data for data in others if rng.random() < 0.8]
            scores = [dict.fromkeys(range(1, 13), rng.randint(0, 20) / 20) for _ in range(4)]
            datasets = [data._replace(score=score) for data, score in zip([own, *evaluated], scores, strict=False)]
            register(where, "copy", datasets[0], datasets[1:], scheme, one)
