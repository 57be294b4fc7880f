"""Quotas in a line, and a core that hears of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig
from koord.api.configuration.features import SchedulerGate
from koord.api.configuration.scheduler_args import ElasticQuotaArgs
from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord.api.kinds import ELASTIC_QUOTAS, NODES, PODS, Kind
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Decision, Nowhere
from koord.scheduler.core.moment import Moment
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.status import QuotaStatus, status_of
from koord.scheduler.profiles import profiles_of
from tests.scheduler.builders import node

PREFIX = "quota.scheduling.koordinator.sh/"


def quota(
    name: str,
    least: Mapping[str, str] | str = "0",
    most: Mapping[str, str] | str = "100",
    *,
    parent: str = "",
    namespace: str = "teams",
    namespaces: list[str] | None = None,
    lends: bool = True,
    is_parent: bool = False,
    weight: Mapping[str, str] | None = None,
    made: str = "2026-01-01T00:00:00Z",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> ElasticQuota:
    """Amounts of cpu where they are no mapping."""
    import json

    said = {f"{PREFIX}parent": parent} if parent else {}
    said |= {} if lends else {f"{PREFIX}allow-lent-resource": "false"}
    said |= {f"{PREFIX}is-parent": "true"} if is_parent else {}
    noted = {f"{PREFIX}namespaces": json.dumps(namespaces)} if namespaces is not None else {}
    noted |= {f"{PREFIX}shared-weight": json.dumps(dict(weight))} if weight is not None else {}
    data: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}-{name}",
            "creationTimestamp": made,
            "labels": {**said, **(labels or {})},
            "annotations": {**noted, **(annotations or {})},
        },
        "spec": {
            "min": {"cpu": least} if isinstance(least, str) else dict(least),
            "max": {"cpu": most} if isinstance(most, str) else dict(most),
        },
    }
    return convert(ElasticQuota, data)


def team_pod(
    name: str,
    team: str = "",
    cpu: str = "1",
    *,
    on: str = "",
    priority: int = 0,
    namespace: str = "shop",
    fixed: bool = False,
    phase: str = "Pending",
    started: str = "",
    more: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Pod:
    labels = {f"{PREFIX}name": team} if team else {}
    labels |= {f"{PREFIX}preemptible": "false"} if fixed else {}
    data: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}-{name}",
            "labels": labels,
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "nodeName": on,
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, **(more or {})}}}],
            **spec,
        },
        "status": {"phase": phase, **({"startTime": started} if started else {})},
    }
    return convert(Pod, data)


def configured(**args: Any) -> SchedulerConfiguration:
    """The shipped configuration with other arguments for quotas."""
    profile = SHIPPED.profiles[0]
    others = tuple(plugin_config for plugin_config in profile.plugin_config if plugin_config.name != "ElasticQuota")
    mine = PluginConfig("ElasticQuota", ElasticQuotaArgs(**args))
    return replace(SHIPPED, profiles=(replace(profile, plugin_config=(*others, mine)),))


class Teams:
    """A core, alone in its cluster, whose clock stands until it is told otherwise."""

    def __init__(
        self,
        *cpus: int,
        config: SchedulerConfiguration = SHIPPED,
        gates: Mapping[SchedulerGate, bool] | None = None,
    ) -> None:
        self.core = Core(profiles_of(config, gates=gates), alone=True)
        self.known: dict[tuple[Kind[Any], str], Any] = {}
        self.now_s = 1000.0
        self.wait(0)
        for i, cpu in enumerate(cpus):
            self.core.put(NODES, node(f"n{i}", cpu=str(cpu), memory="1000Gi"))

    @property
    def quotas(self) -> Quotas:
        return self.core.cluster.notes(Quotas)

    def put(self, *things: Pod | ElasticQuota) -> None:
        for thing in things:
            kind: Kind[Any] = PODS if isinstance(thing, Pod) else ELASTIC_QUOTAS
            key = kind, thing.metadata.key
            self.core.put(kind, thing, self.known.get(key))
            self.known[key] = thing

    def delete(self, *things: Pod | ElasticQuota) -> None:
        for thing in things:
            kind: Kind[Any] = PODS if isinstance(thing, Pod) else ELASTIC_QUOTAS
            self.core.removed(kind, self.known.pop((kind, thing.metadata.key)))

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.core.at(Moment(self.now_s, self.now_s))

    def decide(self) -> list[Decision]:
        found = []
        while (decision := self.core.decide()) is not None:
            found.append(decision)
            if len(found) > 10_000:
                raise AssertionError("the scheduler does not come to rest")
        return found

    def settle(self) -> set[str]:
        """Have everything decided and bound; the names of pods that got a place."""
        placed: set[str] = set()
        decisions = 0
        while (decision := self.core.decide()) is not None:
            decisions += 1
            if decisions > 10_000:
                raise AssertionError("the scheduler does not come to rest")
            if isinstance(decision, Bind):
                for member in decision.members:
                    self.core.bound(decision, member.ask)
                    pod = self.known[PODS, member.ask.key]
                    self.put(replace(pod, spec=replace(pod.spec, node_name=member.node)))
                    placed.add(member.ask.meta.name)
        return placed

    def refusal(self) -> str:
        """Why the one pod that is tried finds no place."""
        decision, *_ = self.decide()
        assert isinstance(decision, Nowhere), decision
        return decision.placement.refusal

    def status(self, name: str, namespace: str = "teams") -> QuotaStatus:
        return status_of(self.quotas, f"{namespace}/{name}", name)

    def runtime(self, *names: str, resource: str = "cpu") -> list[int | None]:
        return [self.quotas.runtime(self.quotas.forest.quotas[name]).get(resource) for name in names]
