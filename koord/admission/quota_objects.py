"""ElasticQuotas: what is filled in on new ones, and what is refused, so that the trees stay in order.

    new         parent and tree id are filled in, weights get the keys of max
    stored      min within max; the same resources as its parent; guarantees that the parent can keep; no pods or
                children that would lose their place
    deleted     no pod uses it

A change that touches none of what is checked here passes: the scheduler's word on a malformed quota, for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from koord.admission.plain import annotations_of, labels_of, part, with_annotation, with_part
from koord.admission.quota_topology import BUILT_IN, QuotaTopology, namespaces_of
from koord.admission.request import Json, refused
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.faults import BadInput, Fault
from koord.api.protocol import names
from koord.api.protocol.annotations import quota as protocol
from koord.api.protocol.annotations.value import Annotation, AnnotationError
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.api.protocol.quota_bounds import bound_faults, negative_faults
from koord.api.text.quantity import ResourceList, render

PARENT = f"metadata.labels[{names.LABEL_QUOTA_PARENT}]"
IS_PARENT = f"metadata.labels[{names.LABEL_QUOTA_IS_PARENT}]"
TREE_ID = f"metadata.labels[{names.LABEL_QUOTA_TREE_ID}]"
NAMESPACES = f"metadata.annotations[{names.ANNOTATION_QUOTA_NAMESPACES}]"


@dataclass(frozen=True, slots=True)
class QuotaRules:
    """What gates say."""

    keys_may_differ: bool = False
    "Whether a quota may have fewer resources than its parent."
    keeps: bool = False
    "Whether what is used is guaranteed."


@dataclass(frozen=True, slots=True)
class QuotaPods:
    """Pods that are in some quotas, as far as a request needs to know: a name for each."""

    labelled: Mapping[str, str] = field(default_factory=dict)
    "By quota, a pod whose label names it."
    within: Mapping[str, str] = field(default_factory=dict)
    "By namespace, a pod there without this label."


def completed(quota: Json, quotas: QuotaTopology) -> Json:
    """A new quota with what it leaves out. Raises `Refused` where its parent's tree cannot be found out."""
    if part(quota, "metadata").get("name") == names.QUOTA_ROOT:
        return quota
    labels = labels_of(quota)
    parent = labels.get(names.LABEL_QUOTA_PARENT) or ""
    if not parent:
        labels = {**labels, names.LABEL_QUOTA_PARENT: names.QUOTA_ROOT}
        quota, parent = with_part(quota, labels, "metadata", "labels"), names.QUOTA_ROOT
    if parent != names.QUOTA_ROOT and not labels.get(names.LABEL_QUOTA_TREE_ID):
        above = quotas.get(parent)
        if above is None:
            raise refused(PARENT, f"quota {parent} does not exist: create the parent first")
        tree = protocol.TREE_ID.read(above.metadata)
        if tree:
            quota = with_part(quota, {**labels, names.LABEL_QUOTA_TREE_ID: tree}, "metadata", "labels")
    return _weighed(quota)


def _weighed(quota: Json) -> Json:
    most: Mapping[str, Any] = part(quota, "spec", "max")
    text = annotations_of(quota).get(names.ANNOTATION_QUOTA_SHARED_WEIGHT) or ""
    weights: ResourceList = {}
    if text:
        try:
            weights = protocol.SHARED_WEIGHT.form.parse(text)
        except ValueError as error:
            raise refused(f"metadata.annotations[{names.ANNOTATION_QUOTA_SHARED_WEIGHT}]", str(error)) from None
    aligned = {key: weights.get(key, value) for key, value in most.items()}
    if text and aligned == weights:
        return quota
    return with_annotation(quota, names.ANNOTATION_QUOTA_SHARED_WEIGHT, protocol.SHARED_WEIGHT.render(aligned))


