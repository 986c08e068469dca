"""Snapshots of the behaviour of the program, which show whether a refactoring has changed anything.

`python -m benchmarks.behaviour record CHECKOUT OUT.json` runs all commands below with a checkout, in a quarter of an
hour. `python -m benchmarks.behaviour compare BEFORE.json AFTER.json` prints the differences, and exits with 1 if there
are any. A snapshot uses only the command line and the public Python surface, each command in a process of its own.
Weights are compared bit by bit, so take both snapshots on one machine. A command that fails is recorded as an error. An
error always counts as a difference.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

# Lists of commands, separated by semicolons. `a|b` stands for two commands, one with a and one with b.
GEN = """copy|reverse|repeat; copy --sizes 3,6; reverse --vocabulary 5 --length-mean 8; grid-rotate --side-mean 4;
    copy --shard-rows 70 --workers 2; repeat --set repeats=3; copy --seed 7; grid-copy|grid-rotate; ring-shift --ring 7;
    TREE --order breadth|depth --source-order breadth|depth; TREE --depth-mean 3 --branching 3; tree-copy --sizes 2,4;
    tree-rotate|tree-ops --depth-mean 3 --branching 3 --binarise; tree-ops --vocabulary 150; grid-copy --sizes 2,3;
    images --source digits --seed 42|7; images --source digits --shuffled; ring-shift"""
TRAIN = """none|sinusoidal|learned|relative|t5|transformer-xl|alibi|rope|matrix-power|orthogonal-seq --task reverse;
    tree|orthogonal-tree --task tree-rotate; orthogonal-grid --task grid-rotate|images; orthogonal --task ring-shift;
    rope --attention euclidean|squared-euclidean|epanechnikov|boxcar|linear|softmax-free|clustered --task reverse;
    orthogonal-tree --task tree-copy --order depth; rope|tree --task tree-copy --order depth --source-order breadth;
    rope --task repeat --precision bf16 --seed 6; orthogonal --task tree-copy --structure seq*tree(2) --no-eval;
    orthogonal-tree --preset small --set steps=3 --task c3; tree --data data/tree-rotate_depth-mean_3_branching_3;
    none --data data/images_source_digits_shuffled --set augment=crop,autoaugment --set stochastic_depth=0.1"""
SWEEP = """none,alibi --tasks repeat,c3 --seeds 42-43 --set dropout=0,0.1; tree --tasks c3 --set copies=1,2;
    rope,orthogonal-tree,tree,relative --tasks tree-rotate,tree-ops --orders breadth,depth,breadth-to-depth --seeds 1;
    orthogonal --tasks copy --set side=query,both; sinusoidal --tasks grid-copy,images --structures grid(2);
    alibi,orthogonal-seq --tasks copy --attentions boxcar,dot; t5 --tasks copy --set cross=false --set decay=1,0.98;
    matrix-power,rope --tasks copy --set learned=true; orthogonal-tree --data data/tree-ops_depth-mean_3_branching_3"""
EVAL = """--decode greedy; --split validation; --data data/copy_sizes_3-6 --data data/copy_seed_7 --batch-size 7;
    --data data/tree-copy_sizes_2-4; --data data/images_source_digits_seed_42"""
REPORT = """--format ANY; --against paper --format ANY; --by size|op|epoch --format ANY; --preset medium; --interval;
    --compare rope orthogonal-seq|tree --format ANY; --metric exact_match|cross_entropy --format markdown|json;
    --scheme rope --scheme tree --task tree-ops/depth; --task reverse --axis error --format html; --format html;
    --sweep RESULTS/table1.toml|RESULTS/table2.toml|RESULTS/table2-paper.toml --against paper --format markdown|csv;
    --sweep RESULTS/table1.toml|RESULTS/ablation-locality.toml --by size; --sweep RESULTS/digits.toml --by epoch"""
LISTS = """tasks|schemes|attentions; check --threads 1 --json; tasks|schemes|attentions --json; --version; --help;
    gen|train|sweep|eval|report|check|runs|show|tasks --help; runs --results RESULTS/record;
    runs --json --results RESULTS/record; runs --scheme rope --task reverse --results RESULTS/record;
    report --decode teacher|greedy; report --by size|epoch;
    sweep RESULTS/table1.toml --dry-run --json --workers 2 --results RESULTS/record;
    show data/tree-copy_sizes_2-4 --json;
    show data/repeat|data/grid-rotate|data/ring-shift|data/tree-copy_sizes_2-4|data/images_source_digits_seed_42"""
WRONG = """fly; gen no-such-task; gen copy --n -5|lots; gen copy --depth-mean 3; gen tree-copy --order sideways; train;
    train --preset tiny --task copy --scheme no-such|orthogonal-tree; train --scheme none --data data/copy --set x=8;
    train --scheme orthogonal --structure seq** --data data/copy; report --by colour; eval no-such-run; show nowhere;
    train --scheme relative --attention linear --data data/copy; sweep missing.toml; check nobody; runs --bogus"""
SHORT = {"ANY": "rich|markdown|latex|csv|json", "TREE": "c3|tree-copy|tree-rotate|tree-ops"}
READ = {"tree": "tree(2)|tree(3)", "orthogonal-tree": "tree(2)|tree(3)", "orthogonal-grid": "grid(2)"}  # others: seq
READ |= {"sinusoidal": "seq|grid(2)", "orthogonal": "seq|tree(2)|tree(3)|grid(2)|cyclic(6)|seq*tree(2)"}
READ |= {"axial-rope": "grid(2)", "mixed-rope": "grid(2)"}
VOLATILE = {"versions", "commit", "processor", "started", "finished", "seconds", "tokens_per_second"}
VOLATILE |= {"version", "sha256", "files", "weights", "tagged", "largest"}  # not in every format of run.json


def listed(commands: str) -> Iterator[list[str]]:
    """The words of each command of a list."""
    for command in commands.split(";"):
        yield from map(list, itertools.product(*(SHORT.get(word, word).split("|") for word in command.split())))


def text(content: str) -> dict[str, Any]:
    """A text as a value: its hash, which is compared, and its first lines, which show where it differs."""
    return {"sha256": sha(content.encode()), "lines": [line[:300] for line in content.splitlines()[:500]]}


def sha(content: bytes) -> str:
    """The SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def digest(tensors: dict[str, Any]) -> str:
    """The SHA-256 of the bytes of tensors, in the order of their names."""
    return sha(b"".join(tensors[name].detach().contiguous().numpy().tobytes() for name in sorted(tensors)))


