"""What a pod's labels and annotations ask of the node agent and of admission: QoS settings, eviction, resources.

A pod's QoS settings lie over those of its node (NodeSLO); they use the same words, from `koord.api.protocol.crd`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol import names
from koord.api.protocol.annotations.forms import (
    INT32,
    SWITCH,
    TEXT,
    integer,
    json_list,
    json_map,
    json_object,
    one_of,
)
from koord.api.protocol.annotations.value import Annotation, Form, Label, Value
from koord.api.protocol.crd.fields import Percent
from koord.api.protocol.crd.node_slo import CPUBurstConfig
from koord.api.protocol.crd.resource_qos import BlkIOQOS, CPUQOSCfg, MemoryQOS
from koord.api.text.quantity import ResourceList, value


class PodMemoryQOS(MemoryQOS):
    """Memory QoS of one pod. `default` inherits the node's, `none` switches it off, `auto` takes what is advised."""

    policy: Literal["", "default", "none", "auto"] = ""


BitsPerSecond = Annotated[str | int | float, Meta(extra={"check": lambda limit: _check_bandwidth(limit)})]


class PodNetworkQOS(Struct):
    """Network bandwidth of one pod, in bit/s. What is absent is not limited."""

    ingress_limit: BitsPerSecond | None = None
    egress_limit: BitsPerSecond | None = None


class LatencyProbe(Struct):
    """How the node agent asks a pod how it is."""

    port: Annotated[int, Meta(ge=1, le=65535)]
    "Of the pod, spoken to by HTTP."
    path: Annotated[str, Meta(pattern="^/", max_length=1024)] = "/"
    reads: Literal["time", "number"] = "time"
    "Whether the time that an answer takes counts, or the number that it is; larger is worse."


class ExtendedResources(Struct):
    limits: ResourceList = EMPTY
    requests: ResourceList = EMPTY


class ExtendedResourceSpec(Struct):
    """The batch and mid resources of a pod's main containers, for readers that do not see the pod's spec."""

    containers: Mapping[str, ExtendedResources] = EMPTY


PercentRange = Annotated[tuple[Percent, ...], Meta(extra={"check": lambda pair: _check_range(pair)})]


class Schemata(Struct):
    """A share of a cache or of memory bandwidth: a percentage, or from one percentage to another."""

    percent: Percent = 0
    range: PercentRange = ()


class CacheSchemata(Struct):
    """The share of one cache, where it is not that of the others."""

    cache_id: Annotated[int, Meta(ge=0)] = 0
    percent: Percent = 0
    range: PercentRange = ()


class ResctrlShare(Struct):
    schemata: Schemata = Schemata()
    schemata_per_cache: tuple[CacheSchemata, ...] = ()


class PodResctrl(Struct):
    """The last level cache and memory bandwidth that a pod may use."""

    llc: ResctrlShare = ResctrlShare()
    mb: ResctrlShare = ResctrlShare()


def _check_range(pair: tuple[int, ...]) -> None:
    if pair and (len(pair) != 2 or pair[0] >= pair[1]):
        raise ValueError("must be two percentages, the first below the second")


def _check_bandwidth(limit: str | float) -> None:
    if value(limit) <= 0:
        raise ValueError("must be above 0: bit/s, such as 40M; leave it out for no limit")


def _parse_replacements(text: str) -> Mapping[str, str | None]:
    replacements: dict[str, str | None] = {}
    for part in text.split(","):
        old, colon, new = (side.strip() for side in part.partition(":"))
        if not colon or not old or ":" in new:
            raise ValueError(f"must be pairs old:new, or old: to erase, separated by commas, not {part[:60]!r}")
        replacements[old] = new or None
    return replacements


REPLACEMENTS: Final = Form(
    _parse_replacements, lambda replacements: ",".join(f"{old}:{new or ''}" for old, new in replacements.items())
)
OOM_SCORE: Final = integer(-1000, 1000)

