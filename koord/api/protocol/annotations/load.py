"""Load and descheduling: a node's own usage limits, a pod's own estimate, what an eviction costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol import names
from koord.api.protocol.annotations.forms import INT32, INT64, SWITCH, TEXT, json_map, json_object, one_of
from koord.api.protocol.annotations.value import NODE, Annotation, Form, Label, Value
from koord.api.protocol.crd.pod_migration_job import DeleteOptions
from koord.api.text.duration import Duration
from koord.api.text.timestamp import Timestamp

JOB: Final = ("PodMigrationJob",)
NEVER_EVICT: Final = 2**31 - 1
"""The eviction cost of a pod that must not be evicted."""


class AggregatedThresholds(Struct):
    """Limits on a percentile of usage over a time, in percent by resource."""

    usage_thresholds: Mapping[str, int] = EMPTY
    usage_aggregation_type: Literal["", "avg", "p50", "p90", "p95", "p99"] = ""
    usage_aggregated_duration: Duration | None = None


class UsageThresholds(Struct):
    """Limits on usage above which a node takes no more pods, in percent by resource. Each part that is set counts in
    place of the scheduler's."""

    usage_thresholds: Mapping[str, int] = EMPTY
    prod_usage_thresholds: Mapping[str, int] = EMPTY
    aggregated_usage: AggregatedThresholds | None = None


class SoftEviction(Struct):
    """A request to a pod's owner to take it away."""

    timestamp: Timestamp | None = None
    delete_options: DeleteOptions | None = None
    initiator: str = ""
    reason: str = ""


_COST: Final = re.compile("0|[1-9][0-9]*|-[0-9]+")


def _parse_cost(text: str) -> int:
    if not _COST.fullmatch(text):
        raise ValueError(f"must be an integer without + or leading zeros, not {text[:60]!r}")
    return INT32.parse(text)


USAGE_THRESHOLDS: Final = Annotation(
    names.ANNOTATION_USAGE_THRESHOLDS, json_object(UsageThresholds), UsageThresholds(), on=NODE, bad=UsageThresholds()
)
LOAD_ESTIMATED_SCALING_FACTORS: Final = Annotation(
    names.ANNOTATION_LOAD_ESTIMATED_SCALING_FACTORS, json_map(int), EMPTY
)
"""Percent by resource."""
LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED: Final = Annotation(
    names.ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED, INT64, None
)
LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED: Final = Annotation(
    names.ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED, INT64, None
)

LAST_EVICTIONS: Final = Annotation(names.OWN_ANNOTATION_LAST_EVICTIONS, json_map(str), EMPTY, on=NODE, bad=EMPTY)
"""Times by priority class, which the agent writes before it evicts, and by owner of pods, which the descheduler writes
before it moves one: `owner/UID`. The scheduler keeps the node closed to them for a while."""
OF_OWNER: Final = "owner/"

EVICTION_COST: Final = Annotation(names.ANNOTATION_EVICTION_COST, Form(_parse_cost, str), 0, bad=0)
SOFT_EVICTION: Final = Annotation(names.ANNOTATION_SOFT_EVICTION, json_object(SoftEviction, by_program=True), None)
EVICT_POLICY: Final = Label(
    names.LABEL_EVICT_POLICY, one_of("Eviction", "Delete", "SoftEviction"), None, on=("Pod", "PodMigrationJob")
)
EVICT_REASON: Final = Annotation(names.ANNOTATION_EVICT_REASON, TEXT, "", on=JOB)
EVICT_TRIGGER: Final = Annotation(names.ANNOTATION_EVICT_TRIGGER, TEXT, "", on=JOB)
JOB_CREATED_BY: Final = Annotation(names.ANNOTATION_JOB_CREATED_BY, TEXT, "", on=JOB)
JOB_PROFILE: Final = Annotation(names.OWN_ANNOTATION_JOB_PROFILE, TEXT, "", on=JOB)
"""The profile of the descheduler by whose arguments a job is carried out. Without it, by those of the first one."""
JOB_WORKLOAD: Final = Annotation(names.OWN_ANNOTATION_JOB_WORKLOAD, TEXT, "", on=JOB)
"""The uid of the workload whose pod a job moves, known after the pod is gone."""
JOB_NODE: Final = Annotation(names.OWN_ANNOTATION_JOB_NODE, TEXT, "", on=JOB)
"""The node that a job's pod leaves, known after the pod is gone."""
PASSED_ARBITRATION: Final = Annotation(names.ANNOTATION_PASSED_ARBITRATION, SWITCH, False, on=JOB, bad=False)
POD_ARBITRATING: Final = Annotation(names.ANNOTATION_POD_ARBITRATING, SWITCH, False, on=JOB, bad=False)
CONTROLLER_MANAGED: Final = Label(
    names.LABEL_CONTROLLER_MANAGED, SWITCH, False, on=("ClusterColocationProfile",), bad=False
)

VALUES: Final[tuple[Value[Any, Any], ...]] = (
    USAGE_THRESHOLDS,
    LOAD_ESTIMATED_SCALING_FACTORS,
    LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
    LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED,
    LAST_EVICTIONS,
    EVICTION_COST,
    SOFT_EVICTION,
    EVICT_POLICY,
    EVICT_REASON,
    EVICT_TRIGGER,
    JOB_CREATED_BY,
    JOB_NODE,
    JOB_PROFILE,
    JOB_WORKLOAD,
    PASSED_ARBITRATION,
    POD_ARBITRATING,
    CONTROLLER_MANAGED,
)


def evict_policy(pod: ObjectMeta, job: ObjectMeta) -> str | None:
    """How to evict a pod: by its own annotation, else by the job's, else None: as configured."""
    return EVICT_POLICY.read(pod) or EVICT_POLICY.read(job, "PodMigrationJob")
