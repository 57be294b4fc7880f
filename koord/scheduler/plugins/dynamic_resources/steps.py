"""What is written on the claims of a placed pod before it is bound: their devices, and that the pod uses them.

Each step may be repeated: an equal allocation that is stored already is no change. A claim that got other devices in
the meantime, or lost them, is a reason to place the pod again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from koord.api.kinds import RESOURCE_CLAIMS
from koord.api.kubernetes.dynamic_resources import FINALIZER, AllocationResult, ResourceClaim
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.writes import CannotBind, Patch, Step, Until, Write
from koord.scheduler.plugins.dynamic_resources.conditions import failure, missing, needs_preparation
from koord.scheduler.plugins.dynamic_resources.ledger import ClaimUse, Ledger, Uses


def claim_steps(plugin: str, ask: Ask, uses: Uses, ledger: Ledger, within_s: float) -> tuple[Step, ...]:
    """A step for each claim, and one that waits until devices are prepared. `within_s`: at most."""
    steps = [_step(plugin, ask, use, ledger) for use in uses]
    if any(_is_prepared(use, ledger) for use in uses):
        steps.append(Step(plugin, lambda: (), _prepared(uses, ledger, within_s)))
    return tuple(steps)


def _step(plugin: str, ask: Ask, use: ClaimUse, ledger: Ledger) -> Step:
    return Step(plugin, lambda: _writes(ask, use, ledger))


def _current(use: ClaimUse, ledger: Ledger) -> ResourceClaim:
    claim = ledger.claims.get(use.key)
    if claim is None or claim.metadata.uid != use.uid or claim.metadata.deletion_timestamp is not None:
        raise CannotBind(f"claim {use.key} got deleted in the meantime")
    return claim


def _writes(ask: Ask, use: ClaimUse, ledger: Ledger) -> tuple[Write, ...]:
    claim = _current(use, ledger)
    allocation = claim.status.allocation
    if allocation is None and use.allocation is None:
        raise CannotBind(f"claim {use.key} got deallocated elsewhere in the meantime")
    if allocation is not None and use.allocation is not None and allocation.devices != use.allocation.devices:
        raise CannotBind(f"claim {use.key} got allocated elsewhere in the meantime")
    writes: list[Write] = []
    meta, status = claim.metadata, dict[str, Any]()
    if allocation is None and use.allocation is not None:
        if FINALIZER not in meta.finalizers:
            body = {"metadata": {"uid": meta.uid, "finalizers": [FINALIZER]}}
            writes.append(Patch(RESOURCE_CLAIMS, meta.name, body, meta.namespace, "strategic"))
        status["allocation"] = _plain(use.allocation)
    if all(consumer.uid != ask.meta.uid for consumer in claim.status.reserved_for):
        # Strategically merged by uid: pods that share a claim do not overwrite each other.
        status["reservedFor"] = [{"resource": "pods", "name": ask.meta.name, "uid": ask.meta.uid}]
    if status:
        body = {"metadata": {"uid": meta.uid}, "status": status}
        writes.append(Patch(RESOURCE_CLAIMS, meta.name, body, meta.namespace, "strategic", "status"))
    return tuple(writes)


def _plain(allocation: AllocationResult) -> Any:
    return msgspec.to_builtins(allocation, str_keys=True)


def _is_prepared(use: ClaimUse, ledger: Ledger) -> bool:
    """Whether devices of a claim must be prepared."""
    claim = ledger.claims.get(use.key)
    allocation = use.allocation or (claim.status.allocation if claim is not None else None)
    return allocation is not None and needs_preparation(allocation.devices.results)


def _prepared(uses: Uses, ledger: Ledger, within_s: float) -> Until:
    def missing_conditions() -> str:
        waiting: list[str] = []
        for use in uses:
            claim = _current(use, ledger)
            if why := failure(claim, ledger.cluster.now_s, within_s):
                raise CannotBind(why)
            if claim.status.allocation is None and use.allocation is not None:
                waiting.append(f"the allocation of {use.key} to be seen")
            waiting += missing(claim)
        return f"device binding timeout: waiting for {', '.join(waiting)}" if waiting else ""

    return Until(missing_conditions, within_s, waits_for=missing_conditions)
