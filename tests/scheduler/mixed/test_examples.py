"""What random stories showed, as examples: pods that take turns on full nodes, and the pod that is bound next."""

from __future__ import annotations

from koord.api.kinds import NODE_RESOURCE_TOPOLOGIES
from koord.scheduler.core.decision import Bind, Nowhere
from tests.scheduler.builders import node
from tests.scheduler.plugins.devices.machines import ALLOCATED, K, gpu
from tests.scheduler.plugins.devices.test_whole_profile import put_devices, totals
from tests.scheduler.plugins.numa.machines import report
from tests.scheduler.reservations import World, pod

STATUS = "scheduling.koordinator.sh/resource-status"
LSR = {"koordinator.sh/qosClass": "LSR"}


def test_a_pod_that_asks_for_no_cpus_does_not_get_those_tried_out_for_a_preemptor() -> None:
    world = World(node("n0", cpu="4"))
    world.core.put(NODE_RESOURCE_TOPOLOGIES, report("n0", "1x1x2x2"))
    world.put(pod("batch", cpu="4", priority=10))
    assert world.settle() == {"batch": "n0"}
    world.put(pod("service", cpu="4", labels=LSR, priority=9500), pod("tiny", cpu="0"))
    nowhere = world.nowhere()
    assert nowhere.remedy.victims == ("shop/batch",)
    decision = world.decide()
    assert isinstance(decision, Bind)
    world.bind(decision)
    assert STATUS not in world.pods["shop/tiny"].metadata.annotations


def test_a_pod_that_asks_for_no_gpu_does_not_get_one_tried_out_for_a_preemptor() -> None:
    whole = {f"{K}/gpu-core": "100", f"{K}/gpu-memory-ratio": "100"}
    world = World(node("n0", cpu="4", extended=totals(1)))
    put_devices(world, "n0", [gpu(0)])
    world.put(pod("batch", more=whole, priority=10))
    assert world.settle() == {"batch": "n0"}
    world.put(pod("train", more=whole, priority=9500), pod("tiny", cpu="0"))
    found = world.decide()
    assert isinstance(found, Nowhere)
    assert found.remedy.victims == ("shop/batch",)
    decision = world.decide()
    assert isinstance(decision, Bind)
    world.bind(decision)
    assert ALLOCATED not in world.pods["shop/tiny"].metadata.annotations
