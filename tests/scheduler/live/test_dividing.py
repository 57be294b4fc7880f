"""Schedulers that divide a cluster in different ways wait for each other."""

from __future__ import annotations

from typing import Any, cast

import pytest

from koord.api.kubernetes.coordination import Lease
from koord.api.machinery.codec import convert
from koord.kube.errors import ApiError, Status
from koord.scheduler.live import dividing
from koord.scheduler.live.dividing import DividedOtherwise, Division, until_one_division
from koord.scheduler.shards import Shard
from tests.kube.manual_clock import ManualClock


def lease(name: str, holder: str = "somewhere", version: str = "1", lasts_s: int = 15) -> Lease:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": lasts_s}
    return convert(Lease, {"metadata": {"name": name, "resourceVersion": version}, "spec": spec})


OTHER = "koord-scheduler-1-of-3"


def test_a_lease_counts_until_it_was_not_renewed_for_its_duration() -> None:
    division = Division("koord-scheduler", Shard(1, 2))
    assert division.others([lease(OTHER), lease("koord-scheduler-2-of-2"), lease("koord-manager")], 0.0) == [OTHER]
    assert division.others([lease(OTHER, version="2")], 10.0) == [OTHER]
    assert division.others([lease(OTHER, version="2")], 24.9) == [OTHER]
    assert division.others([lease(OTHER, version="2")], 25.0) == []
    assert division.others([lease(OTHER, holder="", version="3")], 11.0) == [], "given back"


class Leases:
    def __init__(self, *leases: Lease, error: ApiError | None = None) -> None:
        self.leases, self.error = leases, error

    async def list(self, kind: object, *, namespace: str) -> tuple[Lease, ...]:
        if self.error is not None:
            raise self.error
        return self.leases


async def waits(client: Leases) -> None:
    division = Division("koord-scheduler", Shard(1, 2))
    await until_one_division(cast(Any, client), "koordinator-system", division, ManualClock())


async def test_one_that_waits_for_long_ends_and_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dividing, "ENDS_S", (0.0, 0.0))
    with pytest.raises(DividedOtherwise, match="leases koord-scheduler-1-of-3 are held: --shard must have the same N"):
        await waits(Leases(lease(OTHER)))
    await waits(Leases(lease(OTHER, holder="")))


async def test_without_the_right_to_list_leases_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    await waits(Leases(error=ApiError(Status(code=403, message="no right"))))
    assert "cannot tell whether other schedulers divide the cluster otherwise" in caplog.text
