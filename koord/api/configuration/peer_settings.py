"""What a lending policy of another system (caster, LAR, Crane, Katalyst) makes of a node's other settings. Asked by
`SloConfig.for_node`.

This policy says what is sold and what batch may use, so suppression is on, and agents hold batch in the policy's
box. Where suppression was switched off by hand, the node lends by `usage` instead. One policy owns a node: memory by a
policy of another system goes with the same one of CPU, and else by `usage`. The share of the node that may be used in
all is the policy's own, or cpuReclaimThresholdPercent and memoryReclaimThresholdPercent where they are set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from koord.api.configuration.adaptive_settings import is_off_by_hand
from koord.api.configuration.layer import Layer
from koord.api.configuration.lending_policies import PEERS, USAGE
from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.protocol.crd.node_slo import LendingStrategy, ResourceThresholdStrategy


class PeerSettings(NamedTuple):
    lending: ColocationStrategy
    thresholds: ResourceThresholdStrategy
    box: LendingStrategy | None
    "None where no policy of another system is in force."


def with_peer(
    lending: ColocationStrategy,
    thresholds: ResourceThresholdStrategy,
    threshold_layers: Sequence[Layer],
    colocation_layers: Sequence[Layer],
    *,
    lends: bool,
) -> PeerSettings:
    """The layers are what was set, lowest first. `lends`: whether co-location is on here."""
    if lending.cpu_calculate_policy in PEERS and is_off_by_hand(threshold_layers):
        lending = replace(lending, cpu_calculate_policy=USAGE)
    owner = lending.cpu_calculate_policy
    if lending.memory_calculate_policy in PEERS and lending.memory_calculate_policy != owner:
        lending = replace(lending, memory_calculate_policy=USAGE)
    if owner not in PEERS or not lends:
        return PeerSettings(lending, thresholds, None)
    box = LendingStrategy(
        policy=owner,
        cpu_reclaim_threshold_percent=_written(lending, colocation_layers, "cpu_reclaim_threshold_percent"),
        memory_reclaim_threshold_percent=_written(lending, colocation_layers, "memory_reclaim_threshold_percent"),
    )
    return PeerSettings(lending, replace(thresholds, enable=True), box)


def _written(lending: ColocationStrategy, layers: Sequence[Layer], field: str) -> int | None:
    """What holds, where it is not a default."""
    is_written = any(getattr(layer.settings, field, None) is not None for layer in layers)
    percent: int | None = getattr(lending, field) if is_written else None
    return percent
