"""What is accepted and does nothing is said at start; what has a reader is not said to do nothing."""

import ast
from functools import cache
from pathlib import Path

import msgspec
import pytest

import koord
from koord.api.configuration.descheduler_args import PriorityLevel
from koord.api.configuration.descheduler_config import SHIPPED as SHIPPED_DESCHEDULER
from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.configuration.descheduler_config import parse as parse_descheduler
from koord.api.configuration.features import (
    AgentGate,
    DeschedulerGate,
    Gate,
    GateError,
    ManagerGate,
    SchedulerGate,
    parse_gates,
)
from koord.api.configuration.idle_gates import GATES, gates_warning
from koord.api.configuration.scheduler_args import ARGS
from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration, parse
from koord.api.configuration.without_effect import (
    DESCHEDULER_FIELDS,
    LEVEL_FIELDS,
    PLUGIN_FIELDS,
    SCHEDULER_FIELDS,
    configuration_warning,
    descheduler_warning,
)
from koord.scheduler import registry
from koord.scheduler.profiles import profiles_of

HOME = Path(koord.__file__).parent
COMPONENTS: tuple[type[Gate], ...] = (AgentGate, ManagerGate, SchedulerGate, DeschedulerGate)


@cache
def attributes(file: Path, of: str = "") -> set[str]:
    """The attributes that a file names, of anything or of one name."""
    text = file.read_text()
    if of not in text:
        return set()
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    return {node.attr for node in nodes if not of or (isinstance(node.value, ast.Name) and node.value.id == of)}


@pytest.mark.parametrize("gates", COMPONENTS)
def test_a_gate_has_a_reader_or_is_listed_as_without_effect(gates: type[Gate]) -> None:
    own = ("features.py", "idle_gates.py", "node_agent.py")
    read: set[str] = set()
    for file in HOME.rglob("*.py"):
        if file.name not in own:
            read |= attributes(file, of=gates.__name__)
    idle = {gate.name for gate in gates if gate in GATES}
    assert idle == {gate.name for gate in gates if gate.name not in read}


def test_wishes_that_nobody_carries_out_are_named_too() -> None:
    gates = parse_gates(AgentGate, "GPUEnvInject=true")
    told = gates_warning(gates, is_asked=False) or ""
    assert "GPUEnvInject" in told
    assert "--hooks-socket" in told
    assert gates_warning(gates) is None, "runtimes ask"


def test_a_field_of_the_schedulers_configuration_has_a_reader_or_is_listed() -> None:
    readers = [*(HOME / "scheduler").rglob("*.py"), *(HOME / "cli").rglob("*.py")]
    read = {name for file in readers for name in attributes(file)}
    fields = {field.name for field in msgspec.structs.fields(SchedulerConfiguration)}
    assert set(SCHEDULER_FIELDS) == fields - read


def test_a_field_of_the_deschedulers_configuration_has_a_reader_or_is_listed() -> None:
    readers = [*(HOME / "descheduler").rglob("*.py"), *(HOME / "cli").rglob("*.py")]
    read = {name for file in readers for name in attributes(file)}
    fields = {field.name for field in msgspec.structs.fields(DeschedulerConfiguration)}
    assert set(DESCHEDULER_FIELDS) == fields - read
    levels = {field.name for field in msgspec.structs.fields(PriorityLevel)}
    assert set(LEVEL_FIELDS) == levels - read


def test_what_a_descheduler_does_nothing_with_is_named() -> None:
    some = {"nodeSelector": {"matchLabels": {"a": "b"}}}
    args = {"evictionOrder": [{"name": "a", "keepThreshold": {"cpu": 5}, **some}, {"name": "b", **some}]}
    given = {
        "healthzBindAddress": "0.0.0.0:10251",
        "metricsBindAddress": "127.0.0.1:9",
        "clientConnection": {"qps": 7},
        "profiles": [{"name": "p", "pluginConfig": [{"name": "CustomPriority", "args": args}]}],
    }
    told = descheduler_warning(parse_descheduler(given))
    assert told == (
        "fields of the configuration that have no effect yet: clientConnection, "
        "profiles[0].pluginConfig CustomPriority: evictionOrder[0].keepThreshold; "
        "metricsBindAddress has no effect: --metrics-address says where health and metrics are served"
    )
    assert descheduler_warning(SHIPPED_DESCHEDULER) is None


@pytest.mark.parametrize("plugin", [name for name in ARGS if name in registry.PLUGINS and registry.takes_args(name)])
def test_an_argument_of_a_plugin_has_a_reader_or_is_listed(plugin: str) -> None:
    args = ARGS[plugin]
    readers = [file for file in (HOME / "scheduler").rglob("*.py") if args.__name__ in file.read_text()]
    read = {name for file in readers for name in attributes(file)}
    fields = {field.name for field in msgspec.structs.fields(args)}
    assert set(PLUGIN_FIELDS.get(args, ())) == fields - read


def test_only_what_somebody_set_is_named() -> None:
    assert gates_warning(parse_gates(AgentGate, "")) is None
    assert gates_warning(parse_gates(AgentGate, "BEMemoryEvict=true,CPUBurst=false")) is None
    told = gates_warning(parse_gates(AgentGate, "CoreSched=true,HugePageReport=true,Libpfm4=true,RdtResctrl=false"))
    assert told == "feature gates that have no effect yet: HugePageReport, Libpfm4"


def test_what_koord_has_no_need_of_is_named_with_the_reason() -> None:
    told = gates_warning(parse_gates(SchedulerGate, "LazyReservationRestore=true,ResizePod=true"))
    assert told is not None
    assert told.startswith("feature gates that have no effect yet: ResizePod; LazyReservationRestore has no effect: ")
    args = {"minCandidateNodesPercentage": 50, "minCandidateNodesAbsolute": 7, "resyncIntervalSeconds": 5}
    profile = {"schedulerName": "s", "pluginConfig": [{"name": "Reservation", "args": args}]}
    told = configuration_warning(parse({"profiles": [profile]}))
    assert told is not None
    both, resync = told.split("; profiles")
    where = "profiles[0].pluginConfig Reservation: "
    assert both.startswith(f"{where}minCandidateNodesAbsolute, {where}minCandidateNodesPercentage have no effect: ")
    assert "DefaultPreemption" in both
    assert resync.startswith("[0].pluginConfig Reservation: resyncIntervalSeconds has no effect: ")


def test_an_unknown_gate_is_refused() -> None:
    with pytest.raises(GateError, match="CoreShed"):
        parse_gates(AgentGate, "CoreShed=true")


def test_fields_are_named_as_they_are_written() -> None:
    assert configuration_warning(SHIPPED) is None
    args = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
    config = parse(
        {
            "enableProfiling": False,
            "clientConnection": {"qps": 7},
            "profiles": [{"schedulerName": "s", "pluginConfig": [{"name": "VolumeBinding", "args": args}]}],
        }
    )
    told = configuration_warning(config)
    assert told is not None
    assert told.endswith(": clientConnection, enableProfiling, profiles[0].pluginConfig VolumeBinding: shape")
    assert told in profiles_of(config).warnings
