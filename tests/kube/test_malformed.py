"""A label or annotation that cannot be understood gets an event on its object, once per change."""

import ast
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

import koord
from koord.agent import annotations as of_agent
from koord.api.kinds import EVENTS, NODE_RESOURCE_TOPOLOGIES, NODES, POD_GROUPS, PODS, RESERVATIONS
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.faults import BadInput
from koord.api.machinery.shield import Shield
from koord.api.protocol import annotations
from koord.api.protocol.annotations import cpu, device, gang, load, pod_qos, reservation
from koord.api.protocol.annotations.value import Value
from koord.api.protocol.crd.reservation import Reservation
from koord.descheduler import annotations as of_descheduler
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from koord.kube.malformed import FailureTeller, MalformedTeller
from koord.kube.metrics import Metrics
from koord.kube.store import Delta
from koord.manager import annotations as of_manager
from koord.scheduler import annotations as of_scheduler
from koord.scheduler.object_faults import ANNOTATED, FAULTS, faults_of
from koord.scheduler.plugins.gang_rules import group_faults
from tests.scheduler.gangs import pod_group
from tests.scheduler.live.embedded import make_nodes, node_manifest, pod_manifest, scheduling, serving
from tests.scheduler.reservations import reservation as held
from tests.waiting import eventually


class EventLog:
    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.teller = MalformedTeller(cast(EventRecorder, self), [cpu.RESOURCE_STATUS, pod_qos.EVICTION_ENABLED])

    def record(self, regarding: Any, reason: str, note: str, **_: Any) -> None:
        self.events.append((reason, note))

    def tell(self, meta: ObjectMeta, before: ObjectMeta | None = None) -> int:
        told = len(self.events)
        self.teller.tell(PODS, meta, before)
        return len(self.events) - told


def meta(text: str | None, uid: str = "1", **labels: str) -> ObjectMeta:
    said: dict[str, str] = {} if text is None else {str(cpu.RESOURCE_STATUS.key): text}
    return ObjectMeta(namespace="ns", name="p", uid=uid, annotations={**said, "other": "{"}, labels=labels)


def test_each_text_that_cannot_be_understood_is_told_once() -> None:
    event_log = EventLog()
    assert event_log.tell(meta("{")) == 1
    ((reason, note),) = event_log.events
    assert reason == "MalformedAnnotation"
    assert note.startswith(f"Pod ns/p: annotation {cpu.RESOURCE_STATUS.key}: ")
    assert event_log.tell(meta("{", team="a"), meta("{")) == 0, "something else changed"
    assert event_log.tell(meta("}"), meta("{")) == 1
    assert event_log.tell(meta("{}"), meta("}")) == 0
    assert event_log.tell(meta(None), meta("{}")) == 0
    assert event_log.tell(meta("{"), meta("{}")) == 1
    assert event_log.tell(meta("{", uid="2"), meta("{", uid="1")) == 1, "another pod of the same name"


def test_a_failure_is_told_once_per_change_and_counted_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    event_log, metrics = EventLog(), Metrics(process=False)
    shield = Shield(FailureTeller(metrics, cast(EventRecorder, event_log)))
    first = ObjectMeta(namespace="ns", name="p", uid="1", resource_version="1")
    for of, error in ((first, BadInput("ttl: not a time")), (first, BadInput("ttl: not a time")), (first, KeyError())):
        with shield.about("keep its status", PODS, of):
            raise error
    assert [note.partition(":")[0] for _, note in event_log.events] == ["Cannot keep its status"] * 2
    assert event_log.events[0][1].startswith(
        "Cannot keep its status: ttl: not a time. It is tried again when it changes"
    )
    with shield.about("keep its status", PODS, replace(first, resource_version="2")):
        raise KeyError
    assert len(event_log.events) == 3
    assert [bool(record.exc_info) for record in caplog.records] == [False, True, True], "a defect has its traceback"
    assert b'koord_object_failures_total{doing="keep its status",kind="Pod"} 4.0' in metrics.render()


def test_a_failure_without_anybody_to_tell_it_is_raised() -> None:
    with pytest.raises(KeyError), Shield().about("keep its status"):
        raise KeyError


