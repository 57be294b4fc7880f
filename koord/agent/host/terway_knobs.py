"""Files that tell Terway, a network plugin, about bandwidth: each is one setting, as a whole.

They are moved into place whole, so that Terway never reads half of one; a file that did not exist before is
removed in the end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from koord.agent.host.knobs import Form, Knob, Place

if TYPE_CHECKING:
    from koord.agent.host.cgroups import Cgroups

HOME: Final = "var/lib/terway"
"""Where Terway keeps its own files: it is installed where this is."""
_FOLDER: Final = f"{HOME}/qos"
ABSENT: Final = "absent"


@dataclass(frozen=True, slots=True)
class _WholeFile:
    name: str

    def has(self, cgroups: Cgroups, directory: str) -> bool:
        return cgroups.files.exists(HOME)

    def text(self, cgroups: Cgroups, directory: str, ours: Collection[str]) -> str:
        try:
            return cgroups.files.once(self.file(cgroups, directory)).decode(errors="replace")
        except FileNotFoundError:
            return ABSENT

    def put(self, cgroups: Cgroups, directory: str, text: str, ours: Collection[str]) -> None:
        path = cgroups.files.path(self.file(cgroups, directory))
        if text == ABSENT:
            try:
                os.unlink(path)
            except FileNotFoundError:
                return
            return
        if not cgroups.files.exists(HOME):
            raise FileNotFoundError(errno.ENOENT, "Terway is not installed here", HOME)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{path}.koord", "w") as out:
            out.write(text)
        os.replace(f"{path}.koord", path)

    def file(self, cgroups: Cgroups, directory: str) -> str:
        return f"{_FOLDER}/{self.name}"

    def is_ours(self, original: str, wrote: Collection[str], shown: str) -> bool:
        return shown in wrote


def _whole(name: str) -> Knob:
    place = Place(name, Form(str, str), means=_WholeFile(name))
    return Knob(f"terway {name}", place, place, is_of_host=True)


PODS: Final = _whole("pod.json")
NODE: Final = _whole("global_bps_config")


def terway_knob_named(name: str) -> Knob | None:
    return next((knob for knob in (NODE, PODS) if knob.name == name), None)
