"""From the names that people give disks to the kernel's numbers.

A device (`/dev/sdb`, `sdb`, a link to one), a volume group of LVM, or a volume of a pod. Limits hold for whole disks:
a partition stands for its disk, and a volume group for the disks below it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from koord.agent.host.files import Files

_BLOCKS: Final = "sys/class/block"
_PODS: Final = "var/lib/kubelet/pods"
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def of_device(files: Files, name: str) -> tuple[str, ...]:
    """Empty where there is none of that name."""
    path = os.path.realpath(files.path(f"dev/{name.removeprefix('/dev/')}"))
    block = os.path.basename(path)
    if not block or "/" in block or not files.exists(f"{_BLOCKS}/{block}"):
        return ()
    number = _disk(files, block)
    return (number,) if number else ()


def of_group(files: Files, name: str) -> tuple[str, ...]:
    """The disks below the volumes of a group."""
    disks: dict[str, None] = {}
    prefix = f"{name.replace('-', '--')}-"
    for block in files.names(_BLOCKS):
        own = files.text_if_any(f"{_BLOCKS}/{block}/dm/name")
        # In the name of a volume a single hyphen parts the group from it; others are doubled.
        if own.startswith(prefix) and not own.removeprefix(prefix).startswith("-"):
            disks |= dict.fromkeys(_below(files, block, depth=8))
    return tuple(sorted(disks))


def of_pod_volume(files: Files, uid: str, name: str) -> tuple[str, ...]:
    """By where kubelet has mounted it: its directory has the volume's name, or the name of the PersistentVolume."""
    for line in files.text_if_any("proc/1/mountinfo").splitlines():
        fields = line.split()
        if len(fields) < 5:
            continue
        number, path = fields[2], _ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4]).strip("/")
        volume = path.removeprefix(f"{_PODS}/{uid}/volumes/").split("/")
        if path.startswith(f"{_PODS}/{uid}/volumes/") and volume[1:2] == [name] and not number.startswith("0:"):
            return (number,)
    return ()


def _below(files: Files, block: str, depth: int) -> Iterator[str]:
    slaves = files.names(f"{_BLOCKS}/{block}/slaves")
    for slave in slaves if depth else ():
        yield from _below(files, slave, depth - 1)
    if not slaves and (number := _disk(files, block)):
        yield number


def _disk(files: Files, block: str) -> str:
    """The number of a disk, or of the disk that a partition is part of."""
    own = f"{_BLOCKS}/{block}"
    if files.exists(f"{own}/partition"):
        whole = os.path.basename(os.path.dirname(os.path.realpath(files.path(own))))
        own = f"{_BLOCKS}/{whole}"
    return files.text_if_any(f"{own}/dev")
