"""docs/reference/configuration.md and docs/reference/feature-gates.md."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

import msgspec

from koord.api.configuration import descheduler_config, features, without_effect
from koord.api.configuration.component_config import PluginArgs
from koord.api.configuration.components import COMPONENTS, ENVIRONMENT
from koord.api.configuration.descheduler_config import ALL_ARGS, DeschedulerConfiguration
from koord.api.configuration.features import AgentGate, DeschedulerGate, Gate, ManagerGate, SchedulerGate
from koord.api.configuration.idle_gates import GATES, NO_NEED
from koord.api.configuration.scheduler_args import ARGS
from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.configuration.slo_config import SECTIONS
from koord.api.configuration.slo_config_types import COLOCATION_DEFAULTS, ColocationStrategy
from koord.api.configuration.slo_defaults import CPU_BURST_STRATEGY, SYSTEM_STRATEGY, THRESHOLD_STRATEGY
from koord.api.machinery.descriptions import type_description
from tools.reference.structs import Tables, escaped

_DEFAULTS: Final[Mapping[type, msgspec.Struct]] = {
    ColocationStrategy: COLOCATION_DEFAULTS,
    type(THRESHOLD_STRATEGY): THRESHOLD_STRATEGY,
    type(CPU_BURST_STRATEGY): CPU_BURST_STRATEGY,
    type(SYSTEM_STRATEGY): SYSTEM_STRATEGY,
}
_SECTIONS: Final = {
    "colocation-config": "How much nodes lend, and how their usage is measured for that.",
    "resource-threshold-config": "When the agent suppresses and evicts pods to protect services.",
    "resource-qos-config": "What the kernel is told about pods of each QoS class: CPU, memory, cache, disks, network.",
    "cpu-burst-config": "How far services may exceed their CPU limit for a while.",
    "system-config": "Settings of the node's kernel.",
    "host-application-config": "Applications outside of Kubernetes that share the nodes.",
    "cpu-normalization-config": "How much a CPU of each model is worth.",
    "resource-amplification-config": "By how much the resources of nodes are multiplied.",
}


def configuration() -> tuple[str, list[str]]:
    """The page, and the fields that have no description."""
    lines = [
        "# Configuration",
        "",
        "Every setting of koord's components in files and ConfigMaps. Options are in [Commands](commands.md), gates in",
        "[Feature gates](feature-gates.md). A field without a default is not set.",
    ]
    tables = Tables(level=4, defaults=_DEFAULTS, names={descheduler_config.Plugins: "DeschedulerPlugins"})
    for title, chapter in (("slo-controller-config", _slo), ("Scheduler", _scheduler), ("Descheduler", _descheduler)):
        lines += ["", f"## {title}", "", *chapter(tables)]
    return "\n".join([*lines, "", *_flags()]), tables.undescribed


def _slo(tables: Tables) -> Iterator[str]:
    yield "The ConfigMap `slo-controller-config` in the namespace `koordinator-system`. Each key has a JSON object. The"
    yield "manager reads it and writes each node's NodeSLO. Settings of an item in `nodeStrategies` or `nodeConfigs`"
    yield "override those of the cluster on the nodes that its `nodeSelector` selects; a field that is not set is"
    yield "inherited."
    for section in SECTIONS:
        yield from ("", f"### {section.key}", "", _SECTIONS[section.key], "")
        yield from tables.of(section.type)


def _scheduler(tables: Tables) -> Iterator[str]:
    yield "A KubeSchedulerConfiguration, with `koord scheduler --config`. Arguments of a plugin are its entry in"
    yield "`pluginConfig` of a profile."
    yield ""
    yield from tables.of(SchedulerConfiguration)
    yield from _plugins(tables, ARGS)


def _descheduler(tables: Tables) -> Iterator[str]:
    yield "A DeschedulerConfiguration, with `koord descheduler --config`."
    yield ""
    yield from tables.of(DeschedulerConfiguration)
    yield from _plugins(tables, ALL_ARGS)


def _plugins(tables: Tables, types: Mapping[str, type[PluginArgs]]) -> Iterator[str]:
    for name, type_ in types.items():
        yield from (f"### {name}", "")
        if text := type_description(type_):
            yield from (escaped(text), "")
        idle = without_effect.PLUGIN_FIELDS.get(type_, {})
        yield from tables.of(type_)
        if idle:
            written = {field.name: field.encode_name for field in msgspec.structs.fields(type_)}
            yield f"Accepted without effect: {', '.join(f'`{written[field]}`' for field in idle)}."
            yield ""


def _flags() -> Iterator[str]:
    yield "## Flags of Koordinator's components"
    yield ""
    yield "koord's components accept the flags that Koordinator's manifests give them. `koord agent`, `koord manager`,"
    yield "`koord scheduler`, `koord descheduler` and `koord runtime-proxy` warn about those without effect."
    for component, flags in COMPONENTS.items():
        yield from ("", f"### {component}", "", "| flag | default | what it is |", "| --- | --- | --- |")
        for flag in flags:
            default = f"`{flag.default}`" if flag.default else ""
            yield f"| `--{flag.name}` | {default} | {escaped(flag.help)} |"
        for name, value in ENVIRONMENT.get(component, {}).items():
            yield f"| environment `{name}` | {f'`{value}`' if value else 'required'} | |"
    yield ""


def feature_gates() -> tuple[str, list[str]]:
    """The page, and the gates that have an effect and no description."""
    undescribed: list[str] = []
    lines = [
        "# Feature gates",
        "",
        "Features that can be switched on and off for each component, as in",
        "`--feature-gates=BEMemoryEvict=true,CPUBurst=false`. `AllAlpha` and `AllBeta` switch all gates of a stage; a",
        "gate that is named takes precedence. The names are Koordinator's; koord warns at start about a gate that is",
        "set and has no effect.",
    ]
    for title, gates in (
        ("Agent", AgentGate),
        ("Manager", ManagerGate),
        ("Scheduler", SchedulerGate),
        ("Descheduler", DeschedulerGate),
    ):
        lines += ["", f"## {title}", "", "| gate | stage | default | what it does |", "| --- | --- | --- | --- |"]
        lines += _gates(gates, undescribed)
    return "\n".join([*lines, ""]), undescribed


def _gates(gates: type[Gate], undescribed: list[str]) -> Iterator[str]:
    described = _descriptions(gates.__name__)
    for gate in gates:
        text = described.get(gate.name, "")
        if gate in GATES:
            text = f"No effect: {NO_NEED[gate]}." if gate in NO_NEED else "No effect yet."
        elif not text:
            undescribed.append(f"{gates.__name__}.{gate.name}")
        on = "on" if gate.default else "off"
        yield f"| `{gate}` | {gate.stage.value.lower()} | {on} | {escaped(text)} |"


def _descriptions(class_name: str) -> dict[str, str]:
    """The string below each member of an enumeration of gates."""
    tree = ast.parse(inspect.getsource(features))
    body: Iterable[ast.stmt] = next(
        node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name
    )
    statements = list(body)
    texts: dict[str, str] = {}
    for member, below in pairwise(statements):
        match member, below:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = " ".join(text.split())
    return texts
