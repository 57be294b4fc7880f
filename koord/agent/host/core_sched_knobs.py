"""The cookie of a container's tasks, as something that can be set like any other.

A container has a cookie if all its tasks have it that have none, or one of the agent's. What others gave is left alone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from koord.agent.host.core_sched import NONE
from koord.agent.host.knobs import Form, Knob, Place
from koord.agent.host.means import listed, none_but, numbers_of, parts, until_none_is_left
from koord.agent.host.tasks import tasks_in

if TYPE_CHECKING:
    from koord.agent.host.cgroups import Cgroups


class _Cookie:
    def has(self, cgroups: Cgroups, directory: str) -> bool:
        return not cgroups.cookies.absence()

    def text(self, cgroups: Cgroups, directory: str, ours: Collection[str]) -> str:
        own_cookies = _known(cgroups, ours)
        cookies = {cgroups.cookies.of(task) for task in tasks_in(cgroups, directory)}
        return listed(str(cookie) for cookie in cookies if cookie is not None and str(cookie) in own_cookies)

    def put(self, cgroups: Cgroups, directory: str, text: str, ours: Collection[str]) -> None:
        own_cookies, target = _known(cgroups, ours), min(parts(text), default=str(NONE))

        def cookie_of(task: int) -> str | None:
            cookie = cgroups.cookies.of(task)
            return None if cookie is None else str(cookie)

        until_none_is_left(
            lambda: tasks_in(cgroups, directory),
            lambda: cookie_of,
            lambda cookie: cookie != target and cookie in own_cookies,
            lambda task: cgroups.cookies.give(int(target), task),
        )

    def file(self, cgroups: Cgroups, directory: str) -> str:
        return cgroups.name("cpu", directory, "core_sched")

    def is_ours(self, original: str, wrote: Collection[str], shown: str) -> bool:
        return bool(parts(shown) & {*wrote})


def _known(cgroups: Cgroups, ours: Collection[str]) -> set[str]:
    return {str(NONE), *ours, *map(str, cgroups.cookies.held())}


_PLACE: Final = Place("core_sched", Form(str, numbers_of("cookies"), alike=none_but), "cpu", means=_Cookie())
CORE_COOKIE: Final = Knob("core_sched cookie", _PLACE, _PLACE)
