"""One review: bytes in, bytes out, and how long each rule took.

What is no review is answered with 400 and why; whatever rules find is an answer with status 200, as the protocol has
it. Reviews of both versions of admission.k8s.io are answered in the version in which they come.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, Protocol

import msgspec
from aiohttp import web
from prometheus_client import Histogram

from koord.admission.binding import BindingDecision
from koord.admission.cluster_facts import ClusterFacts
from koord.admission.hook import Hook
from koord.admission.plain import part
from koord.admission.request import BAD_REQUEST, AdmissionAnswer, Gates, Request
from koord.admission.review import mutate, validate
from koord.admission.typed import pod as pod_of
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.admissionregistration import (
    AdmissionRequest,
    AdmissionResponse,
    AdmissionReview,
    AdmissionStatus,
)
from koord.api.machinery.codec import DecodeError, decode
from koord.kube.listening import BODY_WITHIN_S
from koord.kube.metrics import Metrics
from koord.manager.live.quota_counting import QuotaCounting

log = logging.getLogger(__name__)

VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
NODE_OF_TOKEN: Final = "authentication.kubernetes.io/node-name"
"""What API servers say of users whose token is bound to a pod."""
LARGEST: Final = 32 << 20
_REASONS: Final[Mapping[int, str]] = {400: "BadRequest", 403: "Forbidden", 500: "InternalError"}
_JSON: Final = {"Content-Type": "application/json"}
_BUCKETS: Final = tuple(0.001 * 2**i for i in range(20))

_to_json: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode


class FactsSource(Protocol):
    """Provides the facts that rules look up."""

    async def for_request(self, request: Request, namespace: str) -> ClusterFacts: ...


class Reviews:
    """Answers reviews by path."""

    def __init__(
        self,
        facts: FactsSource,
        gates: Gates,
        hooks: Iterable[Hook],
        metrics: Metrics,
        seed: int = 0,
        *,
        counting: QuotaCounting | None = None,
        quota_admitted: Callable[[Request], None] = lambda request: None,
    ) -> None:
        self._facts, self._gates, self._seed = facts, gates, seed
        self._counting, self._quota_admitted = counting, quota_admitted
        # Several entries of a configuration share a path; for one path they agree in what matters here.
        self._by_path: dict[str, Hook] = {hook.path: hook for hook in hooks}
        self._timing = _Timing(metrics)
        self._bindings = metrics.counter(
            "koord_manager_webhook_binding_admission_decisions_total", "Bindings by what was decided", "decision"
        )

    async def handle(self, request: web.BaseRequest) -> web.Response:
        hook = self._by_path.get(request.path)
        if hook is None:
            if request.path == "/healthz":
                return web.Response(text="ok")
            return web.Response(status=404, text=f"there is no webhook {request.path}")
        if request.method != "POST":
            return web.Response(status=405, text="reviews are posted")
        try:
            async with asyncio.timeout(BODY_WITHIN_S):
                body = await _body(request)
        except TimeoutError:
            return web.Response(status=408, text=f"the review did not arrive within {BODY_WITHIN_S:g} seconds")
        if body is None:
            return web.Response(status=413, text=f"a review may have at most {LARGEST} bytes")
        try:
            review = decode(AdmissionReview, body)
        except DecodeError as error:
            return web.Response(status=400, text=str(error))
        if review.request is None or review.api_version not in VERSIONS:
            wanted = " or ".join(VERSIONS)
            return web.Response(status=400, text=f"must be an AdmissionReview of {wanted} with a request")
        answer = await self.answer(hook, review.request)
        whole = AdmissionReview(review.api_version, "AdmissionReview", response=_response(hook, review.request, answer))
        return web.Response(body=_to_json(whole), headers=_JSON)

    async def answer(self, hook: Hook, asked: AdmissionRequest) -> AdmissionAnswer:
        request = Request(
            operation=asked.operation,
            resource=asked.resource.resource,
            object=asked.object,
            old=asked.old_object,
            subresource=asked.sub_resource,
            group=asked.resource.group,
            version=asked.resource.version,
            namespace=asked.namespace,
            name=asked.name,
            uid=asked.uid,
            user=asked.user_info.username,
            groups=asked.user_info.groups,
            node=next(iter(asked.user_info.extra.get(NODE_OF_TOKEN, ())), ""),
            dry_run=asked.dry_run,
        )
        namespace = part(asked.object or {}, "metadata").get("namespace") or asked.namespace
        facts = await self._facts.for_request(request, namespace)
        if request.subresource == "binding" and self._gates[ManagerGate.BINDING_ADMISSION_WEBHOOK]:
            self._count(request, facts)
        observe = self._timing.begin(hook, asked.operation)
        if hook.mutating:
            answer = mutate(request, facts, self._gates, self._seed, observe)
        else:
            answer = validate(request, facts, self._gates, observe)
            if answer.allowed and request.resource == "elasticquotas":
                self._quota_admitted(request)
            if answer.allowed and request.resource == "pods" and not request.subresource:
                answer = await self._counted(request, answer, namespace)
        if not answer.allowed:
            # `koord status` tries by a dry run whether odd pods are denied.
            log.log(
                logging.DEBUG if asked.dry_run else logging.INFO,
                "denied %s of %s %s/%s: %s",
                asked.operation,
                asked.resource.resource,
                asked.namespace,
                asked.name,
                answer.message,
            )
        return answer

    async def _counted(self, request: Request, answer: AdmissionAnswer, namespace: str) -> AdmissionAnswer:
        """Whether the quota of a pod has room for it. What is only tried out is not counted."""
        is_update = request.operation == "UPDATE"
        is_on = self._gates[ManagerGate.ENABLE_QUOTA_ADMISSION] and (
            not is_update or self._gates[ManagerGate.ENABLE_QUOTA_ADMISSION_ON_UPDATE]
        )
        if self._counting is None or not is_on or request.dry_run:
            return answer
        old = pod_of(request.old or {}) if is_update else None
        why = await self._counting.count(pod_of(request.object or {}), namespace, old)
        return answer if not why else replace(answer, allowed=False, code=BAD_REQUEST, message=why)

    def _count(self, request: Request, facts: ClusterFacts) -> None:
        pod = facts.pods.get(f"{request.namespace}/{request.name}")
        decision = facts.binding.decide(request.user, request.namespace, pod)
        if decision is not BindingDecision.NOT_ASKED:
            self._bindings.labels(decision.value).inc()


async def _body(request: web.BaseRequest) -> bytes | None:
    """What was sent; None where that is more than any review can be."""
    if (request.content_length or 0) > LARGEST:
        return None
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > LARGEST:
            return None
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class _Timing:
    """The time of each rule, from one call to the next."""

    def __init__(self, metrics: Metrics) -> None:
        self._family = metrics.histogram(
            "koord_manager_webhook_webhook_duration_milliseconds",
            "Milliseconds that a rule of admission takes",
            _BUCKETS,
            "webhook_type",
            "object_type",
            "operation",
            "plugin_name",
            "status",
        )
        self._children: dict[tuple[str, str, str, str, bool], Histogram] = {}

    def begin(self, hook: Hook, operation: str) -> Callable[[str, bool], None]:
        before_s = time.perf_counter()
        kind = "mutate" if hook.mutating else "validate"

        def observe(rule: str, passed: bool) -> None:
            nonlocal before_s
            now_s = time.perf_counter()
            key = (kind, hook.object_type, operation, rule, passed)
            child = self._children.get(key)
            if child is None:
                status = "allowed" if passed else "rejected"
                child = self._children[key] = self._family.labels(*key[:4], status)
            child.observe((now_s - before_s) * 1000)
            before_s = now_s

        return observe


def _response(hook: Hook, asked: AdmissionRequest, answer: AdmissionAnswer) -> AdmissionResponse:
    if not answer.allowed:
        status = AdmissionStatus(answer.message, _REASONS.get(answer.code, ""), answer.code)
        return AdmissionResponse(asked.uid, False, status=status, warnings=answer.warnings)
    if not hook.mutating or not answer.patch:
        return AdmissionResponse(asked.uid, True, warnings=answer.warnings)
    return AdmissionResponse(
        asked.uid, True, patch=_to_json(answer.patch), patch_type="JSONPatch", warnings=answer.warnings
    )
