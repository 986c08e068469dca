"""Finished runs packed into one file for transfer, without weights. `ape runs --unpack` adds them to a folder."""

from __future__ import annotations

from pathlib import Path

from ape_cli.runs import packing
from ape_cli.runs.registry import open_registry


def pack(results: Path, out: Path) -> list[str]:
    """Write the finished and evaluated runs of a registry to `out`/runs.parquet. Returns a line about each refused run.

    The path of a run's dataset is replaced by that in the usual folder. The runs have no other use on this machine.
    """
    done = []
    for run, record in open_registry(results).readable():
        if record.status == "finished" and any(name.startswith("eval/") for name in record.files):
            usual = record.dataset.model_copy(update={"path": f"datasets/{Path(record.dataset.path).name}"})
            run.update(dataset=usual)
            done.append(run)
    return packing.pack(out / "runs.parquet", done)[1] if done else []
