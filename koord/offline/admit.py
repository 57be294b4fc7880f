"""`koord admit`: what admission would make of the objects in some manifests, or why it would refuse them.

Pods are judged as the webhooks would see them: with what an API server fills in before it asks (`arrival`). What rules
look up comes from the same manifests: profiles, namespaces, priority classes, quotas, nodes, configuration.
A namespace without a manifest has no labels but its name. Nodes are looked at as if their kubelet reported them as they
are written; all else as if it were created. Pods of namespaces that admission is never asked about pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from koord.admission.cluster_facts import (
    LABEL_NAMESPACE_NAME,
    ClusterFacts,
    default_priority,
    shipped_priority_classes,
)
from koord.admission.hook import is_asked_about
from koord.admission.json_patch import difference
from koord.admission.pod_enhanced import EnhancedRules
from koord.admission.pod_enhanced import parse as parse_enhanced
from koord.admission.request import AdmissionAnswer, Gates, Json, Request
from koord.admission.resources import LOOKUPS
from koord.admission.review import admit, completed, validate
from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.kubernetes.core import ConfigMap
from koord.api.kubernetes.pod_admission import PodRefused
from koord.api.protocol import names
from koord.api.text.manifest import Manifest, Manifests
from koord.offline.arrival import Arrivals


class Admitted(msgspec.Struct, frozen=True, rename="camel"):
    """One object as admission would leave it. Printed whole: readers may count on every key."""

    object: Json
    "As it would be stored; as it came where it would be refused."
    allowed: bool
    message: str
    patches: tuple[dict[str, Any], ...]
    "What koord's admission changes, after `defaults`."
    warnings: tuple[str, ...] = ()
    defaults: tuple[dict[str, Any], ...] = ()
    "What an API server fills in by itself."


def admit_all(manifests: Manifests, gates: Gates, seed: int = 0) -> list[Admitted]:
    """Every object of the manifests, in their order. Raises `Invalid` where these are faulty."""
    manifests.require_valid()
    facts = facts_of(manifests.items)
    arrivals = Arrivals(manifests.items, facts.priority_classes.values())
    return [
        _pod(item, i, facts, gates, seed, arrivals)
        if item.kind is kinds.PODS
        else _admitted(item, _answer(item, i, facts, gates, seed))
        for i, item in enumerate(manifests.items)
    ]


def facts_of(items: Iterable[Manifest]) -> ClusterFacts:
    """What manifests say about the cluster."""
    of: dict[Kind[Any], list[Any]] = {kind: [] for kind in _KINDS}
    mentioned: dict[str, dict[str, str]] = {}
    for item in items:
        if item.kind in of:
            of[item.kind].append(item.object)
        if item.kind.namespaced:
            namespace = item.object.metadata.namespace  # type: ignore[attr-defined]  # every kind has metadata
            if namespace not in mentioned:
                mentioned[namespace] = {LABEL_NAMESPACE_NAME: namespace}
    named = {namespace.metadata.name: namespace.metadata for namespace in of[kinds.NAMESPACES]}
    classes = {class_.metadata.name: class_ for class_ in of[kinds.PRIORITY_CLASSES]}
    looked_up = {lookup.field: lookup.make(*(of[kind] for kind in lookup.kinds)) for lookup in LOOKUPS}
    return ClusterFacts(
        namespaces=mentioned
        | {name: {LABEL_NAMESPACE_NAME: name, **metadata.labels} for name, metadata in named.items()},
        priority_classes={**shipped_priority_classes(), **classes},
        default_priority=default_priority(classes.values()),
        node_labels={node.metadata.name: node.metadata.labels for node in of[kinds.NODES]},
        slo_config=_data(of[kinds.CONFIG_MAPS], names.CONFIGMAP_SLO_CONTROLLER),
        enhanced=_enhanced(_data(of[kinds.CONFIG_MAPS], names.CONFIGMAP_POD_ENHANCED_VALIDATOR)),
        **looked_up,
    )


def _pod(item: Manifest, number: int, facts: ClusterFacts, gates: Gates, seed: int, arrivals: Arrivals) -> Admitted:
    """The server completes a pod, koord changes it, the server completes it again, and koord has the last word."""
    namespace = _asked(item, number)["namespace"]
    try:
        seen = arrivals.completed(item.data, namespace)
        defaults = difference(item.data, seen)
        if not is_asked_about(namespace, facts.namespaces.get(namespace, {})):
            return Admitted(seen, True, "", (), defaults=defaults)
        request = Request("CREATE", "pods", object=seen, **_asked(item, number))
        mutated = completed(request, facts, gates, seed)
        if not mutated.allowed:
            return Admitted(item.data, False, mutated.message, (), mutated.warnings)
        stored = seen if mutated.object is seen else arrivals.completed(mutated.object, namespace)
    except PodRefused as refusal:
        return Admitted(item.data, False, f"the API server would refuse it: {refusal}", ())
    validated = validate(dataclasses.replace(request, object=stored), facts, gates)
    warnings = tuple(dict.fromkeys((*mutated.warnings, *validated.warnings)))
    if not validated.allowed:
        return Admitted(item.data, False, validated.message, (), warnings)
    return Admitted(stored, True, "", difference(seen, stored), warnings, defaults)


def _asked(item: Manifest, number: int) -> dict[str, Any]:
    metadata = item.object.metadata  # type: ignore[attr-defined]  # every kind has metadata
    return {"namespace": metadata.namespace, "name": metadata.name, "uid": f"{metadata.generate_name}{number}"}


def _answer(item: Manifest, number: int, facts: ClusterFacts, gates: Gates, seed: int) -> AdmissionAnswer:
    obj, asked = item.data, _asked(item, number)
    if item.kind is kinds.RESERVATIONS:
        return admit(Request("CREATE", "reservations", object=obj, **asked), facts, gates, seed)
    if item.kind is kinds.CONFIG_MAPS:
        return admit(Request("CREATE", "configmaps", object=obj, **asked), facts, gates, seed)
    if item.kind is kinds.NODES:
        reported = Request("UPDATE", "nodes", object=obj, old=obj, subresource="status", **asked)
        joined = validate(Request("CREATE", "nodes", object=obj, **asked), facts, gates)
        answer = admit(reported, facts, gates, seed)
        return dataclasses.replace(answer, warnings=(*answer.warnings, *joined.warnings))
    return AdmissionAnswer(True, obj)


def _admitted(item: Manifest, answer: AdmissionAnswer) -> Admitted:
    obj = answer.object if answer.object is not None else item.data
    return Admitted(obj, answer.allowed, answer.message, answer.patch, answer.warnings)


_KINDS: Final[tuple[Kind[Any], ...]] = (
    kinds.NAMESPACES,
    kinds.PRIORITY_CLASSES,
    kinds.NODES,
    kinds.CONFIG_MAPS,
    *(kind for lookup in LOOKUPS for kind in lookup.kinds),
)


def _data(config_maps: Iterable[ConfigMap], name: str) -> Mapping[str, str]:
    key = f"{names.NAMESPACE_KOORDINATOR}/{name}"
    return next((config_map.data for config_map in config_maps if config_map.metadata.key == key), {})


def _enhanced(data: Mapping[str, str]) -> EnhancedRules:
    return parse_enhanced(data) if data else EnhancedRules()
