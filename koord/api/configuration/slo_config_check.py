"""Whether a slo-controller-config may be stored: everything that is wrong with it, at once.

Asked by admission on every change, and by users before they apply a file. Only keys that are present and changed are
judged, so that an old fault elsewhere does not block a repair. The reasons are those that Koordinator's webhook gives.
Network requests are held against the unit they are written in: percentages against 100, quantities against the
node's bandwidth where that is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from koord.api.configuration.lending_policies import ADAPTIVE, MID_MODES, PEERS, USAGE, policies_of
from koord.api.configuration.overlay import overlay
from koord.api.configuration.slo_config import SECTIONS, SectionKind, picks, read_json
from koord.api.configuration.slo_config_types import SYSTEM as SYSTEM_KEY
from koord.api.configuration.slo_config_types import (
    ColocationConfig,
    ColocationStrategy,
    CPUBurstConfig,
    CPUNormalizationConfig,
    CPUNormalizationStrategy,
    NodeItem,
    ResourceAmplificationConfig,
    ResourceAmplificationStrategy,
    ResourceQOSConfig,
    ResourceThresholdConfig,
    SystemConfig,
)
from koord.api.configuration.slo_defaults import THRESHOLD_STRATEGY
from koord.api.machinery.faults import Fault, Invalid, check
from koord.api.machinery.salvage import salvage
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.node_slo import CPUBurstStrategy, ResourceThresholdStrategy
from koord.api.protocol.crd.resource_qos import NetworkQOSCfg, ResourceQOS, ResourceQOSStrategy
from koord.api.protocol.pool_names import OTHER_NAMES
from koord.api.text.quantity import QuantityError
from koord.api.text.quantity import value as quantity_value
from koord.api.text.selector import LabelSelector, selector_faults

Reason: TypeAlias = Literal["ParseConfigFail", "ConfigParamInvalid", "NodeStrategiesOverlap", "ExistNodeConfict"]

MAX_SYNTHETIC_NODES: Final = 4096
"""Nodes made up from one selector to find overlaps. A selector with more combinations is judged by these."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the map is refused. Paths begin with the key: `colocation-config.nodeConfigs[1].nodeSelector`."""

    reason: Reason
    fault: Fault


@dataclass(frozen=True, slots=True)
class Verdict:
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[Fault, ...] = ()
    """Fields without effect, and unknown ones: most often a misspelling. The map is accepted all the same, as older
    readers skip them too."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(refusal.fault for refusal in self.refusals)


def judge(
    data: Mapping[str, str],
    old: Mapping[str, str] | None = None,
    *,
    nodes: Mapping[str, Mapping[str, str]] | None = None,
    names_required: bool = False,
) -> Verdict:
    """Judges the map's data against what was stored before. `nodes` are the labels of existing nodes by name."""
    refusals: list[Refusal] = []
    warnings: list[Fault] = []
    for section in SECTIONS:
        text = data.get(section.key)
        if not text or (old is not None and old.get(section.key) == text):
            continue
        try:
            raw = read_json(text)
        except Invalid as invalid:
            refusals += _refused("ParseConfigFail", section.key, invalid.faults)
            continue
        warnings += _unknown_fields(section, raw)
        value, faults = salvage(section.type, raw, allow_unknown=True)
        refusals += _refused("ConfigParamInvalid", section.key, faults)
        if value is None:
            continue
        warnings += [fault.under(section.key) for fault in _without_effect(value)]
        items = section_items(value)
        refusals += _refused("ConfigParamInvalid", section.key, _settings_faults(value, data))
        field = "nodeConfigs" if hasattr(value, "node_configs") else "nodeStrategies"
        refusals += _refused("ConfigParamInvalid", section.key, _item_faults(field, items, names_required))
        refusals += _refused("NodeStrategiesOverlap", section.key, _overlaps(field, items))
        refusals += _refused("ExistNodeConfict", section.key, _node_conflicts(field, items, nodes or {}))
    return Verdict(tuple(refusals), tuple(warnings))


def section_items(section: object) -> Sequence[NodeItem]:
    items: Sequence[NodeItem] = getattr(section, "items", ())
    return items