def test_what_the_component_does_not_read_and_what_is_no_such_object_is_nobodys_fault() -> None:
    event_log = EventLog()
    event_log.teller.tell(PODS, ObjectMeta(annotations={pod_qos.CPU_BURST.key: "{"}), None)
    event_log.teller.tell(NODES, meta("{"), None)
    assert event_log.events == []


def test_a_topology_that_lists_a_cpu_twice_is_told_on_it() -> None:
    event_log = EventLog()
    event_log.teller = MalformedTeller(cast(EventRecorder, event_log), of_scheduler.READ)
    one = '{"id":0,"core":0,"socket":0,"node":0}'
    said = ObjectMeta(name="n1", annotations={cpu.CPU_TOPOLOGY.key: f'{{"detail":[{one},{one}]}}'})
    event_log.teller.tell(NODE_RESOURCE_TOPOLOGIES, said, None)
    ((reason, note),) = event_log.events
    assert reason == "MalformedAnnotation"
    assert note.startswith(f"NodeResourceTopology n1: annotation {cpu.CPU_TOPOLOGY.key}: ")
    assert "detail[1].id: CPU 0 is listed twice" in note
    assert NODE_RESOURCE_TOPOLOGIES in ANNOTATED


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (gang.MODE, "Strickt"),
        (gang.MATCH_POLICY, "twice-satisfied"),
        (gang.WAITING_TIME_NS, "soon"),
        (gang.GROUPS, "shop/train"),
        (gang.MIN_AVAILABLE, "many"),
        (gang.NETWORK_TOPOLOGY_SPEC, "{"),
    ],
)
def test_a_setting_of_a_gang_that_cannot_be_read_is_told_though_a_default_counts(
    value: Value[Any, Any], text: str
) -> None:
    event_log = EventLog()
    event_log.teller = MalformedTeller(cast(EventRecorder, event_log), of_scheduler.READ)
    said = ObjectMeta(name="p", namespace="shop", annotations={value.key: text})
    event_log.teller.tell(PODS, said, None)
    ((reason, note),) = event_log.events
    assert reason == "MalformedAnnotation"
    assert note.startswith(f"Pod shop/p: annotation {value.key}: ")
    assert POD_GROUPS in ANNOTATED


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (reservation.RESERVATION_RESIZE_ALLOCATABLE, '{"resources": {"cpu": "many"}}'),
        (reservation.RESERVATION_RESTRICTED_OPTIONS, "cpu"),
        (cpu.RESOURCE_STATUS, '{"cpuset": "0-"}'),
        (cpu.NUMA_TOPOLOGY_SPEC, '{"numaTopologyPolicy": "Single"}'),
        (device.DEVICE_ALLOCATED, '{"gpu": 1}'),
        (device.DEVICE_ALLOCATE_HINT, '{"gpu": {"exclusivePolicy": "Mine"}}'),
        (device.DEVICE_JOINT_ALLOCATE, "[]"),
    ],
)
def test_what_a_reservation_says_wrongly_is_told_on_it_and_by_a_plan(value: Value[Any, Any], text: str) -> None:
    event_log = EventLog()
    event_log.teller = MalformedTeller(cast(EventRecorder, event_log), of_scheduler.READ)
    found = held(annotations={value.key: text})
    event_log.teller.tell(RESERVATIONS, found.metadata, None)
    ((reason, note),) = event_log.events
    assert (reason, note.startswith(f"Reservation r: annotation {value.key}: ")) == ("MalformedAnnotation", True)
    assert RESERVATIONS in ANNOTATED
    (warning,) = faults_of(RESERVATIONS, found)
    assert value.key in warning


