"""Gangs: which pods are to run together or not at all, as their labels and annotations say it.

A pod names its gang in one of three places; the first that is set counts. A gang named by the PodGroup label takes its
settings from that PodGroup, else from its pods. Only the minimum must be right: for every other setting the
protocol takes the default where the value is malformed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.faults import Fault
from koord.api.machinery.struct import Struct
from koord.api.protocol import names
from koord.api.protocol.annotations.forms import DURATION_NS, TEXT, integer, json_list, json_object, one_of
from koord.api.protocol.annotations.value import Annotation, AnnotationError, Label, Value

POD_OR_GROUP: Final = ("Pod", "PodGroup")
COUNT: Final = integer(0, 2**31 - 1)


class GatherRule(Struct):
    """How to gather a gang within one layer of the network."""

    layer: str
    strategy: Literal["MustGather", "PreferGather"]
    pod_count_multiple: Annotated[int, Meta(ge=0)] = 0


class NetworkTopologySpec(Struct):
    gather_strategy: tuple[GatherRule, ...] = ()


POD_GROUP: Final = Label(names.LABEL_POD_GROUP, TEXT, "")
POD_GROUP_NAME: Final = Label(names.LABEL_POD_GROUP_NAME, TEXT, "")
POD_GROUP_MIN_AVAILABLE: Final = Label(names.LABEL_POD_GROUP_MIN_AVAILABLE, COUNT, None)
NAME: Final = Annotation(names.ANNOTATION_GANG_NAME, TEXT, "")
MIN_AVAILABLE: Final = Annotation(names.ANNOTATION_GANG_MIN_AVAILABLE, COUNT, None)
TOTAL_NUMBER: Final = Annotation(names.ANNOTATION_GANG_TOTAL_NUMBER, COUNT, 0, on=POD_OR_GROUP, bad=0)
MODE: Final = Annotation(
    names.ANNOTATION_GANG_MODE, one_of("Strict", "NonStrict"), "Strict", on=POD_OR_GROUP, bad="Strict"
)
MATCH_POLICY: Final = Annotation(
    names.ANNOTATION_GANG_MATCH_POLICY,
    one_of("only-waiting", "waiting-and-running", "once-satisfied"),
    None,
    on=POD_OR_GROUP,
    bad=None,
    old_keys=(names.ANNOTATION_POD_GROUP_MATCH_POLICY,),
)
"""None is the scheduler's default."""
WAITING_TIME_NS: Final = Annotation(names.ANNOTATION_GANG_WAITING_TIME, DURATION_NS, 0, bad=0)
GROUPS: Final = Annotation(names.ANNOTATION_GANG_GROUPS, json_list(str), (), on=POD_OR_GROUP, bad=())
NETWORK_TOPOLOGY_SPEC: Final = Annotation(
    names.ANNOTATION_GANG_NETWORK_TOPOLOGY_SPEC, json_object(NetworkTopologySpec), None, on=POD_OR_GROUP, bad=None
)
NETWORK_TOPOLOGY_INDEX: Final = Annotation(
    names.ANNOTATION_GANG_NETWORK_TOPOLOGY_INDEX, integer(-(2**31), 2**31 - 1), -1
)
"""Order of the pods within a gang: those with an index first, by it, then the others by name."""
NETWORK_TOPOLOGY_SELECTOR: Final = Annotation(names.ANNOTATION_NETWORK_TOPOLOGY_SELECTOR, TEXT, "", on=POD_OR_GROUP)
BIND_GROUP_ID: Final = Annotation(
    names.ANNOTATION_BIND_GANG_GROUP_ID, TEXT, "", old_keys=(names.OLD_ANNOTATION_BIND_GANG_GROUP_ID,)
)
BIND_MEMBER_COUNT: Final = Annotation(
    names.ANNOTATION_BIND_GANG_MEMBER_COUNT, COUNT, None, old_keys=(names.OLD_ANNOTATION_BIND_GANG_MEMBER_COUNT,)
)

