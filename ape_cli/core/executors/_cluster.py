"""Join or start a Ray cluster, with errors for a cluster that is missing or too small."""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from ape_cli.core.errors import ApeError, UsageError

_KNOCK = 10.0  # seconds within which a cluster must accept a connection


@contextmanager
def joined(address: str | None) -> Iterator[Any]:
    """Connect to the Ray cluster at `address`, or start one if it is None, and yield the module `ray`.

    After the block the connection is closed, and a cluster that was started here is stopped.

    Raises `ApeError` if the cluster cannot be joined or started, and `UsageError` for an invalid address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if address is None and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    if address is not None and address != "auto":  # Ray itself would try for minutes
        try:
            socket.create_connection(host_and_port(address), timeout=_KNOCK).close()
        except OSError as error:
            raise _unreachable(address, str(error)) from error
    import ray
    import ray.util.scheduling_strategies

    # a user's own schemes are on this path; relative entries refer to the folder where the command was started
    path = os.pathsep.join(os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)  # noqa: PTH100
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        # Ray puts the current folder on the path of its workers. The folder of this package is on the path anyway.
        with chdir(Path(__file__).parents[3]):
            ray.init(
                address=address or "local",
                runtime_env={"env_vars": {"PYTHONPATH": path}} if path else None,
                logging_level=logging.ERROR,
                log_to_driver=False,
                include_dashboard=None if address else False,
            )
    except (ConnectionError, ray.exceptions.RayError, RuntimeError, ValueError, TimeoutError) as error:
        raise _unreachable(address, str(error).strip().splitlines()[0]) from error
    finally:
        for number, handler in handlers.items():  # Ray replaces them by its own
            signal.signal(number, handler or signal.SIG_DFL)
    try:
        yield ray
    finally:
        ray.shutdown()


def host_and_port(address: str) -> tuple[str, int]:
    """Split an address HOST:PORT. Raises `UsageError` if it has another form."""
    match = re.fullmatch(r"\[?([^@/]+?)\]?:(\d{1,5})", address)
    if match is None:
        shown = address.rpartition("@")[2]  # what stands before an @ may be a secret
        raise UsageError("bad `address`", got=shown, allowed="HOST:PORT or auto", fix="as `ray start` printed it")
    return match[1], int(match[2])


def check_room(ray: Any, cpus: float, gpus: float) -> None:
    """Check that some node of the cluster has so many CPUs and GPUs, because Ray would wait forever otherwise.

    Raises `UsageError` if no node has them.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        have = "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in nodes)
        raise UsageError(
            "no node of the Ray cluster has room for a trial",
            got=f"`cpus_per_trial={cpus:g}`, `gpus_per_trial={gpus:g}`",
            allowed=f"what one of its nodes has: {have}",
            fix="ask for less, or add a node",
        )


def _unreachable(address: str | None, reason: str) -> ApeError:
    """The error for a cluster that cannot be joined or started."""
    return ApeError(
        "cannot join the Ray cluster" if address else "cannot start Ray",
        got=f"{address or 'a cluster of our own'}: {reason}",
        fix="give the address of `ray start --head`, and its token: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or "
        "~/.ray/auth_token (`ray get-auth-token --generate`)",
    )
