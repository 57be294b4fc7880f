"""A kubelet that has just started leaves out pods that run: they stay known, unless the API server says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from koord.agent.live.left_out import WAITS_S, LeftOutPods
from koord.agent.pods import AgentPod
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.codec import convert
from koord.kube.errors import ApiError, NotFound, Status
from tests.agent.states import pod
from tests.agent.trees import Tree
from tests.kube.manual_clock import ManualClock

DRIVER = CgroupDriver.CGROUPFS


class Api:
    """Has these pods, by name, with this uid or as the mirror of it; or does not answer."""

    def __init__(self, pods: dict[str, dict[str, Any]] | None) -> None:
        self.pods, self.asked = pods, 0

    def limited(self, **terms: Any) -> Api:
        return self

    async def get(self, kind: object, name: str, *, namespace: str) -> Pod:
        self.asked += 1
        if self.pods is None:
            raise ApiError(Status(code=0, message="connection refused"))
        if name not in self.pods:
            raise NotFound(Status(code=404))
        return convert(Pod, {"metadata": {"namespace": namespace, "name": name, **self.pods[name]}})


class Node:
    def __init__(self, folder: Path, api: dict[str, dict[str, Any]] | None = None) -> None:
        self.tree = Tree(folder, driver=DRIVER)
        self.web, self.job = pod("web", "LS", requests={"cpu": "1"}), pod("job", "BE")
        for name, qos in (("web", KubeQoS.BURSTABLE), ("job", KubeQoS.BEST_EFFORT)):
            self.tree.pod(name, qos, f"{name}-main")
        self.clock, self.api = ManualClock(), Api(api)
        self.left_out = LeftOutPods(cast(Any, self.api), self.tree.cgroups, self.clock)

    def run_in(self, pod: AgentPod, processes: str = "1\n") -> None:
        self.tree.write(f"sys/fs/cgroup/{pod.containers[0].directory}/cgroup.procs", processes)

    async def pods(self, listed: list[AgentPod], before: list[AgentPod] | None) -> list[str] | None:
        known = None if before is None else {pod.uid: pod for pod in before}
        pods = await self.left_out.completed({pod.uid: pod for pod in listed}, known, DRIVER)
        return None if pods is None else sorted(pods)


@pytest.mark.parametrize(
    ("api", "stays"),
    [
        ({"web": {"uid": "web"}}, True),
        ({"web": {"uid": "mirror", "annotations": {"kubernetes.io/config.mirror": "web"}}}, True),
        ({"web": {"uid": "another"}}, False),
        ({}, False),
        (None, True),
    ],
    ids=["is there", "is static", "was made anew", "is gone", "nobody says"],
)
async def test_a_pod_that_runs_and_is_left_out_stays_unless_the_api_server_says_that_it_is_gone(
    tmp_path: Path, api: dict[str, dict[str, Any]] | None, stays: bool
) -> None:
    node = Node(tmp_path, api)
    node.run_in(node.web)
    assert await node.pods([], [node.web, node.job]) == (["web"] if stays else [])
    assert await node.pods([node.job], [node.web]) == (["job", "web"] if stays else ["job"])


async def test_a_pod_in_which_nothing_runs_is_gone_when_kubelet_says_so(tmp_path: Path) -> None:
    node = Node(tmp_path, {"web": {"uid": "web"}})
    assert await node.pods([], [node.web, node.job]) == []
    assert node.api.asked == 0


async def test_a_silent_api_server_is_asked_about_one_pod(tmp_path: Path) -> None:
    node = Node(tmp_path, None)
    for each in (node.web, node.job):
        node.run_in(each)
    assert await node.pods([], [node.web, node.job]) == ["job", "web"]
    assert node.api.asked == 1


async def test_an_agent_that_starts_takes_a_list_without_running_pods_only_after_a_while(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.run_in(node.web)
    assert await node.pods([node.job], None) is None
    node.clock.advance(WAITS_S - 1)
    assert await node.pods([], None) is None
    assert await node.pods([node.web], None) == ["web"], "a list with all that runs counts at once"
    node.clock.advance(1)
    assert await node.pods([], None) == []
