"""What nodes say about lending: strategy, reclaimed figures, normalised and amplified CPUs, bandwidth.

People set the strategy, the ratios and the bandwidth; the manager and its webhook publish the rest for the scheduler,
for the agent and for other systems that share the batch resources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from koord.api.configuration.slo_config_types import MOST_PERCENT, ColocationStrategy
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol import names
from koord.api.protocol.annotations.forms import BOOL, COUNT, RATIO, RESOURCES, TEXT, json_map, json_object, number
from koord.api.protocol.annotations.value import NODE, NODE_OR_TOPOLOGY, Annotation, Form, Label, Value
from koord.api.text.quantity import ResourceList


class OriginExtendedAllocatable(Struct):
    """The batch resources before other systems took their share."""

    resources: ResourceList = EMPTY


class ThirdPartyAllocation(Struct):
    """What another system holds of a node's reclaimed resources. `priority` is a priority class, koord-batch."""

    name: str
    priority: str
    resources: ResourceList = EMPTY


class ThirdPartyAllocations(Struct):
    allocations: tuple[ThirdPartyAllocation, ...] = ()


def _render_ratios(ratios: Mapping[str, float]) -> str:
    # Written by hand: JSON encoders print 1.50 as 1.5, and other writers keep the two decimals.
    return "{" + ",".join(f"{json.dumps(name)}:{ratio:.2f}" for name, ratio in sorted(ratios.items())) + "}"


_SHARE: Final = number(0, MOST_PERCENT / 100)
_PART: Final = number(0, 1)

COLOCATION_STRATEGY: Final = Annotation(
    names.ANNOTATION_COLOCATION_STRATEGY, json_object(ColocationStrategy), None, on=NODE, bad=None
)
"""Overlays the strategy of slo-controller-config; an illegal one is ignored."""
# The manager takes these as whole percent, int(ratio * 100), over what the strategy says.
CPU_RECLAIM_RATIO: Final = Label(names.LABEL_CPU_RECLAIM_RATIO, _SHARE, None, on=NODE)
MEMORY_RECLAIM_RATIO: Final = Label(names.LABEL_MEMORY_RECLAIM_RATIO, _SHARE, None, on=NODE)
MID_STATIC_CPU_RESERVED_RATIO: Final = Label(names.LABEL_MID_STATIC_CPU_RESERVED_RATIO, _PART, None, on=NODE)
MID_STATIC_MEMORY_RESERVED_RATIO: Final = Label(names.LABEL_MID_STATIC_MEMORY_RESERVED_RATIO, _PART, None, on=NODE)
CPU_NORMALIZATION_ENABLED: Final = Label(names.LABEL_CPU_NORMALIZATION_ENABLED, BOOL, None, on=NODE)
NETWORK_BANDWIDTH: Final = Annotation(names.ANNOTATION_NETWORK_BANDWIDTH, COUNT, None, on=NODE)
"""Bit/s."""

ORIGIN_EXTENDED_ALLOCATABLE: Final = Annotation(
    names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE, json_object(OriginExtendedAllocatable, by_program=True), None, on=NODE
)
THIRD_PARTY_ALLOCATIONS: Final = Annotation(
    names.ANNOTATION_THIRD_PARTY_ALLOCATIONS,
    json_object(ThirdPartyAllocations, by_program=True),
    ThirdPartyAllocations(),
    on=NODE,
)
CPU_NORMALIZATION_RATIO: Final = Annotation(names.ANNOTATION_CPU_NORMALIZATION_RATIO, RATIO, None, on=NODE)
RESOURCE_AMPLIFICATION_RATIO: Final = Annotation(
    names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO,
    Form(json_map(float).parse, _render_ratios),
    EMPTY,
    on=NODE_OR_TOPOLOGY,
)
"""By resource; a ratio up to 1 does nothing."""
RAW_ALLOCATABLE: Final = Annotation(names.ANNOTATION_RAW_ALLOCATABLE, RESOURCES, None, on=NODE)
"""Allocatable before amplification."""
RECOMMENDED_BY: Final = Annotation(names.OWN_ANNOTATION_RECOMMENDED_BY, TEXT, "")
"""The Recommendation that a pod's requests were taken from when it was created."""

VALUES: Final[tuple[Value[Any, Any], ...]] = (
    COLOCATION_STRATEGY,
    CPU_RECLAIM_RATIO,
    MEMORY_RECLAIM_RATIO,
    MID_STATIC_CPU_RESERVED_RATIO,
    MID_STATIC_MEMORY_RESERVED_RATIO,
    CPU_NORMALIZATION_ENABLED,
    NETWORK_BANDWIDTH,
    ORIGIN_EXTENDED_ALLOCATABLE,
    THIRD_PARTY_ALLOCATIONS,
    CPU_NORMALIZATION_RATIO,
    RESOURCE_AMPLIFICATION_RATIO,
    RAW_ALLOCATABLE,
    RECOMMENDED_BY,
)