def _refused(reason: Reason, key: str, faults: Iterable[Fault]) -> list[Refusal]:
    return [Refusal(reason, fault.under(key)) for fault in faults]


def _unknown_fields(section: SectionKind, raw: object) -> list[Fault]:
    try:
        check(section.type, raw, section.key)
    except Invalid as invalid:
        return [fault.under(section.key) for fault in invalid.faults if fault.message.startswith("unknown field")]
    return []


def _item_faults(field: str, items: Sequence[NodeItem], names_required: bool) -> Iterator[Fault]:
    first_at: dict[str, int] = {}
    for i, item in enumerate(items):
        at = f"{field}[{i}]"
        selector = item.node_selector
        if selector is None or not (selector.match_labels or selector.match_expressions):
            yield Fault(f"{at}.nodeSelector", "must not be empty: say which nodes are meant")
        else:
            yield from (fault.under(f"{at}.nodeSelector") for fault in selector_faults(selector))
        if not names_required:
            continue
        if not item.name:
            yield Fault(f"{at}.name", "is required")
        elif item.name in first_at:
            yield Fault(f"{at}.name", f"{item.name} is also the name of {field}[{first_at[item.name]}]")
        first_at.setdefault(item.name, i)


def _overlaps(field: str, items: Sequence[NodeItem]) -> Iterator[Fault]:
    """Items that would both pick a node made up from the labels of one of them."""
    reported: set[tuple[int, int]] = set()
    for i, item in enumerate(items):
        for labels in _synthetic_labels(item.node_selector):
            picking = [j for j, other in enumerate(items) if picks(other.node_selector, labels)]
            for a, b in itertools.combinations(picking, 2):
                if i in (a, b) and (a, b) not in reported:
                    reported.add((a, b))
                    shown = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
                    yield Fault(
                        f"{field}[{b}].nodeSelector", f"overlaps with {_called(field, a, items[a])}: both pick {shown}"
                    )


def _node_conflicts(field: str, items: Sequence[NodeItem], nodes: Mapping[str, Mapping[str, str]]) -> Iterator[Fault]:
    examples: dict[tuple[int, int], str] = {}
    for name, labels in nodes.items():
        picking = [i for i, item in enumerate(items) if picks(item.node_selector, labels)]
        for pair in itertools.combinations(picking, 2):
            examples.setdefault(pair, name)
    for (a, b), name in examples.items():
        yield Fault(f"{field}[{b}].nodeSelector", f"picks node {name}, as {_called(field, a, items[a])} does")


def _called(field: str, index: int, item: NodeItem) -> str:
    return f"{field}[{index}]" + (f" ({item.name})" if item.name else "")


