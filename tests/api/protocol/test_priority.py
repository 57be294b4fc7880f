from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.protocol.crd.resource_qos import ResourceQOSStrategy
from koord.api.protocol.priority import (
    BANDS,
    DEFAULT_PRIORITY,
    FORBIDDEN_PAIRS,
    SLO_CLASS_OF_QOS,
    PriorityClass,
    QoSClass,
    SubPriorityError,
    class_of_priority,
    compute_kube_qos,
    kube_qos,
    priority,
    priority_class,
    qos_class,
    raw_priority_class,
    raw_qos_class,
    sub_priority,
)
from tests.api.pods import Resources, container, pod

BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (None, ""),
        (0, ""),
        (-1, ""),
        (2999, ""),
        (3000, "koord-free"),
        (3999, "koord-free"),
        (4000, ""),
        (4999, ""),
        (5000, "koord-batch"),
        (5999, "koord-batch"),
        (6000, ""),
        (7000, "koord-mid"),
        (7999, "koord-mid"),
        (8000, ""),
        (9000, "koord-prod"),
        (9999, "koord-prod"),
        (10000, ""),
        (2_000_000_000, ""),
    ],
)
def test_a_priority_belongs_to_the_band_it_lies_in(number: int | None, expected: str) -> None:
    assert class_of_priority(number) == expected


@pytest.mark.parametrize("class_", list(BANDS))
def test_the_default_number_of_a_class_lies_in_its_band(class_: PriorityClass) -> None:
    assert class_of_priority(DEFAULT_PRIORITY[class_]) is class_


@pytest.mark.parametrize(
    ("label", "number", "expected"),
    [
        ("koord-mid", 9500, PriorityClass.MID),
        ("koord-mid", None, PriorityClass.MID),
        (None, 9500, PriorityClass.PROD),
        ("system-node-critical", 9500, PriorityClass.NONE),
        ("", 9500, PriorityClass.NONE),
        ("KOORD-PROD", 9500, PriorityClass.NONE),
    ],
)
def test_a_priority_class_label_rules_even_where_it_says_nothing_known(
    label: str | None, number: int | None, expected: PriorityClass
) -> None:
    labels = {} if label is None else {"koordinator.sh/priority-class": label}
    assert raw_priority_class(labels, number) is expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [("LSE", "LSE"), ("LSR", "LSR"), ("LS", "LS"), ("BE", "BE"), ("SYSTEM", "SYSTEM"), ("ls", ""), ("", ""), ("X", "")],
)
def test_a_qos_label_is_case_sensitive_and_unknown_means_none(label: str, expected: str) -> None:
    assert raw_qos_class({"koordinator.sh/qosClass": label}) == expected
    assert raw_qos_class({}) is QoSClass.NONE


@pytest.mark.parametrize(
    ("requests", "limits", "qos", "class_", "number"),
    [
        (BOTH, BOTH, QoSClass.LSR, PriorityClass.PROD, 9500),
        (BOTH, None, QoSClass.LS, PriorityClass.PROD, 9500),
        (None, None, QoSClass.BE, PriorityClass.BATCH, 5500),
        ({"kubernetes.io/batch-cpu": 1000}, {"kubernetes.io/batch-cpu": 1000}, QoSClass.BE, PriorityClass.BATCH, 5500),
    ],
)
def test_a_pod_that_says_nothing_is_classed_by_its_resources(
    requests: Resources | None, limits: Resources | None, qos: QoSClass, class_: PriorityClass, number: int
) -> None:
    plain = pod(container(requests=requests, limits=limits))
    assert (qos_class(plain), priority_class(plain), priority(plain)) == (qos, class_, number)


@pytest.mark.parametrize(
    ("labels", "number", "class_", "effective"),
    [
        ({"koordinator.sh/qosClass": "SYSTEM"}, None, PriorityClass.PROD, 9500),
        ({"koordinator.sh/qosClass": "LSE"}, 0, PriorityClass.PROD, 9500),
        ({"koordinator.sh/qosClass": "BE"}, None, PriorityClass.BATCH, 5500),
        ({"koordinator.sh/qosClass": "BE"}, 100, PriorityClass.BATCH, 100),
        ({"koordinator.sh/qosClass": "LS"}, 7100, PriorityClass.MID, 7100),
        ({"koordinator.sh/priority-class": "koord-free"}, None, PriorityClass.FREE, 3500),
        ({"koordinator.sh/priority-class": "koord-free"}, 9999, PriorityClass.FREE, 9999),
        ({}, -5, PriorityClass.BATCH, -5),
    ],
)
def test_class_and_number_with_default(
    labels: dict[str, str], number: int | None, class_: PriorityClass, effective: int
) -> None:
    labelled = pod(container(), labels=labels, priority=number)
    assert (priority_class(labelled), priority(labelled)) == (class_, effective)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("0", 0),
        ("00", 0),
        ("10", 10),
        ("-10", -10),
        ("+10", 10),
        ("010", 8),
        ("0_1_0", 8),
        ("0o17", 15),
        ("0O17", 15),
        ("0b101", 5),
        ("0x1F", 31),
        ("0X_1f", 31),
        ("-0x80000000", -(2**31)),
        ("1_000", 1000),
        ("2147483647", 2**31 - 1),
    ],
)
def test_sub_priority_finds_the_base_itself(text: str, number: int) -> None:
    assert sub_priority({"koordinator.sh/priority": text}) == number


