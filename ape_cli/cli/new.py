"""`ape new`: the file of a new scheme, task or kind of attention, and its test."""

from __future__ import annotations

import builtins
import keyword
import re
import shlex
from importlib import resources
from pathlib import Path
from string import Template
from typing import Annotated, Any

import typer

from ape_cli.cli._app import command
from ape_cli.cli.console import print_commands, print_json, print_result
from ape_cli.cli.options import Json, here
from ape_cli.core.errors import UsageError, pick
from ape_cli.storage import files

# the folder of each kind, in `ape_cli/` and in the tests of a checkout
_FOLDERS = {"scheme": "position", "task": "tasks", "attention": "attention"}
_NEXT = {  # by template
    "scheme": ("ape check {name}", "ape sweep --schemes none,{name} --tasks copy --preset tiny --set steps=400"),
    "content_scheme": (
        "ape check {name}",
        "ape sweep --schemes none,{name} --models decoder --tasks copy --preset tiny --set steps=400",
    ),
    "task": ("ape gen {name} --n 100", "ape train --scheme rope --task {name} --preset tiny"),
    "attention": ("ape check {name}", "ape train --attention {name} --scheme rope --task copy --preset tiny"),
}


@command("ape new scheme first-last")
def new(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="What to create: scheme, task or attention.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, such as first-last.")],
    content: Annotated[
        bool, typer.Option("--content", help="Create a scheme whose scores depend on content, for --model decoder.")
    ] = False,
    to: Annotated[Path, typer.Option("--to", parser=here, metavar="DIR", help="Folder to write to.")] = Path(),
    as_json: Json = False,
) -> None:
    """Create the file of a new scheme, task or attention. Its test is created too. Both are ready to run."""
    from ape_cli import attention, position, tasks

    pick("kind of file", kind, _FOLDERS)
    if content and kind != "scheme":
        raise UsageError("--content applies only to schemes", got=kind, allowed="scheme", fix="leave --content out")
    template = "content_scheme" if content else kind
    stem = name.replace("-", "_")
    name = stem.replace("_", "-")
    if not re.fullmatch(r"[a-z][a-z0-9_]{,39}", stem) or keyword.iskeyword(stem):
        allowed = "lower-case letters, digits and dashes, at most 40, starting with a letter; not a Python keyword"
        fix = "choose a name such as first-last"
        raise UsageError(f"invalid name for a {kind}", got=repr(name), allowed=allowed, fix=fix)
    packages: dict[str, Any] = {"scheme": position, "task": tasks, "attention": attention}
    if name in packages[kind].names():
        allowed = f"a name that `ape {kind}s` does not list"
        raise UsageError(f"the name of the {kind} is taken", got=repr(name), allowed=allowed, fix="choose another name")
    folder = to / "ape_cli" / _FOLDERS[kind]
    in_checkout = [_FOLDERS[kind]] if (folder / "__init__.py").exists() else []
    file, test = folder / f"{stem}.py", to.joinpath("tests", *in_checkout, f"test_{stem}.py")
    for written in (file, test):
        if written.exists():
            fix = "choose another name, or another folder with --to"
            raise UsageError("the file exists", got=written, allowed="a new file", fix=fix)
    files.write_text(test, _text(f"test_{template}", stem))  # the name counts as taken once its own file is there
    files.write_text(file, _text(template, stem))
    commands = [f"python -m pytest {shlex.quote(str(test))}", *(line.format(name=name) for line in _NEXT[template])]
    commands = [f"PYTHONPATH={shlex.quote(str(to))} {line}" for line in commands]
    if as_json:
        print_json({"kind": kind, "name": name, "written": [str(file), str(test)], "next": commands})
        return
    print_result(f"written: {file}")
    print_result(f"written: {test}")
    print_result("next:")
    print_commands(commands)


def _text(template: str, stem: str) -> str:
    """A template, filled in. The class has a name that the template does not use for anything else."""
    text = resources.files("ape_cli.cli").joinpath("templates", f"{template}.py.template").read_text(encoding="utf-8")
    class_name = "".join(part.capitalize() for part in stem.split("_"))
    if class_name in {*dir(builtins), *re.findall(r"\w+", text)}:
        class_name += "Plugin"
    return Template(text).substitute(name=stem.replace("_", "-"), class_name=class_name)
