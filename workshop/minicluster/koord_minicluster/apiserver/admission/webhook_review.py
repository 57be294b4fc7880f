"""AdmissionReview: what a webhook is sent, and what its answer means.

Answers are checked as the real server does: same uid, same version, a patch only from mutating hooks and always with
its type. A refusal carries the webhook's own status, with the hook's name in front of its message.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from koord_minicluster.apiserver.admission.attributes import Attributes
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import StatusError

_VERSIONS: Final = ("v1", "v1beta1")
_KIND: Final = ("group", "version", "kind")
_OPTIONS_KINDS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class InvalidReview(Exception):
    """The webhook's answer is not what an AdmissionReview must be."""


class Unconvertible(Exception):
    """The webhook answered in another version than it was asked in."""


class Denied(StatusError):
    """The webhook said no; its status is the answer."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status["code"], status.get("reason", ""), status["message"])
        self._status = status

    def body(self) -> dict[str, Any]:
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **self._status}


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    patch: bytes = b""
    patch_type: str = ""
    status: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Review:
    """A review to send. `version` is the newest that the hook takes."""

    uid: str
    version: str
    body: dict[str, Any]


def review(attributes: Attributes, resource: Resource, versions: tuple[str, ...]) -> Review:
    """The review of a write as one on `resource`. Raises InvalidReview where the hook takes no version that we know."""
    version = next((version for version in versions if version in _VERSIONS), None)
    if version is None:
        raise InvalidReview("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
    asked = attributes.resource
    kind = attributes.kind or (resource.group, resource.version, resource.kind)
    asked_kind = attributes.kind or (asked.group, asked.version, asked.kind)
    request: dict[str, Any] = {
        "uid": str(uuid.uuid4()),
        "kind": dict(zip(_KIND, kind, strict=True)),
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
        "requestKind": dict(zip(_KIND, asked_kind, strict=True)),
        "requestResource": {"group": asked.group, "version": asked.version, "resource": asked.plural},
        "operation": attributes.operation,
        "userInfo": attributes.user.as_json(),
        "object": attributes.obj if attributes.kind else as_version(attributes.obj, resource),
        "oldObject": as_version(attributes.old, resource),
        "dryRun": attributes.dry_run,
        "options": _options(attributes),
    }
    namespace = attributes.name if attributes.is_namespace else attributes.namespace
    for key, value in (
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
        ("name", attributes.name),
        ("namespace", namespace),
    ):
        if value:
            request[key] = value
    body = {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}
    return Review(request["uid"], version, body)


def as_version(obj: Obj | None, resource: Resource) -> Obj | None:
    """The object under the group and version of `resource`, another name of the same kind."""
    if obj is None:
        return None
    if obj.get("apiVersion") not in (None, resource.api_version) and resource.convert is not None:
        return resource.convert(obj, resource.api_version)
    return {**obj, "kind": resource.kind, "apiVersion": resource.api_version}


def verdict(sent: Review, answer: object, *, mutating: bool) -> Verdict:
    """What the answer says. Raises InvalidReview or Unconvertible."""
    if isinstance(answer, dict) and (other := _other_version(answer, sent.version)):
        raise Unconvertible(
            f"converting ({other}.AdmissionReview) to ({sent.version}.AdmissionReview): unknown conversion"
        )
    if not isinstance(answer, dict) or not isinstance(response := answer.get("response"), dict):
        raise InvalidReview("webhook response was absent")
    patch = _decoded(response.get("patch"))
    patch_type = response.get("patchType")
    if sent.version == "v1":
        if response.get("uid", "") != sent.uid:
            raise InvalidReview(f'expected response.uid="{sent.uid}", got "{response.get("uid", "")}"')
        got = (answer.get("apiVersion") or "/", answer.get("kind") or "")
        if got != ("admission.k8s.io/v1", "AdmissionReview"):
            wanted = "admission.k8s.io/v1, Kind=AdmissionReview"
            raise InvalidReview(f"expected webhook response of {wanted}, got {got[0]}, Kind={got[1]}")
        _check_patch(patch, patch_type, mutating)
    return Verdict(
        bool(response.get("allowed")),
        patch if mutating else b"",
        (patch_type or "JSONPatch") if patch else "",
        response.get("status"),
        tuple(response.get("warnings") or ()),
    )


def denied(hook: str, status: Mapping[str, Any] | None) -> Denied:
    """The refusal for the client: the webhook's status, made to be one."""
    given = {key: value for key, value in (status or {}).items() if key not in ("kind", "apiVersion", "metadata")}
    code = int(given.get("code") or 0)
    by = f'admission webhook "{hook}" denied the request'
    text = given.get("message") or given.get("reason")
    shown: dict[str, Any] = {"status": "Failure", "message": f"{by}: {text}" if text else f"{by} without explanation"}
    for key in ("reason", "details"):
        if given.get(key):
            shown[key] = given[key]
    return Denied({**shown, "code": max(code, 400)})


def _other_version(answer: Mapping[str, Any], version: str) -> str:
    group, _, got = str(answer.get("apiVersion") or "").partition("/")
    return got if group == "admission.k8s.io" and got in _VERSIONS and got != version else ""


def _check_patch(patch: bytes, patch_type: str | None, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise InvalidReview("validating webhook may not return response.patch")
        if patch_type is not None:
            raise InvalidReview("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise InvalidReview("webhook returned response.patch but not response.patchType")
    elif patch_type is not None and not patch:
        raise InvalidReview("webhook returned response.patchType but not response.patch")
    elif patch_type == "":
        raise InvalidReview('webhook returned invalid response.patchType of ""')


def _decoded(patch: object) -> bytes:
    try:
        return base64.b64decode(str(patch or ""), validate=True)
    except binascii.Error as error:
        raise InvalidReview(f"response.patch is not base64: {error}") from error


def _options(attributes: Attributes) -> dict[str, Any]:
    kind = attributes.options.get("kind") or _OPTIONS_KINDS.get(attributes.operation, "")
    rest = {key: value for key, value in attributes.options.items() if key not in ("kind", "apiVersion")}
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **rest}
