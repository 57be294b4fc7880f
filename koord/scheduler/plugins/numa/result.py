"""What is written on a pod before it is bound: its CPUs and NUMA amounts, and the policy that chose them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from koord.api.protocol.annotations.cpu import (
    RESOURCE_SPEC,
    RESOURCE_STATUS,
)
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.numa.allocation import Allocation, meta_spec, status_of
from koord.scheduler.plugins.numa.facts import Facts
from koord.scheduler.plugins.numa.wants import Wants


def patch_of(ask: Ask, held: Allocation, wants: Wants, facts: Facts) -> dict[str, Any]:
    """As a merge patch. A bound pod that left its policy open says afterwards which one it got."""
    if not held.cpus and not held.zones:
        return {"metadata": {"annotations": {RESOURCE_STATUS.key: None}}}
    written = {RESOURCE_STATUS.key: RESOURCE_STATUS.render(status_of(held))}
    if held.cpus:
        said = spec = meta_spec(ask.pod)
        required = facts.bind or wants.required
        policy = required or wants.bind
        unset = ("", "Default")
        if required and spec.required_cpu_bind_policy in unset:
            spec = replace(spec, required_cpu_bind_policy=required)
        left_open = said.required_cpu_bind_policy in unset and not said.preferred_cpu_bind_policy
        if policy and (said.preferred_cpu_bind_policy == "Default" or left_open):
            spec = replace(spec, preferred_cpu_bind_policy=policy)
        if spec != said:
            written[RESOURCE_SPEC.key] = RESOURCE_SPEC.render(spec)
    return {"metadata": {"annotations": written}}
