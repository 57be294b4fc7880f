"""Webhook configurations, compiled: which hooks a write goes to.

A hook takes part if one of its rules names the operation and the resource (or, with matchPolicy Equivalent, the same
objects under another group or version), its namespace and object selectors match, and no match condition says no.
Hooks run in the order of their configurations' names. Configurations are compiled when they change, not when used.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from koord.api.text.selector import EVERYTHING, LabelMatcher, LabelSelector, compile_labels
from koord_minicluster.apiserver.admission.attributes import Attributes
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import object_not_found
from koord_minicluster.apiserver.store import Collection

_DEFAULT_TIMEOUT_S: Final = 10
_DEFAULT_SERVICE_PORT: Final = 443
_CONFIGURATION_GROUP: Final = "admissionregistration.k8s.io"


@dataclass(frozen=True, slots=True)
class HookRule:
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    "(resource, subresource)"
    scope: str

    def matches(self, attributes: Attributes, resource: Resource) -> bool:
        """Whether the rule names this write, taken as one on `resource`."""
        return (
            self._in_scope(attributes)
            and _has(self.operations, attributes.operation)
            and _has(self.groups, resource.group)
            and _has(self.versions, resource.version)
            and any(
                plural in ("*", resource.plural) and subresource in ("*", attributes.subresource)
                for plural, subresource in self.resources
            )
        )

    def _in_scope(self, attributes: Attributes) -> bool:
        if self.scope == "*":
            return True
        cluster_wide = not attributes.namespace or attributes.is_namespace
        return cluster_wide if self.scope == "Cluster" else not cluster_wide


@dataclass(frozen=True, slots=True)
class ServiceRef:
    namespace: str
    name: str
    port: int


@dataclass(slots=True)
class Hook:
    """One webhook of a configuration."""

    uid: str
    "Tells hooks apart: configuration, name, and which of that name."
    name: str
    rules: tuple[HookRule, ...]
    equivalent: bool
    namespaces: LabelMatcher
    objects: LabelMatcher
    conditions: tuple[tuple[str, str], ...]
    "(name, CEL expression)"
    ignore_failure: bool
    side_effects: str
    timeout_s: int
    reinvoke: bool
    versions: tuple[str, ...]
    url: str
    "Where to post; for a service, with its name in the cluster as host."
    service: ServiceRef | None
    ca_pem: bytes
    _tls: ssl.SSLContext | None = field(default=None, repr=False)

    def tls(self) -> ssl.SSLContext:
        """Trusts the configuration's CA bundle, or the system's authorities where there is none. Raises ValueError."""
        if self._tls is None:
            try:
                context = ssl.create_default_context(cadata=self.ca_pem.decode() or None)
            except (ssl.SSLError, UnicodeDecodeError) as error:
                raise ValueError("unable to load root certificates: unable to parse bytes as PEM block") from error
            # Authorities made by common tools lack extensions that strict checks ask for.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            self._tls = context
        return self._tls

    def matching(self, attributes: Attributes, others: Callable[[Resource], Iterable[Resource]]) -> Resource | None:
        """The resource as which the hook wants this write; None if it does not."""
        resource = attributes.resource
        if any(rule.matches(attributes, resource) for rule in self.rules):
            return resource
        if self.equivalent:
            for rule in self.rules:
                for other in others(resource):
                    if other is not resource and rule.matches(attributes, other):
                        return other
        return None

    def selects(self, attributes: Attributes, namespace_of: Callable[[str], Obj | None]) -> bool:
        """Whether the selectors let the write through to this hook. Raises 404 for a namespace that is not there."""
        if self.objects.requirements and not any(
            obj is not None and self.objects.matches(_labels(obj)) for obj in (attributes.obj, attributes.old)
        ):
            return False
        if not self.namespaces.requirements:
            return True
        if attributes.is_namespace and not attributes.subresource and attributes.obj is not None:
            return self.namespaces.matches(_labels(attributes.obj))
        name = attributes.name if attributes.is_namespace else attributes.namespace
        if not name:
            return True
        namespace = namespace_of(name)
        if namespace is None:
            raise object_not_found("namespaces", "", name)
        return self.namespaces.matches(_labels(namespace))


class Configurations:
    """All hooks of one kind of configuration, compiled, in order."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._hooks: tuple[Hook, ...] | None = None
        collection.listeners.append(lambda _event: self._forget())

    def hooks(self) -> tuple[Hook, ...]:
        if self._hooks is None:
            self._hooks = tuple(
                hook for entry in self._collection.entries() for hook in compile_hooks(msgspec.json.decode(entry.value))
            )
        return self._hooks

    def _forget(self) -> None:
        self._hooks = None


def exempt(attributes: Attributes) -> bool:
    """Webhook configurations never go through webhooks, so that a bad one can be repaired."""
    return attributes.resource.group == _CONFIGURATION_GROUP


def compile_hooks(configuration: Mapping[str, Any]) -> Iterator[Hook]:
    """The hooks of one MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    seen: dict[str, int] = {}
    for hook in configuration.get("webhooks") or ():
        name = hook.get("name", "")
        seen[name] = seen.get(name, -1) + 1
        uid = f"{configuration['metadata']['name']}/{name}/{seen[name]}"
        yield _compile(hook, uid)


def _compile(hook: Mapping[str, Any], uid: str) -> Hook:
    client = hook.get("clientConfig") or {}
    url, service = str(client.get("url") or ""), None
    if ref := client.get("service"):
        port = int(ref.get("port") or _DEFAULT_SERVICE_PORT)
        service = ServiceRef(ref.get("namespace", ""), ref.get("name", ""), port)
        path = "/" + str(ref.get("path") or "").lstrip("/")
        url = f"https://{service.name}.{service.namespace}.svc:{port}{path}"
    elif url and not urlsplit(url).path:
        url += "/"
    return Hook(
        uid=uid,
        name=hook.get("name", ""),
        rules=tuple(_rule(rule) for rule in hook.get("rules") or ()),
        equivalent=hook.get("matchPolicy", "Equivalent") == "Equivalent",
        namespaces=_selector(hook.get("namespaceSelector")),
        objects=_selector(hook.get("objectSelector")),
        conditions=tuple(
            (condition["name"], condition["expression"]) for condition in hook.get("matchConditions") or ()
        ),
        ignore_failure=hook.get("failurePolicy") == "Ignore",
        side_effects=hook.get("sideEffects") or "",
        timeout_s=int(hook.get("timeoutSeconds") or _DEFAULT_TIMEOUT_S),
        reinvoke=hook.get("reinvocationPolicy") == "IfNeeded",
        versions=tuple(hook.get("admissionReviewVersions") or ()),
        url=url,
        service=service,
        ca_pem=msgspec.convert(client.get("caBundle") or "", bytes),
    )


def _rule(rule: Mapping[str, Any]) -> HookRule:
    return HookRule(
        frozenset(rule.get("operations") or ()),
        frozenset(rule.get("apiGroups") or ()),
        frozenset(rule.get("apiVersions") or ()),
        tuple(_split(resource) for resource in rule.get("resources") or ()),
        rule.get("scope") or "*",
    )


def _selector(selector: Mapping[str, Any] | None) -> LabelMatcher:
    return compile_labels(msgspec.convert(selector or {}, LabelSelector), absent=EVERYTHING)


def _split(resource: str) -> tuple[str, str]:
    plural, _, subresource = resource.partition("/")
    return plural, subresource


def _has(wanted: frozenset[str], value: str) -> bool:
    return value in wanted or "*" in wanted


def _labels(obj: Obj) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}
