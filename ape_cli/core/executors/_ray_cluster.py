"""The connection to a Ray cluster: how it is joined or started, and how its loss is noticed and explained."""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from ape_cli.core.errors import ApeError, UsageError

_KNOCK = 10.0  # seconds within which a cluster must accept a connection
_CHECK = 2.0  # seconds between two checks whether it still does
_PATIENCE = 20.0  # seconds without a connection after which a cluster is lost; the head of a cluster can be restarted
REPEAT = "run the same command again to continue; what has finished is kept"


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
        what, got = "no node of the Ray cluster has room for a trial", f"{cpus:g} CPUs, {gpus:g} GPUs"
        raise UsageError(what, got=got, allowed=f"the resources of a node: {have}", fix="ask for less, or add a node")


def _unreachable(address: str | None, reason: str) -> ApeError:
    """The error for a cluster that cannot be joined or started."""
    what, of = ("cannot join the Ray cluster", address) if address else ("cannot start Ray", "a cluster of our own")
    fix = "give the address of `ray start --head`, and its token (RAY_AUTH_TOKEN or ~/.ray/auth_token)"
    return ApeError(what, got=f"{of}: {reason}", fix=fix)


class LostClusterError(ApeError):
    """The cluster was lost."""


class Pulse:
    """Checks that the head of the cluster accepts connections. Ray ends this process a minute after it stops to."""

    def __init__(self, head: str, address: str | None) -> None:
        """`head` is HOST:PORT of the control store of the cluster, which the user calls `address`."""
        self.head, self.address = host_and_port(head), address
        self.checked = self.answered = time.monotonic()

    def check(self) -> None:
        """Raise an `ApeError` if the head has not accepted a connection for `_PATIENCE` seconds."""
        now = time.monotonic()
        if now - self.checked < _CHECK:
            return
        self.checked = now
        try:
            socket.create_connection(self.head, timeout=_CHECK).close()
            self.answered = now
        except OSError as error:
            if now - self.answered > _PATIENCE:
                raise lost_cluster(self.address, str(error)) from error


def lost_cluster(address: str | None, reason: str) -> LostClusterError:
    """The error for a cluster that was lost."""
    fix = f"start the cluster again, and {REPEAT}" if address else REPEAT
    return LostClusterError("the Ray cluster was lost", got=f"{address or 'a cluster of our own'}: {reason}", fix=fix)


@contextmanager
def silent() -> Iterator[None]:
    """Within the block nothing is printed on stdout. Ray prints messages about its nodes and workers there."""
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        yield
