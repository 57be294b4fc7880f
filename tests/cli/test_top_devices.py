"""`koord top devices`: every device with its pods, and the command on a server."""

from __future__ import annotations

from koord.cli.top_devices import device_table
from koord.scheduler.plugins.devices.figures import Holder, figures
from tests.scheduler.build import pod
from tests.scheduler.plugins.devices.machines import asking, device, gpu, held, rdma, share


def test_devices_are_told_with_what_is_taken_of_them_and_by_whom() -> None:
    both = held(rdma={0: {"rdma": 1}}, gpu={9: share(100)})
    pods = [
        pod("chat-1", on="n", requests=asking(gpu=1), annotations=held(gpu={0: share(25)})),
        pod("chat-0", on="n", requests=asking(gpu=1), annotations=held(gpu={0: share(50)})),
        pod("train", on="n", requests=asking(gpu=1, rdma=1), annotations=both),
        pod("done", on="n", phase="Succeeded", annotations=held(gpu={1: share(100)})),
        pod("odd", on="n", requests=asking(gpu=1), annotations=held(gpu={1: {"gpu-core": "much"}})),
    ]
    found = figures([device("n", [rdma(0), gpu(1, health=False), gpu(0, pcie=3, numa=1)])], pods)
    assert [
        (device_figures.type, device_figures.minor, device_figures.state, device_figures.percent)
        for device_figures in found
    ] == [
        ("gpu", 0, "healthy", 75),
        ("gpu", 1, "unhealthy", 0),
        ("gpu", 9, "missing", 0),
        ("rdma", 0, "healthy", 1),
    ]
    assert found[0].pods == (Holder("default/chat-0", 50), Holder("default/chat-1", 25))
    assert device_table(found).splitlines()[1].split() == [
        *("n", "gpu", "0", "healthy", "1", "3", "75", "75", "60Gi/80Gi"),
        *("default/chat-0", "50%,", "default/chat-1", "25%"),
    ]


def test_a_gpu_says_which_others_it_is_linked_with() -> None:
    table = '{"2": [{"minors": [0, 1]}, {"minors": [2, 3]}], "4": [{"minors": [0, 1, 2, 3]}]}'
    said = {"scheduling.koordinator.sh/gpu-partitions": table}
    found = figures([device("n", [gpu(i) for i in range(5)], annotations=said)], [])
    assert [device_figures.linked_with for device_figures in found] == [(1,), (0,), (3,), (2,), ()]


def test_devices_of_a_node_that_is_gone_are_not_told_as_healthy() -> None:
    found = figures([device("here", [gpu(0)]), device("gone", [gpu(0)])], [], {"here"})
    assert {device_figures.node: device_figures.state for device_figures in found} == {
        "here": "healthy",
        "gone": "no node",
    }