VALUES: Final[tuple[Value[Any, Any], ...]] = (
    POD_GROUP,
    POD_GROUP_NAME,
    POD_GROUP_MIN_AVAILABLE,
    NAME,
    MIN_AVAILABLE,
    TOTAL_NUMBER,
    MODE,
    MATCH_POLICY,
    WAITING_TIME_NS,
    GROUPS,
    NETWORK_TOPOLOGY_SPEC,
    NETWORK_TOPOLOGY_INDEX,
    NETWORK_TOPOLOGY_SELECTOR,
    BIND_GROUP_ID,
    BIND_MEMBER_COUNT,
)


@dataclass(frozen=True, slots=True)
class GangDefaults:
    """What the scheduler is configured to take where a gang says nothing."""

    match_policy: str = "once-satisfied"
    waiting_time_s: float = 600


DEFAULTS: Final = GangDefaults()


@dataclass(frozen=True, slots=True)
class GangSpec:
    """A gang's settings with all defaults filled in. Gangs in one group are bound together."""

    id: str
    min_available: int
    total_number: int
    mode: str
    match_policy: str
    waiting_time_s: float
    groups: tuple[str, ...]
    network_topology: NetworkTopologySpec | None

    @property
    def group_id(self) -> str:
        return ",".join(self.groups)


def gang_name(pod: ObjectMeta) -> str:
    """The name of a pod's gang, or nothing."""
    # Each is plain text. This is read often, from all pods.
    labels = pod.labels
    return labels.get(POD_GROUP.key) or labels.get(POD_GROUP_NAME.key) or pod.annotations.get(NAME.key) or ""


def gang_id(pod: ObjectMeta) -> str:
    """`namespace/name` of a pod's gang, or nothing."""
    name = gang_name(pod)
    return f"{pod.namespace}/{name}" if name else ""


def has_pod_group(pod: ObjectMeta) -> bool:
    """Whether a pod's gang is a PodGroup, whose settings count then, not the pod's own."""
    return bool(POD_GROUP.read(pod))


def gang_of_pod(pod: ObjectMeta, defaults: GangDefaults = DEFAULTS) -> GangSpec:
    """The gang as its pod describes it. Without a proper minimum there is none to form: AnnotationError."""
    minimum = POD_GROUP_MIN_AVAILABLE.read(pod)
    if minimum is None:
        minimum = MIN_AVAILABLE.read(pod)
    if minimum is None:
        fault = Fault("", "is required for a pod in a gang that is no PodGroup: how many must be placed together")
        raise AnnotationError(f"Pod {pod.key}", "annotation", MIN_AVAILABLE.key, [fault])
    waiting_time_s = WAITING_TIME_NS.read(pod) / 1e9
    return _gang(pod, gang_id(pod), minimum, waiting_time_s, defaults)


def gang_of_pod_group(
    group: ObjectMeta, min_member: int, schedule_timeout_s: int | None, defaults: GangDefaults = DEFAULTS
) -> GangSpec:
    """The gang as its PodGroup describes it, in its spec and in its annotations."""
    return _gang(group, group.key, min_member, schedule_timeout_s or 0, defaults)


def _gang(meta: ObjectMeta, id_: str, minimum: int, waiting_time_s: float, defaults: GangDefaults) -> GangSpec:
    return GangSpec(
        id=id_,
        min_available=minimum,
        total_number=max(TOTAL_NUMBER.read(meta), minimum),
        mode=MODE.read(meta),
        match_policy=MATCH_POLICY.read(meta) or defaults.match_policy,
        waiting_time_s=waiting_time_s if waiting_time_s > 0 else defaults.waiting_time_s,
        groups=tuple(sorted(GROUPS.read(meta))) or (id_,),
        network_topology=NETWORK_TOPOLOGY_SPEC.read(meta),
    )
