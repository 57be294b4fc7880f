"""Groups of resctrl, and in which of them a pod's tasks are, as things that can be set like any other.

A group's value is its schemata, or that it is not there: the agent removes what it made, and puts back what it found. A
pod is in a group if all its tasks are, except tasks that another program has moved elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from koord.agent.host import resctrl
from koord.agent.host.knobs import Form, Knob, Place
from koord.agent.host.means import listed, parts, until_none_is_left
from koord.agent.host.tasks import tasks_in

if TYPE_CHECKING:
    from koord.agent.host.cgroups import Cgroups

ABSENT: Final = "absent"
_NAMED: Final = "resctrl group "


def _read(text: str) -> str:
    if text != ABSENT and resctrl.write(resctrl.parse(text)) != text:
        raise ValueError(f"{text[:60]!r} is no schemata: valid is as in L3:0=ff;1=ff MB:0=100;1=100")
    return text


def _is_as(shown: str, wanted: str) -> bool:
    """Whether a group has all that is wanted. What is not named may be as it likes."""
    if ABSENT in (shown, wanted):
        return shown == wanted
    has, asked = resctrl.parse(shown), resctrl.parse(wanted)
    return all(has.get(name, {}).get(cache) == share for name in asked for cache, share in asked[name].items())


@dataclass(frozen=True, slots=True)
class _Group:
    name: str

    def has(self, cgroups: Cgroups, directory: str) -> bool:
        return not resctrl.absence(cgroups.files)

    def text(self, cgroups: Cgroups, directory: str, ours: Collection[str]) -> str:
        text = cgroups.files.text_if_any(self.file(cgroups, directory))
        return resctrl.write(resctrl.parse(text)) if text else ABSENT

    def put(self, cgroups: Cgroups, directory: str, text: str, ours: Collection[str]) -> None:
        files = cgroups.files
        is_there = files.exists(self.file(cgroups, directory))
        if text == ABSENT:
            if is_there:
                resctrl.remove(files, self.name)
            return
        if not is_there:
            resctrl.make(files, self.name)
        resctrl.set_schemata(files, self.name, text)

    def file(self, cgroups: Cgroups, directory: str) -> str:
        return f"{resctrl.MOUNT}/{self.name}/schemata"

    def is_ours(self, original: str, wrote: Collection[str], shown: str) -> bool:
        """A group that was made here is, whatever it holds: an agent may be killed before it fills it."""
        return shown != ABSENT and (original == ABSENT or any(_is_as(shown, text) for text in wrote))


@lru_cache(1024)
def group(name: str) -> Knob:
    """`name` is one that the agent gives."""
    place = Place("schemata", Form(str, _read, alike=_is_as), means=_Group(name))
    return Knob(f"{_NAMED}{name}", place, place, is_of_host=True)


def group_named(name: str) -> Knob | None:
    own = name.removeprefix(_NAMED)
    return group(own) if name.startswith(_NAMED) and resctrl.is_own(own) else None


class _Membership:
    """Of the tasks in a cgroup and below. Shown are the groups in which some are: the root group, and the agent's."""

    def has(self, cgroups: Cgroups, directory: str) -> bool:
        return not resctrl.absence(cgroups.files)

    def text(self, cgroups: Cgroups, directory: str, ours: Collection[str]) -> str:
        where = cgroups.read_now.get(resctrl.MOUNT)
        if where is None:
            where = _look_again(cgroups)
        shown = {where.get(task, resctrl.ROOT_GROUP) for task in tasks_in(cgroups, directory)}
        return listed(filter(_is_shown, shown))

    def put(self, cgroups: Cgroups, directory: str, text: str, ours: Collection[str]) -> None:
        """Tasks that were found in several groups go to the root group, in which all begin."""
        target = min(parts(text), default=resctrl.ROOT_GROUP)

        def groups_now() -> Callable[[int], str]:
            where = _look_again(cgroups)
            return lambda task: where.get(task, resctrl.ROOT_GROUP)

        until_none_is_left(
            lambda: tasks_in(cgroups, directory),
            groups_now,
            lambda name: name != target and _is_shown(name),
            lambda task: resctrl.move(cgroups.files, task, target),
        )

    def file(self, cgroups: Cgroups, directory: str) -> str:
        return resctrl.tasks_file(resctrl.ROOT_GROUP)

    def is_ours(self, original: str, wrote: Collection[str], shown: str) -> bool:
        return bool(parts(shown) & {*wrote})


def _look_again(cgroups: Cgroups) -> Mapping[int, str]:
    groups = cgroups.read_now[resctrl.MOUNT] = resctrl.groups_of_tasks(cgroups.files)
    return groups


def _is_shown(name: str) -> bool:
    return name == resctrl.ROOT_GROUP or resctrl.is_own(name)


def _read_groups(text: str) -> str:
    if not all(map(_is_shown, parts(text))):
        raise ValueError(f"{text[:60]!r} names no groups of the agent's")
    return text


def _are_in(shown: str, wanted: str) -> bool:
    return parts(shown) <= parts(wanted)


_MEMBERSHIP: Final = Place("tasks", Form(str, _read_groups, alike=_are_in), "cpu", means=_Membership())
RESCTRL_TASKS: Final = Knob("resctrl tasks", _MEMBERSHIP, _MEMBERSHIP)
"""The group in which the tasks of a cgroup are, and of those below it."""
