"""Builders for admission: pods, profiles and what is known, and short ways to ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord.admission.cluster_facts import ClusterFacts, shipped_priority_classes
from koord.admission.profiles import compile_profiles
from koord.admission.request import AdmissionAnswer, Request
from koord.admission.review import admit, mutate, validate
from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.colocation_profile import ClusterColocationProfile

NAMESPACES: Mapping[str, Mapping[str, str]] = {"shop": {"team": "a"}, "jobs": {"colocation": "on"}}


def container(name: str = "main", **resources: Any) -> dict[str, Any]:
    return {"name": name, "resources": resources} if resources else {"name": name}


def pod(*containers: dict[str, Any], namespace: str = "shop", **more: Any) -> dict[str, Any]:
    """The pod `web`. `labels` and `annotations` are its metadata's, all else is of its spec."""
    metadata = {"name": more.pop("name", "web"), "namespace": namespace}
    metadata |= {key: more.pop(key) for key in ("labels", "annotations") if key in more}
    spec = {"containers": list(containers) or [container()], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def profile(name: str = "profile", marked: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A profile with annotations of its own, `marked`; fields of its spec by their JSON names."""
    return {"metadata": {"name": name, "annotations": marked}, "spec": spec}


def known(*profiles: dict[str, Any], **more: Any) -> ClusterFacts:
    cluster_colocation_profiles = [convert(ClusterColocationProfile, profile) for profile in profiles]
    defaults: dict[str, Any] = {"namespaces": NAMESPACES, "priority_classes": shipped_priority_classes()}
    return ClusterFacts(profiles=compile_profiles(cluster_colocation_profiles), **{**defaults, **more})


def gates(text: str = "") -> dict[ManagerGate, bool]:
    return parse_gates(ManagerGate, text)


def creating(obj: dict[str, Any], resource: str = "pods", **more: Any) -> Request:
    return Request("CREATE", resource, object=obj, **{"uid": "request-1", **more})


def mutated(
    obj: dict[str, Any], what: ClusterFacts | None = None, feature_gates: str = "", **more: Any
) -> AdmissionAnswer:
    return mutate(creating(obj, **more), what or known(), gates(feature_gates))


def validated(
    obj: dict[str, Any], old: dict[str, Any] | None = None, feature_gates: str = "", what: ClusterFacts | None = None
) -> AdmissionAnswer:
    operation = "CREATE" if old is None else "UPDATE"
    request = Request(operation, "pods", object=obj, old=old)  # type: ignore[arg-type]  # one of the two words above
    return validate(request, what or known(), gates(feature_gates))


def admitted(
    obj: dict[str, Any], what: ClusterFacts | None = None, feature_gates: str = "", **more: Any
) -> AdmissionAnswer:
    return admit(creating(obj, **more), what or known(), gates(feature_gates))


def spec_of(answer: AdmissionAnswer) -> Any:
    assert answer.object is not None
    return answer.object["spec"]


def labels_of(answer: AdmissionAnswer) -> Any:
    assert answer.object is not None
    return answer.object["metadata"].get("labels", {})


def resources_of(answer: AdmissionAnswer, index: int = 0) -> Any:
    return spec_of(answer)["containers"][index]["resources"]
