"""Which pods are refused, what is said then, and what a pod may not change."""

from __future__ import annotations

from typing import Any

import pytest

from koord.admission.pod_enhanced import EnhancedRules, parse
from koord.api.machinery.faults import Invalid
from tests.admission.build import container, known, pod, validated

QOS, RANK, CLASS = "koordinator.sh/qosClass", "koordinator.sh/priority", "koordinator.sh/priority-class"
FOUR = container(requests={"cpu": "4", "memory": "8Gi"})


def of(qos: str | None = None, priority: int | None = None, *containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    labels = {**({QOS: qos} if qos else {}), **more.pop("labels", {})}
    spec: dict[str, Any] = {} if priority is None else {"priority": priority}
    return pod(*(containers or (FOUR,)), labels=labels, **spec, **more)


PRIORITIES = {"none": None, "prod": 9500, "mid": 7500, "batch": 5500, "free": 3500}
FORBIDDEN = {("BE", "none"), ("BE", "prod"), ("LSR", "none"), ("LSR", "mid"), ("LSR", "batch"), ("LSR", "free")}


@pytest.mark.parametrize("qos", ["BE", "LS", "LSR", "LSE", "SYSTEM", None, "unheard-of"])
@pytest.mark.parametrize("band", PRIORITIES)
def test_which_qos_goes_with_which_priority(qos: str | None, band: str) -> None:
    answer = validated(of(qos, PRIORITIES[band]))
    assert answer.allowed == ((qos, band) not in FORBIDDEN)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (
            of("BE", 9500),
            "spec.priority: must be of class koord-mid or koord-batch or koord-free for a pod with QoS class BE; "
            "it is 9500, of class koord-prod",
        ),
        (
            of("LSR"),
            "spec.priority: must be of class koord-prod for a pod with QoS class LSR; it is absent, of no class",
        ),
        (
            of("LSR", 9500, container(requests={"cpu": "2500m"})),
            "spec.containers[*].resources.requests[cpu]: must be a whole number of cores, at least 1, for a pod with "
            "QoS class LSR, not 2500m",
        ),
        (
            of("LSE", 5500, container()),
            "spec.containers[*].resources.requests[cpu]: must be a whole number of cores, at least 1, for a pod with "
            "QoS class LSE; none is requested",
        ),
        (
            of("BE", 5500, labels={CLASS: "koord-prod"}),
            f"metadata.labels[{CLASS}]: must be of class koord-mid or koord-batch or koord-free for a pod with QoS "
            "class BE; it is 'koord-prod', of class koord-prod",
        ),
        (
            of("LS", 9500, container(requests={"kubernetes.io/batch-cpu": "1000"})),
            f"metadata.labels[{QOS}]: must be BE for a pod that asks for kubernetes.io/batch-cpu, not LS",
        ),
    ],
)
def test_a_denial_names_the_field_the_value_and_what_would_be_accepted(obj: dict[str, Any], message: str) -> None:
    answer = validated(obj)
    assert (answer.allowed, answer.code, answer.message) == (False, 400, message)


@pytest.mark.parametrize(
    "obj",
    [
        of("BE", 3500),
        of("LSE", 5500),
        of("LSR", 9500),
        of("LSR", 9500, container(requests={"cpu": "1500m"}), container("b", requests={"cpu": "500m"})),
        of("LSR", 9500, container(requests={"cpu": "1"}), initContainers=[container("i", requests={"cpu": "3"})]),
        of("LSR", None, labels={CLASS: "koord-prod"}),
        of("LSR", None, priorityClassName="koord-prod"),
        of(None, None, container(requests={"cpu": "2500m"})),
        of("BE", 5500, container(requests={"kubernetes.io/batch-cpu": "1000"})),
        of(None, None, container(requests={"kubernetes.io/batch-cpu": "0"})),
        of(None, None, container(requests={"kubernetes.io/mid-cpu": "1000"})),
        pod(),
    ],
)
def test_what_is_accepted(obj: dict[str, Any]) -> None:
    assert validated(obj).message == ""


def test_all_that_is_wrong_is_told_at_once() -> None:
    message = validated(
        of("LSR", 5500, container(requests={"cpu": "500m", "kubernetes.io/batch-memory": "1Gi"}))
    ).message
    assert [part.split(":")[0] for part in message.split("; ") if ": " in part] == [
        f"metadata.labels[{QOS}]",
        "spec.priority",
        "spec.containers[*].resources.requests[cpu]",
    ]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (of("LS", 9500), of("LSE", 9500), QOS),
        (of("LS", 9500), of(None, 9500), QOS),
        (of(None, 9500), of("LS", 9500), QOS),
        (of("LS", 9500), of("LS", 5500), "spec.priority"),
        (of("LS", 9500), of("LS"), "spec.priority"),
        (of("LS", 9500, labels={RANK: "1"}), of("LS", 9500, labels={RANK: "2"}), RANK),
        (of("LS", 9500, labels={RANK: "1"}), of("LS", 9500), RANK),
    ],
)
def test_an_update_changes_neither_qos_nor_class_nor_rank(old: dict[str, Any], new: dict[str, Any], field: str) -> None:
    answer = validated(new, old)
    assert not answer.allowed
    assert field in answer.message