@pytest.mark.parametrize(
    ("value", "text", "said"),
    [
        (cpu.RESOURCE_SPEC, '{"preferredBindPolicy": "FullPCPUs"}', "preferredBindPolicy: unknown field"),
        (cpu.NUMA_TOPOLOGY_SPEC, '{"policy": "x"}', "(valid: numaTopologyPolicy, singleNUMANodeExclusive)"),
        (device.DEVICE_ALLOCATE_HINT, '{"gpu": {"selektor": {}}}', "gpu.selektor: unknown field (did you mean"),
        (device.DEVICE_JOINT_ALLOCATE, '{"scope": ""}', "scope: unknown field (valid: deviceTypes, requiredScope)"),
        (reservation.SCHEDULING_HINT, '{"nodes": ["n1"]}', "nodes: unknown field"),
        (reservation.RESERVATION_AFFINITY, '{"tolerations": [{"effect": "No", "operator": "Exists"}]}', "effect: must"),
        (gang.NETWORK_TOPOLOGY_SPEC, '{"gather": []}', "gather: unknown field"),
        (pod_qos.MEMORY_QOS, '{"minLimitPercents": 5}', "(did you mean minLimitPercent?)"),
    ],
)
def test_parts_without_effect_are_told_and_the_rest_counts(value: Value[Any, Any], text: str, said: str) -> None:
    event_log = EventLog()
    event_log.teller = MalformedTeller(cast(EventRecorder, event_log), [value])
    carrying = ObjectMeta(name="p", namespace="shop", annotations={value.key: text})
    event_log.teller.tell(PODS, carrying, None)
    event_log.teller.tell(PODS, carrying, carrying)
    ((reason, note),) = event_log.events
    assert (reason, said in note, note.endswith("It has no effect.")) == ("WithoutEffect", True, True)
    value.read(carrying)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (cpu.RESOURCE_SPEC, '{"preferredcpubindpolicy": "FullPCPUs"}'),
        (cpu.RESOURCE_STATUS, '{"cpuset": "0-3", "fromANewerScheduler": 1}'),
        (device.DEVICE_ALLOCATED, '{"gpu": [{"minor": 0, "resources": {}, "fromANewerScheduler": 1}]}'),
        (reservation.SCHEDULING_HINT, '{"extensions": {"anything": {"at": "all"}}}'),
        (reservation.SCHEDULING_HINT, "null"),
    ],
)
def test_other_spellings_and_what_a_newer_program_adds_are_nobodys_fault(value: Value[Any, Any], text: str) -> None:
    event_log = EventLog()
    event_log.teller = MalformedTeller(cast(EventRecorder, event_log), [value])
    event_log.teller.tell(PODS, ObjectMeta(name="p", annotations={value.key: text}), None)
    assert event_log.events == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (held(ttl="-1h"), "spec.ttl: is -1h, so it expires at once; it must be more than 0, or 0 for no end"),
        (
            held(taints=[{"key": "x", "effect": "NoScheduled"}]),
            "spec.taints[0].effect: must be one of NoSchedule, PreferNoSchedule, NoExecute, not 'NoScheduled'",
        ),
        (
            held(template={"tolerations": [{"key": "x", "operator": "Is"}]}),
            "spec.template.spec.tolerations[0].operator: must be one of Equal, Exists, Lt, Gt, not 'Is'",
        ),
    ],
)
def test_a_reservation_that_cannot_mean_what_it_says_is_told_so_and_a_plan_says_it(
    found: Reservation, said: str
) -> None:
    event_log = EventLog()
    event_log.teller.hear_faults(RESERVATIONS, FAULTS[RESERVATIONS])(Delta("r", None, found))
    assert event_log.events == [("MalformedReservation", said)]
    assert list(faults_of(RESERVATIONS, found)) == [said]


def test_a_misspelt_field_in_the_template_of_a_reservation_is_told_on_it() -> None:
    sound = held()
    annotations = {str(cpu.RESOURCE_SPEC.key): '{"preferredCPUBindPolizy": "FullPCPUs"}'}
    template = {**sound.spec.template, "metadata": {"annotations": annotations}}
    found = replace(sound, spec=replace(sound.spec, template=template))
    (said,) = faults_of(RESERVATIONS, found)
    assert said.startswith(f"spec.template.metadata.annotations[{cpu.RESOURCE_SPEC.key}]: preferredCPUBindPolizy: unkn")
    assert list(faults_of(RESERVATIONS, sound)) == []


def test_a_pod_group_without_a_minimum_is_told_so_once() -> None:
    event_log = EventLog()
    hear = event_log.teller.hear_faults(POD_GROUPS, group_faults)
    group = pod_group(least=0)
    hear(Delta(group.metadata.key, None, group))
    hear(Delta(group.metadata.key, group, group))
    fine = pod_group(least=1)
    hear(Delta(group.metadata.key, group, fine))
    assert event_log.events == [
        ("MalformedPodGroup", "spec.minMember: is 0, so its pods are placed one by one; it must be 1 or more")
    ]


