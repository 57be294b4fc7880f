"""Reservations of GPUs: what a template requests as `koordinator.sh/gpu` serves pods that the webhook has completed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord.admission.device_resources import completed
from koord.api.kinds import DEVICES
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.scheduler.core.decision import Bind, Nowhere
from tests.scheduler.builders import node
from tests.scheduler.plugins.devices.machines import K, device, gpu, held
from tests.scheduler.reservations import World, pod, reservation

GPU = f"{K}/gpu"


def world(gpus: int = 2) -> World:
    """One node, with what the manager writes on it for its GPUs."""
    percent = str(100 * gpus)
    offers = {f"{K}/{name}": percent for name in ("gpu", "gpu-core", "gpu-memory-ratio")}
    found = World(node("n0", cpu="64", memory="128Gi", extended={**offers, f"{K}/gpu-memory": f"{80 * gpus}Gi"}))
    found.core.put(DEVICES, device("n0", [gpu(i) for i in range(gpus)]))
    return found


def asking(name: str, percent: int, app: str = "web", **more: Any) -> Pod:
    """A pod that requests GPUs, completed by the webhook."""
    manifest: Any = msgspec.to_builtins(pod(name, more={GPU: str(percent)}, app=app, **more))
    return convert(Pod, completed(manifest))


def reserving(percent: int, **spec: Any) -> World:
    found = world()
    found.put(reservation("r", cpu="4", more={GPU: str(percent)}, **{"allocateOnce": False, **spec}))
    assert found.settle() == {"reservation:r": "n0"}
    return found


@pytest.mark.parametrize("policy", ["", "Aligned", "Restricted"])
def test_an_owner_gets_the_gpus_that_are_reserved_and_a_stranger_does_not(policy: str) -> None:
    cluster = reserving(200, **({"allocatePolicy": policy} if policy else {}))
    cluster.put(asking("stranger", 100, app="other"))
    assert isinstance(cluster.decide(), Nowhere)
    cluster.put(asking("owner", 200))
    assert cluster.settle()["owner"] == "n0"
    assert cluster.pods["shop/owner"].metadata.annotations["scheduling.koordinator.sh/reservation-allocated"]


def test_owners_that_share_a_reserved_gpu_get_no_more_than_is_reserved() -> None:
    cluster = reserving(100, allocatePolicy="Restricted")
    cluster.put(asking("a", 50), asking("b", 50), asking("c", 50, affinity='{"name": "r"}'))
    placed = cluster.settle()
    assert {"a", "b"} <= placed.keys()
    assert "c" not in placed


def test_its_status_counts_by_the_names_that_owners_request() -> None:
    cluster = reserving(100)
    cluster.put(asking("owner", 50))
    cluster.settle()
    status = cluster.reservations["r"].status
    assert dict(status.allocatable) == {"cpu": "4", f"{K}/gpu-core": "100", f"{K}/gpu-memory-ratio": "100"}
    assert dict(status.allocated) == {"cpu": "1", f"{K}/gpu-core": "50", f"{K}/gpu-memory-ratio": "50"}


def test_one_that_says_gpu_in_its_status_already_lends_the_same() -> None:
    cluster = world(1)
    got = held(gpu={0: {"gpu-core": 100, "gpu-memory-ratio": 100, "gpu-memory": 80 << 30}})
    cluster.put(reservation("r", cpu="4", more={GPU: "100"}, on="n0", annotations=got, allocateOnce=False))
    cluster.put(asking("owner", 100))
    assert cluster.settle()["owner"] == "n0"
    allocated = dict(cluster.reservations["r"].status.allocated)
    assert allocated == {"cpu": "1", f"{K}/gpu-core": "100", f"{K}/gpu-memory-ratio": "100"}


def test_the_number_of_cards_is_no_amount_of_a_reservation() -> None:
    """A template may say gpu.shared, too: two owners that share its one card request one card each."""
    cluster = world(1)
    more = {f"{K}/gpu.shared": "1", f"{K}/gpu-core": "100", f"{K}/gpu-memory-ratio": "100"}
    cluster.put(reservation("r", cpu="4", more=more, allocateOnce=False, allocatePolicy="Restricted"))
    cluster.settle()
    for name in ("a", "b"):
        cluster.put(asking(name, 50))
        assert isinstance(cluster.decide(), Bind)
