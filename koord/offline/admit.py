"""`koord admit`: what admission would make of the objects in some manifests, or why it would refuse them.

What rules look up comes from the same manifests: profiles, namespaces, priority classes, quotas, nodes, configuration.
A namespace without a manifest has no labels but its name. Nodes are looked at as if their kubelet reported them as they
are written; all else as if it were created. Pods of namespaces that admission is never asked about pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from koord.admission.hooks import is_asked_about
from koord.admission.known import LABEL_NAMESPACE_NAME, Known, default_priority, shipped_priority_classes
from koord.admission.pod_enhanced import EnhancedRules
from koord.admission.pod_enhanced import parse as parse_enhanced
from koord.admission.profiles import compile_profiles
from koord.admission.quota_tree_affinity import QuotaTrees
from koord.admission.request import Answer, Gates, Json, Request
from koord.admission.review import admit, validate
from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.kubernetes.core import ConfigMap
from koord.api.protocol import names
from koord.api.text.manifest import Manifest, Manifests


class Admitted(msgspec.Struct, frozen=True, rename="camel"):
    """One object as admission would leave it. Printed whole: readers may count on every key."""

    object: Json
    allowed: bool
    message: str
    patches: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...] = ()


def admit_all(manifests: Manifests, gates: Gates, seed: int = 0) -> list[Admitted]:
    """Every object of the manifests, in their order. Raises `Invalid` where these are faulty."""
    manifests.require_valid()
    known = known_of(manifests.items)
    return [_admitted(item, _answer(item, i, known, gates, seed)) for i, item in enumerate(manifests.items)]


def known_of(items: Iterable[Manifest]) -> Known:
    """What manifests say of the cluster."""
    of: dict[Kind[Any], list[Any]] = {kind: [] for kind in _KNOWN}
    mentioned: dict[str, dict[str, str]] = {}
    for item in items:
        if item.kind in of:
            of[item.kind].append(item.object)
        if item.kind.namespaced:
            namespace = item.object.metadata.namespace  # type: ignore[attr-defined]  # every kind has metadata
            if namespace not in mentioned:
                mentioned[namespace] = {LABEL_NAMESPACE_NAME: namespace}
    named = {each.metadata.name: each.metadata for each in of[kinds.NAMESPACES]}
    classes = {each.metadata.name: each for each in of[kinds.PRIORITY_CLASSES]}
    return Known(
        namespaces=mentioned
        | {name: {LABEL_NAMESPACE_NAME: name, **metadata.labels} for name, metadata in named.items()},
        profiles=compile_profiles(of[kinds.CLUSTER_COLOCATION_PROFILES]),
        priority_classes={**shipped_priority_classes(), **classes},
        default_priority=default_priority(classes.values()),
        trees=QuotaTrees.of(of[kinds.ELASTIC_QUOTAS], of[kinds.ELASTIC_QUOTA_PROFILES]),
        node_labels={each.metadata.name: each.metadata.labels for each in of[kinds.NODES]},
        slo_config=_data(of[kinds.CONFIG_MAPS], names.CONFIGMAP_SLO_CONTROLLER),
        enhanced=_enhanced(_data(of[kinds.CONFIG_MAPS], names.CONFIGMAP_POD_ENHANCED_VALIDATOR)),
    )


def _answer(item: Manifest, number: int, known: Known, gates: Gates, seed: int) -> Answer:
    metadata = item.object.metadata  # type: ignore[attr-defined]  # every kind has metadata
    obj = item.data
    asked = {"namespace": metadata.namespace, "name": metadata.name, "uid": f"{metadata.generate_name}{number}"}
    if item.kind is kinds.PODS:
        if not is_asked_about(metadata.namespace, known.namespaces.get(metadata.namespace, {})):
            return Answer(True, obj)
        return admit(Request("CREATE", "pods", object=obj, **asked), known, gates, seed)
    if item.kind is kinds.RESERVATIONS:
        return admit(Request("CREATE", "reservations", object=obj, **asked), known, gates, seed)
    if item.kind is kinds.CONFIG_MAPS:
        return admit(Request("CREATE", "configmaps", object=obj, **asked), known, gates, seed)
    if item.kind is kinds.NODES:
        reported = Request("UPDATE", "nodes", object=obj, old=obj, subresource="status", **asked)
        joined = validate(Request("CREATE", "nodes", object=obj, **asked), known, gates)
        answer = admit(reported, known, gates, seed)
        return dataclasses.replace(answer, warnings=(*answer.warnings, *joined.warnings))
    return Answer(True, obj)


def _admitted(item: Manifest, answer: Answer) -> Admitted:
    obj = answer.object if answer.object is not None else item.data
    return Admitted(obj, answer.allowed, answer.message, answer.patch, answer.warnings)


_KNOWN: Final[tuple[Kind[Any], ...]] = (
    kinds.NAMESPACES,
    kinds.PRIORITY_CLASSES,
    kinds.CLUSTER_COLOCATION_PROFILES,
    kinds.ELASTIC_QUOTAS,
    kinds.ELASTIC_QUOTA_PROFILES,
    kinds.NODES,
    kinds.CONFIG_MAPS,
)


def _data(config_maps: Iterable[ConfigMap], name: str) -> Mapping[str, str]:
    key = f"{names.NAMESPACE_KOORDINATOR}/{name}"
    return next((each.data for each in config_maps if each.metadata.key == key), {})


def _enhanced(data: Mapping[str, str]) -> EnhancedRules:
    return parse_enhanced(data) if data else EnhancedRules()
