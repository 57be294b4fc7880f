"""The thresholds of nodes on a running cluster: shows them, and changes them. No component restarts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from koord.admission.slo_config import verdict
from koord.api.configuration.slo_config import SloConfig, reload
from koord.api.kubernetes.node import Node
from koord.api.protocol import names
from koord.api.text.selector import LabelMatcher
from koord.kube.client import Client
from koord.manager.colocation_switch import SwitchError, selector_of
from koord.manager.threshold_switch import THRESHOLDS, in_force, own_thresholds, require_effect, with_thresholds
from koord.operate.live.colocation import Scope, configuration_in_force, nodes_of
from koord.operate.live.config_maps import ConfigMapError, config_map, rewrite_values


class ThresholdShown(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    section: str
    value: int | None
    "In force; None if nothing is set, or if the nodes differ."
    own: int | None
    "What the cluster's or the pool's own settings say."
    set_in: str
    "Where the value comes from; `several places` if the nodes differ."


class ThresholdResult(msgspec.Struct, frozen=True, rename="camel"):
    nodes: int
    thresholds: tuple[ThresholdShown, ...]
    configuration: tuple[str, ...] = ()
    "Faults in the stored configuration, and what is in force instead."


def shown(
    config: SloConfig,
    data: Mapping[str, str],
    nodes: Iterable[tuple[Mapping[str, str], Mapping[str, str]]],
    pool: LabelMatcher | None,
) -> tuple[ThresholdShown, ...]:
    """`nodes`: labels and annotations of the scope's nodes. Without nodes, the cluster's own settings."""
    own = own_thresholds(data, None if pool is None else selector_of(pool))
    settings = [config.for_node(labels, annotations) for labels, annotations in nodes] or [config.for_node({}, {})]
    lines = []
    for threshold in THRESHOLDS:
        values = {in_force(of_node, threshold) for of_node in settings}
        one = next(iter(values)) if len(values) == 1 else (None, "several places")
        lines.append(ThresholdShown(threshold.name, threshold.section, one[0], own.get(threshold.name), one[1]))
    return tuple(lines)


async def look(client: Client, pool: LabelMatcher | None) -> ThresholdResult:
    held, stored = await configuration_in_force(client), await config_map(client)
    nodes = [(node.metadata.labels, node.metadata.annotations) for node in await nodes_of(client, Scope(pool=pool))]
    data = stored.data if stored is not None else {}
    return ThresholdResult(len(nodes), shown(held.config, data, nodes, pool), tuple(map(str, held.problems)))


def changed_sections(
    data: Mapping[str, str], values: Mapping[str, int | None], pool: LabelMatcher | None, nodes: Iterable[Node]
) -> dict[str, str]:
    """The texts after the change. Raises what admission would refuse, and what keeps a pool's values from holding."""
    selector = None if pool is None else selector_of(pool)
    texts = with_thresholds(data, values, selector)
    after = {**data, **texts}
    labels = {node.metadata.name: node.metadata.labels for node in nodes}
    refusal, _ = verdict(after, data, labels, names_required=False)
    if refusal:
        raise SwitchError(_message(refusal))
    if selector is not None:
        set_here = [name for name, value in values.items() if value is not None]
        require_effect(reload(None, after)[0], set_here, selector, labels.items())
    return texts


def _message(refusal: str) -> str:
    """The words of a refusal that programs read."""
    try:
        said = msgspec.json.decode(refusal.strip("_"), type=dict[str, str])
    except msgspec.DecodeError:
        return refusal
    return said.get("message", refusal)


async def change(
    client: Client,
    pool: LabelMatcher | None,
    values: Mapping[str, int | None],
    seen: Mapping[str, str] | None = None,
) -> None:
    """Raises what keeps the values from holding, before anything is written. `seen`: the sections that the user agreed
    to change; if others stand there by then, nothing is written."""
    nodes = await nodes_of(client, Scope(pool=pool))

    def sections(data: Mapping[str, str]) -> Mapping[str, str | None]:
        texts = changed_sections(data, values, pool, nodes)
        if seen is not None and any(data.get(section, "") != seen.get(section, "") for section in texts):
            raise ConfigMapError(f"ConfigMap {names.CONFIGMAP_SLO_CONTROLLER} was changed in the meantime; look again")
        return texts

    await rewrite_values(client, names.CONFIGMAP_SLO_CONTROLLER, sections)
