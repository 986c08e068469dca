"""A Ray cluster, joined or started, and what a user is told when it is not there or too small."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ape_cli.core.errors import ApeError, UsageError

_KNOCK = 10.0  # seconds that a cluster gets to answer at all


@contextmanager
def joined(address: str | None) -> Iterator[Any]:
    """Ray, connected; afterwards disconnected, and a cluster of our own stopped."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if address is None and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    if address is not None and address != "auto":
        _knock(address)
    import ray
    import ray.util.scheduling_strategies

    # somebody's own schemes are on the path; a relative one means the folder that the command was given in
    path = os.pathsep.join(os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)  # noqa: PTH100
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
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
        for number, handler in handlers.items():  # Ray puts its own in their place
            signal.signal(number, handler or signal.SIG_DFL)
    try:
        yield ray
    finally:
        ray.shutdown()


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if "//" in address or not host or not (port.isdecimal() and 0 < int(port[:6]) < 65_536):
        raise UsageError(
            "bad --address", got=repr(address), allowed="HOST:PORT or auto", fix="as `ray start` printed it"
        )
    return host.strip("[]"), int(port)


def _knock(address: str) -> None:
    """Whether anybody is there at all; Ray would ask for minutes."""
    try:
        socket.create_connection(host_and_port(address), timeout=_KNOCK).close()
    except OSError as error:
        raise _unreachable(address, str(error)) from error


def fits(ray: Any, wanted: dict[str, float]) -> None:
    """That some node could hold a task; nothing would ever begin otherwise, and nobody would say so."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(all(node.get(kind, 0) >= count for kind, count in wanted.items()) for node in nodes):
        have = "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in nodes)
        raise UsageError(
            "no node of the Ray cluster has room for a trial",
            got=f"--cpus-per-trial {wanted['CPU']:g}, --gpus-per-trial {wanted['GPU']:g}",
            allowed=f"what one of its nodes has: {have}",
            fix="ask for less, or add a node",
        )


def _unreachable(address: str | None, reason: str) -> ApeError:
    return ApeError(
        "cannot join the Ray cluster" if address else "cannot start Ray",
        got=f"{address or 'a cluster of our own'}: {reason}",
        fix="give the address of `ray start --head`, and its token: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or "
        "~/.ray/auth_token (`ray get-auth-token --generate`)",
    )