def faults(
    new: ElasticQuota,
    old: ElasticQuota | None,
    quotas: QuotaTopology,
    pods: QuotaPods,
    rules: QuotaRules,
    denials: Mapping[str, str],
) -> Iterator[Fault]:
    """What is wrong with a quota. `denials`: by namespace, why the user may not list it."""
    name = new.metadata.name
    if old is not None and _checked_parts(old) == _checked_parts(new):
        return
    if old is not None and name in (names.QUOTA_ROOT, names.QUOTA_SYSTEM):
        yield Fault("metadata.name", f"{name} belongs to koord and cannot be changed")
        return
    own = list(_own_faults(new))
    yield from own
    yield from _binding_faults(new, old, quotas)
    yield from _listing_faults(new, old, denials)
    if own or name == names.QUOTA_ROOT:
        return
    yield from _kind_faults(new, old, quotas, pods)
    yield from _tree_faults(new, old, quotas)
    yield from _family_faults(new, quotas, rules)


def deletion_faults(old: ElasticQuota, quotas: QuotaTopology, pods: QuotaPods) -> Iterator[Fault]:
    """Why a quota must stay."""
    name = old.metadata.name
    if name in BUILT_IN:
        yield Fault("metadata.name", f"{name} belongs to koord and cannot be deleted")
    child = next((quota for quota in quotas.children(name) if quota.metadata.key != old.metadata.key), None)
    if child is not None:
        yield Fault("metadata.name", f"quota {child.metadata.name} is below it: delete that first, or move it")
    user = pods.labelled.get(name) or next(
        (pods.within[namespace] for namespace in _namespaces(old) if namespace in pods.within), ""
    )
    if user:
        yield Fault("metadata.name", f"pod {user} uses it: delete its pods first, or move them to another quota")


def _checked_parts(quota: ElasticQuota) -> tuple[object, ...]:
    meta = quota.metadata
    return (
        protocol.parent_of(meta),
        protocol.IS_PARENT.read(meta),
        protocol.TREE_ID.read(meta),
        protocol.ALLOW_FORCE_UPDATE.read(meta),
        meta.annotations.get(names.ANNOTATION_QUOTA_NAMESPACES),
        meta.annotations.get(names.ANNOTATION_QUOTA_SHARED_WEIGHT),
        quota.spec,
    )


def _own_faults(quota: ElasticQuota) -> Iterator[Fault]:
    read: dict[str, dict[str, int]] = {}
    for where, listed in (("spec.max", quota.spec.max), ("spec.min", quota.spec.min)):
        try:
            read[where] = amounts(listed)
        except BadInput as error:
            yield Fault(where, str(error))
    weight, keys = (f"metadata.annotations[{key}]" for key in _ANNOTATED)
    try:
        read[weight] = amounts(protocol.SHARED_WEIGHT.read(quota.metadata) or {})
    except BadInput as error:
        yield Fault(weight, str(error))
    most, least = read.get("spec.max", {}), read.get("spec.min", {})
    yield from bound_faults(least, most)
    yield from negative_faults(weight, read.get(weight, {}))
    try:
        strict = protocol.MAX_STRICT_CHECK_RESOURCE_KEYS.read(quota.metadata)
    except AnnotationError as error:
        yield from (Fault(keys, fault.message) for fault in error.faults)
        return
    used = amounts(quota.status.used, capped=True)
    for key in strict:
        if key in used and used[key] > most.get(key, -1):
            yield Fault(f"spec.max.{key}", f"must be at least the {render(key, used[key])} that is used")


_ANNOTATED = (names.ANNOTATION_QUOTA_SHARED_WEIGHT, names.ANNOTATION_QUOTA_MAX_STRICT_CHECK_RESOURCE_KEYS)


def _binding_faults(new: ElasticQuota, old: ElasticQuota | None, quotas: QuotaTopology) -> Iterator[Fault]:
    meta = new.metadata
    if old is None:
        for other in quotas.named(meta.name):
            if other.metadata.key != meta.key:
                yield Fault("metadata.name", f"is taken by {other.metadata.key}: quotas are named in the whole cluster")
    try:
        listed = protocol.NAMESPACES.read(meta)
    except AnnotationError as error:
        yield from (Fault(NAMESPACES, fault.message) for fault in error.faults)
        return
    for namespace in listed:
        for other in quotas.listing(namespace):
            if other.metadata.key != meta.key:
                yield Fault(NAMESPACES, f"namespace {namespace} belongs to quota {other.metadata.name} already")


