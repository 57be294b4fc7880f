"""How API servers find the webhooks: two configurations, created if absent, restored if a user edits them.

Their webhooks are koord's entirely: an entry too many, too few or changed is put right. Metadata is left to others, but
for one owner: the manager's namespace. So the configurations are collected with that namespace, also while no manager
runs. A configuration that was another system's keeps that one's webhooks in an annotation,
for when koord goes.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from koord.admission import break_glass
from koord.admission.hook import REVIEW_VERSIONS, Hook
from koord.admission.plain import part
from koord.api.kinds import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS, Kind
from koord.api.protocol import hand_over, names
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, Conflict, NotFound

log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "koord-manager-webhooks"
_SERVICE_PORT: Final = 443


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where API servers call: a service, or a URL where `url` is set (`https://127.0.0.1:9876`)."""

    namespace: str
    service: str
    url: str = ""

    def client_config(self, path: str, bundle: bytes) -> dict[str, Any]:
        where: dict[str, Any] = {"url": self.url + path}
        if not self.url:
            service = {"namespace": self.namespace, "name": self.service, "path": path, "port": _SERVICE_PORT}
            where = {"service": service}
        return {**where, "caBundle": base64.b64encode(bundle).decode()}

    def is_called_by(self, entry: Mapping[str, Any]) -> bool:
        called = part(entry, "clientConfig")
        if self.url:
            return str(called.get("url", "")).startswith(self.url)
        service = part(called, "service")
        return (service.get("namespace"), service.get("name")) == (self.namespace, self.service)


def entries(hooks: Iterable[Hook], endpoint: Endpoint, bundle: bytes) -> list[dict[str, Any]]:
    """Webhooks as a configuration lists them, in the order in which they are called: every field, so that what a
    server fills in is no difference."""
    return [_entry(hook, endpoint, bundle) for hook in hooks]


def _entry(hook: Hook, endpoint: Endpoint, bundle: bytes) -> dict[str, Any]:
    rule = {
        "operations": list(hook.operations),
        "apiGroups": [hook.group],
        "apiVersions": [hook.version],
        "resources": [hook.resource],
        "scope": "*",
    }
    return {
        "name": hook.name,
        "clientConfig": endpoint.client_config(hook.path, bundle),
        "rules": [rule],
        "failurePolicy": "Fail" if hook.fails_closed else "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": _selector(hook.namespace_selector),
        "objectSelector": _selector(hook.object_selector),
        "sideEffects": "None",
        "timeoutSeconds": hook.timeout_s,
        "admissionReviewVersions": list(REVIEW_VERSIONS),
        **({"reinvocationPolicy": "Never"} if hook.mutating else {}),
        **({"matchConditions": [{"name": n, "expression": e} for n, e in hook.conditions]} if hook.conditions else {}),
    }


