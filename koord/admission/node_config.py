"""Whether two entries of one section of slo-controller-config select a node by its labels: then it is undefined which
entry applies. Checked when labels change; unreadable sections are ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from koord.api.configuration.slo_config import SECTIONS, reload
from koord.api.machinery.faults import Fault


def conflicts(labels: Mapping[str, str], config: Mapping[str, str]) -> Iterator[Fault]:
    """Sections where several entries select a node with these labels."""
    settings, _ = reload(None, config)
    for section in SECTIONS:
        items = section.of(settings).items
        picked = settings.matching_items(labels)[section.key]
        if len(picked) > 1:
            field = "nodeConfigs" if hasattr(section.of(settings), "node_configs") else "nodeStrategies"
            entries = [f"{field}[{i}]" + (f" ({items[i].name})" if items[i].name else "") for i in picked]
            yield Fault(
                "metadata.labels",
                f"are picked by {' and '.join(entries)} of {section.key}, where only one entry may pick a node",
            )
