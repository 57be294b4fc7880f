"""The reports, each with its own interval."""

from __future__ import annotations

from typing import Any, Final

from koord.agent.report import device, node_metric, node_resource_topology
from koord.agent.report.report import Report

REPORTS: Final[tuple[Report[Any], ...]] = (
    node_metric.REPORT,
    node_resource_topology.REPORT,
    device.REPORT,
)