@pytest.mark.parametrize(
    ("old", "new", "gates"),
    [
        (of("LS", 9500), of("LS", 9500, labels={"app": "x"}), ""),
        (of("LS", 9500), of("LS", 9100), ""),
        (of("LS", 9500, labels={RANK: "1"}), of("LS", 9500), "ColocationProfileSkipValidatingPriority=true"),
        (of("LS", 9500), of("LS", 12, labels={CLASS: "koord-prod"}), ""),
    ],
)
def test_what_an_update_may_change(old: dict[str, Any], new: dict[str, Any], gates: str) -> None:
    assert validated(new, old, gates).message == ""


def test_a_pod_that_is_going_may_lose_its_finalizers_whatever_is_wrong_with_it() -> None:
    old = of("LSR", 5500)
    new = {**old, "metadata": {**old["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert not validated(old, old).allowed
    assert validated(new, old).allowed


def test_stand_ins_for_reservations_are_refused_before_anything_else() -> None:
    answer = validated(of("LSR", 5500, annotations={"scheduling.koordinator.sh/reserve-pod": "true"}))
    assert answer.message.startswith("metadata.annotations[scheduling.koordinator.sh/reserve-pod]: must be absent")


GPU, CORE, RATIO = "koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"
SHARED, GPU_MEMORY, NPU = "koordinator.sh/gpu.shared", "koordinator.sh/gpu-memory", "huawei.com/npu-core"


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ({GPU: 200}, ""),
        ({GPU: 50}, ""),
        ({GPU: 150}, f"[{GPU}]: must be a multiple of 100 where it is above it, not 150"),
        ({GPU: 0}, f"[{GPU}]: must be above 0, not 0"),
        ({GPU: 100, SHARED: 1}, f"[{GPU}]: must not be asked for together with {SHARED}"),
        ({SHARED: 2, RATIO: 100, CORE: 50}, ""),
        ({SHARED: 2, GPU_MEMORY: "8Gi"}, ""),
        ({SHARED: 2, RATIO: 101}, f"[{RATIO}]: must be a multiple of {SHARED} (2), not 101"),
        ({SHARED: 3, RATIO: 300, CORE: 100}, f"[{CORE}]: must be a multiple of {SHARED} (3), not 100"),
        ({SHARED: 1}, f": must say how much memory of the cards is wanted, by {GPU_MEMORY} or {RATIO}"),
        ({SHARED: 1, RATIO: 50, GPU_MEMORY: "8Gi"}, f" by {GPU_MEMORY} or {RATIO}, not by both"),
        ({SHARED: 0, RATIO: 50}, f"[{SHARED}]: must be above 0, not 0"),
        ({SHARED: 1, NPU: 10}, ""),
        ({"cpu": "1"}, ""),
    ],
)
def test_gpu_requests_must_be_ones_that_can_be_given(asked: dict[str, Any], fault: str) -> None:
    obj = pod(container(requests=asked, limits=asked))
    message = validated(obj, feature_gates="ValidatePodDeviceResource=true").message
    if fault:
        assert message.startswith("spec.containers[0].resources.requests")
        assert message.endswith(fault)
    else:
        assert message == ""
    assert validated(obj).message == ""  # without the gate the rule is off


RULES = parse(
    {
        "enable": " True ",
        "rules": '[{"name": "quota", "requiredLabels": ["q"], "namespaceWhitelist": ["free"]},'
        ' {"name": "app", "requiredLabels": ["app", "product"]}]',
    }
)


@pytest.mark.parametrize(
    ("rules", "namespace", "labels", "missing"),
    [
        (RULES, "shop", {"q": "", "app": "a", "product": "p"}, []),
        (RULES, "shop", {}, ["q"]),
        (RULES, "shop", {"q": "x"}, ["app", "product"]),
        (RULES, "shop", {"q": "x", "app": "a"}, ["product"]),
        (RULES, "free", {"app": "a", "product": "p"}, []),
        (RULES, "free", {}, ["app", "product"]),
        (RULES, "shop", {"pod.koordinator.sh/skip-enhanced-validation": "true"}, []),
        (RULES, "shop", {"pod.koordinator.sh/skip-enhanced-validation": "yes"}, ["q"]),
        (parse({"enable": "false", "rules": '[{"requiredLabels": ["q"]}]'}), "shop", {}, []),
        (parse({"enable": "true"}), "shop", {}, []),
        (EnhancedRules(), "shop", {}, []),
    ],
)
def test_labels_that_a_cluster_demands(
    rules: EnhancedRules, namespace: str, labels: dict[str, str], missing: list[str]
) -> None:
    obj, what = pod(namespace=namespace, labels=labels), known(enhanced=rules)
    answer = validated(obj, feature_gates="EnablePodEnhancedValidator=true", what=what)
    assert answer.allowed == (not missing)
    assert all(f"metadata.labels[{key}]: is required by the rule" in answer.message for key in missing)
    assert validated(obj, what=what).allowed


def test_rules_that_cannot_be_read_say_where() -> None:
    with pytest.raises(Invalid, match=r"data\.rules\[0\]\.requiredLabels: must be a list"):
        parse({"rules": '[{"requiredLabels": "app"}]'})
    with pytest.raises(Invalid, match=r"data\.rules: is not JSON"):
        parse({"rules": "["})