def settled(content: str, digits: int = 17) -> Any:
    """Read JSON without empty fields and those that differ between processes or formats, in the order of their names.

    Floats are rounded to `digits` significant digits.
    """

    def kept(fields: dict[str, Any]) -> dict[str, Any]:
        return {key: fields[key] for key in sorted(fields) if key not in VOLATILE and fields[key] not in (None, [], {})}

    return json.loads(content, parse_float=lambda number: float(f"{float(number):.{digits}g}"), object_hook=kept)


class Snapshot:
    """The answers of one checkout, in groups. `results` is a results folder to read, `scratch` an empty folder."""

    def __init__(self, checkout: Path, results: Path, scratch: Path) -> None:
        """Set up the environment of the processes and check that they import the checkout."""
        self.results, self.scratch, self.began, self.groups = results, scratch, time.monotonic(), dict[str, Any]()
        self.hidden = {str(results): "RESULTS", str(checkout): "CHECKOUT", str(scratch): "SCRATCH"}
        self.environment = {name: value for name, value in os.environ.items() if name[:4] not in ("APE_", "PYTH")}
        self.environment |= {"PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        self.environment |= {"OMP_NUM_THREADS": "1", "COLUMNS": "160", "NO_COLOR": "1", "TERM": "dumb"}
        self.environment |= {"SOURCE_DATE_EPOCH": "0", "APE_COMMIT": "COMMIT"}  # a page says when and by what
        which = "print(ape_cli.__file__, ape_cli.__version__, t.__version__, t.backends.cpu.get_cpu_capability())"
        module, version, *machine = self.python("-c", f"import ape_cli, torch as t; {which}").stdout.split()
        assert module.startswith("CHECKOUT/"), f"ape_cli is {module}, not that of {checkout}"
        self.machine, self.hidden[version] = [sys.version, *machine], "VERSION"

    def python(self, *words: str, wrong: bool = False) -> subprocess.CompletedProcess[str]:
        """Run Python with the checkout in the scratch folder. Raises `RuntimeError` if it fails and is not `wrong`."""
        stdio: dict[str, Any] = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, "timeout": 600}
        command = [sys.executable, *(word.replace("RESULTS", str(self.results)) for word in words)]
        done = subprocess.run(command, cwd=self.scratch, env=self.environment, check=False, **stdio)
        for value, word in self.hidden.items():
            exact = re.compile(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\w)")
            done.stdout, done.stderr = exact.sub(word, done.stdout), exact.sub(word, done.stderr)
        if done.returncode and not wrong:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr[-600:]}")
        return done

    def ape(self, *words: str, wrong: bool = False) -> Any:
        """The output of a command as JSON or text. For a `wrong` one, its exit status; its note is not compared."""
        done = self.python("-m", "ape_cli", *words, wrong=wrong)
        if wrong:
            return {"exit": done.returncode, "crash": "Traceback" in done.stderr, "note": done.stderr.strip()[:300]}
        if "--json" in words:
            return settled(done.stdout, 6 if words[0] == "check" else 17)
        return text(f"{done.stdout}--- notes ---\n{done.stderr}")

    def dataset(self, *words: str) -> dict[str, Any]:
        """The files that `ape gen` writes: all images, or 300 rows of another task."""
        out = "data/" + "_".join(word.removeprefix("--").replace(",", "-") for word in words)
        rows = ["--n", "300", "--n-validation", "40", "--n-test", "40"] if words[0] != "images" else []
        outputs = {"told": self.ape("gen", *words, *rows, "--out", out, "--json")}
        for file in sorted(path for path in (self.scratch / out).rglob("*") if path.is_file()):
            outputs[file.name] = sha(file.read_bytes()) if file.suffix == ".parquet" else text(file.read_text())
        manifest = json.dumps(settled((self.scratch / out / "manifest.json").read_text()), indent=1)
        return outputs | {"manifest.json": text(manifest)}

    def trained(self, launch: str, *words: str) -> list[dict[str, Any]]:
        """The new runs of a command: their JSON files, weights and history."""
        import polars
        import safetensors.torch

        runs, records = self.scratch / "results" / "runs", list[dict[str, Any]]()
        earlier = set(runs.glob("*"))
        self.python(*launch.split(), words[0], "--preset", "tiny", "--threads", "1", "--device", "cpu", *words[1:])
        for folder in sorted(set(runs.glob("*")) - earlier):
            run = {file.name: settled(file.read_text()) for file in folder.rglob("*.json")}
            tensors = safetensors.torch.load_file(folder / "model.safetensors")
            history = polars.read_parquet(folder / "history.parquet").drop("seconds").to_dicts()
            records.append(run | {"weights": digest(tensors), "names": " ".join(sorted(tensors)), "history": history})
        assert records, "no new run"
        return records

    def record(self) -> dict[str, Any]:
        """Record all groups, and print a line on stderr for each command."""
        train, ranks = "-m ape_cli train --scheme", "-m torch.distributed.run --standalone --nproc-per-node 2"
        jobs: list[tuple[str, str, Callable[..., Any]]] = [
            ("datasets", GEN, self.dataset),
            ("python", "surface", lambda word: json.loads(self.python("-P", __file__, word, "RESULTS").stdout)),
            ("runs", TRAIN, partial(self.trained, train)),
            ("ranks", "rope --task copy --seed 9", partial(self.trained, f"{ranks} {train}")),
            ("sweeps", SWEEP, partial(self.trained, "-m ape_cli sweep --workers 1 --schemes")),
            ("evaluation", EVAL, partial(self.ape, "eval", "--threads", "1", "--json")),
            ("reports", REPORT, partial(self.ape, "report", "--results", "RESULTS/record")),
            ("lists", LISTS, self.ape),
            ("wrong", WRONG, partial(self.ape, wrong=True)),
        ]
        for group, words, ask in ((group, words, ask) for group, commands, ask in jobs for words in listed(commands)):
            key, answers = " ".join(words), self.groups.setdefault(group, {})
            print(f"[{time.monotonic() - self.began:4.0f}s] {group}: {key}", file=sys.stderr, flush=True)
            try:
                answers[key] = ask(*words)
            except Exception as error:  # any error is recorded
                answers[key] = {"error": f"{type(error).__name__}: {error}"}
                print(f"FAILED: {error}", file=sys.stderr, flush=True)
        return {"machine": self.machine, "groups": self.groups}