def _synthetic_labels(selector: LabelSelector | None) -> Iterator[dict[str, str]]:
    """Labels that a selector asks for: one set for each combination of the values that it allows."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return
    choices: list[list[tuple[str, str]]] = []
    for expression in selector.match_expressions:
        if expression.operator == "In" and expression.values:
            choices.append([(expression.key, value) for value in expression.values])
        elif expression.operator == "Exists":
            choices.append([(expression.key, "any")])
    for chosen in itertools.islice(itertools.product(*choices), MAX_SYNTHETIC_NODES):
        yield {**selector.match_labels, **dict(chosen)}


def _settings_faults(section: Struct, data: Mapping[str, str]) -> Iterator[Fault]:
    """What ranges of single fields cannot say, for the cluster and for every item over the cluster."""
    match section:
        case ColocationConfig():
            yield from _colocation_faults(section)
            yield from _owner_faults(section)
            for i, item in enumerate(section.items):
                yield from _under(f"nodeConfigs[{i}]", _colocation_faults(item))
        case ResourceThresholdConfig():
            yield from _threshold_section_faults(section)
        case ResourceQOSConfig():
            system, cluster = _system_config(data), section.cluster_strategy or ResourceQOSStrategy()
            bandwidth_bps = _bandwidth(system, None)
            yield from _under("clusterStrategy", _qos_faults(cluster, cluster, bandwidth_bps))
            for i, node in enumerate(section.items):
                bandwidth_bps = _bandwidth(system, node.node_selector)
                yield from _under(f"nodeStrategies[{i}]", _qos_faults(node, overlay(cluster, node), bandwidth_bps))
        case CPUBurstConfig():
            if section.cluster_strategy is not None:
                yield from _under("clusterStrategy", _burst_faults(section.cluster_strategy))
            for i, burst in enumerate(section.items):
                yield from _under(f"nodeStrategies[{i}]", _burst_faults(burst))
        case CPUNormalizationConfig():
            yield from _normalization_faults(section)
            for i, normalization in enumerate(section.items):
                yield from _under(f"nodeConfigs[{i}]", _normalization_faults(normalization))
        case ResourceAmplificationConfig():
            yield from _amplification_faults(section)
            for i, amplification in enumerate(section.items):
                yield from _under(f"nodeConfigs[{i}]", _amplification_faults(amplification))


def _under(path: str, faults: Iterable[Fault]) -> Iterator[Fault]:
    return (fault.under(path) for fault in faults)


def _colocation_faults(strategy: ColocationStrategy) -> Iterator[Fault]:
    policies = (
        ("cpuCalculatePolicy", strategy.cpu_calculate_policy, policies_of("cpu")),
        ("memoryCalculatePolicy", strategy.memory_calculate_policy, policies_of("memory")),
        ("midReclaimMode", strategy.mid_reclaim_mode, MID_MODES),
    )
    for name, value, valid in policies:
        if value is not None and value not in valid:
            yield Fault(name, f"must be {' or '.join(word for word in valid if word)}, not {value!r}")
    for place, word in enumerate(strategy.pool_names):
        if word not in OTHER_NAMES:
            yield Fault(f"poolNames[{place}]", f"must be {' or '.join(OTHER_NAMES)}, not {word!r}")


def _owner_faults(section: ColocationConfig) -> Iterator[Fault]:
    """One policy owns a node: memory by another system's policy goes with the same one of CPU."""
    items = ((f"nodeConfigs[{i}]", item, _strategy(section, item)) for i, item in enumerate(section.items))
    for at, own, chosen in [("", section, section), *items]:
        cpu, memory = chosen.cpu_calculate_policy or USAGE, chosen.memory_calculate_policy
        if memory in PEERS and memory != cpu and (own.cpu_calculate_policy or own.memory_calculate_policy):
            message = f"must not be {memory} beside cpuCalculatePolicy {cpu}: one policy owns a node"
            yield Fault(f"{at}.memoryCalculatePolicy" if at else "memoryCalculatePolicy", message)


def _without_effect(section: Struct) -> Iterator[Fault]:
    """Settings that the policy chosen beside them does not read."""
    if not isinstance(section, ColocationConfig):
        return
    yield from _unread(section, section)
    for i, item in enumerate(section.items):
        yield from _under(f"nodeConfigs[{i}]", _unread(item, _strategy(section, item)))


def _strategy(cluster: ColocationStrategy, item: ColocationStrategy) -> ColocationStrategy:
    return ColocationStrategy(
        cpu_calculate_policy=item.cpu_calculate_policy or cluster.cpu_calculate_policy,
        memory_calculate_policy=item.memory_calculate_policy or cluster.memory_calculate_policy,
    )


def _unread(own: ColocationStrategy, chosen: ColocationStrategy) -> Iterator[Fault]:
    if chosen.cpu_calculate_policy != ADAPTIVE and own.cpu_safety_mark_percent is not None:
        yield Fault("cpuSafetyMarkPercent", "has no effect without cpuCalculatePolicy adaptive")
    if chosen.cpu_calculate_policy == ADAPTIVE and own.cpu_reclaim_threshold_percent is not None:
        yield Fault("cpuReclaimThresholdPercent", "has no effect with cpuCalculatePolicy adaptive")
    if chosen.memory_calculate_policy == ADAPTIVE and own.memory_reclaim_threshold_percent is not None:
        yield Fault("memoryReclaimThresholdPercent", "has no effect with memoryCalculatePolicy adaptive")