def newly_listed(new: ElasticQuota, old: ElasticQuota | None) -> list[str]:
    """Namespaces that a quota lists and did not before, without its own: its writer has rights there."""
    try:
        listed = protocol.NAMESPACES.read(new.metadata)
        before = protocol.NAMESPACES.read(old.metadata) if old is not None else ()
    except AnnotationError:
        return []
    return [
        namespace
        for namespace in dict.fromkeys(listed)
        if namespace not in before and namespace != new.metadata.namespace
    ]


def _listing_faults(new: ElasticQuota, old: ElasticQuota | None, denials: Mapping[str, str]) -> Iterator[Fault]:
    """A quota that lists a namespace limits all pods there: that takes a right in that namespace."""
    for namespace in newly_listed(new, old):
        if namespace in names.CLUSTER_NAMESPACES:
            yield Fault(NAMESPACES, f"must not list {namespace}: the cluster's own namespaces belong to no quota")
        elif namespace in denials:
            yield Fault(NAMESPACES, f"must not list {namespace}: {denials[namespace]}")


def _kind_faults(
    new: ElasticQuota, old: ElasticQuota | None, quotas: QuotaTopology, pods: QuotaPods
) -> Iterator[Fault]:
    was = old is not None and protocol.IS_PARENT.read(old.metadata)
    is_parent = protocol.IS_PARENT.read(new.metadata)
    name = new.metadata.name
    if was and not is_parent and (child := next(quotas.children(name), None)) is not None:
        yield Fault(IS_PARENT, f"must be true while quota {child.metadata.name} is below it")
    if old is not None and is_parent and not was:
        user = pods.labelled.get(name) or next((pods.within[n] for n in _namespaces(new) if n in pods.within), "")
        if user:
            yield Fault(IS_PARENT, f"must not be true while pods are in it, for example {user}")


def _namespaces(quota: ElasticQuota) -> list[str]:
    """Where pods without a label are in a quota."""
    meta = quota.metadata
    own = [meta.namespace] if meta.name == meta.namespace else []
    return [*own, *namespaces_of(quota)]


def _tree_faults(new: ElasticQuota, old: ElasticQuota | None, quotas: QuotaTopology) -> Iterator[Fault]:
    tree, name = protocol.TREE_ID.read(new.metadata), new.metadata.name
    if old is not None and (was := protocol.TREE_ID.read(old.metadata)) != tree:
        yield Fault(TREE_ID, f"must stay {was or 'absent'}: a quota does not change its tree")
    parent = protocol.parent_of(new.metadata)
    if parent == name or name in _above(parent, quotas):
        yield Fault(PARENT, f"must not be {parent}, which is the quota itself or below it")
    above = quotas.get(parent)
    if above is not None and parent != names.QUOTA_ROOT and protocol.TREE_ID.read(above.metadata) != tree:
        yield Fault(TREE_ID, f"must be that of its parent {parent}, {protocol.TREE_ID.read(above.metadata) or 'none'}")
    for child in quotas.children(name):
        if protocol.TREE_ID.read(child.metadata) != tree:
            yield Fault(TREE_ID, f"must be that of quota {child.metadata.name}, which is below it")


def _above(name: str, quotas: QuotaTopology) -> Iterable[str]:
    """All quotas from one up to the root."""
    ancestors: dict[str, None] = {}
    while name and name != names.QUOTA_ROOT and name not in ancestors:
        ancestors[name] = None
        above = quotas.get(name)
        name = "" if above is None else protocol.parent_of(above.metadata)
    return ancestors


