"""A webhook server for both API servers: TLS on loopback, one behaviour per path.

Every behaviour is a function of the review it gets, so that the two API servers see the same hook. `/slow` answers
after two seconds.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import trustme
from aiohttp import web

Review = dict[str, Any]


def _patched(*operations: dict[str, Any]) -> Review:
    return {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(operations).encode()).decode(),
    }


def _labelled(name: str, value: str) -> Callable[[Review], Review]:
    def answer(review: Review) -> Review:
        if review["object"] is None:
            return {"allowed": True}
        labels = review["object"]["metadata"].get("labels")
        start = [] if labels is not None else [{"op": "add", "path": "/metadata/labels", "value": {}}]
        return _patched(*start, {"op": "add", "path": f"/metadata/labels/{name}", "value": value})

    return answer


def _count(review: Review) -> Review:
    """Writes down how often it was called, which shows reinvocation."""
    data = review["object"].get("data") or {}
    count = int(data.get("count", "0")) + 1
    start = [] if review["object"].get("data") is not None else [{"op": "add", "path": "/data", "value": {}}]
    return _patched(*start, {"op": "add", "path": "/data/count", "value": str(count)})


def _second_label(review: Review) -> Review:
    """Adds a label once the first webhook's is there."""
    labels = review["object"]["metadata"].get("labels") or {}
    if "second" in labels:
        return {"allowed": True}
    return _labelled("second", "yes")(review)


def _echo(review: Review) -> Review:
    """Refuses, telling what the hook was asked: the review itself is compared."""
    told = {key: value for key, value in review.items() if key not in ("uid", "object", "oldObject")}
    told["has"] = [key for key in ("object", "oldObject") if review.get(key) is not None]
    told["userInfo"] = {key: value for key, value in review["userInfo"].items() if key in ("username", "groups", "uid")}
    return {"allowed": False, "status": {"message": json.dumps(told, sort_keys=True)}}


BEHAVIOURS: dict[str, Callable[[Review], Review]] = {
    "/allow": lambda _review: {"allowed": True},
    "/warn": lambda _review: {"allowed": True, "warnings": ["first warning", "second warning"]},
    "/audit": lambda _review: {"allowed": True, "auditAnnotations": {"key": "value"}},
    "/deny": lambda _review: {"allowed": False, "status": {"message": "not today"}},
    "/deny-bare": lambda _review: {"allowed": False},
    "/deny-code": lambda _review: {
        "allowed": False,
        "status": {
            "code": 409,
            "reason": "Conflict",
            "message": "taken",
            "details": {"causes": [{"reason": "FieldValueInvalid", "field": "data.a", "message": "bad"}]},
        },
    },
    "/label": _labelled("first", "yes"),
    "/second-label": _second_label,
    "/count": _count,
    "/echo": _echo,
    "/bad-patch": lambda _review: {"allowed": True, "patchType": "JSONPatch", "patch": "bm90IGpzb24="},
    "/missing-path": lambda _review: _patched({"op": "remove", "path": "/data/absent"}),
    "/invalid-result": lambda _review: _patched({"op": "replace", "path": "/metadata/labels", "value": {"a b": "c"}}),
    "/unknown-field": lambda _review: _patched({"op": "add", "path": "/unknown", "value": 1}),
    "/break-name": lambda _review: _patched({"op": "replace", "path": "/metadata/name", "value": "other"}),
    "/patch-without-type": lambda _review: {"allowed": True, "patch": "W10="},
    "/default-container": lambda _review: _patched(
        {"op": "add", "path": "/spec/containers/-", "value": {"name": "sidecar", "image": "example/sidecar"}}
    ),
    "/wrong-uid": lambda _review: {"allowed": True, "uid": "other"},
}


class WebhookServer:
    """`async with WebhookServer() as hooks:` gives `hooks.variables` for a target."""

    def __init__(self) -> None:
        authority = trustme.CA()
        self._certificate = authority.issue_cert("127.0.0.1", "localhost")
        self.ca_bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        self.other_ca_bundle = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
        self._runner: web.ServerRunner | None = None
        self.port = 0

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.TemporaryDirectory() as folder:
            chain, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            chain.write_bytes(b"".join(pem.bytes() for pem in self._certificate.cert_chain_pems))
            key.write_bytes(self._certificate.private_key_pem.bytes())
            context.load_cert_chain(chain, key)
        return context

    async def __aenter__(self) -> WebhookServer:
        self._runner = web.ServerRunner(web.Server(_answer))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context())
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def variables(self) -> dict[str, str]:
        return {
            "webhook": f"https://127.0.0.1:{self.port}",
            "webhook-ca": self.ca_bundle,
            "webhook-other-ca": self.other_ca_bundle,
        }


async def _answer(request: web.BaseRequest) -> web.Response:
    body = await request.json()
    review = body["request"]
    if request.path == "/slow":
        await asyncio.sleep(2)
        return _review(review, {"allowed": True})
    if request.path == "/crash":
        return web.Response(status=500, text="broken")
    if request.path == "/empty":
        return web.Response(status=200, text="")
    if request.path == "/not-json":
        return web.Response(status=200, text="hello", content_type="text/plain")
    if request.path == "/no-response":
        return web.json_response({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"})
    if request.path == "/wrong-version":
        return web.json_response(
            {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1", "response": {"uid": review["uid"]}}
        )
    behaviour = BEHAVIOURS.get(request.path)
    if behaviour is None:
        return web.Response(status=404, text="no such hook")
    return _review(review, behaviour(review))


def _review(review: Review, response: Review) -> web.Response:
    return web.json_response(
        {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "response": {"uid": review["uid"], **response},
        }
    )
