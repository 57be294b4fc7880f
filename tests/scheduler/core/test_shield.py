"""A plugin that fails over one object, or altogether, keeps no other plugin and no other object from its turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODE_SLOS, NODES, PODS, RESERVATIONS
from koord.api.machinery.shield import Failure, Shield
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind
from koord.scheduler.core.moment import Moment
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.controller import Controller
from koord.scheduler.framework.plugin import Plugin, Taking
from koord.scheduler.framework.refusals import Refusals
from koord.scheduler.framework.writes import Patch, Write
from koord.scheduler.own_plugins import OwnPlugin
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.builders import node
from tests.scheduler.reservations import MADE_S, pod, reservation


def _fail_to_write() -> Iterable[Write]:
    raise RuntimeError("nothing to write")


class FailingRefusals(Refusals):
    def refuses(self, ask: Ask) -> str | None:
        return None

    def eased(self, *, idle: bool) -> Sequence[str]:
        raise RuntimeError("nobody")


class Fails(Plugin):
    """At every point that is about objects and the clock rather than about one decision."""

    name = "Fails"

    def takes(self) -> Iterable[Taking]:
        yield Taking(PODS, self._fail, self._fail)
        yield Taking(NODE_SLOS, self._fail, self._fail)

    def _fail(self, thing: Any) -> None:
        raise RuntimeError(f"not {thing.metadata.name}")

    def attach(self, cluster: Cluster) -> None:
        self.controller, self.refusals = Controller(_fail_to_write), FailingRefusals()


def core(shield: Shield | None) -> Core:
    found = Core(profiles_of(SHIPPED, [OwnPlugin(Fails)]), alone=True, now=Moment(MADE_S, 0.0), shield=shield)
    found.put(NODES, node("n0"))
    return found


def test_others_go_on_and_each_failure_is_told() -> None:
    failures: list[Failure] = []
    found = core(Shield(failures.append))
    found.put(RESERVATIONS, reservation(on="n0", ttl="1s"))
    found.put(PODS, pod("web"))
    assert isinstance(found.decide(), Bind)
    found.at(Moment(MADE_S + 2, 2.0))
    (expired,) = [write for write in found.take_writes() if isinstance(write, Patch) and write.kind is RESERVATIONS]
    assert expired.body["status"]["phase"] == "Failed"
    assert {(failure.doing, str(failure.error)) for failure in failures} == {
        ("heed it", "not reservation:r"),
        ("heed it", "not web"),
        ("write what Fails has to say", "nothing to write"),
        ("say which refused pods may go", "nobody"),
    }
    assert {failure.meta.key for failure in failures if failure.meta is not None} >= {"shop/web"}


def test_without_a_shield_nothing_is_hidden() -> None:
    with pytest.raises(RuntimeError, match="not web"):
        core(None).put(PODS, pod("web"))