_BOUNDS: Final = (
    ("memory_evict_lower_percent", "memory_evict_threshold_percent"),
    ("memory_allocatable_evict_lower_percent", "memory_allocatable_evict_threshold_percent"),
    ("cpu_evict_be_satisfaction_lower_percent", "cpu_evict_be_satisfaction_upper_percent"),
    ("cpu_evict_lower_percent", "cpu_evict_threshold_percent"),
    ("cpu_allocatable_evict_lower_percent", "cpu_allocatable_evict_threshold_percent"),
)


def _threshold_section_faults(section: ResourceThresholdConfig) -> Iterator[Fault]:
    """Every lower bound must lie below its threshold, in what results for the nodes, not only in what is written."""
    cluster = overlay(THRESHOLD_STRATEGY, section.cluster_strategy)
    written = [("clusterStrategy", section.cluster_strategy or ResourceThresholdStrategy(), cluster)]
    written += [(f"nodeStrategies[{i}]", item, overlay(cluster, item)) for i, item in enumerate(section.items)]
    for at, own, effective in written:
        for lower_field, upper_field in _BOUNDS:
            lower, upper = getattr(effective, lower_field), getattr(effective, upper_field)
            if getattr(own, lower_field) is None and getattr(own, upper_field) is None:
                continue
            if lower is not None and upper is not None and lower >= upper:
                encode = dict(zip(own.__struct_fields__, own.__struct_encode_fields__, strict=True))
                yield Fault(
                    f"{at}.{encode[lower_field]}", f"must be below {encode[upper_field]} ({upper}), not {lower}"
                )


_CLASSES: Final = (("lsrClass", "lsr_class"), ("lsClass", "ls_class"), ("beClass", "be_class"))


def _qos_faults(strategy: ResourceQOSStrategy, effective: ResourceQOSStrategy, bandwidth_bps: int) -> Iterator[Fault]:
    """`effective`: what results for the nodes."""
    for name, field in (*_CLASSES, ("systemClass", "system_class")):
        qos: ResourceQOS | None = getattr(strategy, field)
        cache = qos.resctrl_qos if qos is not None else None
        if cache is None or cache.cat_range_start_percent is None or cache.cat_range_end_percent is None:
            continue
        if cache.cat_range_start_percent >= cache.cat_range_end_percent:
            wanted = f"must be below catRangeEndPercent ({cache.cat_range_end_percent})"
            yield Fault(f"{name}.resctrlQOS.catRangeStartPercent", f"{wanted}, not {cache.cat_range_start_percent}")
    yield from _network_faults(strategy, bandwidth_bps)
    for name, field in _CLASSES:
        own, result = (_network_of(layer, field) for layer in (strategy, effective))
        if own is not None and result is not None:
            yield from _under(f"{name}.networkQOS", _limit_faults(own, result, bandwidth_bps))


def _network_of(strategy: ResourceQOSStrategy, field: str) -> NetworkQOSCfg | None:
    qos: ResourceQOS | None = getattr(strategy, field)
    return qos.network_qos if qos is not None else None


def _limit_faults(own: NetworkQOSCfg, effective: NetworkQOSCfg, bandwidth_bps: int) -> Iterator[Fault]:
    """No limit may be 0 or below its request. What is off may be anything: defaults that were copied have zeros."""
    if effective.enable is False:
        return
    for way in ("ingress", "egress"):
        asked, most = f"{way}_request", f"{way}_limit"
        if getattr(own, asked) is None and getattr(own, most) is None:
            continue
        request, limit = getattr(effective, asked), getattr(effective, most)
        if limit is None or _bandwidth_fault(limit) or (request is not None and _bandwidth_fault(request)):
            continue
        if quantity_value(limit) == 0:
            valid = "a percentage from 1 to 100 or a quantity such as '50M'; without it there is no limit"
            yield Fault(f"{way}Limit", f"must not be 0: must be {valid}")
        elif request is not None and _is_below(limit, request, bandwidth_bps):
            yield Fault(f"{way}Limit", f"must not be below {way}Request ({request}), as {limit} is")


