"""Whatever is stored, the agent wants for every other pod of its node what it wants without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hypothesis import Phase, given, settings

from koord.agent.core import Agent
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.hooks.registry import HOOKS
from koord.agent.host.cgroups import Version
from koord.agent.pods import pods_of
from koord.agent.report.node_metric import node_metric_status
from koord.agent.report.node_resource_topology import change
from koord.agent.series import names
from koord.agent.state import Kubelet
from koord.agent.view import state_of
from koord.api import kinds
from koord.api.configuration.features import AgentGate
from koord.api.kinds import Kind
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.codec import DecodeError, convert
from koord.api.machinery.faults import BadInput
from koord.api.machinery.shield import Failure, Shield
from koord.api.protocol.annotations.cpu import RESOURCE_STATUS
from koord.api.protocol.report_policy import ReportPolicy
from koord.api.text.timestamp import from_seconds
from tests.agent.states import NOW, cpus
from tests.agent.trees import Tree
from tests.enemies.cases import Enemy, enemies
from tests.enemies.honest import NOW_S, honest, pod, renamed

KINDS: Final = (kinds.PODS, kinds.NODES, kinds.NODE_SLOS, kinds.NODE_RESOURCE_TOPOLOGIES)
GATES: Final = dict.fromkeys(AgentGate, True)
BATCH: Final = {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": "1Gi"}
PINNED: Final = {"scheduling.koordinator.sh/resource-status": '{"cpuset":"0-1"}'}
INNOCENT: Final = (
    pod("good-web", "good", on="bad-0", labels={"koordinator.sh/qosClass": "LS"}),
    pod("good-pinned", "good", on="bad-0", labels={"koordinator.sh/qosClass": "LSR"}, annotations=PINNED),
    pod("good-job", "good", on="bad-0", labels={"koordinator.sh/qosClass": "BE"}, requests=BATCH, priority=5500),
)
FOUND: Final = (
    Enemy(kinds.NODES, "bad-0", ("status", "capacity", "cpu"), "1e30"),
    Enemy(kinds.PODS, "bad-runs", ("spec", "containers", 0, "resources", "limits", "memory"), "1e999999999"),
)


class AgentWorld:
    """One node with innocent pods, and enemies: other pods beside them, or the node's own objects, one at a time."""

    def __init__(self, root: Path) -> None:
        self.tree = Tree(root, Version.V2, CgroupDriver.CGROUPFS, cores=8, threads=1)
        self.told: set[str] = set()
        self.defects: list[Failure] = []
        self.things: dict[Kind[Any], Any] = {
            kind: thing for kind, thing in honest("bad") if thing.metadata.name == "bad-0"
        }

    def look(self, things: Mapping[Kind[Any], Any], pods: Sequence[RunnablePod]) -> None:
        try:
            self._rounds({**self.things, **things}, [*(convert(RunnablePod, each) for each in INNOCENT), *pods])
        except Exception as error:  # noqa: BLE001 - collected
            self.defects.append(Failure("round", error))

    def _rounds(self, things: Mapping[Kind[Any], Any], pods: Sequence[RunnablePod]) -> None:
        tree = self.tree
        known = pods_of(pods, CgroupDriver.CGROUPFS, Shield(self._failed))
        state = state_of(
            tree.cgroups,
            cpus(1, 8, 1),
            CgroupDriver.CGROUPFS,
            things[kinds.NODES],
            things[kinds.NODE_SLOS].spec,
            known,
            Kubelet(),
            GATES,
            shield=Shield(self._failed),
        )
        agent = Agent(tree.cgroups, Executor(tree.cgroups, Ledger(), dry_run=True))
        for i in range(3):
            now_s = NOW + i
            agent.samples.add(names.NODE_CPU, now_s, 7000.0)
            agent.samples.add(names.NODE_MEMORY, now_s, 2.0**36)
            for uid in known:
                agent.samples.add(names.pod_cpu(uid), now_s, 500.0)
                agent.samples.add(names.pod_memory(uid), now_s, 2.0**30)
            agent.decide(state, now_s)
        for hook in HOOKS:
            with suppress(BadInput):
                self.told |= {str(wish) for wish in hook.wishes(state) if "good" in wish.target.name}
        node_metric_status(state, agent.samples, ReportPolicy(), NOW + 3, from_seconds(NOW_S))
        with suppress(BadInput):
            change(state, tree.cgroups.files, things[kinds.NODE_RESOURCE_TOPOLOGIES])

    def _failed(self, failure: Failure) -> None:
        if failure.is_defect:
            self.defects.append(failure)


def story(crowd: Sequence[Enemy]) -> AgentWorld:
    with TemporaryDirectory() as root:
        scene = AgentWorld(Path(root))
        pods: list[RunnablePod] = []
        for number, enemy in enumerate(crowd):
            with suppress(DecodeError):
                if RESOURCE_STATUS.key in enemy.path:
                    # CPUs that a pod says to have are its own.
                    continue
                if enemy.kind is kinds.PODS:
                    pods.append(convert(RunnablePod, renamed(enemy.manifest(), number)))
                else:
                    scene.look({enemy.kind: convert(enemy.kind.type, enemy.manifest())}, ())
        scene.told.clear()
        scene.look({}, pods)
        return scene


@cache
def undisturbed() -> AgentWorld:
    return story(())


def check(crowd: Sequence[Enemy]) -> None:
    scene = story(crowd)
    shown = "\n".join(map(str, crowd))
    if scene.defects:
        raise AssertionError(shown) from scene.defects[0].error
    assert scene.told == undisturbed().told, shown


def test_the_agent_wants_something_of_innocents() -> None:
    for each in ("good-pinned", "good-job"):
        assert any(each in wish for wish in undisturbed().told), each
    assert not undisturbed().defects


def test_what_was_found_once_disturbs_nobody() -> None:
    check(FOUND)


@settings(max_examples=3, phases=(Phase.explicit, Phase.generate))
@given(enemies(KINDS, 40))
def test_no_stored_value_ends_a_round_or_changes_what_is_wanted_of_others(crowd: Sequence[Enemy]) -> None:
    check(crowd)
