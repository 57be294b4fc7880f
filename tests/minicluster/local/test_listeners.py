"""Which process listens on a port, read from the kernel's own tables."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from koord_minicluster.local.listeners import Family, Listener, listener_of, listeners


def kernels(family: Family) -> list[Listener]:
    table = "tcp" if family == 4 else "tcp6"
    return list(listeners(Path(f"/proc/self/net/{table}").read_text(), family))


@pytest.mark.parametrize(
    ("family", "bound", "reached"),
    [
        (4, "127.0.0.1", "127.0.0.1"),
        (4, "127.0.0.9", "127.0.0.9"),
        (4, "0.0.0.0", "127.0.0.1"),
        (6, "::1", "::1"),
        (6, "::", "::1"),
    ],
)
def test_a_listener_is_found_and_can_be_reached(family: Family, bound: str, reached: str) -> None:
    with socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6) as server:
        try:
            server.bind((bound, 0))
        except OSError:
            pytest.skip(f"{bound} is not on this machine")
        server.listen()
        port, inode = server.getsockname()[1], os.fstat(server.fileno()).st_ino
        listener = listener_of({inode}, port, kernels(family))
        assert listener is not None
        assert (listener.address, listener.reached_at) == (bound, reached)
        socket.create_connection((listener.reached_at, port), timeout=10).close()


def test_a_socket_of_another_process_or_one_that_does_not_listen_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as idle:
        port = server.getsockname()[1]
        table = kernels(4)
        assert listener_of({os.fstat(idle.fileno()).st_ino}, port, table) is None
        assert listener_of({os.fstat(server.fileno()).st_ino}, port + 1, table) is None


def test_of_several_the_one_for_all_addresses_comes_first() -> None:
    one = Listener(4, "127.0.0.1", 80, 1)
    everywhere = Listener(6, "::", 80, 2)
    assert listener_of({1, 2}, 80, [one, everywhere]) is everywhere