def _family_faults(new: ElasticQuota, quotas: QuotaTopology, rules: QuotaRules) -> Iterator[Fault]:
    meta, parent = new.metadata, protocol.parent_of(new.metadata)
    is_parent = protocol.IS_PARENT.read(meta)
    if parent == names.QUOTA_ROOT and not is_parent:
        return
    above = quotas.get(parent) if parent != names.QUOTA_ROOT else None
    if parent != names.QUOTA_ROOT:
        if above is None:
            yield Fault(PARENT, f"quota {parent} does not exist")
            return
        if not protocol.IS_PARENT.read(above.metadata):
            yield Fault(
                PARENT, f"quota {parent} takes no children: its label {names.LABEL_QUOTA_IS_PARENT} is not true"
            )
            return
        yield from _key_faults(new, above, rules)
    children = [quota for quota in quotas.children(meta.name) if quota.metadata.key != meta.key]
    for child in children:
        yield from _key_faults(child, new, rules, whose=f"quota {child.metadata.name}, which is below it, ")
    if protocol.IS_ROOT.read(meta) or protocol.ALLOW_FORCE_UPDATE.read(meta):
        return
    if above is not None:
        siblings = [quota for quota in quotas.children(parent) if quota.metadata.key != meta.key]
        together = f"min of {parent}'s children with this one"
        yield from _sum_faults([new, *siblings], above, together, f"the min of {parent}")
    yield from _sum_faults(children, new, "min of its children", "its own min")
    if rules.keeps and protocol.TREE_ID.read(meta):
        yield from _guarantee_faults(new, quotas)


def _key_faults(low: ElasticQuota, high: ElasticQuota, rules: QuotaRules, whose: str = "") -> Iterator[Fault]:
    below, above = set(amounts(low.spec.max)), set(amounts(high.spec.max))
    is_wrong = not below <= above if rules.keys_may_differ else below != above
    if is_wrong:
        must = "be among" if rules.keys_may_differ else "be"
        subject = whose + "must have resources that" if whose else "resources must"
        yield Fault("spec.max", f"{subject} {must} those of {high.metadata.name}: {', '.join(sorted(above)) or 'none'}")
    more = set(amounts(low.spec.min)) - set(amounts(high.spec.min))
    if more:
        named = ", ".join(sorted(more))
        yield Fault("spec.min", f"{whose}has {named}, which the min of {high.metadata.name} does not have")


def _sum_faults(quotas: Iterable[ElasticQuota], high: ElasticQuota, what: str, bound: str) -> Iterator[Fault]:
    total: dict[str, int] = {}
    for quota in quotas:
        for key, amount in amounts(quota.spec.min, capped=True).items():
            total[key] = total.get(key, 0) + amount
    least = amounts(high.spec.min, capped=True)
    for key, amount in total.items():
        if amount > least.get(key, 0):
            have = render(key, least.get(key, 0))
            yield Fault(f"spec.min.{key}", f"{what} is {render(key, amount)}, above {bound}, {have}")


def _guarantee_faults(new: ElasticQuota, quotas: QuotaTopology) -> Iterator[Fault]:
    """More min than is guaranteed must come from a quota above that is guaranteed as much."""
    wanted, guaranteed = amounts(new.spec.min, capped=True), _guaranteed(new)
    if _covers(guaranteed, wanted):
        return
    wanted = _most(wanted, guaranteed)
    quota = new
    while (parent := protocol.parent_of(quota.metadata)) != names.QUOTA_ROOT:
        above = quotas.get(parent)
        if above is None:
            break
        total = dict(wanted)
        for child in quotas.children(parent):
            if child.metadata.key != quota.metadata.key:
                for key, amount in _guaranteed(child).items():
                    total[key] = total.get(key, 0) + amount
        wanted = _most(total, amounts(above.spec.min, capped=True))
        if _covers(_guaranteed(above), wanted):
            return
        quota = above
    yield Fault(
        "spec.min",
        "is more than any quota above it is guaranteed: lower it, raise what a quota above is guaranteed, or label the "
        f"quota at the top of the tree {names.LABEL_QUOTA_IS_ROOT}=true",
    )


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in (*one, *other)}


def _covers(has: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    return all(amount <= has.get(key, 0) for key, amount in wanted.items())


def _guaranteed(quota: ElasticQuota) -> dict[str, int]:
    return _amounts(protocol.GUARANTEED, quota)


def _amounts(annotation: Annotation[ResourceList, Any], quota: ElasticQuota) -> dict[str, int]:
    try:
        return amounts(annotation.read(quota.metadata), capped=True)
    except BadInput:
        return {}
