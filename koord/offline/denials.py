"""What an API server would not take, of the parts of a pod that decide where it goes. Gives the first fault.

Only that is looked at; what else is wrong with a pod (names, images, mounts) does not change a plan.
"""

from __future__ import annotations

from collections.abc import Iterator

from koord.api.kubernetes.pod import PodSpec, ResourceRequirements, TopologySpreadConstraint
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.taints import toleration_faults
from koord.api.kubernetes.words import WhenUnsatisfiable
from koord.api.text.quantity import render


def denial(spec: PodSpec) -> str:
    """Why a pod with this spec would be denied; empty where it would not."""
    return next(_faults(spec), "")


def _faults(spec: PodSpec) -> Iterator[str]:
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for i, container in enumerate(containers):
            yield from _resource_faults(f"spec.{field}[{i}].resources", container.resources)
    if spec.resources is not None:
        yield from _resource_faults("spec.resources", spec.resources)
    for i, constraint in enumerate(spec.topology_spread_constraints):
        yield from _spread_faults(f"spec.topologySpreadConstraints[{i}]", constraint)
    for fault in toleration_faults(spec.tolerations):
        yield str(fault.under("spec.tolerations"))


def _resource_faults(path: str, resources: ResourceRequirements) -> Iterator[str]:
    requests, limits = amounts(resources.requests), amounts(resources.limits)
    for field, listed in (("requests", requests), ("limits", limits)):
        for name, amount in listed.items():
            if amount < 0:
                yield f"{path}.{field}[{name}]: must be 0 or more, not {render(name, amount)}"
    for name, amount in requests.items():
        if name in limits and amount > limits[name]:
            asked, most = render(name, amount), render(name, limits[name])
            yield f"{path}.requests[{name}]: must be at most the limit, {most}, not {asked}"


def _spread_faults(path: str, constraint: TopologySpreadConstraint) -> Iterator[str]:
    if constraint.max_skew <= 0:
        yield f"{path}.maxSkew: must be more than 0, not {constraint.max_skew}"
    if not constraint.topology_key:
        yield f"{path}.topologyKey: is required"
    if constraint.when_unsatisfiable not in (WhenUnsatisfiable.DO_NOT_SCHEDULE, WhenUnsatisfiable.SCHEDULE_ANYWAY):
        allowed = f"{WhenUnsatisfiable.DO_NOT_SCHEDULE} or {WhenUnsatisfiable.SCHEDULE_ANYWAY}"
        yield f"{path}.whenUnsatisfiable: must be {allowed}, not {str(constraint.when_unsatisfiable)!r}"
