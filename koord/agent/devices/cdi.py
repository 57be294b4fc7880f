"""The names that a node's CDI specifications give to devices: nvidia.com/gpu=GPU-5e...

Vendors' tools write them (`nvidia-ctk cdi generate`), and container runtimes read them. A runtime that is asked for a
name which no file gives refuses the container, so koord asks only for names that it has seen. As the runtimes do, a
name in the second directory counts over one in the first, and one that two files of a directory give is invalid.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from koord.agent.host.files import Files
from koord.api.machinery.faults import BadInput

log = logging.getLogger(__name__)

DIRECTORIES: Final = ("etc/cdi", "var/run/cdi")
MOST_BYTES: Final = 4 << 20
_ENDINGS: Final = (".json", ".yaml", ".yml")


class _Named(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct):
    kind: str
    devices: list[_Named] = []


class CdiSpecs:
    """Asked every few seconds: a file that has not changed is not read again."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[str, tuple[tuple[int, int, int], tuple[str, ...]]] = {}
        "By file, what tells its version, and its names."

    def names(self) -> tuple[str, ...]:
        seen: dict[str, tuple[tuple[int, int, int], tuple[str, ...]]] = {}
        names_once: set[str] = set()
        for directory in DIRECTORIES:
            given: dict[str, int] = {}
            for path in self._paths(directory):
                about = self._about(path)
                if about is None:
                    continue
                entry = self._known.get(path)
                seen[path] = entry if entry is not None and entry[0] == about else (about, self._read(path, about))
                for name in seen[path][1]:
                    given[name] = given.get(name, 0) + 1
            names_once = (names_once - given.keys()) | {name for name, times in given.items() if times == 1}
        self._known = seen
        return tuple(sorted(names_once))

    def _paths(self, directory: str) -> Iterator[str]:
        for name in self._files.names(directory):
            if name.endswith(_ENDINGS):
                yield f"{directory}/{name}"

    def _about(self, path: str) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._files.path(path))
        except OSError:
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None

    def _read(self, path: str, about: tuple[int, int, int]) -> tuple[str, ...]:
        try:
            if about[2] > MOST_BYTES:
                raise ValueError(f"it has {about[2]} bytes, and at most {MOST_BYTES} are read")
            return names_in(self._files.once(path).decode())
        except (OSError, ValueError, BadInput) as error:
            log.warning("/%s names no devices: %s", path, error)
            return ()


def names_in(text: str) -> tuple[str, ...]:
    """The names in a YAML or JSON text. Raises ValueError or BadInput if it is not a specification."""
    # Most nodes have no CDI file, and need no YAML.
    from koord.api.text import yaml

    spec = msgspec.convert(yaml.load(text, "specification"), _Spec)
    vendor, _, kind = spec.kind.partition("/")
    if not vendor or not kind:
        raise ValueError(f"kind is {spec.kind[:80]!r}: it must be as in nvidia.com/gpu")
    return tuple(f"{spec.kind}={device.name}" for device in spec.devices)


def named(names: Iterable[str], device: str, kind: str = "") -> str | None:
    """Of those names the one of a device, by what nothing else is called (a UUID, a bus id). `kind`: a part of the
    name before the "="; empty: whatever it is."""
    for name in names:
        of, _, own = name.partition("=")
        if own == device and kind in of:
            return name
    return None