def test_a_label_is_told_as_a_label_also_where_readers_make_do_with_it() -> None:
    event_log = EventLog()
    assert event_log.tell(meta(None, **{pod_qos.EVICTION_ENABLED.key: "maybe"})) == 1
    assert event_log.events[0][0] == "MalformedLabel"


@pytest.mark.parametrize(
    ("package", "listed", "exceptions"),
    [
        ("agent", of_agent.READ, set()),
        ("scheduler", of_scheduler.READ, set()),
        ("descheduler", of_descheduler.READ, set()),
        # What the manager itself wrote, in its own ConfigMap.
        ("manager", of_manager.READ, {"CONDITIONS"}),
    ],
)
def test_what_a_component_reads_is_in_its_list(
    package: str, listed: tuple[Value[Any, Any], ...], exceptions: set[str]
) -> None:
    names = {name: value for module in _modules() for name, value in vars(module).items() if isinstance(value, Value)}
    read = set()
    for file in (Path(koord.__file__).parent / package).rglob("*.py"):
        if file.name != "annotations.py":
            read |= {name for name in _names_read(file) if name in names}
    missing = {name for name in read - exceptions if names[name] not in listed}
    assert not missing, f"koord/{package}/annotations.py: READ lacks {', '.join(sorted(missing))}"
    extra = {name for name, value in names.items() if value in listed} - read
    by_functions = {"CPU_TOPOLOGY", "OOM_SCORE_ADJ", "OOM_SCORE_ADJ_SPEC"}
    by_functions |= {"EVICTION_ASKED_BY", "EVICTION_NOTICE", "EVICT_POLICY", "HAMI_LOCK", "CAMBRICON_DSMLU_LOCK"}
    by_functions |= {"GROUPS", "MATCH_POLICY", "MIN_AVAILABLE", "MODE", "POD_GROUP_MIN_AVAILABLE", "WAITING_TIME_NS"}
    by_functions |= {"NETWORK_TOPOLOGY_SPEC"}
    by_functions |= {"NAMESPACES", "SHARED_WEIGHT", "TOTAL_RESOURCE", "UNSCHEDULABLE_RESOURCE"}
    assert extra <= by_functions, "these are read through a function of their own"


def _modules() -> list[Any]:
    return [each for each in vars(annotations).values() if getattr(each, "VALUES", None)]


def _names_read(file: Path) -> set[str]:
    """Names of annotations whose `read` is called, or that are handed to a function that does."""
    tree = ast.parse(file.read_text())
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {
        alias.name for node in froms if (node.module or "").startswith(annotations.__name__) for alias in node.names
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            reads = isinstance(node.func, ast.Attribute) and node.func.attr == "read"
            used = [*([node.func.value] if reads and isinstance(node.func, ast.Attribute) else []), *node.args]
            found |= {_named(each, imported) for each in used}
    return found


def _named(node: ast.expr, imported: set[str]) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
        return node.attr
    return node.id if isinstance(node, ast.Name) and node.id in imported else ""


async def _told_on(client: Client, kind: str) -> list[str]:
    events = [event for event in await client.list(EVENTS) if event.reason.startswith("Malformed")]
    return [event.note for event in events if event.regarding.kind == kind]


async def test_the_scheduler_tells_of_nodes_and_pods(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await make_nodes(client, 1)
        bad = node_manifest("bad")
        bad["metadata"]["annotations"] = {cpu.NODE_RESERVATION.key: "{"}
        await client.create(NODES, bad)
        pod = pod_manifest("p")
        pod["metadata"]["annotations"] = {load.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED.key: "soon"}
        await client.create(PODS, pod)

        async def told() -> bool:
            return bool(await _told_on(client, "Node") and await _told_on(client, "Pod"))

        async with scheduling(client):
            await eventually(told)
            (of_node,), (of_pod,) = await _told_on(client, "Node"), await _told_on(client, "Pod")
            assert cpu.NODE_RESERVATION.key in of_node
            assert load.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED.key in of_pod
