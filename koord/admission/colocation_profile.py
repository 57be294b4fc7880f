"""What ClusterColocationProfiles give to an object that gets them: labels, annotations, QoS, priority, a patch.

Profiles are applied in the order of their names, and each overwrites existing values. Within one: labels, annotations,
copies of labels and annotations under other keys, suffixes, scheduler, QoS class, priority class, rank, and the patch.
A label that ends in all the suffixes it would get has them already: admitting an object twice is admitting it once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from koord.admission.plain import annotations_of, labels_of, part, with_part
from koord.admission.profiles import CompiledProfile
from koord.admission.request import FAILED, Json, refused
from koord.admission.strategic_merge import merged
from koord.api.kubernetes.core import PriorityClass
from koord.api.machinery.object_schema import Schema
from koord.api.machinery.strategic_merge import MergeError
from koord.api.protocol import names


def with_profiles(
    obj: Json,
    profiles: Sequence[CompiledProfile],
    priority_classes: Mapping[str, PriorityClass],
    *,
    spec: tuple[str, ...],
    shape: Schema,
) -> Json:
    """The object with what the profiles give it. `spec` is where its pod spec is; empty where it has none."""
    obj = _without_suffixes(obj, profiles)
    for profile in profiles:
        obj = _with_metadata(obj, profile)
        if spec:
            obj = _with_spec(obj, profile, priority_classes, spec)
        if profile.spec.patch:
            try:
                obj = merged(obj, profile.spec.patch, shape)
            except MergeError as error:
                raise refused(f"ClusterColocationProfile {profile.name} spec.patch", str(error), FAILED) from None
    return obj


def _without_suffixes(obj: Json, profiles: Sequence[CompiledProfile]) -> Json:
    """The object without its suffixes, if it has them."""
    suffixes: dict[str, str] = {}
    for profile in profiles:
        for key, suffix in profile.spec.label_suffixes.items():
            suffixes[key] = suffixes.get(key, "") + suffix
    if not suffixes:
        return obj
    labels = labels_of(obj)
    before = {key: labels[key].removesuffix(suffix) for key, suffix in suffixes.items() if key in labels}
    return with_part(obj, {**labels, **before}, "metadata", "labels") if before else obj


def _with_metadata(obj: Json, profile: CompiledProfile) -> Json:
    spec = profile.spec
    old_labels, old_annotations = labels_of(obj), annotations_of(obj)
    labels = {**old_labels, **spec.labels}
    for key, copy in sorted(spec.label_keys_mapping.items()):
        labels[copy] = labels.get(key, "")
    for key, suffix in spec.label_suffixes.items():
        if key in labels:
            labels[key] += suffix
    if spec.qos_class:
        labels[names.LABEL_QOS_CLASS] = spec.qos_class
    if spec.koordinator_priority is not None:
        labels[names.LABEL_PRIORITY] = str(spec.koordinator_priority)
    annotations = {**old_annotations, **spec.annotations}
    for key, copy in sorted(spec.annotation_keys_mapping.items()):
        annotations[copy] = annotations.get(key, "")
    changed = {}
    if labels != old_labels:
        changed["labels"] = labels
    if annotations != old_annotations:
        changed["annotations"] = annotations
    return with_part(obj, {**part(obj, "metadata"), **changed}, "metadata") if changed else obj


def _with_spec(
    obj: Json, profile: CompiledProfile, priority_classes: Mapping[str, PriorityClass], path: tuple[str, ...]
) -> Json:
    changed: dict[str, object] = {}
    if profile.spec.scheduler_name:
        changed["schedulerName"] = profile.spec.scheduler_name
    name = profile.spec.priority_class_name
    if name:
        priority_class = priority_classes.get(name)
        if priority_class is None:
            where = f"ClusterColocationProfile {profile.name} spec.priorityClassName"
            raise refused(where, f"there is no PriorityClass {name}; create it, or name one that exists", FAILED)
        changed["priorityClassName"] = name
        changed["priority"] = priority_class.value
        changed["preemptionPolicy"] = str(priority_class.preemption_policy)
    return with_part(obj, {**part(obj, *path), **changed}, *path) if changed else obj
