"""Workloads among manifests become the pods that their controllers would make, before anything is planned.

The API server's defaults are filled in first, since names of ReplicaSets come from templates with their defaults; then
`koord.api.workloads` makes what the controllers create. A workload that has a uid is in a cluster already: its pods are
among the manifests, or were left out on purpose. A CronJob stands for the Job of its next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.kubernetes import workload_defaults
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod_defaults import Obj
from koord.api.kubernetes.workloads import template_of
from koord.api.machinery.codec import DecodeError, convert, without_nulls
from koord.api.machinery.faults import BadInput, Fault, Invalid
from koord.api.text.manifest import Manifest, Manifests, Place
from koord.api.text.selector import NOTHING, compile_labels, match_labels
from koord.api.workloads import cron_jobs, daemon_pods, job_pods, replica_sets, stateful_pods
from koord.api.workloads.revision import new_revision

_KEPT: Final = (kinds.REPLICA_SETS, kinds.STATEFUL_SETS, kinds.REPLICATION_CONTROLLERS)
"""Pods are spread by these, so they stay among the manifests."""
_OWN_JOBS: Final = (None, "", "kubernetes.io/job-controller")


@dataclass(frozen=True, slots=True)
class Ignored:
    """An object that plays no part in a plan, and why."""

    place: Place
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Expanded:
    manifests: Manifests
    ignored: tuple[Ignored, ...]
    notes: tuple[str, ...]
    "Workloads that make no pods for now, and why."


Made = Iterator[tuple[Kind[Any], Obj]]


def expand(manifests: Manifests, *, now_s: float) -> Expanded:
    """The manifests with the pods of their workloads. Raises `Invalid` with every fault of a workload."""
    claims = frozenset(item.key for item in manifests.items if item.kind is kinds.PERSISTENT_VOLUME_CLAIMS)
    expansion = _Expansion(manifests.of(kinds.NODES), claims, now_s)
    items: list[Manifest] = []
    for item in manifests.items:
        if item.kind not in _MAKES:
            items.append(item)
            continue
        if item.kind in _KEPT:
            items.append(item)
        items += expansion.of(item)
    if expansion.faults:
        raise Invalid("manifests", expansion.faults)
    return Expanded(manifests.with_items(items), tuple(expansion.ignored), tuple(expansion.notes))


def unused(manifests: Manifests, used: Iterable[Kind[Any]], config_maps: Iterable[str] = ()) -> list[Ignored]:
    """Objects of kinds that play no part, those that koord does not know among them. Of ConfigMaps, some do."""
    taken, configs = frozenset(used), frozenset(config_maps)
    reason = "objects of this kind play no part in a plan"
    ignored = [
        Ignored(item.place, reason)
        for item in manifests.items
        if item.kind not in taken and not (item.kind is kinds.CONFIG_MAPS and item.key in configs)
    ]
    return ignored + [Ignored(place, "koord does not know this kind") for place in manifests.unknown_places]


class _Expansion:
    def __init__(self, nodes: Iterable[Node], claims: frozenset[str], now_s: float) -> None:
        self.nodes, self.claims, self.now_s = tuple(nodes), claims, now_s
        self.faults: list[Fault] = []
        self.ignored: list[Ignored] = []
        self.notes: list[str] = []

    def of(self, item: Manifest) -> list[Manifest]:
        """What a workload's controller would create."""
        if item.object.metadata.uid:  # type: ignore[attr-defined]  # every kind has metadata
            return []
        manifest_of_body: dict[int, Manifest] = {}
        made = []
        try:
            for kind, body in _MAKES[item.kind](self, item, _own(item)):
                # Pods of one template are one body, read once.
                if id(body) not in manifest_of_body:
                    manifest_of_body[id(body)] = _manifest(kind, body, item)
                made.append(manifest_of_body[id(body)])
        except DecodeError as error:
            self.faults.append(Fault(str(item.place), f"{error.path}: {error.fault}"))
        except Invalid as error:
            self.faults += [Fault(str(item.place), str(fault)) for fault in error.faults]
        except BadInput as error:
            self.faults.append(Fault(str(item.place), str(error)))
        except (AttributeError, TypeError, KeyError) as error:
            self.faults.append(Fault(str(item.place), f"cannot be read as a {item.kind}: {error}"))
        return made

    def deployment(self, item: Manifest, data: Obj) -> Made:
        workload_defaults.default_deployment(data)
        deployment = convert(kinds.DEPLOYMENTS.type, data)
        _require_selected(deployment.spec.selector, deployment.spec.template)
        if deployment.spec.paused:
            self.notes.append(f"{item.place} is paused: it makes no pods")
            return
        body = replica_sets.new_replica_set(deployment, deployment.spec.replicas, 1, {})
        made = {**body, "metadata": {**body["metadata"], "namespace": deployment.metadata.namespace}}
        owner = {
            **made,
            "metadata": {**made["metadata"], "uid": f"{data['metadata']['uid']}/{made['metadata']['name']}"},
        }
        yield kinds.REPLICA_SETS, owner
        yield from self._of_replica_set(owner)

    def replica_set(self, item: Manifest, data: Obj) -> Made:
        workload_defaults.default_replica_set(data)
        yield from self._of_replica_set(data)

    def _of_replica_set(self, data: Obj) -> Made:
        given = convert(kinds.REPLICA_SETS.type, data)
        _require_selected(given.spec.selector, given.spec.template)
        body = replica_sets.pod_of_replica_set(given)
        for _ in range(given.spec.replicas):
            yield kinds.PODS, body

    def controller(self, item: Manifest, data: Obj) -> Made:
        workload_defaults.default_controller(data)
        given = convert(kinds.REPLICATION_CONTROLLERS.type, data)
        labels = template_of(given.spec.template).metadata.labels
        if not match_labels(given.spec.selector).matches(labels):
            raise Invalid("ReplicationController", [_NOT_SELECTED])
        body = replica_sets.pod_of_controller(given)
        for _ in range(given.spec.replicas):
            yield kinds.PODS, body

    def stateful_set(self, item: Manifest, data: Obj) -> Made:
        workload_defaults.default_stateful_set(data)
        given = convert(kinds.STATEFUL_SETS.type, data)
        _require_selected(given.spec.selector, given.spec.template)
        revision = new_revision(given.metadata, given.spec.template)
        for number in stateful_pods.ordinals(given):
            for name, claim in stateful_pods.claims(given, number).items():
                if f"{given.metadata.namespace}/{name}" not in self.claims:
                    yield kinds.PERSISTENT_VOLUME_CLAIMS, claim
            yield kinds.PODS, stateful_pods.new_pod(given, number, revision)

    def daemon_set(self, item: Manifest, data: Obj) -> Made:
        workload_defaults.default_daemon_set(data)
        given = convert(kinds.DAEMON_SETS.type, data)
        _require_selected(given.spec.selector, given.spec.template)
        template = template_of(given.spec.template)
        revision = new_revision(given.metadata, given.spec.template)
        for node in self.nodes:
            wanted, _ = daemon_pods.belongs(template, node)
            if wanted:
                yield kinds.PODS, daemon_pods.new_pod(given, revision, node.metadata.name)

    def job(self, item: Manifest, data: Obj) -> Made:
        workload_defaults.default_job(data)
        workload_defaults.give_selector(data)
        given = convert(kinds.JOBS.type, data)
        if given.spec.managed_by not in _OWN_JOBS:
            self.ignored.append(Ignored(item.place, f"spec.managedBy leaves it to {given.spec.managed_by}"))
            return
        if given.spec.suspend:
            self.notes.append(f"{item.place} is suspended: it makes no pods")
        bodies = job_pods.first_pods(given)
        # Without indexes all pods are alike.
        for body in bodies if job_pods.is_indexed(given) else bodies[:1] * len(bodies):
            yield kinds.PODS, body

    def cron_job(self, item: Manifest, data: Obj) -> Made:
        workload_defaults.default_cron_job(data)
        given = convert(kinds.CRON_JOBS.type, data)
        if given.spec.suspend:
            self.notes.append(f"{item.place} is suspended: it makes no pods")
            return
        time_s = cron_jobs.schedule_of(given).next_after(self.now_s)
        if time_s is None:
            self.ignored.append(Ignored(item.place, f"spec.schedule {given.spec.schedule!r} names no time"))
            return
        body = cron_jobs.new_job(given, time_s)
        job: Obj = msgspec.json.decode(msgspec.json.encode(body))
        job["metadata"] |= {
            "namespace": given.metadata.namespace,
            "uid": f"{given.metadata.uid}/{job['metadata']['name']}",
        }
        yield from self.job(item, job)


