"""What a look now and then does not show: every node that a pod was ever on, gangs, and amounts that were there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from koord.api.kinds import ELASTIC_QUOTAS, NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.kube.background_task import background_task
from koord.kube.client import Client
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord_chaos.faults.live.ledger import Ledger
from koord_chaos.invariants.manifests import POD_GROUP, key_of, quantity

Amounts = Mapping[str, str | int | float]
PATHS: Final = {"Node": ("status", "allocatable"), "ElasticQuota": ("spec", "max")}
"""Where objects of a kind have amounts, which pods are given."""


class Places:
    """A pod that has been on two nodes was bound twice."""

    def __init__(self, client: Client, ledger: Ledger | None = None) -> None:
        self._ledger = ledger
        self._nodes: dict[str, set[str]] = {}
        self._names: dict[str, str] = {}
        self._members: dict[str, set[str]] = {}
        self._disturbed: set[str] = set()
        self._most: dict[tuple[str, str], dict[str, str | int | float]] = {}
        self._now: dict[tuple[str, str], Amounts] = {}
        self._tainted: dict[str, frozenset[str]] = {}
        self._always: dict[str, frozenset[str]] = {}
        "Taints that a node had all the time since they were last forgotten."
        self.pods: Informer[Pod] = Informer(client, PODS)
        self.pods.add_handler(self._pod)
        self.nodes: Informer[Node] = Informer(client, NODES)
        self.nodes.add_handler(self._node)
        self.quotas: Informer[ElasticQuota] = Informer(client, ELASTIC_QUOTAS)
        self.quotas.add_handler(self._quota)

    def _pod(self, delta: Delta[Pod]) -> None:
        pod = delta.new if delta.new is not None else delta.old
        assert pod is not None
        meta, node = pod.metadata, pod.spec.node_name
        if self._ledger is not None:
            if delta.new is None:
                self._ledger.pods.pop(meta.key, None)
            else:
                self._ledger.pods[meta.key] = PODS.manifest(pod)
        if node:
            self._nodes.setdefault(meta.uid, set()).add(node)
            self._names[meta.uid] = meta.key
        if gang := meta.labels.get(POD_GROUP):
            key = f"{meta.namespace}/{gang}"
            if node:
                self._members.setdefault(key, set()).add(meta.uid)
            elif delta.new is None:
                self._disturbed.add(key)

    def _node(self, delta: Delta[Node]) -> None:
        self._has("Node", delta.key, {} if delta.new is None else dict(delta.new.status.allocatable))
        taints = frozenset[str]() if delta.new is None else frozenset(taint.key for taint in delta.new.spec.taints)
        self._tainted[delta.key] = taints
        self._always[delta.key] = self._always.get(delta.key, taints) & taints

    def _quota(self, delta: Delta[ElasticQuota]) -> None:
        self._has("ElasticQuota", delta.key, {} if delta.new is None else dict(delta.new.spec.max or {}))

    def _has(self, kind: str, key: str, amounts: Amounts) -> None:
        self._now[kind, key] = amounts
        most = self._most.setdefault((kind, key), {})
        for name, amount in amounts.items():
            if name not in most or quantity(amount) > quantity(most[name]):
                most[name] = amount

    def at_best(self, objects: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        """The same objects with the most amounts and the fewest taints since `forget`: a pod was bound by what there
        was at the time."""
        return {kind: [self._raised(kind, manifest) for manifest in manifests] for kind, manifests in objects.items()}

    def _raised(self, kind: str, manifest: dict[str, Any]) -> dict[str, Any]:
        most = self._most.get((kind, key_of(manifest)))
        if not most:
            return manifest
        part, name = PATHS[kind]
        if kind == "Node" and manifest["spec"].get("taints"):
            always = self._always.get(key_of(manifest), frozenset())
            taints = [taint for taint in manifest["spec"]["taints"] if taint["key"] in always]
            manifest = {**manifest, "spec": {**manifest["spec"], "taints": taints}}
        amounts = {**(manifest.get(part, {}).get(name) or {}), **most}
        return {**manifest, part: {**manifest.get(part, {}), name: amounts}}

    def forget(self) -> None:
        """What was before counts no more."""
        self._always = dict(self._tainted)
        self._most = {place: dict(amounts) for place, amounts in self._now.items()}

    def bound_twice(self) -> list[str]:
        return [
            f"pod {self._names[uid]} ({uid}) was on {', '.join(sorted(nodes))}"
            for uid, nodes in self._nodes.items()
            if len(nodes) > 1
        ]

    def gangs(self) -> dict[str, frozenset[str]]:
        """Members that ever had a node, by gang; without gangs that lost a member before."""
        return {key: frozenset(uids) for key, uids in self._members.items() if key not in self._disturbed}


@asynccontextmanager
async def watching(client: Client, ledger: Ledger | None = None) -> AsyncIterator[Places]:
    places = Places(client, ledger)
    async with (
        background_task(places.pods.run(), name="pods"),
        background_task(places.nodes.run(), name="nodes"),
        background_task(places.quotas.run(), name="quotas"),
    ):
        for informer in (places.pods, places.nodes, places.quotas):
            await informer.synced()
        yield places
