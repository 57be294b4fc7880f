"""What profiles give to pods that are waiting for a node already: labels and annotations, and nothing else of a pod.

For profiles that ask for it (label config.koordinator.sh/controller-managed=true) and that select pods by their labels:
a profile without a selector would match every pod. All these profiles are applied together, in the order of their
names, as admission does, so that two of them never write over each other in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from koord.admission.colocation_profile import with_profiles
from koord.admission.profiles import CompiledProfile, compile_profiles
from koord.admission.strategic_merge import POD
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.struct import Struct
from koord.api.protocol import names
from koord.api.protocol.crd.colocation_profile import ClusterColocationProfile


class WaitingPod(Struct):
    """A pod without a node, as far as profiles look at it."""

    namespace: str
    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def waiting_pod(pod: Pod) -> WaitingPod:
    meta = pod.metadata
    return WaitingPod(meta.namespace, meta.name, meta.uid, meta.resource_version, meta.labels, meta.annotations)


def managed(profiles: Iterable[ClusterColocationProfile]) -> tuple[CompiledProfile, ...]:
    """Those that ask for it, in the order in which they are applied. One whose selector makes no sense is left out."""
    asked = (
        profile
        for profile in profiles
        if profile.metadata.labels.get(names.LABEL_CONTROLLER_MANAGED) == "true" and profile.spec.selector is not None
    )
    return tuple(profile for profile in compile_profiles(asked) if not profile.faults)


def change(
    pod: WaitingPod, namespace: Mapping[str, str] | None, profiles: Sequence[CompiledProfile], seed: int = 0
) -> Mapping[str, Any] | None:
    """The merge patch that gives a pod what its profiles say; None where it has it. Raises `Refused`.

    `namespace` is the labels of the pod's namespace; None if unknown, and then the pod gets nothing.
    """
    if namespace is None:
        return None
    given = [profile for profile in profiles if profile.matches(pod.labels, namespace) and profile.drawn(pod.key, seed)]
    if not given:
        return None
    before = {"labels": dict(pod.labels), "annotations": dict(pod.annotations)}
    after = with_profiles({"metadata": before}, given, {}, spec=(), shape=POD).get("metadata") or {}
    metadata: dict[str, Any] = {}
    for part, old in before.items():
        new = after.get(part) or {}
        changes: dict[str, str | None] = {key: text for key, text in new.items() if old.get(key) != text}
        changes |= {key: None for key in old if key not in new}
        if changes:
            metadata[part] = changes
    return {"metadata": {"uid": pod.uid, **metadata}} if metadata else None
