"""What some values mean beyond their fields."""

from __future__ import annotations

import pytest

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol import names
from koord.api.protocol.annotations import cpu, device, load, pod_qos, quota, reservation
from koord.api.protocol.annotations.cpu import KubeletCPUManagerPolicy, NodeReservation
from koord.api.protocol.annotations.value import Annotation, Form
from koord.api.protocol.names import AnnotationKey
from koord.api.protocol.old_names import with_current_names
from koord.api.text.cpuset import CPUSet
from koord.api.text.quantity import ResourceList


@pytest.mark.parametrize(
    ("reservation_", "cpu_milli", "cores"),
    [
        (NodeReservation(), 0, 0),
        (NodeReservation(resources={"cpu": "1500m"}), 1500, 2),
        (NodeReservation(resources={"cpu": "4"}, reserved_cpus="0-1"), 2000, 2),
        (NodeReservation(reserved_cpus="0-5"), 6000, 6),
    ],
)
def test_named_cpus_replace_the_reserved_amount(reservation_: NodeReservation, cpu_milli: int, cores: int) -> None:
    assert (reservation_.cpu_milli, reservation_.cores) == (cpu_milli, cores)


def test_only_the_default_policy_trims_allocatable() -> None:
    assert NodeReservation().trims_allocatable
    assert NodeReservation(apply_policy="Default").trims_allocatable
    assert not NodeReservation(apply_policy="ReservedCPUsOnly").trims_allocatable


def test_system_cpus_are_exclusive_unless_said_otherwise() -> None:
    node = ObjectMeta(name="n", annotations={names.ANNOTATION_SYSTEM_QOS_RESOURCE: '{"cpuset":"0-1"}'})
    system = cpu.SYSTEM_QOS_RESOURCE.read(node)
    assert system.cpus == CPUSet([0, 1])
    assert system.cpuset_exclusive


@pytest.mark.parametrize(
    ("policy", "whole_cores"),
    [
        (KubeletCPUManagerPolicy(policy="static", options={"full-pcpus-only": "true"}), True),
        (KubeletCPUManagerPolicy(policy="static", options={"full-pcpus-only": "false"}), False),
        (KubeletCPUManagerPolicy(policy="none", options={"full-pcpus-only": "true"}), False),
        (KubeletCPUManagerPolicy(), False),
    ],
)
def test_a_static_kubelet_can_insist_on_whole_cores(policy: KubeletCPUManagerPolicy, whole_cores: bool) -> None:
    assert policy.full_pcpus_only == whole_cores


@pytest.mark.parametrize(("container", "score"), [("a", -500), ("b", 100)])
def test_a_containers_own_oom_score_comes_before_the_pods(container: str, score: int) -> None:
    pod = ObjectMeta(
        annotations={names.ANNOTATION_OOM_SCORE_ADJ: "100", names.ANNOTATION_OOM_SCORE_ADJ_SPEC: '{"a":-500}'}
    )
    assert pod_qos.oom_score_adj(pod, container) == score


def test_without_an_oom_score_the_process_is_left_alone() -> None:
    assert pod_qos.oom_score_adj(ObjectMeta(), "a") is None


def test_the_presence_of_a_reservation_affinity_is_a_wish_by_itself() -> None:
    key = names.ANNOTATION_RESERVATION_AFFINITY
    assert reservation.RESERVATION_AFFINITY.read(ObjectMeta()) is None
    for text in ("", "{}", "null"):
        pod = ObjectMeta(annotations={key: text})
        assert reservation.RESERVATION_AFFINITY.read(pod) == reservation.ReservationAffinity()


def test_a_pods_evict_policy_comes_before_the_jobs() -> None:
    delete, evict = (ObjectMeta(labels={names.LABEL_EVICT_POLICY: policy}) for policy in ("Delete", "Eviction"))
    assert load.evict_policy(delete, evict) == "Delete"
    assert load.evict_policy(ObjectMeta(), evict) == "Eviction"
    assert load.evict_policy(ObjectMeta(), ObjectMeta()) is None


def test_gpus_allocated_under_old_names_have_their_names_of_today() -> None:
    text = '{"gpu":[{"minor":1,"resources":{"kubernetes.io/gpu-core":"50","kubernetes.io/gpu-memory":"8Gi"}}]}'
    pod = ObjectMeta(annotations={names.ANNOTATION_DEVICE_ALLOCATED: text})
    (allocated,) = device.DEVICE_ALLOCATED.read(pod)["gpu"]
    assert allocated.resources == {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "8Gi"}


@pytest.mark.parametrize(
    ("old", "current"),
    [
        ({"cpu": "1"}, {"cpu": "1"}),
        ({"cpu": "1", "koordinator.sh/batch-cpu": "500"}, {"cpu": "1", "kubernetes.io/batch-cpu": "500"}),
        ({"kubernetes.io/gpu": "100"}, {"koordinator.sh/gpu": "100"}),
        (
            {"koordinator.sh/batch-cpu": "1", "kubernetes.io/batch-cpu": "2"},
            {"koordinator.sh/batch-cpu": "1", "kubernetes.io/batch-cpu": "2"},
        ),
    ],
)
def test_old_resource_names_are_replaced_unless_todays_is_there_too(old: ResourceList, current: ResourceList) -> None:
    assert with_current_names(old) == current


def test_resources_without_old_names_are_not_copied() -> None:
    resources = {"cpu": "1"}
    assert with_current_names(resources) is resources


def test_a_quota_without_a_parent_hangs_below_the_root() -> None:
    assert quota.parent_of(ObjectMeta(name="a")) == "koordinator-root-quota"
    assert quota.parent_of(ObjectMeta(name="a", labels={names.LABEL_QUOTA_PARENT: "b"})) == "b"
    assert quota.parent_of(ObjectMeta(name="koordinator-root-quota")) == ""


def test_an_old_quota_name_means_the_built_in_quota_unless_someone_made_one_of_that_name() -> None:
    assert quota.current_name("default", {"team"}) == "koordinator-default-quota"
    assert quota.current_name("default", {"default"}) == "default"
    assert quota.current_name("team", set()) == "team"


@pytest.mark.parametrize(
    ("text", "hashed"),
    [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)],
)
def test_the_hash_gives_its_published_values(text: bytes, hashed: int) -> None:
    assert quota.fnv1a_64(text) == hashed


def test_the_default_tree_id_is_the_decimal_hash_of_namespace_and_name() -> None:
    assert quota.default_tree_id("a", "b") == str(quota.fnv1a_64(b"a/b"))


@pytest.mark.parametrize("length", [10, 5_000])
def test_a_text_that_many_nodes_carry_is_parsed_once(length: int) -> None:
    parsed = []

    def parse(text: str) -> int:
        parsed.append(text)
        return len(text)

    shared: Annotation[int, None] = Annotation(AnnotationKey("example.com/shared"), Form(parse, str), None)
    for i in range(10):
        assert shared.check(ObjectMeta(name=f"n{i}", annotations={shared.key: "x" * length})) is None
    assert len(parsed) == 1
