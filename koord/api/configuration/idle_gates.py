"""Feature gates that koord accepts and does nothing with: for now, or since it has no need.

Manifests that were made for Koordinator carry them. Whoever sets one is told at start, in one warning. A test holds
this list to the code: what has a reader is not in it, and what has none is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.api.configuration.features import AgentGate, Gate, ManagerGate, SchedulerGate
from koord.api.configuration.without_effect import idle_text

_READ: Final = (
    SchedulerGate.MULTI_QUOTA_TREE,
    SchedulerGate.ELASTIC_QUOTA_IGNORE_POD_OVERHEAD,
    SchedulerGate.ELASTIC_QUOTA_IGNORE_TERMINATING_POD,
    SchedulerGate.ELASTIC_QUOTA_IMMEDIATE_IGNORE_TERMINATING_POD,
    SchedulerGate.ELASTIC_QUOTA_GUARANTEE_USAGE,
    SchedulerGate.DISABLE_DEFAULT_QUOTA,
    SchedulerGate.DEVICE_PLUGIN_ADAPTION,
    SchedulerGate.OMIT_NODE_LABELS_FOR_RESERVATION,
    SchedulerGate.CLEAN_EXPIRED_RESERVATION_ALLOCATED,
    SchedulerGate.RESERVATIONS_KEEP_NODES,
    SchedulerGate.QUOTA_EXCEEDED_REASON,
)
"""Of the scheduler's gates, those that have an effect."""

UNDELIVERED: Final = (AgentGate.GPU_ENV_INJECT, AgentGate.RDMA_DEVICE_INJECT, AgentGate.HAMI_CORE_VGPU_MONITOR)
"""The agent's hooks have wishes by these for new containers: a runtime must ask for them, on --hooks-socket."""

GATES: Final[frozenset[Gate]] = frozenset(
    (
        AgentGate.AUDIT_EVENTS,
        AgentGate.AUDIT_EVENTS_HTTP_HANDLER,
        AgentGate.LIBPFM4,
        AgentGate.HUGE_PAGE_REPORT,
        AgentGate.PER_CPU_METRIC,
        AgentGate.NODE_METRIC_PROM_METRICS,
        ManagerGate.ELASTIC_QUOTA_EVALUATION_TRANSFORM_POD,
        ManagerGate.PRIORITY_TRANSFORMER,
        ManagerGate.PREEMPTION_POLICY_TRANSFORMER,
        ManagerGate.REPLACE_RESOURCES_TRANSFORMER,
        *(gate for gate in SchedulerGate if gate not in _READ),
    )
)


NO_NEED: Final[Mapping[Gate, str]] = {
    SchedulerGate.LAZY_RESERVATION_RESTORE: (
        "what owners see of a node is kept up to date as it changes, and restored for nobody"
    ),
    SchedulerGate.SKIP_RESERVATION_FITS_NODE: (
        "a node and its reservations are judged together, once for each change of the node"
    ),
}
"""Of these, those that change how Koordinator does what koord does otherwise, with the reason."""


def gates_warning(gates: Mapping[Any, bool], *, is_asked: bool = True) -> str | None:
    """Of gates that differ from their defaults. `is_asked`: whether container runtimes ask the agent."""
    reasons = dict.fromkeys(GATES, "") | dict(NO_NEED)
    if not is_asked:
        reasons |= dict.fromkeys(UNDELIVERED, "no container runtime asks for it without --hooks-socket")
    idle = sorted(
        (str(gate), reasons[gate]) for gate, is_on in gates.items() if gate in reasons and is_on != gate.default
    )
    return idle_text(idle, "feature gates")
