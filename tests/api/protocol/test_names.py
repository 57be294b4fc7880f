"""The protocol's keys, listed once more as its reference lists them, against `koord.api.protocol.names`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from koord.api.protocol import names

PREFIXES = {
    "koord/": "koordinator.sh/",
    "sched/": "scheduling.koordinator.sh/",
    "isched/": "internal.scheduling.koordinator.sh/",
    "node/": "node.koordinator.sh/",
    "pod/": "pod.koordinator.sh/",
    "gang/": "gang.scheduling.koordinator.sh/",
    "quota/": "quota.scheduling.koordinator.sh/",
    "kube/": "kubernetes.io/",
}

RESOURCES = """
kube/batch-cpu kube/mid-cpu kube/batch-memory kube/mid-memory
koord/gpu koord/gpu-core koord/gpu-memory-ratio koord/rdma koord/fpga koord/gpu-memory koord/gpu.shared
nvidia.com/gpu dcu.com/gpu amd.com/gpu huawei.com/npu-core huawei.com/npu-cpu huawei.com/npu-dvpp
cpu memory
"""

LABELS = """
koord/qosClass koord/priority koord/priority-class pod/mutating-update
koord/core-sched-group-id koord/core-sched-policy koord/eviction-enabled
pod/skip-enhanced-validation koord/binding-admission-bypass runtimeproxy.koordinator.sh/skip-hookserver
node/numa-topology-policy node/cpu-bind-policy node/numa-allocate-strategy node/enable-numa-reservation
app.kubernetes.io/managed-by
node/cpu-reclaim-ratio node/memory-reclaim-ratio node/mid-static-cpu-reserved-ratio
node/mid-static-memory-reserved-ratio node/cpu-normalization-enabled
pod-group.scheduling.sigs.k8s.io pod-group.scheduling.sigs.k8s.io/name pod-group.scheduling.sigs.k8s.io/min-available
quota/name quota/parent quota/is-parent quota/is-root quota/tree-id quota/profile quota/ignore-default-tree
quota/allow-lent-resource quota/allow-force-update quota/preemptible
sched/reservation-ignored sched/reservation-order sched/pre-allocation-required pod/is-pre-allocatable
sched/operating-mode sched/preemption-policy sched/disable-preemptible sched/scheduler-name
sched/questioned-object-key sched/topology-key-to-explain
node/gpu-partition-policy node/gpu-vendor node/gpu-model node/gpu-driver-version node/secondary-device-well-planned
koord/gpu-isolation-provider hami.io/vgpu-node
koord/evict-policy app.kubernetes.io/created-by config.koordinator.sh/controller-managed koord/configmap-type
"""

ANNOTATIONS = """
node/extended-resource-spec pod/replace-resources koord/cpuBurst koord/memoryQOS koord/cpuQOS koord/blkioQOS
koord/networkQOS node/resctrl koord/oom-score-adj koord/oom-score-adj-spec koord/eviction-policy
koord/eviction-priority
sched/resource-spec sched/resource-status sched/numa-topology-spec
node/cpu-topology node/pod-cpu-allocs node/cpu-shared-pools node/be-cpu-shared-pools
kubelet.koordinator.sh/cpu-manager-policy node/cpu-basic-info node/system-qos-resource node/reservation
node/colocation-strategy node/originExtendedAllocatable node/thirdPartyAllocations node/cpu-normalization-ratio
node/resource-amplification-ratio node/raw-allocatable node/network-bandwidth
gang/name gang/min-available gang/total-number gang/waiting-time gang/mode gang/groups gang/match-policy
pod-group.scheduling.sigs.k8s.io/match-policy gang/timeout gang/network-topology-spec gang/network-topology-index
sched/network-topology-selector isched/bind-gang-group-id isched/bind-gang-member-count
quota/shared-weight quota/namespaces quota/total-resource quota/unschedulable-resource quota/resource-keys
quota/runtime quota/request quota/child-request quota/guaranteed quota/allocated quota/non-preemptible-request
quota/non-preemptible-used quota/admission quota/max-strict-check-resource-keys
sched/reservation-affinity sched/reservation-allocated sched/exact-match-reservation
sched/reservation-restricted-options sched/reservation-resize-allocatable pod/pre-allocatable-priority
sched/reserve-pod sched/reservation-name sched/reservation-node sched/is-pre-allocation
sched/reservation-owners sched/reservation-current-owner isched/original-scheduler-name isched/scheduling-hint
sched/device-allocated sched/device-allocate-hint sched/device-joint-allocate sched/gpu-partition-spec
sched/gpu-partitions sched/bind-timestamp sched/gpu-minors predicate-time huawei.com/npu-core huawei.com/Ascend310P
CAMBRICON_DSMLU_ASSIGHED CAMBRICON_DSMLU_PROFILE metax-tech.com/gpu-devices-allocated hami.io/mutex.lock
cambricon.com/dsmlu.lock
sched/usage-thresholds sched/load-estimated-scaling-factors sched/load-estimated-seconds-after-pod-scheduled
sched/load-estimated-seconds-after-initialized sched/eviction-cost sched/soft-eviction koord/evict-reason
koord/evict-trigger koord/job-created-by descheduler.koordinator.sh/passed-arbitration
descheduler.koordinator.sh/pod-arbitrating descheduler.alpha.kubernetes.io/evict
config.koordinator.sh/skip-update-resources
"""

OLD = {
    "koordinator.sh/batch-cpu": "kubernetes.io/batch-cpu",
    "koordinator.sh/batch-memory": "kubernetes.io/batch-memory",
    "kubernetes.io/rdma": "koordinator.sh/rdma",
    "kubernetes.io/fpga": "koordinator.sh/fpga",
    "kubernetes.io/gpu": "koordinator.sh/gpu",
    "kubernetes.io/gpu-core": "koordinator.sh/gpu-core",
    "kubernetes.io/gpu-memory": "koordinator.sh/gpu-memory",
    "kubernetes.io/gpu-memory-ratio": "koordinator.sh/gpu-memory-ratio",
}


def expanded(text: str) -> list[str]:
    return [
        next((full + key[len(s) :] for s, full in PREFIXES.items() if key.startswith(s)), key) for key in text.split()
    ]


def constants(prefix: str) -> dict[str, str]:
    return {name: value for name, value in vars(names).items() if name.startswith(prefix) and isinstance(value, str)}


@pytest.mark.parametrize(
    ("prefix", "listed"), [("RESOURCE_", RESOURCES), ("LABEL_", LABELS), ("ANNOTATION_", ANNOTATIONS)]
)
def test_every_key_of_the_protocol_has_its_constant(prefix: str, listed: str) -> None:
    assert set(expanded(listed)) <= set(constants(prefix).values())


@pytest.mark.parametrize("prefix", ["RESOURCE_", "LABEL_", "ANNOTATION_", "OLD_LABEL_", "OLD_ANNOTATION_", "WEBHOOK_"])
def test_no_key_is_spelled_twice(prefix: str) -> None:
    twice = [value for value, count in Counter(constants(prefix).values()).items() if count > 1]
    assert twice == []


@pytest.mark.parametrize(
    ("prefix", "listed"), [("RESOURCE_", RESOURCES), ("LABEL_", LABELS), ("ANNOTATION_", ANNOTATIONS)]
)
def test_what_is_not_in_the_protocol_is_kubernetes_own(prefix: str, listed: str) -> None:
    extra = set(constants(prefix).values()) - set(expanded(listed))
    assert all("koordinator" not in key for key in extra)


def all_keys() -> Iterator[str]:
    for prefix in ("RESOURCE_", "LABEL_", "ANNOTATION_", "OLD_LABEL_", "OLD_ANNOTATION_"):
        yield from constants(prefix).values()
    yield from names.OLD_RESOURCES


@pytest.mark.parametrize("key", sorted(set(all_keys())))
def test_every_key_is_valid_in_kubernetes(key: str) -> None:
    # A qualified name: an optional DNS subdomain and a slash, then up to 63 of the allowed characters.
    prefix, slash, name = key.rpartition("/")
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", name)
    assert not slash or re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", prefix)
    assert len(prefix) <= 253


def test_old_names_lead_to_the_current_ones() -> None:
    assert dict(names.OLD_RESOURCES) == OLD
    assert dict(names.OLD_LABELS) == {
        "kubernetes.io/gpu-driver": "node.koordinator.sh/gpu-driver-version",
        "kubernetes.io/gpu-model": "node.koordinator.sh/gpu-model",
    }
    assert dict(names.OLD_QUOTAS) == {
        "root": "koordinator-root-quota",
        "system": "koordinator-system-quota",
        "default": "koordinator-default-quota",
    }
    assert set(names.OLD_ANNOTATIONS.values()) <= set(constants("ANNOTATION_").values())
    assert set(names.OLD_RESOURCES.values()) <= set(constants("RESOURCE_").values())


def test_webhook_paths_leases_and_priority_classes_are_the_protocols() -> None:
    quota = "scheduling-sigs-k8s-io-v1alpha1-elasticquota"
    of_koord = {"/validate-agent"}
    assert set(constants("WEBHOOK_").values()) - of_koord == {
        *("/mutate-pod", "/validate-pod", "/validate-configmap", "/mutate-reservation", "/mutate-node-status"),
        *(f"/mutate-{quota}", f"/validate-{quota}", "/validate-node", "/validate-pod-binding"),
        *("koordinator-mutating-webhook-configuration", "koordinator-validating-webhook-configuration"),
    }
    assert set(constants("LEASE_").values()) == {
        "koord-scheduler",
        "koordinator-manager",
        "koordinator-yarn-operator",
        "koord-descheduler",
    }
    assert set(constants("PRIORITY_CLASS_").values()) == {"koord-prod", "koord-mid", "koord-batch", "koord-free"}