def unconditional(webhooks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """As an API server keeps them that knows no conditions. Its pods all wait: entries in passing come too late."""
    return [{key: value for key, value in webhook.items() if key != "matchConditions"} for webhook in webhooks]


def _selector(expressions: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    return {"matchExpressions": [dict(expression) for expression in expressions]} if expressions else {}


def before_koord(present: Mapping[str, Any], endpoint: Endpoint) -> str | None:
    """The webhooks of another system's configuration, to be kept for when koord is removed; None if they are koord's
    own, perhaps with an earlier address."""
    webhooks = present.get("webhooks") or []
    meta = part(present, "metadata")
    if not webhooks or any(endpoint.is_called_by(webhook) for webhook in webhooks):
        return None
    if names.OWN_ANNOTATION_WEBHOOKS_BEFORE not in part(meta, "annotations"):
        made_by_koord = part(meta, "labels").get("app.kubernetes.io/part-of") == "koord"
        if made_by_koord or any(entry.get("manager") == FIELD_MANAGER for entry in meta.get("managedFields") or []):
            return None
    return msgspec.json.encode(hand_over.as_before(present)).decode()


def owned(owners: Iterable[Mapping[str, Any]], endpoint: Endpoint, uid: str) -> list[dict[str, Any]]:
    """Owners of a configuration, with the endpoint's namespace of that uid among them; unchanged without a uid."""
    others = [dict(owner) for owner in owners]
    if not uid:
        return others
    others = [other for other in others if (other.get("kind"), other.get("name")) != ("Namespace", endpoint.namespace)]
    return [*others, {"apiVersion": "v1", "kind": "Namespace", "name": endpoint.namespace, "uid": uid}]


class Registration:
    """The two configurations, by name."""

    def __init__(self, client: Client, mutating: str, validating: str) -> None:
        self._client = client
        self._names: dict[bool, tuple[Kind[Any], str]] = {
            True: (MUTATING_WEBHOOK_CONFIGURATIONS, mutating),
            False: (VALIDATING_WEBHOOK_CONFIGURATIONS, validating),
        }
        self._off: dict[str, str] = {}
        "Configurations that an administrator has emptied, with the reason."
        self._unconditional: set[str] = set()
        "Configurations that were kept without conditions."

    @property
    def is_off(self) -> bool:
        """Whether an administrator had taken admission off at the last check."""
        return bool(self._off)

    async def ensure(self, hooks: Iterable[Hook], endpoint: Endpoint, bundle: bytes, owner: str = "") -> bool:
        """Restores the configurations. Returns whether anything had to change. `owner`: the uid of the
        endpoint's namespace, if the configurations go with it."""
        listed = list(hooks)
        mended = False
        for mutating, (kind, name) in self._names.items():
            wanted = entries((hook for hook in listed if hook.mutating is mutating), endpoint, bundle)
            mended |= await self._ensure(kind, name, wanted, endpoint, owner)
        return mended

    async def stand_down(self, endpoint: Endpoint) -> None:
        """Takes koord's webhooks out of the configurations: no manager will answer for them. Another system's stay."""
        for kind, name in self._names.values():
            try:
                present = msgspec.json.decode(await self._client.get_bytes(kind, name))
            except NotFound:
                continue
            if not present.get("webhooks") or before_koord(present, endpoint) is not None:
                continue
            log.warning("taking webhooks out of %s: no manager can answer for them", name)
            version = part(present, "metadata").get("resourceVersion")
            patch = {"metadata": {"resourceVersion": version}, "webhooks": []}
            with suppress(Conflict, NotFound):
                await self._client.patch(kind, name, patch, field_manager=FIELD_MANAGER)

    async def _ensure(
        self, kind: Kind[Any], name: str, wanted: list[dict[str, Any]], endpoint: Endpoint, owner: str
    ) -> bool:
        try:
            present = msgspec.json.decode(await self._client.get_bytes(kind, name))
        except NotFound:
            self._off.pop(name, None)
            log.info("registering webhooks", extra={"configuration": name, "webhooks": len(wanted)})
            owners = owned((), endpoint, owner)
            new = {"metadata": {"name": name, **({"ownerReferences": owners} if owners else {})}, "webhooks": wanted}
            try:
                await self._client.create(kind, new, field_manager=FIELD_MANAGER)
            except AlreadyExists:
                # Another replica was faster, and wants the same.
                return False
            return True
        off = break_glass.said(part(present, "metadata", "annotations"))
        if off is not None:
            if self._off.get(name) != off:
                log.warning("admission is off by hand (%s): no webhooks are registered", off)
                self._off[name] = off
            return False
        self._off.pop(name, None)
        webhooks = present.get("webhooks") or []
        before = before_koord(present, endpoint)
        owners_before = part(present, "metadata").get("ownerReferences") or []
        owners = owners_before
        if before is None and names.OWN_ANNOTATION_WEBHOOKS_BEFORE not in part(present, "metadata", "annotations"):
            owners = owned(owners_before, endpoint, owner)
        same = webhooks == wanted or (name in self._unconditional and webhooks == unconditional(wanted))
        if same and owners == owners_before:
            return False
        log.info("changing the registration of webhooks", extra={"configuration": name})
        # For the version that was read: an administrator may be taking admission off at this moment.
        meta: dict[str, Any] = {"resourceVersion": part(present, "metadata").get("resourceVersion")}
        if owners != owners_before:
            meta["ownerReferences"] = owners
        if before:
            meta["annotations"] = {names.OWN_ANNOTATION_WEBHOOKS_BEFORE: before}
        try:
            kept = await self._client.patch(
                kind, name, {"metadata": meta, "webhooks": wanted}, field_manager=FIELD_MANAGER
            )
        except Conflict:
            # What is watched wakes the loop again.
            return True
        if not any(webhook.match_conditions for webhook in kept.webhooks) and unconditional(wanted) != wanted:
            self._unconditional.add(name)
            log.warning("the API server knows no conditions of webhooks: all pods wait while no manager answers")
        return True