EXTENDED_RESOURCE_SPEC: Final = Annotation(
    names.ANNOTATION_EXTENDED_RESOURCE_SPEC, json_object(ExtendedResourceSpec, by_program=True), ExtendedResourceSpec()
)
REPLACE_RESOURCES: Final = Annotation(names.ANNOTATION_REPLACE_RESOURCES, REPLACEMENTS, EMPTY)
"""Resource names to rename; None erases the resource."""

CPU_BURST: Final = Annotation(names.ANNOTATION_CPU_BURST, json_object(CPUBurstConfig), None)
CPU_QOS: Final = Annotation(names.ANNOTATION_CPU_QOS, json_object(CPUQOSCfg), None)
MEMORY_QOS: Final = Annotation(names.ANNOTATION_MEMORY_QOS, json_object(PodMemoryQOS), None)
BLKIO_QOS: Final = Annotation(names.ANNOTATION_BLKIO_QOS, json_object(BlkIOQOS), None)
NETWORK_QOS: Final = Annotation(names.ANNOTATION_NETWORK_QOS, json_object(PodNetworkQOS), None)
RESCTRL: Final = Annotation(names.ANNOTATION_RESCTRL, json_object(PodResctrl), None)

LATENCY_PROBE: Final = Annotation(names.OWN_ANNOTATION_LATENCY_PROBE, json_object(LatencyProbe), None)

CORE_SCHED_GROUP_ID: Final = Label(names.LABEL_CORE_SCHED_GROUP_ID, TEXT, "")
CORE_SCHED_POLICY: Final = Label(names.LABEL_CORE_SCHED_POLICY, one_of("", "none", "exclusive"), "")

OOM_SCORE_ADJ: Final = Annotation(names.ANNOTATION_OOM_SCORE_ADJ, OOM_SCORE, None)
OOM_SCORE_ADJ_SPEC: Final = Annotation(
    names.ANNOTATION_OOM_SCORE_ADJ_SPEC, json_map(int, Meta(ge=-1000, le=1000)), EMPTY
)

EVICTION_ENABLED: Final = Label(names.LABEL_EVICTION_ENABLED, SWITCH, False, bad=False)
EVICTION_POLICY: Final = Annotation(names.ANNOTATION_EVICTION_POLICY, json_list(str), None, bad=(), empty=())
"""The agent's features that may evict the pod. None is all of them; what cannot be read allows none."""
EVICTION_PRIORITY: Final = Annotation(names.ANNOTATION_EVICTION_PRIORITY, INT32, 0, bad=0)

MUTATING_UPDATE: Final = Label(names.LABEL_MUTATING_UPDATE, SWITCH, False, bad=False)
SKIP_ENHANCED_VALIDATION: Final = Label(names.LABEL_SKIP_ENHANCED_VALIDATION, SWITCH, False, bad=False)
SKIP_HOOK_SERVER: Final = Label(names.LABEL_SKIP_HOOK_SERVER, SWITCH, False, bad=False)

VALUES: Final[tuple[Value[Any, Any], ...]] = (
    EXTENDED_RESOURCE_SPEC,
    REPLACE_RESOURCES,
    CPU_BURST,
    CPU_QOS,
    MEMORY_QOS,
    BLKIO_QOS,
    NETWORK_QOS,
    RESCTRL,
    LATENCY_PROBE,
    CORE_SCHED_GROUP_ID,
    CORE_SCHED_POLICY,
    OOM_SCORE_ADJ,
    OOM_SCORE_ADJ_SPEC,
    EVICTION_ENABLED,
    EVICTION_POLICY,
    EVICTION_PRIORITY,
    MUTATING_UPDATE,
    SKIP_ENHANCED_VALIDATION,
    SKIP_HOOK_SERVER,
)


def oom_score_adj(pod: ObjectMeta, container: str) -> int | None:
    """What a container's oom_score_adj shall be: its own entry, else the pod's; None leaves it unchanged."""
    own = OOM_SCORE_ADJ_SPEC.read(pod).get(container)
    return OOM_SCORE_ADJ.read(pod) if own is None else own
