"""The ConfigMap slo-controller-config: what holds for one node, and what happens when the map changes.

`parse` reads a map strictly; `reload` reads it as a running manager must, where one bad section never takes the good
ones with it: a bad section keeps its old value, a bad node item gives its nodes the cluster's values.
`SloConfig.for_node` is the one place where the layers meet: default <- cluster <- first matching item, and for
co-location also <- node annotation <- ratio labels. Thresholds that are then out of order are brought into the nearest
safe one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from koord.api.configuration import slo_defaults
from koord.api.configuration.adaptive_settings import with_adaptive
from koord.api.configuration.layer import Layer
from koord.api.configuration.overlay import overlay
from koord.api.configuration.peer_settings import with_peer
from koord.api.configuration.slo_config_types import (
    COLOCATION,
    COLOCATION_DEFAULTS,
    CPU_BURST,
    CPU_NORMALIZATION,
    HOST_APPLICATION,
    RESOURCE_AMPLIFICATION,
    RESOURCE_QOS,
    RESOURCE_THRESHOLD,
    SYSTEM,
    ColocationConfig,
    ColocationStrategy,
    CPUBurstConfig,
    CPUNormalizationConfig,
    CPUNormalizationStrategy,
    HostApplicationConfig,
    ResourceAmplificationConfig,
    ResourceAmplificationStrategy,
    ResourceQOSConfig,
    ResourceThresholdConfig,
    Section,
    SystemConfig,
)
from koord.api.configuration.threshold_rungs import Lowered, in_order
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.faults import Fault, Invalid, check
from koord.api.machinery.struct import Struct
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import (
    COLOCATION_STRATEGY,
    CPU_RECLAIM_RATIO,
    MEMORY_RECLAIM_RATIO,
    MID_STATIC_CPU_RESERVED_RATIO,
    MID_STATIC_MEMORY_RESERVED_RATIO,
    NETWORK_BANDWIDTH,
)
from koord.api.protocol.annotations.value import Label
from koord.api.protocol.crd.node_slo import HostApplicationSpec, NodeSLOSpec, SystemStrategy
from koord.api.protocol.crd.resource_qos import ResourceQOSStrategy
from koord.api.text.selector import NOTHING, LabelSelector, SelectorError, compile_labels

S = TypeVar("S", bound=Struct)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """All that slo-controller-config means for one node, defaults filled in."""

    colocation: ColocationStrategy
    node_slo: NodeSLOSpec
    cpu_normalization: CPUNormalizationStrategy
    resource_amplification: ResourceAmplificationStrategy
    colocation_layers: tuple[Layer, ...]
    "What was set, lowest first, without the defaults: names the field that a value came from."
    threshold_layers: tuple[Layer, ...]
    lowered: tuple[Lowered, ...] = ()
    "Thresholds that were out of order, and what they count as."


class SloConfig(Struct):
    """The whole map, unchanged. `manifest_data` writes it back."""

    colocation: ColocationConfig = ColocationConfig()
    resource_threshold: ResourceThresholdConfig = ResourceThresholdConfig()
    resource_qos: ResourceQOSConfig = ResourceQOSConfig()
    cpu_burst: CPUBurstConfig = CPUBurstConfig()
    system: SystemConfig = SystemConfig()
    host_application: HostApplicationConfig = HostApplicationConfig()
    cpu_normalization: CPUNormalizationConfig = CPUNormalizationConfig()
    resource_amplification: ResourceAmplificationConfig = ResourceAmplificationConfig()
    colocation_state: Literal["current", "stale", "unavailable"] = "current"
    (
        "stale: the written section could not be used; existing NodeMetric specs stay unchanged. "
        "unavailable: no section has been usable yet, so nothing may be reconciled."
    )

    def for_node(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> NodeSettings:
        """What holds for a node with these labels and annotations."""
        meta = ObjectMeta(labels=labels, annotations=annotations)
        colocation = tuple(self._colocation_layers(meta))
        thresholds = tuple(_layers(RESOURCE_THRESHOLD, self.resource_threshold, labels))
        defaults = slo_defaults.default_node_slo()
        strategy, lending, lowered = in_order(
            _laid(slo_defaults.THRESHOLD_STRATEGY, thresholds),
            _laid(COLOCATION_DEFAULTS, colocation),
            thresholds,
            colocation,
        )
        lends = self.is_colocation_enabled and bool(lending.enable)
        lending, strategy, ceiling = with_adaptive(lending, strategy, thresholds, lends=lends)
        lending, strategy, box = with_peer(lending, strategy, thresholds, colocation, lends=lends)
        node_slo = NodeSLOSpec(
            resource_used_threshold_with_be=strategy,
            resource_qos_strategy=_laid(ResourceQOSStrategy(), _layers(RESOURCE_QOS, self.resource_qos, labels)),
            cpu_burst_strategy=_laid(slo_defaults.CPU_BURST_STRATEGY, _layers(CPU_BURST, self.cpu_burst, labels)),
            system_strategy=_with_bandwidth(
                _laid(slo_defaults.SYSTEM_STRATEGY, _layers(SYSTEM, self.system, labels)), meta
            ),
            host_applications=self._host_applications(labels),
            extensions=defaults.extensions,
            lending_strategy=ceiling or box,
        )
        normalization = CPUNormalizationStrategy(enable=False)
        amplification = ResourceAmplificationStrategy(enable=False)
        return NodeSettings(
            colocation=lending,
            node_slo=node_slo,
            cpu_normalization=_laid(normalization, _layers(CPU_NORMALIZATION, self.cpu_normalization, labels)),
            resource_amplification=_laid(
                amplification, _layers(RESOURCE_AMPLIFICATION, self.resource_amplification, labels)
            ),
            colocation_layers=colocation,
            threshold_layers=thresholds,
            lowered=lowered,
        )

    @property
    def is_colocation_enabled(self) -> bool:
        """The cluster's switch. A node cannot switch co-location on where the cluster has it off."""
        return bool(self.colocation.enable)

    def may_lend_by(self, policy: str) -> bool:
        """Whether the map chooses a policy of batch resources, for some nodes at least. A node's annotation may too."""
        settings: tuple[ColocationStrategy, ...] = (self.colocation, *self.colocation.items)
        return any(policy in (item.cpu_calculate_policy, item.memory_calculate_policy) for item in settings)

    def cluster_colocation(self) -> ColocationStrategy:
        return overlay(COLOCATION_DEFAULTS, self.colocation)

    def matching_items(self, labels: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
        """For every section, which of its node items pick a node with these labels. More than one is a conflict."""
        return {
            section.key: tuple(i for i, item in enumerate(section.of(self).items) if picks(item.node_selector, labels))
            for section in SECTIONS
        }

    def manifest_data(self) -> dict[str, str]:
        """The map's `data`: only sections in which something is written."""
        sections = ((section.key, section.of(self)) for section in SECTIONS)
        return {key: msgspec.json.encode(value).decode() for key, value in sections if value != type(value)()}

    def _host_applications(self, labels: Mapping[str, str]) -> tuple[HostApplicationSpec, ...]:
        for item in self.host_application.items:
            if picks(item.node_selector, labels):
                return item.applications
        return self.host_application.applications

    def _colocation_layers(self, meta: ObjectMeta) -> Iterator[Layer]:
        yield from _layers(COLOCATION, self.colocation, meta.labels)
        from_annotation = COLOCATION_STRATEGY.read(meta)
        if from_annotation is not None:
            yield Layer(f"node annotation {COLOCATION_STRATEGY.key}", from_annotation)
        for label, field in RATIO_LABELS:
            percent = _ratio_percent(label, meta)
            if percent is not None:
                yield Layer(f"node label {label.key}", replace(ColocationStrategy(), **{field: percent}))


@dataclass(frozen=True, slots=True)
class SectionKind:
    """One key of the map: which field of `SloConfig` and type it has, and how Koordinator names its failure."""

    key: str
    field: str
    type: type[Struct]
    failed: str

    def of(self, config: SloConfig) -> Section:
        section: Section = getattr(config, self.field)
        return section


_SLO: Final = "SLOCfg"

SECTIONS: Final = (
    SectionKind(COLOCATION, "colocation", ColocationConfig, "ColocationCfg"),
    SectionKind(RESOURCE_THRESHOLD, "resource_threshold", ResourceThresholdConfig, _SLO),
    SectionKind(RESOURCE_QOS, "resource_qos", ResourceQOSConfig, _SLO),
    SectionKind(CPU_BURST, "cpu_burst", CPUBurstConfig, _SLO),
    SectionKind(SYSTEM, "system", SystemConfig, _SLO),
    SectionKind(HOST_APPLICATION, "host_application", HostApplicationConfig, _SLO),
    SectionKind(CPU_NORMALIZATION, "cpu_normalization", CPUNormalizationConfig, "CPUNormalizationCfg"),
    SectionKind(
        RESOURCE_AMPLIFICATION, "resource_amplification", ResourceAmplificationConfig, "ResourceAmplificationCfg"
    ),
)
"""All keys of the map, in the order in which reports name them."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A section that a running manager could not use, with what it does instead."""

    key: str
    kind: Literal["unparsable", "invalid", "invalid-item", "out-of-order"]
    faults: tuple[Fault, ...]
    event_reason: str

    @property
    def keeps_old(self) -> bool:
        """Whether the section is not in force, and its last good value is."""
        return self.kind in ("unparsable", "invalid")

    def __str__(self) -> str:
        if self.kind == "out-of-order":
            return "; ".join(map(str, self.faults))
        instead = (
            "the nodes of that item get the cluster's values"
            if self.kind == "invalid-item"
            else "the old value is kept"
        )
        return f"{'; '.join(map(str, self.faults))} ({instead})"


def parse(data: Mapping[str, str]) -> SloConfig:
    """The map, or `Invalid` with all faults of all sections. Fields that no one knows are left out, as always."""
    faults: list[Fault] = []
    by_field: dict[str, Any] = {}
    for section in SECTIONS:
        text = data.get(section.key)
        if text is None or (section.key == COLOCATION and not text):
            continue
        try:
            by_field[section.field] = check(section.type, read_json(text), section.key, allow_unknown=True)
        except Invalid as invalid:
            faults += [fault.under(section.key) for fault in invalid.faults]
    if faults:
        raise Invalid(names.CONFIGMAP_SLO_CONTROLLER, faults)
    return SloConfig(**by_field)


def reload(old: SloConfig | None, data: Mapping[str, str] | None) -> tuple[SloConfig, tuple[Problem, ...]]:
    """What a running manager goes on with after a change, and what it must report.

    `old` is None at start-up, `data` is None where there is no such ConfigMap.
    """
    if data is None:
        return SloConfig(colocation_state="stale"), ()
    problems: list[Problem] = []
    by_field: dict[str, Any] = {}
    for section in SECTIONS:
        text = data.get(section.key)
        if text is None or (section.key == COLOCATION and not text):
            continue
        value, its_problems = _tolerant(section, text)
        problems += its_problems
        if value is not None:
            by_field[section.field] = value
        elif old is not None:
            by_field[section.field] = section.of(old)
            if section.key == COLOCATION:
                by_field["colocation_state"] = "unavailable" if old.colocation_state == "unavailable" else "stale"
        elif section.key == COLOCATION:
            by_field["colocation_state"] = "unavailable"
    return SloConfig(**by_field), tuple(problems)


def picks(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether an item's selector picks a node. None picks nothing, nor does one that makes no sense."""
    try:
        return compile_labels(selector, absent=NOTHING).matches(labels)
    except SelectorError:
        return False


_ITEM: Final = re.compile(r"(nodeConfigs|nodeStrategies)\[(\d+)\]\.?")


def _tolerant(section: SectionKind, text: str) -> tuple[Struct | None, list[Problem]]:
    """A section as far as it can be used. None: not at all."""
    try:
        raw = read_json(text)
    except Invalid as invalid:
        faults = tuple(fault.under(section.key) for fault in invalid.faults)
        return None, [Problem(section.key, "unparsable", faults, f"{section.failed}UnmarshalFailed")]
    try:
        return check(section.type, raw, section.key, allow_unknown=True), []
    except Invalid as invalid:
        faults = tuple(fault.under(section.key) for fault in invalid.faults)
        at = [_ITEM.match(fault.path) for fault in invalid.faults]
        if not all(at) or not isinstance(raw, dict):
            return None, [Problem(section.key, "invalid", faults, f"{section.failed}Invalid")]
        cured = dict(raw)
        for match, fault in zip(at, invalid.faults, strict=True):
            assert match is not None
            _neutralise(cured, match[1], int(match[2]), fault.path[match.end() :])
        problem = Problem(section.key, "invalid-item", faults, f"{section.failed}Invalid")
        return check(section.type, cured, section.key, allow_unknown=True), [problem]


def _neutralise(raw: dict[str, Any], field: str, index: int, path: str) -> None:
    """Leaves of a faulty item only its selector, so that it still comes first for its nodes but sets nothing.

    An item whose selector is the fault picks no node.
    """
    items = list(raw[field])
    item = items[index]
    selector = None
    if isinstance(item, dict) and not path.startswith("nodeSelector"):
        selector = item.get("nodeSelector")
    items[index] = {"nodeSelector": selector}
    raw[field] = items


def read_json(text: str) -> object:
    """A section's text as plain data, or `Invalid`."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Invalid("", [Fault("", f"is not JSON: {error}")]) from None


def _layers(key: str, section: Section, labels: Mapping[str, str]) -> Iterator[Layer]:
    """A section's settings for a node, lowest first: the cluster's, then those of the first item that picks it."""
    inline = not hasattr(section, "cluster_strategy")
    cluster: object = section if inline else getattr(section, "cluster_strategy", None)
    if isinstance(cluster, Struct):
        yield Layer(key if inline else f"{key}.clusterStrategy", cluster)
    for i, item in enumerate(section.items):
        if picks(item.node_selector, labels):
            assert isinstance(item, Struct)
            yield Layer(f"{key}.{'nodeConfigs' if inline else 'nodeStrategies'}[{i}]", item)
            return


def _laid(base: S, layers: tuple[Layer, ...] | Iterator[Layer]) -> S:
    for layer in layers:
        base = overlay(base, layer.settings)
    return base


def _with_bandwidth(system: SystemStrategy, meta: ObjectMeta) -> SystemStrategy | None:
    """A node may say its own bandwidth. Where that makes no sense, its system settings are left alone."""
    if NETWORK_BANDWIDTH.check(meta) is not None:
        return None
    bandwidth = meta.annotations.get(NETWORK_BANDWIDTH.key)
    return replace(system, total_network_bandwidth=bandwidth) if bandwidth else system


RATIO_LABELS: Final = (
    (CPU_RECLAIM_RATIO, "cpu_reclaim_threshold_percent"),
    (MEMORY_RECLAIM_RATIO, "memory_reclaim_threshold_percent"),
    (MID_STATIC_CPU_RESERVED_RATIO, "mid_static_cpu_reserved_percent"),
    (MID_STATIC_MEMORY_RESERVED_RATIO, "mid_static_memory_reserved_percent"),
)


def _ratio_percent(label: Label[float, None], meta: ObjectMeta) -> int | None:
    """`0.8` as 80, cut off, not rounded; None for an invalid ratio."""
    ratio = label.read(meta) if label.check(meta) is None else None
    return None if ratio is None else int(ratio * 100)
