"""The namespaces of a process of this machine, for commands and connections that join it.

Containers of a local node share the machine's namespaces, unless their command has made its own (`unshare -n ...`).
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

JOINED: Final = ("user", "cgroup", "ipc", "uts", "net", "mnt")
"""Those that a process can enter before it becomes the command: the root comes with the last."""

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def join(namespace: int) -> None:
    """This thread enters a namespace, given by an open file. Raises OSError."""
    if _LIBC.setns(namespace, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"a namespace of the container cannot be entered: {os.strerror(number)}")


@contextmanager
def others_of(pid: int, kinds: tuple[str, ...] = JOINED) -> Iterator[list[int]]:
    """Open files of the namespaces in which the process is and this one is not."""
    opened: list[int] = []
    try:
        for kind in kinds:
            with suppress(OSError):
                there = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
                opened.append(there)
                if os.path.samestat(os.fstat(there), os.stat(f"/proc/self/ns/{kind}")):
                    os.close(opened.pop())
        yield opened
    finally:
        for there in opened:
            os.close(there)


def socket_in(pid: int, family: socket.AddressFamily) -> socket.socket:
    """A socket in the network of the process. Call it in a thread: it blocks for a moment, and its thread enters that
    network and comes back. Raises OSError."""
    with others_of(pid, ("net",)) as networks:
        if not networks:
            return socket.socket(family, socket.SOCK_STREAM)
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            join(networks[0])
            try:
                return socket.socket(family, socket.SOCK_STREAM)
            finally:
                join(own)
        finally:
            os.close(own)
