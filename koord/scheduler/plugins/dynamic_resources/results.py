"""From chosen devices to what is written into the status of claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import NAMESPACE_OID, uuid5

from koord.api.kubernetes.dynamic_resources import (
    AllocatedConfiguration,
    AllocationResult,
    DeviceAllocation,
    DeviceClass,
    DeviceResult,
)
from koord.api.machinery.struct import EMPTY
from koord.api.text.selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from koord.api.text.timestamp import from_seconds
from koord.scheduler.plugins.dynamic_resources.quantities import written
from koord.scheduler.plugins.dynamic_resources.requests import ClaimWanted
from koord.scheduler.plugins.dynamic_resources.search import Chosen, Solution


def allocations(
    claims: Sequence[ClaimWanted],
    solution: Solution,
    node: str,
    classes: Mapping[str, DeviceClass],
    now_s: float,
) -> list[AllocationResult]:
    """The allocation of each claim, in their order. Where devices must be prepared, it says since when."""
    return [
        AllocationResult(
            DeviceAllocation(
                tuple(_result(claim, device) for device in chosen), _configurations(claim, chosen, classes)
            ),
            node_selector([device.device.is_bound_to_node for device in chosen], chosen, node),
            from_seconds(now_s) if any(device.device.device.binding_conditions for device in chosen) else None,
        )
        for claim, chosen in zip(claims, solution.chosen, strict=True)
    ]


def _result(claim: ClaimWanted, chosen: Chosen) -> DeviceResult:
    wanted, sliced, consumes = chosen
    device = sliced.device
    shares = device.allow_multiple_allocations
    return DeviceResult(
        wanted.name,
        *sliced.id,
        admin_access=True if wanted.is_admin else None,
        tolerations=wanted.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        # A claim has at most one share of a device for each of its requests.
        share_id=str(uuid5(NAMESPACE_OID, f"{claim.uid}/{wanted.name}/{sliced.id}")) if shares else "",
        consumed_capacity=(
            {name: written(amount, device.capacity[name].value) for name, amount in consumes.items()}
            if shares
            else EMPTY
        ),
    )


def node_selector(is_bound: Iterable[bool], chosen: Sequence[Chosen], node: str) -> NodeSelector | None:
    """The nodes that can use devices: this one, if one of them is bound to it; else those that all of them are for."""
    if any(is_bound):
        on_node = NodeSelectorRequirement("metadata.name", "In", (node,))
        return NodeSelector((NodeSelectorTerm(match_fields=(on_node,)),))
    expressions: dict[NodeSelectorRequirement, None] = {}
    fields: dict[NodeSelectorRequirement, None] = {}
    for selector in (device.device.node_selector for device in chosen):
        for term in selector.node_selector_terms if selector is not None else ():
            expressions |= dict.fromkeys(term.match_expressions)
            fields |= dict.fromkeys(term.match_fields)
    if not (expressions or fields):
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _configurations(
    claim: ClaimWanted, chosen: Sequence[Chosen], classes: Mapping[str, DeviceClass]
) -> tuple[AllocatedConfiguration, ...]:
    """Of the classes of its devices, then of the claim itself."""
    names = {device.wanted.name: device.wanted.class_name for device in chosen}
    requests_of_class: dict[str, list[str]] = {}
    for name, class_name in names.items():
        requests_of_class.setdefault(class_name, []).append(name)
    configurations = [
        AllocatedConfiguration("FromClass", tuple(requests), config.opaque)
        for class_name, requests in requests_of_class.items()
        if class_name in classes
        for config in classes[class_name].spec.config
    ]
    used = {*names, *(name.partition("/")[0] for name in names)}
    configurations += [
        AllocatedConfiguration("FromClaim", config.requests, config.opaque)
        for config in claim.devices.config
        if not config.requests or used.intersection(config.requests)
    ]
    return tuple(configurations)
