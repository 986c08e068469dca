"""What a training step costs relative to `none`, from the benchmarks of record."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from results.plans import ROOT

SHAPES = ("paper, d=512, batch 64", "paper, d=512, batch 16", "small, d=128, batch 64")
TREES = ("tree", "tree-distance", "tree-learned", "tree-path", "wire", "orthogonal-tree")
READS = {**dict.fromkeys(TREES, "tree(2)"), "orthogonal-grid": "grid(2)", "orthogonal": "seq*tree(2)"}


@cache
def _benchmarks(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def on_a_cpu(benchmark: str, scheme: str, shape: str, bias: bool) -> float:
    """The time (`step`) or peak memory (`step_memory`) of a step relative to `none`."""
    what = f"{scheme} on {READS.get(scheme, 'seq')}; {shape}" + ", locality bias 0.98" * bias
    (value,) = (r["value"] for r in _benchmarks("cpu-2")["benchmarks"][benchmark]["rows"] if r["what"] == what)
    return float(value)


def on_a_gpu(scheme: str, column: str) -> float | None:
    """The time of a recorded step at the preprint's size on an H200, or None if it was not measured."""
    rows = _benchmarks("h200")["rows"]
    own, none = (rows.get(f"{name} on {column}, tf32, recorded, 1 at a time") for name in (scheme, "none"))
    return float(own["ms"] / none["ms"]) if own else None


def cost_of_advice() -> str:
    """The table of the page with advice: the schemes that it names, and what they read."""
    names = {"rope": "reverse", "orthogonal-seq": "reverse", "tree": "", "orthogonal-tree": "", "orthogonal-grid": "—"}
    lines = ["| encoding | memory | memory, large | time | time, large | time, GPU |", f"|---{'|---:' * 5}|"]
    for scheme, column in (names | {"orthogonal": "—"}).items():
        biased = "orthogonal" in scheme
        ratios = [on_a_cpu(of, scheme, SHAPES[n], biased) for of in ("step_memory", "step") for n in (2, 0)]
        gpu = on_a_gpu(scheme, column or "tree-rotate/breadth")
        cells = [*(f"{ratio:.2f}" for ratio in ratios), f"{gpu:.2f}" if gpu else "—"]
        lines.append(f"| `{scheme}`{', sequences of trees' * (scheme == 'orthogonal')} | {' | '.join(cells)} |")
    return "\n".join(lines)


CPU_ROWS = (
    *("sinusoidal", "learned", "alibi", "t5", "rope", "relative", "transformer-xl", "tree"),
    *("orthogonal-seq", "orthogonal-grid", "orthogonal-tree", "orthogonal"),
)
GPU_ROWS = tuple(scheme for scheme in CPU_ROWS if scheme not in ("learned", "orthogonal-grid", "orthogonal"))


def cost_tables() -> dict[str, str]:
    """The tables of docs/explanation/cost.md: on a CPU, with the locality bias in brackets, and on a GPU."""
    tables = {"cost-gpu": ["| | words (`reverse`) | trees (`tree-rotate`) |", "|---|---:|---:|"]}
    for scheme in GPU_ROWS:
        ratios = [on_a_gpu(scheme, column) for column in ("reverse", "tree-rotate/breadth")]
        cells = ["—" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        tables["cost-gpu"].append(f"| `{scheme}` | {' | '.join(cells)} |")
    for benchmark in ("step", "step_memory"):
        lines = ["| | preprint's size, batch 64 | batch 16 | `small`, width 128 |", "|---|---:|---:|---:|"]
        for scheme in CPU_ROWS:
            pairs = [[on_a_cpu(benchmark, scheme, shape, bias) for bias in (False, True)] for shape in SHAPES]
            name = f"`{scheme}`" + ", sequences of trees" * (scheme == "orthogonal")
            lines.append(f"| {name} | {' | '.join(f'{plain:.2f} ({biased:.2f})' for plain, biased in pairs)} |")
        tables[f"cost-{benchmark}"] = lines
    *large, little = (
        max(on_a_cpu("step", s, shape, bias) for s in CPU_ROWS for bias in (False, True)) for shape in SHAPES
    )
    tables["cost-answer"] = [
        "Compared with `none` and fused attention on the same batches, a training step on a CPU takes at most",
        f"{max(large):.2f} times as long at the preprint's size, and at most {little:.2f} times at `small`, with the",
        "schemes of the tables. They show all ratios.",
    ]
    return {name: "\n".join(lines) for name, lines in tables.items()}