_MAKES: Final[Mapping[Kind[Any], Callable[[_Expansion, Manifest, Obj], Made]]] = {
    kinds.DEPLOYMENTS: _Expansion.deployment,
    kinds.REPLICA_SETS: _Expansion.replica_set,
    kinds.REPLICATION_CONTROLLERS: _Expansion.controller,
    kinds.STATEFUL_SETS: _Expansion.stateful_set,
    kinds.DAEMON_SETS: _Expansion.daemon_set,
    kinds.JOBS: _Expansion.job,
    kinds.CRON_JOBS: _Expansion.cron_job,
}

WORKLOADS: Final = tuple(_MAKES)

_NOT_SELECTED: Final = Fault("spec.selector", "must match the labels of spec.template")


def _require_selected(selector: Any, template: Mapping[str, Any]) -> None:
    """A workload whose selector does not find its own pods is refused by every API server."""
    if not compile_labels(selector, absent=NOTHING).matches(template_of(template).metadata.labels):
        raise Invalid("workload", [_NOT_SELECTED])


def _own(item: Manifest) -> Obj:
    """A copy to fill in. What it makes refers to its uid, which is made of its name: equal inputs give equal plans."""
    own: Obj = msgspec.json.decode(msgspec.json.encode(without_nulls(item.data)))
    own["metadata"]["uid"] = f"{item.kind.kind}/{item.key}".lower()
    return own


def _made_by(metadata: Obj, owner: ObjectMeta) -> Obj:
    """The metadata of something between a workload and its pods."""
    return {**metadata, "namespace": owner.namespace, "uid": f"{owner.uid}/{metadata['name']}"}


def _manifest(kind: Kind[Any], body: Obj, owner: Manifest) -> Manifest:
    namespace = owner.object.metadata.namespace  # type: ignore[attr-defined]  # every kind has metadata
    metadata = {**body["metadata"], "namespace": namespace}
    data = {"apiVersion": kind.api_version, "kind": kind.kind, **body, "metadata": metadata}
    return Manifest.of(kind, data, owner.source, owner.document)
