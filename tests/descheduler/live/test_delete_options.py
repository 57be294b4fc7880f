"""How a job's pod is deleted: all that its deleteOptions say reaches the API server."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kinds import Kind
from koord.descheduler.live.carrying_out import CarryingOut
from koord.descheduler.migration_step import EvictPod, Policy
from koord.kube.client import _delete_options
from koord.kube.errors import Conflict, Status, error_for
from tests.descheduler.test_migration import job
from tests.kube.manual_clock import ManualClock

GIVEN = {
    "gracePeriodSeconds": 7,
    "preconditions": {"resourceVersion": "12"},
    "propagationPolicy": "Foreground",
    "dryRun": ["All"],
}


class Listener:
    def __init__(self, refusal: Exception | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self._refusal = refusal

    def limited(self, **_: Any) -> Listener:
        return self

    async def evict(self, namespace: str, pod: str, *, uid: str, options: dict[str, Any]) -> None:
        self.sent.append(_delete_options(uid, "", None, "", False, options))
        if self._refusal is not None:
            raise self._refusal

    async def delete(self, kind: Kind[Any], name: str, *, namespace: str, uid: str, options: dict[str, Any]) -> None:
        await self.evict(namespace, name, uid=uid, options=options)


def carrying_out(listener: Any) -> CarryingOut:
    return CarryingOut(listener, ManualClock(0.0), list)


@pytest.mark.parametrize("policy", ["Eviction", "Delete"])
async def test_every_field_reaches_the_server_beside_the_uid(policy: Policy) -> None:
    listener = Listener()
    await carrying_out(listener).act(job(), EvictPod("default", "web-1", "u", policy, GIVEN), "5m")
    (sent,) = listener.sent
    assert {key: sent[key] for key in GIVEN if key != "preconditions"} == {
        key: value for key, value in GIVEN.items() if key != "preconditions"
    }
    assert sent["preconditions"] == {"uid": "u", "resourceVersion": "12"}


async def test_preconditions_that_do_not_hold_are_told_and_a_uid_that_is_gone_is_not() -> None:
    conflict = error_for(Status(code=409, reason="Conflict", message="the version is 13"))
    with pytest.raises(Conflict):
        await carrying_out(Listener(conflict)).act(job(), EvictPod("default", "web-1", "u", "Eviction", GIVEN), "5m")
    await carrying_out(Listener(conflict)).act(job(), EvictPod("default", "web-1", "u", "Eviction", {}), "5m")
