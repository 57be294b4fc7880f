"""The loop of ResourceClaims. Not every server has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from koord.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.dynamic_resources import ResourceClaim, ResourceClaimTemplate
from koord.api.workloads.pod_claims import missing_claims
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import NotFound
from koord.kube.store import Delta
from koord_minicluster.controllers import resource_claims as decisions
from koord_minicluster.controllers.actions import Create
from koord_minicluster.controllers.live.cluster import Cluster, about
from koord_minicluster.controllers.live.resources import ServedResources
from koord_minicluster.controllers.live.view import View

OWNER: Final = "owner pod"
TEMPLATE: Final = "claim template"
_POD, _CLAIM = "pod", "claim"


def by_owner(claim: ResourceClaim) -> list[str]:
    owner = claim.metadata.controller
    return [owner.uid] if owner is not None and owner.kind == "Pod" else []


def by_template(pod: Pod) -> list[str]:
    names = (entry.resource_claim_template_name for entry in pod.spec.resource_claims)
    return [f"{pod.metadata.namespace}/{name}" for name in names if name is not None]


class ResourceClaimLoop:
    """Keys are `pod NAMESPACE/NAME` and `claim NAMESPACE/NAME`."""

    def __init__(self, cluster: Cluster, served: ServedResources) -> None:
        self._cluster, self._served = cluster, served
        self._pods = cluster.view(PODS)
        self._pods.add_index(TEMPLATE, by_template)
        self._claims: View[ResourceClaim] | None = None
        self._templates: View[ResourceClaimTemplate] | None = None
        self.controller: Controller[str] = Controller("resource-claims", self._reconcile)
        self.controller.watch(self._pods, self._of_pod)
        served.add_handler(self._served_changed)

    def _served_changed(self) -> None:
        if self._claims is None and self._served.find(RESOURCE_CLAIMS.api_version, RESOURCE_CLAIMS.kind) is not None:
            self._claims = self._cluster.view(RESOURCE_CLAIMS)
            self._claims.add_index(OWNER, by_owner)
            self._templates = self._cluster.view(RESOURCE_CLAIM_TEMPLATES)
            self.controller.watch(self._templates, self._of_template)
            self.controller.watch(self._claims, self._of_claim)

    def _of_pod(self, delta: Delta[Pod]) -> Iterable[str]:
        pod = delta.new or delta.old
        if pod is None or not pod.spec.resource_claims:
            return
        yield f"{_POD} {delta.key}"
        names = {entry.resource_claim_name for entry in pod.spec.resource_claims}
        names |= {status.resource_claim_name for status in pod.status.resource_claim_statuses}
        yield from (f"{_CLAIM} {pod.metadata.namespace}/{name}" for name in sorted(filter(None, names)))

    def _of_claim(self, delta: Delta[ResourceClaim]) -> Iterable[str]:
        claim = delta.new or delta.old
        owner = None if claim is None else claim.metadata.controller
        if claim is not None and owner is not None and owner.kind == "Pod":
            yield f"{_POD} {claim.metadata.namespace}/{owner.name}"
        yield f"{_CLAIM} {delta.key}"

    def _of_template(self, delta: Delta[ResourceClaimTemplate]) -> Iterable[str]:
        if delta.new is not None:
            yield from (f"{_POD} {pod.metadata.key}" for pod in self._pods.by_index(TEMPLATE, delta.key))

    async def _reconcile(self, key: str) -> Requeue | None:
        kind, _, name = key.partition(" ")
        if self._claims is None or self._templates is None:
            return None
        await (self._make(name, self._claims, self._templates) if kind == _POD else self._tidy(name, self._claims))
        return None

    async def _make(self, key: str, claims: View[ResourceClaim], templates: View[ResourceClaimTemplate]) -> None:
        """Make the claims that a pod lacks, and say so on the pod."""
        pod = self._pods.get(key)
        if pod is None or not decisions.wants_claims(pod):
            return
        names: dict[str, str] = {}
        owned = claims.by_index(OWNER, pod.metadata.uid)
        for entry in missing_claims(pod):
            claim = decisions.made_for(pod, entry, owned)
            if claim is None:
                template = templates.get(f"{pod.metadata.namespace}/{entry.resource_claim_template_name}")
                action = decisions.creation(pod, entry, template)
                if not isinstance(action, Create):
                    self._cluster.writer.tell(about(PODS, pod), action)
                    continue
                claim = await self._cluster.writer.create(action, about(PODS, pod))
            names[entry.name] = claim.metadata.name
        if names:
            await self._cluster.writer.patch(decisions.told_pod(pod, names))

    async def _tidy(self, key: str, claims: View[ResourceClaim]) -> None:
        """Take from a claim what it no longer needs."""
        claim = claims.get(key)
        if claim is None:
            return
        namespace = claim.metadata.namespace
        users = [user.name for user in claim.status.reserved_for if decisions.is_pod(user)]
        pods = {name: await self._pod(namespace, name) for name in users}
        owner = claim.metadata.controller
        owning = self._pods.get(f"{namespace}/{owner.name}") if owner is not None and owner.kind == "Pod" else None
        if owning is not None and owner is not None and owning.metadata.uid != owner.uid:
            owning = None
        for action in decisions.tidied(claim, pods.get, owning):
            await self._cluster.writer.carry_out([action], about(RESOURCE_CLAIMS, claim))

    async def _pod(self, namespace: str, name: str) -> Pod | None:
        """A pod that uses a claim. One that is not known may be new: the server is asked."""
        pod = self._pods.get(f"{namespace}/{name}")
        if pod is not None:
            return pod
        try:
            return await self._cluster.client.get(PODS, name, namespace=namespace)
        except NotFound:
            return None
