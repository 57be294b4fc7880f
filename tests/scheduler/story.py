"""A cluster in which anything may happen, kept twice: as the scheduler keeps it, and as plain objects.

`Story` makes random events and tells both of them. Pods come by the engine's own decisions and from elsewhere, nodes
come, change and go, and so do Services, namespaces, volumes, reports and time; some of it in transactions, undone or
not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig, PluginRef
from koord.api.configuration.scheduler_config import SchedulerProfile
from koord.api.configuration.scheduler_plugins import Plugins
from koord.api.kubernetes.core import Namespace, Service
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod, PodStatus
from koord.api.kubernetes.storage import PersistentVolume, PersistentVolumeClaim
from koord.api.kubernetes.workloads import ReplicaSet, ReplicationController, StatefulSet
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.text.timestamp import from_seconds
from koord.scheduler.core.events import load_event, node_event, pod_event, storage_event
from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.storage import BIND_COMPLETED_ANNOTATION, is_bound
from koord_chaos.stories.dice import Dice
from tests.scheduler import generate, generate_pod
from tests.scheduler.builders import recorded
from tests.scheduler.generate import Scene
from tests.scheduler.reference.cluster import Cluster as Plain
from tests.scheduler.reference.volume_rules import claim_name
from tests.scheduler.world import engine_on, feed, load_aware, put_pod, put_pods

T = TypeVar("T")
LOAD = "LoadAwareScheduling"


def with_load(scene: Scene) -> SchedulerProfile:
    """A scene's profile, and LoadAwareScheduling with the scene's arguments."""
    old, one = scene.profile.plugins or Plugins(), (PluginRef(LOAD),)
    plugins = replace(
        old,
        filter=replace(old.filter, enabled=(*old.filter.enabled, *one)),
        score=replace(old.score, enabled=(*old.score.enabled, PluginRef(LOAD, 3))),
    )
    config = (*scene.profile.plugin_config, PluginConfig(LOAD, scene.load_args))
    return replace(scene.profile, plugins=plugins, plugin_config=config)


class Story:
    """`cluster` and `engine` are what is tested; `plain()` is what they ought to know."""

    def __init__(self, scene: Scene, dice: Dice, *, seed: int = 0, heard_of_only: bool = False) -> None:
        """`heard_of_only` leaves out what queues are not told."""
        self.dice, self.profile, self._heard_of_only = dice, with_load(scene), heard_of_only
        plain = scene.cluster()
        self._things: dict[str, dict[str, Any]] = {}
        for field in (name for _, name in generate.KINDS.values()):
            self._things[field] = {thing.metadata.key: thing for thing in getattr(plain, field)}
        self._drop_strangers()
        self._assigned_at_s: dict[str, float] = {}
        self.heard: list[ClusterEvent] = []
        "What a queue would be told."
        self.cluster = Cluster(seed)
        self.cluster.now_s = plain.now_s
        self.engine = engine_on(self.cluster, self.profile)
        feed(self.cluster, self.plain())
        for metric in plain.node_metrics:
            self._tell_of_metric(metric)
        self.asked = scene.pods()
        "Pods that never come, and about which everything is asked."
        self._number = 0
        self._gone: list[Node] = []
        self.placements: list[Placement] = []
        if dice.chance(0.4):
            self._stock_up()
        self.asked += [self.new_pod() for _ in range(dice.integer(0, 3))]

    def plain(self) -> Plain:
        fields: dict[str, Any] = {field: tuple(things.values()) for field, things in self._things.items()}
        return Plain(**fields, now_s=self.cluster.now_s, assigned_at_s=dict(self._assigned_at_s))

    def events(self, number: int) -> None:
        for _ in range(number):
            self.event()

    def event(self) -> None:
        kinds: list[tuple[int, Callable[[], None]]] = [
            (10, self.decide),
            (3, self.decide_for_several),
            (4, self.pod_comes),
            (5, self.pod_goes),
            (1, self.forgotten),
            (2, self.pod_changes),
            (3, self.undone),
            (9, self.node_changes),
            (3, self.cordon),
            (2, self.node_comes),
            (1, self.node_goes),
            (3, self.reports),
            (1, self.report_goes),
            (3, self.storage_changes),
        ]
        if not self._heard_of_only:
            kinds += [(2, self.owners_change), (2, self.namespace_changes), (2, self.time_passes)]
        point = self.dice.integer(1, sum(weight for weight, _ in kinds))
        for weight, happens in kinds:
            point -= weight
            if point <= 0:
                happens()
                return

    def new_pod(self) -> Pod:
        """One that waits: a new one, or another one like the existing ones."""
        self._number += 1
        name = f"new-{self._number}"
        if self.dice.chance(0.4) and self.asked:
            like = self.dice.one(self.asked)
            meta = replace(like.metadata, name=name, uid=name, labels={**like.metadata.labels, "pod": name})
            return replace(like, metadata=meta)
        claims = [claim.metadata.name for claim in self._all("claims", PersistentVolumeClaim)]
        manifest = generate_pod.pod(self.dice, name, sorted(self._things["nodes"]) or ["none"], claims, pending=True)
        generate_pod.importance(self.dice, manifest)
        manifest["metadata"]["uid"] = name
        manifest["metadata"]["labels"]["pod"] = name
        self._add_rarities(manifest)
        return convert(Pod, manifest)

    def _add_rarities(self, manifest: generate_pod.Manifest) -> None:
        """What recorded scenes do not have: huge pages, mid resources, volumes that are made for the pod alone, and
        pods of a DaemonSet, made for one node each, which may not be there yet."""
        spec, meta = manifest["spec"], manifest["metadata"]
        requests = spec["containers"][0]["resources"]["requests"]
        if self.dice.chance(0.05):
            requests["hugepages-2Mi"] = self.dice.one(("2Mi", "64Mi"))
        if self.dice.chance(0.05):
            requests["kubernetes.io/mid-cpu"] = self.dice.one((500, 2000))
        if self.dice.chance(0.1):
            names = [f"n{self.dice.integer(0, 25)}" for _ in range(self.dice.integer(1, 2))]
            pinned = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [n]}]} for n in names]
            of_nodes = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": pinned}}
            spec.setdefault("affinity", {})["nodeAffinity"] = of_nodes
        if self.dice.chance(0.1):
            claim: generate_pod.Manifest = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": self.dice.one(("anywhere", "made", "scarce")),
            }
            own = {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
            spec.setdefault("volumes", []).append(own)
            if self.dice.chance(0.8):
                owner: generate_pod.Manifest = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"]}
                owner |= {"uid": meta["uid"], "controller": True}
                its = {"name": f"{meta['name']}-own", "namespace": meta["namespace"], "ownerReferences": [owner]}
                made = {"metadata": its, "spec": claim, "status": {"phase": "Pending"}}
                self._put_storage("claims", convert(PersistentVolumeClaim, made))

    def decide(self) -> None:
        pod = self.new_pod()
        self._note(pod, self.engine.place(Ask(pod)))

    def decide_for_several(self) -> None:
        """A job of some pods: all of them, or none."""
        pods = [self.new_pod() for _ in range(self.dice.integer(2, 5))]
        at_least = self.dice.one((None, None, 1, 0))
        for pod, placement in zip(pods, self.engine.place_all([*map(Ask, pods)], at_least=at_least), strict=True):
            self._note(pod, placement)

    def _note(self, pod: Pod, placement: Placement) -> None:
        self.placements.append(placement)
        if placement.node is None:
            return
        placed = replace(pod, spec=replace(pod.spec, node_name=placement.node))
        self._things["pods"][pod.metadata.key] = placed
        self._assigned_at_s[pod.metadata.key] = self.cluster.now_s
        self._hear(pod_event(pod, placed))
        self._bind_volumes(pod)

    def forgotten(self) -> None:
        """A pod that was given a node does not get there after all."""
        placement = self.engine.place(Ask(self.new_pod()))
        if placement.node is not None:
            self.engine.cluster.remove_pod(placement.pod)

    def pod_comes(self) -> None:
        """Somebody else, or a scheduler before, has placed a pod, wherever it fits or not."""
        node = self._one("nodes", Node)
        if node is not None:
            pod = self.new_pod()
            placed = replace(pod, spec=replace(pod.spec, node_name=node.metadata.name))
            self._put_pod(placed)

    def pod_changes(self) -> None:
        """A pod should go, has other labels, was resized, or its binding arrives."""
        old = self._one("pods", Pod)
        if old is None or old.is_finished:
            return
        if self.dice.chance(0.4):
            new = replace(old, metadata=replace(old.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
        elif self.dice.chance(0.5):
            labels = {**old.metadata.labels, "app": self.dice.one(generate_pod.APPS), "tier": "front"}
            new = replace(old, metadata=replace(old.metadata, labels=labels))
        elif self.dice.chance(0.5):
            like = self.new_pod()
            new = replace(old, spec=replace(old.spec, containers=like.spec.containers))
        else:
            when = from_seconds(self.cluster.now_s - self.dice.one((0, 70)))
            bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": when}
            new = replace(old, status=convert(PodStatus, {"phase": "Running", "conditions": [bound]}))
        self._put_pod(new)

    def pod_goes(self) -> None:
        pod = self._one("pods", Pod)
        if pod is not None:
            self._hear(pod_event(pod, None))
            del self._things["pods"][pod.metadata.key]
            self._assigned_at_s.pop(pod.metadata.key, None)
            if pod.metadata.key in self.cluster.pods:
                self.engine.cluster.remove_pod(pod.metadata.key)

    def undone(self) -> None:
        """Decisions, pods that come, go and are replaced, some of it looked at, and all of it taken back."""
        row_of = self.cluster.table.row_of
        with self.cluster.transaction() as transaction:
            for _ in range(self.dice.integer(1, 2)):
                for _ in range(self.dice.integer(1, 6)):
                    if self.dice.chance(0.2):
                        pods = [Ask(self.new_pod()) for _ in range(3)]
                        self.engine.place_all(pods, at_least=self.dice.one((None, 2, 0)))
                    elif self.dice.chance(0.6):
                        self.engine.place(Ask(self.new_pod()))
                    elif self.dice.chance(0.5) and row_of:
                        record = recorded(self.cluster, Ask(self.new_pod()))
                        self.cluster.place(record, row_of[self.dice.one(sorted(row_of))])
                    elif self.cluster.pods:
                        self.engine.cluster.remove_pod(self.dice.one(sorted(self.cluster.pods)))
                    if self.dice.chance(0.3):
                        self.engine.class_of(Ask(self.dice.one(self.asked))).best()
                transaction.undo()

    def _put_pod(self, pod: Pod) -> None:
        key = pod.metadata.key
        self._hear(pod_event(self._things["pods"].get(key), pod))
        self._things["pods"][key] = pod
        self._assigned_at_s.setdefault(key, self.cluster.now_s)
        put_pod(self.cluster, pod, self._assigned_at_s[key])

    def _bind_volumes(self, pod: Pod) -> None:
        """As the controllers of volumes do once a pod has its node: claims get the volumes that were kept for them."""
        storage = self.cluster.storage
        for volume in pod.spec.volumes:
            claim = storage.claims.get(f"{pod.metadata.namespace}/{claim_name(pod, volume)}")
            if claim is None or is_bound(claim):
                continue
            key = claim.metadata.key
            found = next((name for name, kept_for in storage.kept_for.items() if kept_for == key), None)
            if found is None:
                manifest = generate._volume(
                    self.dice, f"made-for-{claim.metadata.name}", claim.spec.storage_class_name or ""
                )
                found = manifest["metadata"]["name"]
                disk = convert(PersistentVolume, manifest)
            else:
                disk = storage.volumes[found]
            ref = {"name": claim.metadata.name, "namespace": claim.metadata.namespace}
            spec = convert(type(disk.spec), {"claimRef": ref})
            disk = replace(
                disk,
                spec=replace(disk.spec, claim_ref=spec.claim_ref),
                status=replace(disk.status, phase="Bound"),
            )
            self._put_storage("volumes", disk)
            notes = {**claim.metadata.annotations, BIND_COMPLETED_ANNOTATION: "yes"}
            meta = replace(claim.metadata, annotations=notes)
            bound = replace(claim, metadata=meta, spec=replace(claim.spec, volume_name=found))
            self._put_storage("claims", replace(bound, status=replace(bound.status, phase="Bound")))

    def node_changes(self) -> None:
        """A label, a taint, what it has, its images, or its annotations: as another node has them."""
        old, other = self._one("nodes", Node), self._fresh_node()
        if old is None:
            return
        meta, spec, status = old.metadata, old.spec, old.status
        match self.dice.integer(0, 5):
            case 0:
                labels = dict(other.metadata.labels)
                if self.dice.chance(0.8):
                    labels[generate_pod.HOSTNAME] = meta.name
                meta = replace(meta, labels=labels)
            case 1:
                key = self.dice.one((generate_pod.ZONE, "disk", "generation"))
                value = self.dice.one(("z0", "z1", "z9", "", "3"))
                meta = replace(meta, labels={**meta.labels, key: value})
            case 2:
                spec = replace(spec, taints=other.spec.taints)
            case 3:
                status = replace(status, allocatable=other.status.allocatable)
            case 4:
                status = replace(status, images=other.status.images)
            case _:
                said = generate._own_words(self.dice, {}) or generate._own_words(self.dice, {})
                meta = replace(meta, annotations=said)
        self._put_node(replace(old, metadata=meta, spec=spec, status=status))

    def cordon(self) -> None:
        old = self._one("nodes", Node)
        if old is not None:
            self._put_node(replace(old, spec=replace(old.spec, unschedulable=not old.spec.unschedulable)))

    def node_comes(self) -> None:
        """Sometimes many at once, so that the table grows; sometimes one that was there before, unchanged."""
        if self._gone and self.dice.chance(0.5):
            back = self._gone.pop()
            if back.metadata.name not in self._things["nodes"]:
                self._put_node(back)
            return
        for _ in range(self.dice.integer(60, 80) if self.dice.chance(0.03) else 1):
            self._put_node(self._fresh_node())

    def node_goes(self) -> None:
        node = self._one("nodes", Node)
        if node is None:
            return
        name = node.metadata.name
        for key in [key for key, pod in self._things["pods"].items() if pod.spec.node_name == name]:
            self._hear(pod_event(self._things["pods"].pop(key), None))
            if key in self.cluster.pods:
                self.engine.cluster.remove_pod(key)
        del self._things["nodes"][name]
        self._gone.append(node)
        self.cluster.remove_node(name)
        self._hear(node_event(node, None))

    def _fresh_node(self) -> Node:
        name = f"n{self.dice.integer(0, 25)}"
        while name in self._things["nodes"]:
            self._number += 1
            name = f"m{self._number}"
        manifest = generate._node(self.dice, name)
        if self.dice.chance(0.3):
            manifest["status"]["allocatable"] |= {"hugepages-2Mi": "128Mi", "kubernetes.io/mid-cpu": 3000}
        return convert(Node, manifest)

    def _put_node(self, node: Node) -> None:
        self._hear(node_event(self._things["nodes"].get(node.metadata.name), node))
        self._things["nodes"][node.metadata.name] = node
        self.cluster.put_node(node)

    def owners_change(self) -> None:
        """A Service or a workload comes, changes or goes."""
        fields: list[tuple[str, Any]] = [
            ("services", Service),
            ("replica_sets", ReplicaSet),
            ("stateful_sets", StatefulSet),
            ("replication_controllers", ReplicationController),
        ]
        field, kind = self.dice.one(fields)
        old = self._one(field, kind)
        if old is not None and self.dice.chance(0.5):
            del self._things[field][old.metadata.key]
            if isinstance(old, Service):
                self.cluster.remove_service(old.metadata.namespace, old.metadata.name)
            else:
                self.cluster.remove_workload(old)
            return
        made = [m for m in generate._owners(self.dice) if generate.KINDS[m["kind"]][1] == field]
        if made:
            thing: Any = convert(kind, self.dice.one(made))
            self._things[field][thing.metadata.key] = thing
            if isinstance(thing, Service):
                self.cluster.put_service(thing)
            else:
                self.cluster.put_workload(thing)

    def namespace_changes(self) -> None:
        name = self.dice.one(generate_pod.NAMESPACES)
        if self.dice.chance(0.2):
            if self._things["namespaces"].pop(name, None) is not None:
                self.cluster.remove_namespace(name)
            return
        labels = self.dice.one(({"env": "prod"}, {"env": "dev"}, {}))
        namespace = convert(Namespace, {"metadata": {"name": name, "labels": labels}})
        self._things["namespaces"][name] = namespace
        self.cluster.put_namespace(namespace)

    def reports(self) -> None:
        node = self._one("nodes", Node)
        if node is None:
            return
        placed = [
            {
                "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace},
                "spec": {"nodeName": pod.spec.node_name},
            }
            for pod in self._all("pods", Pod)
        ]
        metric = convert(NodeMetric, generate._metric(self.dice, node.metadata.name, placed))
        self._things["node_metrics"][metric.metadata.key] = metric
        self._tell_of_metric(metric)

    def report_goes(self) -> None:
        """Also of nodes that are gone."""
        metric = self._one("node_metrics", NodeMetric)
        if metric is not None:
            del self._things["node_metrics"][metric.metadata.key]
            self._hear(load_event(metric, None))
            for plugin in load_aware(self.engine):
                plugin.remove_node_metric(metric.metadata.name)

    def _tell_of_metric(self, metric: NodeMetric) -> None:
        self._hear(load_event(None, metric))
        for plugin in load_aware(self.engine):
            plugin.put_node_metric(metric)

    def time_passes(self) -> None:
        self.cluster.now_s += self.dice.one((0.001, 1, 59, 61, 180, 300))

    def storage_changes(self) -> None:
        """Claims, volumes, classes, drivers and what they say of nodes come, change and go."""
        fields = ("claims", "volumes", "storage_classes", "csi_nodes", "csi_drivers", "storage_capacities")
        nodes = sorted(self._things["nodes"])
        made = [m for m in generate._storage(self.dice, nodes) if generate.KINDS[m["kind"]][1] in fields]
        if self.dice.chance(0.3):
            field = self.dice.one(fields)
            thing = self._one(field, object)
            if thing is not None:
                del self._things[field][thing.metadata.key]
                self.cluster.remove_storage(thing)
                self._hear(storage_event(thing, None))
            return
        kind = self.dice.one(sorted({m["kind"] for m in made}))
        manifest = self.dice.one([m for m in made if m["kind"] == kind])
        type_, field = generate.KINDS[kind]
        self._put_storage(field, convert(type_, manifest))

    def _stock_up(self) -> None:
        """With all kinds of storage, so that pods find some."""
        for manifest in generate._storage(self.dice, sorted(self._things["nodes"])):
            type_, field = generate.KINDS[manifest["kind"]]
            self._put_storage(field, convert(type_, manifest))

    def _put_storage(self, field: str, thing: Any) -> None:
        self._things[field][thing.metadata.key] = thing
        self.cluster.put_storage(thing)
        self._hear(storage_event(None, thing))

    def _hear(self, event: ClusterEvent | None) -> None:
        if event is not None:
            self.heard.append(event)

    def _all(self, field: str, kind: type[T]) -> list[T]:
        return list(self._things[field].values())

    def _one(self, field: str, kind: type[T]) -> Any:
        things = self._things[field]
        return things[self.dice.one(sorted(things))] if things else None

    def _drop_strangers(self) -> None:
        """Pods that have ended are left out."""
        pods = self._things["pods"]
        self._things["pods"] = {key: pod for key, pod in pods.items() if not pod.is_finished}


def scratch(story: Story, dice: Dice, *, seed: int = 0) -> Engine:
    """An engine that received the present state only, in another order."""
    cluster = Cluster(seed)
    plain = story.plain()
    cluster.now_s = plain.now_s
    early = dice.chance(0.5)
    engine = engine_on(cluster, story.profile) if early else None
    shuffled: dict[str, Any] = {
        field: tuple(_shuffled(dice, getattr(plain, field))) for _, field in generate.KINDS.values()
    }
    present = Plain(**shuffled, now_s=plain.now_s, assigned_at_s=plain.assigned_at_s)
    feed(cluster, present)
    if engine is None:
        engine = engine_on(cluster, story.profile)
        put_pods(cluster, present)
    for plugin in load_aware(engine):
        for metric in plain.node_metrics:
            plugin.put_node_metric(metric)
    return engine


def _shuffled(dice: Dice, things: tuple[T, ...]) -> list[T]:
    left = list(things)
    return [left.pop(dice.integer(0, len(left) - 1)) for _ in range(len(things))]
