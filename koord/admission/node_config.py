"""Whether a node's labels make two entries of one section of slo-controller-config pick it: then nobody could say which
of them holds. Asked when labels change; sections that cannot be read say nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from koord.api.configuration.slo_config import SECTIONS, reload
from koord.api.machinery.faults import Fault


def conflicts(labels: Mapping[str, str], config: Mapping[str, str]) -> Iterator[Fault]:
    """Sections of which several entries pick a node with these labels."""
    settings, _ = reload(None, config)
    for section in SECTIONS:
        items = section.of(settings).items
        picked = settings.matching_items(labels)[section.key]
        if len(picked) > 1:
            field = "nodeConfigs" if hasattr(section.of(settings), "node_configs") else "nodeStrategies"
            told = [f"{field}[{i}]" + (f" ({items[i].name})" if items[i].name else "") for i in picked]
            yield Fault(
                "metadata.labels",
                f"are picked by {' and '.join(told)} of {section.key}, of which only one may pick a node",
            )
