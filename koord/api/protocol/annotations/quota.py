"""Elastic quotas: their tree, their settings and their state, as labels and annotations of ElasticQuotas say it.

Quotas form trees by the label `parent`; what has none hangs below the root. A tree is told from others by its id.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import EMPTY
from koord.api.protocol import names
from koord.api.protocol.annotations.forms import RESOURCES, SWITCH, TEXT, json_list
from koord.api.protocol.annotations.value import Annotation, Label, Value

QUOTA: Final = ("ElasticQuota",)
PROFILE: Final = ("ElasticQuotaProfile",)

NAME: Final = Label(names.LABEL_QUOTA_NAME, TEXT, "")
PREEMPTIBLE: Final = Label(names.LABEL_QUOTA_PREEMPTIBLE, SWITCH, True, bad=True)

PARENT: Final = Label(names.LABEL_QUOTA_PARENT, TEXT, "", on=QUOTA)
IS_PARENT: Final = Label(names.LABEL_QUOTA_IS_PARENT, SWITCH, False, on=QUOTA, bad=False)
IS_ROOT: Final = Label(names.LABEL_QUOTA_IS_ROOT, SWITCH, False, on=QUOTA, bad=False)
TREE_ID: Final = Label(names.LABEL_QUOTA_TREE_ID, TEXT, "", on=(*QUOTA, *PROFILE))
PROFILE_NAME: Final = Label(names.LABEL_QUOTA_PROFILE, TEXT, "", on=QUOTA)
IGNORE_DEFAULT_TREE: Final = Label(names.LABEL_QUOTA_IGNORE_DEFAULT_TREE, SWITCH, False, on=QUOTA, bad=False)
ALLOW_LENT_RESOURCE: Final = Label(names.LABEL_QUOTA_ALLOW_LENT_RESOURCE, SWITCH, True, on=QUOTA, bad=True)
ALLOW_FORCE_UPDATE: Final = Label(names.LABEL_QUOTA_ALLOW_FORCE_UPDATE, SWITCH, False, on=QUOTA, bad=False)

SHARED_WEIGHT: Final = Annotation(names.ANNOTATION_QUOTA_SHARED_WEIGHT, RESOURCES, None, on=QUOTA)
"""None is the quota's max."""
NAMESPACES: Final = Annotation(names.ANNOTATION_QUOTA_NAMESPACES, json_list(str), (), on=QUOTA)
TOTAL_RESOURCE: Final = Annotation(names.ANNOTATION_QUOTA_TOTAL_RESOURCE, RESOURCES, None, on=QUOTA)
UNSCHEDULABLE_RESOURCE: Final = Annotation(names.ANNOTATION_QUOTA_UNSCHEDULABLE_RESOURCE, RESOURCES, EMPTY, on=QUOTA)
RESOURCE_KEYS: Final = Annotation(
    names.ANNOTATION_QUOTA_RESOURCE_KEYS, json_list(str), (names.RESOURCE_CPU, names.RESOURCE_MEMORY), on=PROFILE
)
ADMISSION: Final = Annotation(names.ANNOTATION_QUOTA_ADMISSION, RESOURCES, EMPTY, on=QUOTA)
MAX_STRICT_CHECK_RESOURCE_KEYS: Final = Annotation(
    names.ANNOTATION_QUOTA_MAX_STRICT_CHECK_RESOURCE_KEYS, json_list(str), (), on=QUOTA
)

RUNTIME: Final = Annotation(names.ANNOTATION_QUOTA_RUNTIME, RESOURCES, EMPTY, on=QUOTA)
REQUEST: Final = Annotation(names.ANNOTATION_QUOTA_REQUEST, RESOURCES, EMPTY, on=QUOTA)
CHILD_REQUEST: Final = Annotation(names.ANNOTATION_QUOTA_CHILD_REQUEST, RESOURCES, EMPTY, on=QUOTA)
GUARANTEED: Final = Annotation(names.ANNOTATION_QUOTA_GUARANTEED, RESOURCES, EMPTY, on=QUOTA)
ALLOCATED: Final = Annotation(names.ANNOTATION_QUOTA_ALLOCATED, RESOURCES, EMPTY, on=QUOTA)
NON_PREEMPTIBLE_REQUEST: Final = Annotation(names.ANNOTATION_QUOTA_NON_PREEMPTIBLE_REQUEST, RESOURCES, EMPTY, on=QUOTA)
NON_PREEMPTIBLE_USED: Final = Annotation(names.ANNOTATION_QUOTA_NON_PREEMPTIBLE_USED, RESOURCES, EMPTY, on=QUOTA)

VALUES: Final[tuple[Value[Any, Any], ...]] = (
    NAME,
    PREEMPTIBLE,
    PARENT,
    IS_PARENT,
    IS_ROOT,
    TREE_ID,
    PROFILE_NAME,
    IGNORE_DEFAULT_TREE,
    ALLOW_LENT_RESOURCE,
    ALLOW_FORCE_UPDATE,
    SHARED_WEIGHT,
    NAMESPACES,
    TOTAL_RESOURCE,
    UNSCHEDULABLE_RESOURCE,
    RESOURCE_KEYS,
    ADMISSION,
    MAX_STRICT_CHECK_RESOURCE_KEYS,
    RUNTIME,
    REQUEST,
    CHILD_REQUEST,
    GUARANTEED,
    ALLOCATED,
    NON_PREEMPTIBLE_REQUEST,
    NON_PREEMPTIBLE_USED,
)


def parent_of(quota: ObjectMeta) -> str:
    """The name of the quota above this one; only the root has none."""
    return PARENT.read(quota) or ("" if quota.name == names.QUOTA_ROOT else names.QUOTA_ROOT)


def namespaces_of(quota: ObjectMeta) -> tuple[str, ...]:
    """The namespaces whose pods a quota takes by listing them: never the cluster's own. Raises `AnnotationError`."""
    return tuple(namespace for namespace in NAMESPACES.read(quota) if namespace not in names.CLUSTER_NAMESPACES)


def current_name(written: str, existing: Container[str]) -> str:
    """The quota that a name means. `root`, `system` and `default` once named the built-in quotas, and still do if
    no quota of that name exists."""
    return written if written in existing else names.OLD_QUOTAS.get(written, written)


def default_tree_id(namespace: str, name: str) -> str:
    """The id of the tree that a profile makes without naming one."""
    return str(fnv1a_64(f"{namespace}/{name}".encode()))


def fnv1a_64(data: bytes) -> int:
    """The 64-bit Fowler-Noll-Vo hash, variant 1a."""
    hashed = 0xCBF29CE484222325
    for byte in data:
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return hashed
