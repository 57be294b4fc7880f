"""Which device files the processes of a cgroup may open: all but those that are denied, whatever user they run as.

On cgroup v1 the kernel has a list for each directory. On v2 it asks a small program that is attached to the directory
and stays as long as it does. The program is put together here, since it is a handful of comparisons.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from koord.agent.host.cgroups import Version

_BPF: Final = {"x86_64": 321, "aarch64": 280}
"""The number of the system call."""
_PROG_LOAD: Final = 5
_PROG_ATTACH: Final = 8
_CGROUP_DEVICE_PROGRAM: Final = 15
_CGROUP_DEVICE: Final = 6
_BESIDE_OTHERS: Final = 2
_CHAR: Final = 2
_ATTR_BYTES: Final = 128
MOST_DENIED: Final = 1000


class AccessError(Exception):
    """The kernel does not let devices be denied here. Says why."""


class Number(NamedTuple):
    """Of a character device."""

    major: int
    minor: int


def number_of(path: str) -> Number | None:
    """None if the device file does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return Number(os.major(status.st_rdev), os.minor(status.st_rdev))


def deny(directory: str, version: Version, numbers: Sequence[Number]) -> None:
    """For all processes in a cgroup and below it, for good. `directory`: on v1 that of the devices hierarchy. Raises
    AccessError."""
    if not numbers:
        return
    if len(numbers) > MOST_DENIED:
        raise AccessError(f"{len(numbers)} devices are too many to deny")
    try:
        if version is Version.V1:
            for number in numbers:
                (Path(directory) / "devices.deny").write_text(f"c {number.major}:{number.minor} rwm")
        else:
            _attach(directory, program(numbers))
    except OSError as error:
        raise AccessError(f"devices of others cannot be denied in {directory}: {error.strerror or error}") from error


def program(numbers: Sequence[Number]) -> bytes:
    """What the kernel runs whenever a device is opened: 0 denies, 1 allows."""
    load_type, mask_type = _op(0x61, 2, 1, 0), _op(0x54, 2, imm=0xFFFF)
    load_major, load_minor = _op(0x61, 3, 1, 4), _op(0x61, 4, 1, 8)
    checks = b""
    for index, number in enumerate(numbers):
        to_deny = 2 * (len(numbers) - index - 1) + 2
        checks += _op(0x55, 3, off=1, imm=number.major) + _op(0x15, 4, off=to_deny, imm=number.minor)
    body = load_major + load_minor + checks
    is_other_kind = _op(0x55, 2, off=len(body) // 8, imm=_CHAR)
    allow, denied = _op(0xB7, 0, imm=1) + _op(0x95), _op(0xB7, 0, imm=0) + _op(0x95)
    return load_type + mask_type + is_other_kind + body + allow + denied


def _op(code: int, to: int = 0, source: int = 0, off: int = 0, imm: int = 0) -> bytes:
    return struct.pack("<BBhi", code, to | source << 4, off, imm)


def _attach(directory: str, code: bytes) -> None:
    text, license_ = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"GPL")
    load = struct.pack(
        "<IIQQ", _CGROUP_DEVICE_PROGRAM, len(code) // 8, ctypes.addressof(text), ctypes.addressof(license_)
    )
    loaded = _bpf(_PROG_LOAD, load)
    try:
        target = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(_PROG_ATTACH, struct.pack("<IIII", target, loaded, _CGROUP_DEVICE, _BESIDE_OTHERS))
        finally:
            os.close(target)
    finally:
        os.close(loaded)


def _bpf(command: int, attributes: bytes) -> int:
    call = _BPF.get(platform.machine())
    if call is None:
        raise AccessError(f"device programs are not known on {platform.machine()}; known are {', '.join(_BPF)}")
    buffer = ctypes.create_string_buffer(attributes, _ATTR_BYTES)
    result: int = _LIBC.syscall(call, command, buffer, _ATTR_BYTES)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


_LIBC: Final = ctypes.CDLL(None, use_errno=True)
