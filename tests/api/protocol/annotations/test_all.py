"""What holds for every structured label and annotation, well written or not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol import names
from koord.api.protocol.annotations import (
    ALL,
    AnnotationError,
    colocation,
    cpu,
    device,
    faults_of,
    gang,
    load,
    notice,
    pod_qos,
    quota,
)
from koord.api.protocol.annotations import reservation as res
from koord.api.protocol.annotations.value import Label, Value
from tests.api.protocol.annotations.cases import QUOTA_RESOURCES, SWITCHES, VALID, carrying

V = Value[Any, Any]

# Written with two decimals: what is finer is lost.
ROUNDED = (colocation.CPU_NORMALIZATION_RATIO.form, colocation.RESOURCE_AMPLIFICATION_RATIO.form)

# Values that are no numbers, JSON or words, whatever is wanted; and who makes do with them, by the protocol.
COUNTS_AS: list[tuple[V, str, object]] = [
    (load.EVICTION_COST, "x", 0),
    (load.EVICTION_COST, "+10", 0),
    (load.EVICTION_COST, "010", 0),
    (load.EVICTION_COST, "2147483648", 0),
    (load.USAGE_THRESHOLDS, "{", load.UsageThresholds()),
    (load.LAST_EVICTIONS, "{", {}),
    (notice.EVICTION_NOTICE, "soon", None),
    (notice.EVICTION_NOTICE, "0s", None),
    (notice.EVICTION_NOTICE, "61m", None),
    (notice.EVICTION_DEADLINE, "soon", None),
    (notice.EVICTION_ASKED_BY, '[{"by":"me"}]', ()),
    (notice.CHECKPOINTED_AT, "just now", None),
    (notice.SCALE_FIRST, "yes", False),
    (notice.SCALED_FIRST, '{"job":1}', None),
    (device.HAMI_LOCK, "1970-01-01T00:01:40Z,train", None),
    (device.CAMBRICON_DSMLU_LOCK, "now,default,train", None),
    (pod_qos.EVICTION_PRIORITY, "high", 0),
    (pod_qos.EVICTION_PRIORITY, "2147483648", 0),
    (pod_qos.EVICTION_POLICY, "BECPUEvict", ()),
    (pod_qos.EVICTION_POLICY, "", ()),
    (colocation.COLOCATION_STRATEGY, '{"enable":1}', None),
    (gang.TOTAL_NUMBER, "many", 0),
    (gang.MODE, "strict", "Strict"),
    (gang.MATCH_POLICY, "always", None),
    (gang.WAITING_TIME_NS, "5", 0),
    (gang.GROUPS, "a/x", ()),
    (gang.NETWORK_TOPOLOGY_SPEC, '{"gatherStrategy":[{"layer":"spine"}]}', None),
    (res.PREEMPTION_POLICY, "Always", "Never"),
    (device.GPU_PARTITION_POLICY, "honor", "Prefer"),
    *((value, "True", value.default) for value in SWITCHES),
    (res.RESERVATION_ORDER, "first", 0),
]

MALFORMED: list[tuple[V, str, str]] = [
    (pod_qos.CPU_QOS, '{"groupIdentity":3}', "groupIdentity: must be an integer from -1 to 2, not 3"),
    (pod_qos.CPU_BURST, '{"policy":"always"}', "policy: must be one of auto, cfsQuotaBurstOnly"),
    (pod_qos.MEMORY_QOS, '{"policy":"on"}', "policy: must be one of"),
    (pod_qos.MEMORY_QOS, "auto", "is not JSON"),
    (pod_qos.NETWORK_QOS, '{"ingressLimit":"10Mbps"}', "ingressLimit: '10Mbps' is not a quantity"),
    (pod_qos.RESCTRL, '{"llc":{"schemata":{"range":[30,10]}}}', "llc.schemata.range: must be two percentages"),
    (pod_qos.RESCTRL, '{"mb":{"schemata":{"percent":101}}}', "mb.schemata.percent: must be an integer from 0 to 100"),
    (pod_qos.OOM_SCORE_ADJ, "1001", "must be an integer from -1000 to 1000, not '1001'"),
    (pod_qos.OOM_SCORE_ADJ_SPEC, '{"app":-1001}', "app: must be an integer from -1000 to 1000"),
    (pod_qos.REPLACE_RESOURCES, "a,b", "must be pairs old:new"),
    (pod_qos.REPLACE_RESOURCES, ":b", "must be pairs old:new"),
    (pod_qos.REPLACE_RESOURCES, "a:b:c", "must be pairs old:new"),
    (pod_qos.CORE_SCHED_POLICY, "shared", "must be one of '', none, exclusive, not 'shared'"),
    (cpu.RESOURCE_SPEC, '{"requiredCPUBindPolicy":"Full"}', "requiredCPUBindPolicy: must be one of"),
    (cpu.RESOURCE_STATUS, '{"cpuset":"0-x"}', "cpuset: '0-x' is not a CPU"),
    (cpu.RESOURCE_STATUS, '{"numaNodeResources":[{"resources":{}}]}', r"numaNodeResources\[0\].node: is required"),
    (cpu.NODE_RESERVATION, '{"resources":{"cpu":"one"}}', "resources.cpu: 'one' is not a quantity"),
    (cpu.NODE_RESERVATION, '{"resources":{"cpu":"1e19"}}', "resources.cpu: '1e19' is too large"),
    (cpu.NODE_RESERVATION, '{"resources":{"cpu":"-1"}}', "resources.cpu: must not be negative"),
    (cpu.NUMA_TOPOLOGY_POLICY, "Single", "must be one of '', BestEffort"),
    (cpu.CPU_TOPOLOGY, "[]", "must be an object, not a list"),
    (cpu.POD_CPU_ALLOCS, "{}", "must be a list, not an object"),
    (colocation.CPU_RECLAIM_RATIO, "-0.1", "must be a number from 0 to 2, not '-0.1'"),
    (colocation.CPU_RECLAIM_RATIO, "nan", "must be a number from 0 to 2, not 'nan'"),
    (colocation.CPU_RECLAIM_RATIO, "60%", "must be a number from 0 to 2, not '60%'"),
    (colocation.CPU_NORMALIZATION_RATIO, "0", "must be a number above 0, not '0'"),
    (colocation.CPU_NORMALIZATION_RATIO, "1e999", "must be a number above 0"),
    (colocation.CPU_NORMALIZATION_ENABLED, "yes", "must be true or false, not 'yes'"),
    (colocation.NETWORK_BANDWIDTH, "fast", "'fast' is not a quantity"),
    (colocation.RESOURCE_AMPLIFICATION_RATIO, '{"cpu":"1.5"}', "cpu: must be a number, not '1.5'"),
    (
        colocation.THIRD_PARTY_ALLOCATIONS,
        '{"allocations":[{"name":"yarn"}]}',
        r"allocations\[0\].priority: is required",
    ),
    (gang.MIN_AVAILABLE, "three", "must be an integer from 0 to 2147483647, not 'three'"),
    (gang.MIN_AVAILABLE, "-1", "must be an integer from 0"),
    (gang.NETWORK_TOPOLOGY_INDEX, "first", "must be an integer"),
    *((value, '{"cpu":"much"}', "cpu: 'much' is not a quantity") for value in QUOTA_RESOURCES),
    (quota.NAMESPACES, '"shop"', "must be a list, not 'shop'"),
    (quota.NAMESPACES, "[1]", r"\[0\]: must be a string, not 1"),
    (res.RESERVATION_AFFINITY, '{"tolerations":[{"key":7}]}', r"tolerations\[0\].key: must be a string, not 7"),
    (
        res.RESERVATION_AFFINITY,
        '{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{"matchExpressions":'
        '[{"key":"type","operator":"In"}]}]}}',
        r"reservationSelectorTerms\[0\].matchExpressions\[0\].values: in needs at least one value",
    ),
    (res.RESERVATION_OWNERS, '[{"labelSelector":[]}]', r"\[0\].labelSelector: must be an object"),
    (res.OPERATING_MODE, "Running", "must be one of Runnable, Reservation"),
    (device.DEVICE_ALLOCATED, '{"gpu":[{"minor":0}]}', r"gpu\[0\].resources: is required"),
    (device.DEVICE_ALLOCATED, '{"gpu":[null]}', r"gpu\[0\]: must be an object, not null"),
    (device.DEVICE_ALLOCATE_HINT, '{"gpu":{"exclusivePolicy":"Card"}}', "gpu.exclusivePolicy: must be one of"),
    (
        device.DEVICE_ALLOCATE_HINT,
        '{"rdma":{"vfSelector":{"matchExpressions":[{"key":"a","operator":"In"}]}}}',
        r"rdma.vfSelector.matchExpressions\[0\].values: in needs at least one value",
    ),
    (device.DEVICE_JOINT_ALLOCATE, '{"deviceTypes":["nic"]}', r"deviceTypes\[0\]: must be one of fpga, gpu, rdma"),
    (device.GPU_PARTITIONS, '{"two":[]}', r"\[two\]: must be a number of GPUs"),
    (device.GPU_PARTITIONS, '{"1":[{}]}', r"\[1\]\[0\].minors: is required"),
    (device.GPU_MINORS, "0,,1", "must be an integer"),
    (load.LOAD_ESTIMATED_SCALING_FACTORS, '{"cpu":0.8}', "cpu: must be an integer, not 0.8"),
    (load.SOFT_EVICTION, '{"timestamp":"soon"}', "timestamp: 'soon' is not a time"),
    (load.EVICT_POLICY, "Drain", "must be one of Eviction, Delete, SoftEviction"),
]


def test_each_key_is_listed_once() -> None:
    keys = [(type(value), value.key) for value in ALL]
    assert len(set(keys)) == len(keys)


def test_each_is_shown_by_an_example() -> None:
    assert {value.key for value in ALL} == {value.key for value, _, _ in VALID}


@pytest.mark.parametrize(("value", "text", "meant"), VALID, ids=lambda x: x.key if isinstance(x, Value) else None)
def test_what_is_well_written_is_understood(value: V, text: str, meant: object) -> None:
    assert value.read(carrying(value, text)) == meant
    assert value.check(carrying(value, text)) is None


@pytest.mark.parametrize("value", ALL, ids=lambda value: value.key)
def test_an_absent_key_gives_the_default_and_is_no_fault(value: V) -> None:
    assert value.read(ObjectMeta(name="web")) == value.default
    assert value.check(ObjectMeta(name="web")) is None
    assert not value.is_on(ObjectMeta(name="web"))


@pytest.mark.parametrize("value", ALL, ids=lambda value: value.key)
def test_an_empty_text_is_no_fault(value: V) -> None:
    assert value.check(carrying(value, "")) is None
    value.read(carrying(value, ""))
    assert value.is_on(carrying(value, ""))


@pytest.mark.parametrize(("value", "text", "says"), MALFORMED, ids=lambda x: x.key if isinstance(x, Value) else None)
def test_a_malformed_value_is_refused_with_object_key_and_fault(value: V, text: str, says: str) -> None:
    sort = "label" if isinstance(value, Label) else "annotation"
    with pytest.raises(AnnotationError, match=says) as caught:
        value.read(carrying(value, text))
    assert str(caught.value).startswith(f"{value.on[0]} shop/web: {sort} {value.key}: ")
    assert (caught.value.who, caught.value.key) == (f"{value.on[0]} shop/web", value.key)
    assert str(value.check(carrying(value, text))) == str(caught.value)


@pytest.mark.parametrize(("value", "text", "meant"), COUNTS_AS, ids=lambda x: x.key if isinstance(x, Value) else None)
def test_a_bad_value_counts_as_the_protocol_says_where_it_says_so(value: V, text: str, meant: object) -> None:
    assert value.read(carrying(value, text)) == meant
    assert text == "" or value.check(carrying(value, text)) is not None


def test_only_those_make_do_with_a_bad_value() -> None:
    lenient = {value.key for value in ALL if not isinstance(value.bad, type(Value.__dataclass_fields__["bad"].default))}
    assert lenient == {value.key for value, _, _ in COUNTS_AS}


def test_all_faults_of_a_value_are_told_at_once() -> None:
    with pytest.raises(AnnotationError) as caught:
        cpu.RESOURCE_SPEC.read(
            carrying(cpu.RESOURCE_SPEC, '{"requiredCPUBindPolicy":"x","preferredCPUExclusivePolicy":"y"}')
        )
    assert [fault.path for fault in caught.value.faults] == ["requiredCPUBindPolicy", "preferredCPUExclusivePolicy"]


def test_the_reader_says_which_kind_of_object_it_is() -> None:
    with pytest.raises(AnnotationError, match=r"^Reservation r1: annotation scheduling"):
        cpu.RESOURCE_SPEC.read(ObjectMeta(name="r1", annotations={cpu.RESOURCE_SPEC.key: "x"}), "Reservation")


@pytest.mark.parametrize(("value", "text", "meant"), VALID, ids=lambda x: x.key if isinstance(x, Value) else None)
def test_what_is_written_reads_the_same(value: V, text: str, meant: object) -> None:
    written = value.render(meant)
    assert value.read(carrying(value, written)) == meant
    assert value.render(value.read(carrying(value, written))) == written


@pytest.mark.parametrize(
    "value",
    [
        *(cpu.RESOURCE_STATUS, cpu.CPU_TOPOLOGY, cpu.POD_CPU_ALLOCS, cpu.CPU_SHARED_POOLS, cpu.CPU_MANAGER_POLICY),
        *(cpu.CPU_BASIC_INFO, cpu.NODE_RESERVATION, pod_qos.EXTENDED_RESOURCE_SPEC, device.DEVICE_ALLOCATED),
        *(colocation.RESOURCE_AMPLIFICATION_RATIO, colocation.CPU_NORMALIZATION_RATIO, colocation.RAW_ALLOCATABLE),
        *(colocation.ORIGIN_EXTENDED_ALLOCATABLE, res.RESERVATION_ALLOCATED, res.RESERVATION_CURRENT_OWNER),
        *(load.SOFT_EVICTION, device.GPU_MINORS, gang.NETWORK_TOPOLOGY_SPEC, quota.RUNTIME),
    ],
    ids=lambda value: value.key,
)
def test_what_koord_writes_is_letter_by_letter_what_koordinator_writes(value: V) -> None:
    # The examples are in Go's form: compact, fields in the order of its structs, maps by key.
    for example, text, meant in VALID:
        if example is value:
            assert value.render(meant) == text


def test_maps_are_written_in_the_order_of_their_keys() -> None:
    assert quota.RUNTIME.render({"memory": "1Gi", "cpu": "2"}) == '{"cpu":"2","memory":"1Gi"}'
    assert colocation.RESOURCE_AMPLIFICATION_RATIO.render({"memory": 2, "cpu": 1.256}) == '{"cpu":1.26,"memory":2.00}'


def test_a_bare_null_is_the_empty_value() -> None:
    assert cpu.POD_CPU_ALLOCS.read(carrying(cpu.POD_CPU_ALLOCS, "null")) == ()
    assert cpu.RESOURCE_SPEC.read(carrying(cpu.RESOURCE_SPEC, "null")) == cpu.ResourceSpec()
    assert quota.RUNTIME.read(carrying(quota.RUNTIME, "null")) == {}


def test_fields_of_newer_writers_are_left_alone() -> None:
    assert cpu.RESOURCE_STATUS.read(carrying(cpu.RESOURCE_STATUS, '{"cpuset":"1","new":{}}')).cpuset == "1"


def test_an_old_key_is_read_where_the_current_one_is_absent_or_empty() -> None:
    old = {"scheduling.koordinator.sh/scheduling-hint": '{"nodeNames":["old"]}'}
    new = {names.ANNOTATION_SCHEDULING_HINT: '{"nodeNames":["new"]}'}
    empty = {names.ANNOTATION_SCHEDULING_HINT: ""}
    for keys, expected in [(old, "old"), (old | new, "new"), (old | empty, "old")]:
        hint = res.SCHEDULING_HINT.read(ObjectMeta(annotations=keys))
        assert hint is not None
        assert hint.node_names == (expected,)
    assert device.GPU_MODEL.read(ObjectMeta(labels={"kubernetes.io/gpu-model": "A100"})) == "A100"
    assert device.GPU_DRIVER_VERSION.read(ObjectMeta(labels={"kubernetes.io/gpu-driver": "1.2"})) == "1.2"
    assert gang.BIND_GROUP_ID.read(ObjectMeta(annotations={"scheduling.koordinator.sh/bind-gang-group-id": "g"})) == "g"


def test_a_fault_under_an_old_key_names_the_old_key() -> None:
    meta = ObjectMeta(name="web", annotations={"scheduling.koordinator.sh/scheduling-hint": "x"})
    with pytest.raises(AnnotationError, match=r"annotation scheduling\.koordinator\.sh/scheduling-hint"):
        res.SCHEDULING_HINT.read(meta)


def test_all_faults_of_an_object_are_found_those_that_readers_bear_included() -> None:
    meta = ObjectMeta(
        name="web",
        namespace="shop",
        labels={names.LABEL_EVICTION_ENABLED: "yes"},
        annotations={names.ANNOTATION_EVICTION_COST: "x", names.ANNOTATION_RESOURCE_SPEC: "{", "other.io/key": "{"},
    )
    assert {error.key for error in faults_of("Pod", meta)} == {
        names.LABEL_EVICTION_ENABLED,
        names.ANNOTATION_EVICTION_COST,
        names.ANNOTATION_RESOURCE_SPEC,
    }
    assert faults_of("Node", meta) == []
    assert faults_of("Pod", ObjectMeta(name="web")) == []


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "1", "0-3", "FullPCPUs", "5m", "1Gi", "-1", "1e30", "9" * 5000])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def bent(draw: st.DrawFn, data: Any) -> Any:
    """`data` with one place in it replaced, dropped or added to."""
    if isinstance(data, dict) and data and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(data)))
        if not draw(st.integers(0, 5)):
            return {name: item for name, item in data.items() if name != key} | draw(st.just({}) | st.just({"new": 1}))
        return data | {key: draw(bent(data[key]))}
    if isinstance(data, list) and data and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(data) - 1))
        return [*data[:at], draw(bent(data[at])), *data[at + 1 :]]
    return draw(json_values)


@st.composite
def written(draw: st.DrawFn) -> tuple[V, str]:
    """Some label or annotation, with a text that is nearly right, or just any."""
    value, text, _ = draw(st.sampled_from(VALID))
    if not draw(st.integers(0, 4)):
        return value, draw(st.text(max_size=20))
    try:
        return value, json.dumps(draw(bent(json.loads(text))))
    except json.JSONDecodeError:
        place = draw(st.integers(0, len(text)))
        return value, text[:place] + draw(st.text(max_size=3)) + text[place + draw(st.integers(0, 3)) :]


@settings(max_examples=1500, deadline=None)
@given(written())
def test_any_text_gives_a_value_that_can_be_written_again_or_an_annotation_error(case: tuple[V, str]) -> None:
    value, text = case
    meta = carrying(value, text)
    error = value.check(meta)
    if error is None:
        meant = value.read(meta)
        if text and value.form not in ROUNDED:
            assert value.form.parse(value.render(meant)) == meant
        return
    assert value.key in str(error)
    assert str(error).startswith(f"{value.on[0]} shop/web: ")
    assert error.faults
    try:
        assert value.read(meta) == value.bad
    except AnnotationError as raised:
        assert raised.faults == error.faults  # noqa: PT017 - whether it raises is part of the question
