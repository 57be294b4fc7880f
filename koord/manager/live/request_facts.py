"""What a single request needs beyond what informers have: read from the API server when the request comes.

A namespace that was created a moment ago may not have reached the informers: its labels are read. So are the pod of a
binding, and the parent, the pods and the rights that a change of a quota depends on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from msgspec.structs import replace as struct_replace

from koord.admission.agents import asks_for_node
from koord.admission.cluster_facts import ClusterFacts
from koord.admission.plain import part
from koord.admission.quota_objects import QuotaPods, newly_listed
from koord.admission.quota_topology import namespaces_of
from koord.admission.request import Request
from koord.api import kinds
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import DecodeError, convert
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.kube.authorize import SUBJECT_ACCESS_REVIEWS
from koord.kube.client import Client
from koord.kube.errors import ApiError

log = logging.getLogger(__name__)

ASK_S: Final = 2.0
"""Timeout of a read. API servers wait a few seconds for the answer of a webhook."""
MOST_LISTED: Final = 100
"""How many namespaces may be added to a quota at a time: each is checked with the API server."""
ASKED_AT_ONCE: Final = 8


class RequestFacts:
    """Completes the facts for one request."""

    def __init__(self, client: Client) -> None:
        self._client = client.limited(timeout_s=ASK_S, attempts=1)

    async def complete(self, facts: ClusterFacts, request: Request, namespace: str) -> ClusterFacts:
        """The facts, with everything else that this request needs."""
        if namespace and namespace not in facts.namespaces:
            labels = await self._labels_of(namespace)
            if labels is not None:
                facts = replace(facts, namespaces={namespace: labels})
        if request.subresource == "binding" and facts.binding.early(request.user, request.namespace) is None:
            pod = await self._pod(request.namespace, request.name)
            if pod is not None:
                facts = replace(facts, pods={f"{request.namespace}/{request.name}": pod.metadata})
        if asks_for_node(request):
            pod = await self._pod(request.namespace, request.name)
            if pod is not None:
                facts = replace(facts, pod_nodes={f"{request.namespace}/{request.name}": pod.spec.node_name})
        if request.resource == "elasticquotas":
            facts = await self._about_quota(facts, request)
        return facts

    async def _about_quota(self, facts: ClusterFacts, request: Request) -> ClusterFacts:
        """With what a quota request needs: a parent that was created a moment ago, and pods that are in the quota."""
        new, old = (part(obj or {}, "metadata") for obj in (request.object, request.old))
        parent = part(new, "labels").get(names.LABEL_QUOTA_PARENT)
        if request.operation != "DELETE" and names.ANNOTATION_QUOTA_NAMESPACES in part(new, "annotations"):
            facts = replace(facts, namespace_denials=await self._denials(request))
        try:
            if parent and facts.quotas.get(parent) is None:
                for quota in await self._client.list(kinds.ELASTIC_QUOTAS, fields=f"metadata.name={parent}"):
                    facts.quotas.put(quota)
            is_parent = [part(metadata, "labels").get(names.LABEL_QUOTA_IS_PARENT) == "true" for metadata in (new, old)]
            if request.operation == "DELETE" or (request.operation == "UPDATE" and is_parent == [True, False]):
                facts = replace(facts, quota_pods=await self._pods_in(request))
        except (ApiError, TimeoutError) as error:
            log.warning("what a quota is checked against cannot be read: %s", error)
        return facts

    async def _denials(self, request: Request) -> dict[str, str]:
        """By namespace that a quota newly lists: why its author may not list it."""
        try:
            new = convert(ElasticQuota, request.object or {})
            old = convert(ElasticQuota, request.old) if request.old else None
        except DecodeError:
            return {}
        if not new.metadata.namespace:
            new = struct_replace(new, metadata=struct_replace(new.metadata, namespace=request.namespace))
        listed = [namespace for namespace in newly_listed(new, old) if namespace not in names.CLUSTER_NAMESPACES]
        # Most authors of long lists may create quotas in all namespaces.
        if not listed or not await self._refuses(request, ""):
            return {}
        if len(listed) > MOST_LISTED:
            return {listed[MOST_LISTED]: f"at most {MOST_LISTED} namespaces may be added at a time"}
        turns = asyncio.Semaphore(ASKED_AT_ONCE)

        async def why(namespace: str) -> str:
            async with turns:
                return await self._refuses(request, namespace)

        denials = await asyncio.gather(*map(why, listed))
        return {namespace: denial for namespace, denial in zip(listed, denials, strict=True) if denial}

    async def _refuses(self, request: Request, namespace: str) -> str:
        """Why a user may not make quotas in a namespace, or anywhere where that is empty; empty where they may."""
        kind = kinds.ELASTIC_QUOTAS
        right = {"verb": "create", "group": kind.group, "resource": kind.plural, "namespace": namespace}
        spec = {"user": request.user, "groups": list(request.groups), "resourceAttributes": right}
        try:
            review = await self._client.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        except (ApiError, TimeoutError) as error:
            return f"whether {request.user} may create {kind.resource} there cannot be asked ({error}); try again"
        return "" if review.status.allowed else f"{request.user} may not create {kind.resource} there"

    async def _pods_in(self, request: Request) -> QuotaPods:
        """A pod for each way of being in a quota."""
        quota = convert(ElasticQuota, request.old or {})
        name, key = quota.metadata.name or request.name, names.LABEL_QUOTA_NAME
        labelled = await self._one_pod(labels=f"{key}={name}")
        own = [request.namespace] if name == request.namespace else []
        within = {
            namespace: await self._one_pod(namespace=namespace, labels=f"!{key}")
            for namespace in [*own, *namespaces_of(quota)]
        }
        return QuotaPods({name: labelled} if labelled else {}, {label: pod for label, pod in within.items() if pod})

    async def _one_pod(self, *, labels: str, namespace: str = "") -> str:
        async for page in self._client.typed_pages(kinds.PODS, namespace=namespace, labels=labels, limit=1):
            for pod in page.items:
                return pod.metadata.key
        return ""

    async def _labels_of(self, namespace: str) -> Mapping[str, str] | None:
        try:
            return (await self._client.get(kinds.NAMESPACES, namespace)).metadata.labels
        except (ApiError, TimeoutError) as error:
            log.warning("namespace %s is not known and cannot be read: %s", namespace, error)
            return None

    async def _pod(self, namespace: str, name: str) -> Pod | None:
        try:
            return await self._client.get(kinds.PODS, name, namespace=namespace)
        except (ApiError, TimeoutError) as error:
            log.warning("pod %s/%s cannot be read, so that rules do not know it: %s", namespace, name, error)
            return None