@pytest.mark.parametrize(
    "text",
    [" 1", "1 ", "08", "0x", "0b2", "_1", "1_", "1__0", "0_", "--1", "1.0", "1e3", "٣", "2147483648", "-2147483649"],
)
def test_a_sub_priority_that_is_no_32_bit_integer_is_refused(text: str) -> None:
    with pytest.raises(SubPriorityError, match=r"koordinator\.sh/priority"):
        sub_priority({"koordinator.sh/priority": text})


@given(st.integers(-(2**31), 2**31 - 1), st.sampled_from([str, hex, oct, bin]))
def test_every_32_bit_number_is_read_in_every_base(number: int, write: object) -> None:
    assert callable(write)
    assert sub_priority({"koordinator.sh/priority": write(number)}) == number


def test_there_is_no_sub_priority_without_the_label() -> None:
    assert sub_priority({}) == 0


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([container()], [], "BestEffort"),
        ([container(requests={"cpu": 0}, limits={"memory": "0"})], [], "BestEffort"),
        ([container(requests={"nvidia.com/gpu": 1}, limits={"nvidia.com/gpu": 1})], [], "BestEffort"),
        ([container(requests={"ephemeral-storage": "1Gi"})], [], "BestEffort"),
        ([container(requests=BOTH, limits=BOTH)], [], "Guaranteed"),
        (
            [container(requests={"cpu": 1, "memory": "1024Mi"}, limits={"cpu": "1000m", "memory": "1Gi"})],
            [],
            "Guaranteed",
        ),
        ([container(requests=BOTH | {"nvidia.com/gpu": 1}, limits=BOTH)], [], "Guaranteed"),
        ([container(requests=BOTH, limits={"cpu": "1"})], [], "Burstable"),
        ([container(requests=BOTH, limits={"cpu": "2", "memory": "1Gi"})], [], "Burstable"),
        ([container(limits=BOTH)], [], "Burstable"),
        ([container(requests={"cpu": "1n"}, limits={"cpu": "2n", "memory": "1"})], [], "Burstable"),
        ([container(requests=BOTH, limits=BOTH), container("b")], [], "Burstable"),
        ([container(requests=BOTH, limits=BOTH)], [container("init")], "Burstable"),
        ([container(requests=BOTH, limits=BOTH)], [container("init", requests=BOTH, limits=BOTH)], "Guaranteed"),
        ([container()], [container("init", requests={"cpu": "1"})], "Burstable"),
        ([], [], "BestEffort"),
    ],
)
def test_kubernetes_qos_by_cpu_and_memory_of_all_containers(
    containers: list[dict[str, object]], init: list[dict[str, object]], expected: str
) -> None:
    assert compute_kube_qos(pod(*containers, init=init).spec) == expected


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"requests": BOTH, "limits": BOTH}, "Guaranteed"),
        ({"requests": BOTH}, "Burstable"),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, "Burstable"),
        ({}, "BestEffort"),
    ],
)
def test_pod_level_resources_decide_qos_instead_of_the_containers(resources: dict[str, object], expected: str) -> None:
    burstable = container(requests={"cpu": "100m"})
    assert compute_kube_qos(pod(burstable, resources=resources).spec) == expected


def test_the_qos_in_the_status_rules() -> None:
    assert kube_qos(pod(container(requests=BOTH), status={"qosClass": "Guaranteed"})) == "Guaranteed"


def test_forbidden_pairs() -> None:
    forbidden = {
        QoSClass.BE: {PriorityClass.NONE, PriorityClass.PROD},
        QoSClass.LSR: {PriorityClass.NONE, PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE},
    }
    for qos in QoSClass:
        for class_ in PriorityClass:
            assert ((qos, class_) in FORBIDDEN_PAIRS) == (class_ in forbidden.get(qos, set()))


def test_every_qos_class_has_its_part_of_a_node_slo() -> None:
    assert set(SLO_CLASS_OF_QOS) == set(QoSClass) - {QoSClass.NONE}
    assert set(SLO_CLASS_OF_QOS.values()) <= set(ResourceQOSStrategy.__struct_fields__)
