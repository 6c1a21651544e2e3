"""Ports on loopback for the engines."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from benchharness.errors import InfrastructureError

LOOPBACK = "127.0.0.1"
LOWEST = 20000
TRIES = 200


def free_port() -> int:
    """A port on loopback that nobody listens on now.

    It lies below the range from which the kernel serves outgoing connections, so that no client's
    connection takes it between this call and the engine's own bind. Raises InfrastructureError.
    """
    below = _first_ephemeral_port()
    choice = random.SystemRandom()
    for _ in range(TRIES):
        port = choice.randrange(LOWEST, below) if below > LOWEST + 1000 else _any_port()
        if port_is_free(port):
            return port
    raise InfrastructureError(
        f"no free port was found on {LOOPBACK} in {TRIES} tries", "end some of the servers on this machine"
    )


def port_is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections that linger after a server's end don't keep its port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _any_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _first_ephemeral_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0
