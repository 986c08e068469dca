"""The messages on the page on troubleshooting are those that the program prints."""

from __future__ import annotations

import fcntl
import json
import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ape_cli.cli import app
from tests.conftest import ape
from tests.test_docs import PAGES

PAGE = PAGES["docs/guides/troubleshooting.md"]
BLOCKS = re.findall(r"(?<=\n\n)(?:    .*\n)+", PAGE)
ROPE = "train --scheme rope --task copy --preset tiny --device cpu"
CAUSES: dict[
    str, tuple[str, ...]
] = {  # the first words of a message on the page: commands, of which the last prints it
    "error: this machine has": (ROPE,),
    "error: the loss is": (f"{ROPE} --set lr_peak=1000 --set steps=200",),
    "error: scheme 'orthogonal-tree'": (ROPE.replace("rope", "orthogonal-tree"),),
    "error: scheme xpos": (ROPE.replace("rope", "xpos"),),
    "error: unknown scheme": (ROPE.replace("rope", "fox"),),
    "error: no CUDA": (ROPE.replace("cpu", "cuda"),),
    "error: datasets/copy-tiny": (ROPE, "gen tree-ops --n 1 --out datasets/copy-tiny"),
    "error: there is nothing to report": ("report",),
    "copy-rope-42-013c0bf6 is trained": (ROPE, ROPE),
    "error: this run was started": (ROPE, "interrupt", ROPE),
    "error: another process": (ROPE, "interrupt", "lock", f"{ROPE} --resume"),
    "left out: copy-rope-42-013c0bf6": (ROPE, "alter", "report"),
}
NAME = re.compile(
    r"copy-rope-42-[0-9a-f]{8}|sha256 [0-9a-f]{16}|[0-9a-f]{12}-test|step \d+"
    r"|[\d,]+ (?=rows|source|target|tokens)"
)  # they depend on the machine


def test_every_message_has_a_cause() -> None:
    messages = [block for block in BLOCKS if "pip install" not in block]
    assert all(any(block.strip().startswith(start) for start in CAUSES) for block in messages)
    assert len(messages) == len(CAUSES)


@pytest.mark.parametrize("start", CAUSES)
def test_a_message_is_printed(start: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "CUDA" in start:
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    if "this machine" in start:
        monkeypatch.setattr("ape_cli.training.trainer.Trainer.update", run_out)
    (block,) = (block for block in BLOCKS if block.strip().startswith(start))
    *before, last = CAUSES[start]
    with ExitStack() as stack:
        for words in before:
            if words in CHANGES:
                (run,) = (here / "results" / "runs").iterdir()
                CHANGES[words](run, stack)
            else:
                ape(*words.split())
        printed = "".join(CliRunner().invoke(app, last.split()).stderr)
    flat = " ".join(NAME.sub("…", printed).split())
    for line in NAME.sub("…", block).splitlines():
        assert " ".join(line.split()) in flat


def run_out(*_: object) -> None:
    """Fail as torch does if there is no memory left."""
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory")


def interrupt(run: Path, _: ExitStack) -> None:
    """Make a run look like one that was stopped."""
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"status": "stopped", "result": None, "files": {}}))
    (run / "state").mkdir()
    (run / "state" / "state.safetensors").touch()


def lock(run: Path, stack: ExitStack) -> None:
    """Train the run in another process, which holds its lock."""
    file = stack.enter_context((run / ".lock").open("w"))
    fcntl.flock(file, fcntl.LOCK_EX)


def alter(run: Path, _: ExitStack) -> None:
    """Change a score."""
    (file,) = (run / "eval").iterdir()
    file.write_text(file.read_text().replace("42", "43"))


CHANGES = {change.__name__: change for change in (interrupt, lock, alter)}
