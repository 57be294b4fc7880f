"""Subresources that update one part of a pod: pods/ephemeralcontainers (to debug it) and pods/resize.

The server ignores the rest of the body. An ephemeral container cannot be changed once added. A resize changes cpu and
memory of containers and of restarting init containers, removes none, and leaves the pod in its QoS class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from koord_minicluster.apiserver.builtin.checks import Faults, Part
from koord_minicluster.apiserver.builtin.pod_qos import qos_class
from koord_minicluster.apiserver.resource import Obj, PartialUpdate
from koord_minicluster.apiserver.status import Cause, forbidden, invalid

_MIRROR: Final = "kubernetes.io/config.mirror"
_GROUPS: Final = ("containers", "initContainers")
_RESIZED: Final = ("resources", "resizePolicy")
_MUTABLE: Final = ("cpu", "memory")
_OF_POD: Final = (
    "resize of pods with pod-level resources is forbidden when InPlacePodLevelResourcesVerticalScalingEnabled "
    "feature gate is disabled"
)
_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")


def prepare_ephemeral(new: Obj, old: Obj) -> None:
    ephemeral = (new.get("spec") or {}).get("ephemeralContainers")
    _all_as_before(new, old)
    new["spec"] = _with(old["spec"], "ephemeralContainers", ephemeral)


def validate_ephemeral(new: Obj, old: Obj) -> Sequence[Cause]:
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods do not support ephemeral containers")]
    faults: Faults = []
    present = {container.get("name"): container for container in new["spec"].get("ephemeralContainers") or ()}
    for before in old["spec"].get("ephemeralContainers") or ():
        name = before.get("name", "")
        if name not in present:
            text = f'existing ephemeral containers "{name}" may not be removed\n'
            faults.append(forbidden("spec.ephemeralContainers", text))
        elif present[name] != before:
            text = f'existing ephemeral containers "{name}" may not be changed'
            faults.append(forbidden("spec.ephemeralContainers", text))
    return faults


def prepare_resize(new: Obj, old: Obj) -> None:
    spec, was = new.get("spec") or {}, old["spec"]
    if any(len(spec.get(group) or ()) != len(was.get(group) or ()) for group in _GROUPS):
        # Unchanged: validation refuses it.
        return
    merged = was
    for group in _GROUPS:
        if was.get(group):
            merged = _with(merged, group, _resized(spec[group], was[group]))
    _all_as_before(new, old)
    new["spec"] = merged


def _resized(new: Sequence[Part], old: Sequence[Part]) -> Sequence[Part]:
    if any(container.get("name") != before.get("name") for container, before in zip(new, old, strict=True)):
        return new
    result = []
    for container, before in zip(new, old, strict=True):
        for key in _RESIZED:
            before = _with(before, key, container.get(key))
        result.append(before)
    return result


def validate_resize(new: Obj, old: Obj) -> Sequence[Cause]:
    spec, was = new["spec"], old["spec"]
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods cannot be resized")]
    if (was.get("os") or {}).get("name") == "windows":
        return [forbidden("", "windows pods cannot be resized")]
    faults: Faults = []
    status = old.get("status") or {}
    if (status.get("qosClass") or qos_class(was)) != qos_class(spec):
        shown = (new.get("status") or {}).get("qosClass", "")
        faults.append(invalid("spec", shown, "Pod QOS Class may not change as a result of resizing"))
    if not _node_can_resize(status):
        faults.append(forbidden("spec", "Pod running on node without support for resize"))
    if any(_amounts(spec_of.get("resources")) for spec_of in (spec, was)):
        return [*faults, forbidden("", _OF_POD)]
    misplaced = _misplaced(spec, was)
    if misplaced:
        return [*faults, *misplaced]
    for i, (container, before) in enumerate(_pairs(spec, was, "initContainers")):
        if before.get("restartPolicy") == "Always":
            _removed(faults, container, before, f"spec.initContainers[{i}].resources")
    for i, (container, before) in enumerate(_pairs(spec, was, "containers")):
        _removed(faults, container, before, f"spec.containers[{i}].resources")
    for container, before in _pairs(spec, was, "containers"):
        if _but_for_amounts(container, before) != before:
            faults.append(forbidden("spec", "only cpu and memory resources are mutable"))
    for container, before in _pairs(spec, was, "initContainers"):
        if container.get("restartPolicy") == "Always":
            if _but_for_amounts(container, before) != before:
                faults.append(forbidden("spec", "only cpu and memory resources for sidecar containers are mutable"))
        elif container != before:
            faults.append(forbidden("spec", "resources for non-sidecar init containers are immutable"))
    return faults


def _node_can_resize(status: Part) -> bool:
    """A node that reports no resources of what it runs is too old; one that runs nothing is trusted."""
    for container in status.get("containerStatuses") or ():
        if (container.get("state") or {}).get("running") is not None:
            return container.get("resources") is not None
    return True


def _misplaced(spec: Part, was: Part) -> Faults:
    faults: Faults = []
    for group in _GROUPS:
        if len(spec.get(group) or ()) != len(was.get(group) or ()):
            faults.append(forbidden(f"spec.{group}", f"{group} may not be added or removed on resize"))
            continue
        for i, (container, before) in enumerate(_pairs(spec, was, group)):
            if container.get("name") != before.get("name"):
                text = f"{group} may not be renamed or reordered on resize"
                faults.append(forbidden(f"spec.{group}[{i}].name", text))
    return faults


def _removed(faults: Faults, container: Part, before: Part, path: str) -> None:
    new, old = container.get("resources") or {}, before.get("resources") or {}
    for key in ("requests", "limits"):
        if (old.get(key) or {}).keys() - (new.get(key) or {}).keys():
            faults.append(forbidden(f"{path}.{key}", f"resource {key} cannot be removed"))


def _but_for_amounts(container: Part, before: Part) -> dict[str, Any]:
    """The container with the cpu and memory that it had before."""
    new, old = container.get("resources") or {}, before.get("resources") or {}
    resources: dict[str, Any] = {}
    for key in ("limits", "requests"):
        kept = {name: amount for name, amount in (new.get(key) or {}).items() if name not in _MUTABLE}
        kept |= {name: amount for name, amount in (old.get(key) or {}).items() if name in _MUTABLE}
        if kept:
            resources[key] = kept
    # Without claims: the real server resizes no container that has any.
    return _with(container, "resources", resources or ({} if "resources" in before else None))


def _amounts(resources: Part | None) -> bool:
    return bool(resources and (resources.get("requests") or resources.get("limits")))


def _pairs(spec: Part, was: Part, group: str) -> list[tuple[Part, Part]]:
    return list(zip(spec.get(group) or (), was.get(group) or (), strict=True))


def _all_as_before(new: Obj, old: Obj) -> None:
    if "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)
    for key in _METADATA:
        new["metadata"] = _with(new["metadata"], key, old["metadata"].get(key))


def _with(part: Mapping[str, Any], key: str, value: object) -> dict[str, Any]:
    """A copy with that value, or without it where there is none."""
    copy = dict(part)
    if value is None:
        copy.pop(key, None)
    else:
        copy[key] = value
    return copy


PARTIAL_UPDATES: Final = {
    "ephemeralcontainers": PartialUpdate(prepare_ephemeral, validate_ephemeral),
    "resize": PartialUpdate(prepare_resize, validate_resize),
}
