"""Whatever is stored, the manager decides for every other node, quota and pod as if it were not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

from hypothesis import Phase, given, settings

from koord.admission.profiles import compile_profiles
from koord.api import kinds
from koord.api.machinery.faults import BadInput
from koord.api.machinery.shield import Failure
from koord.manager import node_metric, node_slo
from koord.manager.colocation_settings import given as number_of
from koord.manager.node_resource.plugins import calculate, choose
from koord.manager.node_resource.prepare import prepare
from koord.manager.node_resource.requeue import requeue_at_s, wait_for_report_s
from koord.manager.node_resource.writing import decide, zone_changes
from koord.manager.node_state import (
    NodeState,
    device_facts,
    metric_row,
    node_facts,
    pod_row,
    topology_facts,
)
from koord.manager.quota_profile import node_part, wanted_quota
from koord.manager.waiting_pods import change, managed, waiting_pod
from tests.enemies.cases import Enemy, enemies
from tests.enemies.checking import check, telling
from tests.enemies.honest import NOW_S, Thing, honest
from tests.enemies.scheduler_world import LATER_S
from tests.manager.builders import config

KINDS: Final = (
    *(kinds.PODS, kinds.NODES, kinds.NAMESPACES, kinds.NODE_METRICS, kinds.NODE_RESOURCE_TOPOLOGIES, kinds.DEVICES),
    *(kinds.NODE_SLOS, kinds.ELASTIC_QUOTA_PROFILES, kinds.ELASTIC_QUOTAS, kinds.CLUSTER_COLOCATION_PROFILES),
)
SLO: Final = config(cpuReclaimThresholdPercent=60)
PLUGINS: Final = choose()
FOUND: Final = (
    Enemy(kinds.CLUSTER_COLOCATION_PROFILES, "bad-colocation", ("spec", "probability"), "9" * 5000 + "%"),
    Enemy(kinds.NODES, "bad-1", ("status", "allocatable", "cpu"), "1e30"),
    Enemy(kinds.NODES, "bad-1", ("status", "allocatable", "memory"), "-9223372036854775808"),
)


class ManagerWorld:
    def __init__(self) -> None:
        self.told: set[str] = set()
        self.defects: list[Failure] = []
        self.rows: dict[Any, dict[str, Any]] = {}

    def take(self, things: Sequence[Thing]) -> None:
        """As informers do, which skip what cannot be made a row."""
        make: dict[Any, Callable[[Any], Any]] = {
            kinds.NODES: lambda thing: (node_facts(thing), node_part(thing)),
            kinds.PODS: lambda thing: (pod_row(thing), waiting_pod(thing)),
            kinds.NODE_METRICS: metric_row,
            kinds.NODE_RESOURCE_TOPOLOGIES: topology_facts,
            kinds.DEVICES: device_facts,
        }
        for kind, thing in things:
            of = make.get(kind, _same)
            self._try("make a row of it", kind, thing.metadata, lambda: of(thing), self._keep)  # noqa: B023

    def _keep(self, kind: Any, meta: Any, row: Any) -> None:
        self.rows.setdefault(kind, {})[meta.key] = row

    def decide(self, now_s: float) -> None:
        for facts, _ in self.rows[kinds.NODES].values():
            doing = f"decide at {now_s:.0f}"
            self._try(doing, kinds.NODES, facts, lambda: self._of_node(facts, now_s), self._tell)  # noqa: B023
        parts = [part for _, part in self.rows[kinds.NODES].values()]
        for profile in self.rows[kinds.ELASTIC_QUOTA_PROFILES].values():
            meta = profile.metadata
            self._try(
                "make its quota",
                kinds.ELASTIC_QUOTA_PROFILES,
                meta,
                lambda: self._quota(profile, parts),  # noqa: B023 - called at once
                self._tell,
            )
        profiles = list(self.rows[kinds.CLUSTER_COLOCATION_PROFILES].values())
        compile_profiles(profiles)
        compiled = managed(profiles)
        for _, pod in self.rows[kinds.PODS].values():
            labels = {"pool": pod.namespace}
            self._try("change it", kinds.PODS, pod, lambda: change(pod, labels, compiled), self._tell)  # noqa: B023

    def _quota(self, profile: Any, parts: Any) -> object:
        wanted = wanted_quota(profile, parts)
        for each in self.rows[kinds.ELASTIC_QUOTAS].values():
            with suppress(BadInput):
                wanted.is_in(each)
        return wanted

    def _of_node(self, facts: Any, now_s: float) -> object:
        pods = [row for row, _ in self.rows[kinds.PODS].values() if row.node == facts.name]
        of = {kind: self.rows.get(kind, {}).get(facts.name) for kind in KINDS}
        state = NodeState(
            facts, pods, of[kinds.NODE_METRICS], of[kinds.NODE_RESOURCE_TOPOLOGIES], of[kinds.DEVICES], NOW_S
        )
        settings = SLO.for_node(facts.labels, facts.annotations)
        prepared = prepare(facts, calculate(state, SLO, settings, PLUGINS, now_s))
        strategy = settings.colocation
        decision = decide(facts, prepared, strategy, None, now_s, {})
        if state.topology is not None:
            zone_changes(state.topology, prepared.zones, number_of(strategy.resource_diff_threshold))
        wait_for_report_s(state, decision, seen_s=NOW_S, now_s=now_s)
        requeue_at_s(state, strategy, pending=False, written_s=None, now_s=now_s)
        slo = of[kinds.NODE_SLOS]
        present = None if slo is None else slo.spec
        return decision, node_slo.wanted_spec(settings, present), node_metric.wanted_spec(SLO, strategy, None)

    def _try(
        self, doing: str, kind: Any, meta: Any, of: Callable[[], Any], done: Callable[[Any, Any, Any], None]
    ) -> None:
        """As controllers do."""
        try:
            found = of()
        except BadInput as error:
            found = str(error)
            if doing.startswith("make a row"):
                return
        except Exception as error:  # noqa: BLE001 - collected
            self.defects.append(Failure(doing, error, kind, None))
            return
        done(kind, meta, found)

    def _tell(self, kind: Any, meta: Any, found: Any) -> None:
        if "good" in meta.name:
            self.told.add(f"{kind.kind} {meta.name}: {found}")


def _same(thing: Any) -> Any:
    return thing


def story(innocents: Sequence[Thing], bad: Sequence[Thing], crowd: Sequence[Thing]) -> ManagerWorld:
    scene = ManagerWorld()
    scene.take([*bad, *innocents, *crowd])
    for seconds in (0.0, *LATER_S[2:]):
        scene.decide(NOW_S + seconds)
    return scene


@cache
def undisturbed() -> ManagerWorld:
    return story(honest("good"), honest("bad"), [])


def test_innocents_are_decided_in_the_first_place() -> None:
    assert any("kubernetes.io/batch-cpu" in line for line in telling(undisturbed(), "Node good-0"))
    assert telling(undisturbed(), "ElasticQuotaProfile good-profile")
    assert any("colocated" in line for line in telling(undisturbed(), "Pod good-waits"))


def test_what_was_found_once_disturbs_nobody() -> None:
    check(FOUND, story, undisturbed())


@settings(max_examples=3, phases=(Phase.explicit, Phase.generate))
@given(enemies(KINDS, 60))
def test_no_stored_value_changes_what_the_manager_decides_for_others(crowd: Sequence[Enemy]) -> None:
    check(crowd, story, undisturbed())