def surface(results: str) -> dict[str, Any]:
    """The answers of the public Python surface. Call it in a folder that contains `data`."""
    import torch

    from ape_cli import attention, dataset, position, registry, tasks

    digests: dict[str, Any] = {"names": [position.names(), tasks.names(), attention.names()]}
    digests["runs"] = sha(registry.open(f"{results}/record").runs().write_csv().encode())
    trees: list[dict[str, Any]] = [{"branching": 3, "depth_mean": 3}, {"sizes": (2, 4), "order": "depth"}]
    options = [*((name, {}) for name in tasks.names()), *itertools.product(SHORT["TREE"].split("|"), trees)]
    for name, given in options:
        try:
            task = tasks.make(name, **given)
            tables = [task.sample(rows=range(300), split=split, seed=42) for split in ("train", "test")]
        except Exception as error:  # a task that needs a file of the user
            digests[f"task {name} {given}"] = type(error).__name__
            continue
        digests[f"task {name} {given}"] = [sha(f"{table.schema} {table.to_pydict()}".encode()) for table in tables]
    n, x = torch.arange(1, 7), torch.linspace(-1, 1, 384).view(1, 6, 64)
    q, k = x.view(1, 4, 6, 16), x.cos().view(1, 4, 6, 16)
    places = {"grid(2)": torch.stack(((n + 2) // 3, (n + 2) % 3 + 1), -1), "seq*tree(2)": torch.stack((n, n), -1)}
    for name, structure in (
        (scheme_name, read) for scheme_name in position.names() for read in READ.get(scheme_name, "seq").split("|")
    ):
        torch.manual_seed(0)
        scheme = position.make(name, d_model=64, heads=4, structure=structure, max_size=8)
        context = scheme.context(places.get(structure, n)[None])
        key = scheme.attach("decoder", 0)
        scores = attention.logits(scheme, q, k, context, context, content=scheme.content(key, x))
        acted = {"embed": scheme.embed(x, context), "logits": scores}
        digests[f"scheme {name} {structure}"] = digest(scheme.state_dict() | acted)
    for folder in sorted(Path("data").iterdir()):
        batches = itertools.islice(dataset.open(str(folder)).split("train").batches(64, seed=1), 4)
        parts = [[tensor for tensor in vars(batch).values() if isinstance(tensor, torch.Tensor)] for batch in batches]
        digests[f"batches {folder}"] = [[digest({"": tensor}) for tensor in tensors] for tensors in parts]
    return digests


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All values inside a value, each with its path. A text counts as one value. Notes are left out."""
    if isinstance(value, dict | list) and value and "lines" not in value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, f"{path} / {key}") if key != "note" else ()
    else:
        yield path, value


def difference(old: Any, new: Any) -> str:
    """The difference of two values as text; empty if they are equal."""
    if isinstance(old, dict) and isinstance(new, dict) and old and new and old != new:
        lines = difflib.unified_diff(old["lines"], new["lines"], n=0, lineterm="")
        return "\n    ".join(lines)[:2000] or "after the lines that are kept"
    return f"{old!r} -> {new!r}" if repr(old) != repr(new) else ""


def compare(first: dict[str, Any], second: dict[str, Any]) -> int:
    """Print the differences of two snapshots. -> 1 if there are any, or if anything failed in either snapshot"""
    told = [] if first["machine"] == second["machine"] else [f"two machines: {first['machine']}, {second['machine']}"]
    print(f"{'group':<12}{'values':>8}{'differ':>8}{'failed':>8}")
    for group in {**first["groups"], **second["groups"]}:
        old, new = (dict(leaves(snapshot["groups"].get(group, {}))) for snapshot in (first, second))
        why = {path: difference(old.get(path, "none"), new.get(path, "none")) for path in {**old, **new}}
        failed = [path for path in why if path.endswith(" / error")]
        differ = [path for path in why if why[path] and path not in failed]
        print(f"{group:<12}{len(why):>8}{len(differ):>8}{len(failed):>8}")
        told += [f"{group}{path}: {why[path] or old[path]}" for path in differ + failed]
    print(*told, sep="\n")
    return bool(told)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", checkout, out, *others]:  # others: a results folder to use instead of the checkout's own
            registered = Path(others[0] if others else f"{checkout}/results").resolve()
            with tempfile.TemporaryDirectory() as scratch:
                ours = Snapshot(Path(checkout).resolve(), registered, Path(scratch).resolve())
                Path(out).write_text(json.dumps(ours.record(), indent=1))
        case ["compare", before, after]:
            sys.exit(compare(*(json.loads(Path(file).read_text()) for file in (before, after))))
        case ["surface", results]:
            print(json.dumps(surface(results)))
        case _:
            sys.exit(__doc__)