def _is_below(limit: int | str, request: int | str, bandwidth_bps: int) -> bool:
    """A percentage and a quantity can be compared where the total is known."""
    if isinstance(limit, int) is isinstance(request, int):
        return quantity_value(limit) < quantity_value(request)
    in_bps = [
        quantity_value(bandwidth) * (bandwidth_bps if isinstance(bandwidth, int) else 100)
        for bandwidth in (limit, request)
    ]
    return bandwidth_bps > 0 and in_bps[0] < in_bps[1]


def _network_faults(strategy: ResourceQOSStrategy, bandwidth_bps: int) -> Iterator[Fault]:
    units: set[type] = set()
    totals: dict[str, int] = {"ingressRequest": 0, "egressRequest": 0}
    faulty = False
    for name, field in _CLASSES:
        network = _network_of(strategy, field)
        if network is None:
            continue
        for setting, value in (
            ("ingressRequest", network.ingress_request),
            ("ingressLimit", network.ingress_limit),
            ("egressRequest", network.egress_request),
            ("egressLimit", network.egress_limit),
        ):
            if value is None:
                continue
            fault = _bandwidth_fault(value)
            if fault:
                faulty = True
                yield Fault(f"{name}.networkQOS.{setting}", fault)
            elif setting in totals:
                units.add(type(value))
                totals[setting] += quantity_value(value)
    if len(units) > 1:
        yield Fault("", "network requests must be all percentages or all quantities, not some of each")
        return
    if faulty or not units:
        return
    limit, unit = (100, "percent") if units == {int} else (bandwidth_bps, "bit/s")
    for setting, total in totals.items():
        if limit and total > limit:
            yield Fault("", f"{setting} of LSR, LS and BE add up to {total} {unit}, above the {limit} there are")


def _bandwidth_fault(value: int | str) -> str | None:
    if isinstance(value, int):
        return (
            None
            if 0 <= value <= 100
            else f"must be a percentage from 0 to 100 or a quantity such as '50M', not {value}"
        )
    try:
        amount = quantity_value(value)
    except QuantityError as error:
        return str(error)
    return (
        f"must be at least 0: a percentage from 0 to 100 or a quantity such as '50M', not {value}"
        if amount < 0
        else None
    )


def _system_config(data: Mapping[str, str]) -> SystemConfig:
    try:
        return check(SystemConfig, read_json(data.get(SYSTEM_KEY) or "{}"), SYSTEM_KEY, allow_unknown=True)
    except Invalid:
        return SystemConfig()


def _bandwidth(system: SystemConfig, selector: LabelSelector | None) -> int:
    """The bandwidth of the nodes of a selector, in bit/s; 0 where system-config does not say it."""
    for item in system.items:
        if selector is not None and item.node_selector == selector and item.total_network_bandwidth is not None:
            return quantity_value(item.total_network_bandwidth)
    cluster = system.cluster_strategy
    if cluster is None or cluster.total_network_bandwidth is None:
        return 0
    return quantity_value(cluster.total_network_bandwidth)


def _burst_faults(strategy: CPUBurstStrategy) -> Iterator[Fault]:
    if strategy.cpu_burst_percent == 0:
        yield Fault("cpuBurstPercent", "must be an integer from 1 to 10000, not 0")


def _normalization_faults(strategy: CPUNormalizationStrategy) -> Iterator[Fault]:
    ratios = [("defaultRatio", strategy.default_ratio)]
    for model, ratio in strategy.ratio_model.items():
        at = f"ratioModel[{model}]"
        ratios += [
            (f"{at}.baseRatio", ratio.base_ratio),
            (f"{at}.hyperThreadEnabledRatio", ratio.hyper_thread_enabled_ratio),
            (f"{at}.turboEnabledRatio", ratio.turbo_enabled_ratio),
            (f"{at}.hyperThreadTurboEnabledRatio", ratio.hyper_thread_turbo_enabled_ratio),
        ]
    for path, value in ratios:
        if value is not None and not 1 <= value <= 5:
            yield Fault(path, f"must be a number from 1 to 5, not {value}")


def _amplification_faults(strategy: ResourceAmplificationStrategy) -> Iterator[Fault]:
    for resource, ratio in strategy.resource_amplification_ratio.items():
        if ratio < 1:
            yield Fault(f"resourceAmplificationRatio[{resource}]", f"must be 1 or more, not {ratio}")
