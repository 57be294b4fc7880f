from __future__ import annotations

import gc
import json
import tracemalloc

import msgspec
import pytest

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.codec import decode
from koord_bench.pods import PODS_PER_APP, pod, pod_json, pod_list_json

PODS = 500


def test_generated_pods_are_realistic() -> None:
    sizes = [len(pod_json(i)) for i in (0, 1, 2, 150_000)]
    assert all(5_800 <= size <= 6_600 for size in sizes)
    assert pod_json(7) == pod_json(7)
    metadata = [pod(i)["metadata"] for i in range(PODS)]
    assert len({m["uid"] for m in metadata}) == PODS
    assert len({(m["namespace"], m["name"]) for m in metadata}) == PODS


def test_a_list_of_generated_pods_has_each_of_them() -> None:
    items = json.loads(pod_list_json(3, 6))["items"]
    assert items == [pod(3), pod(4), pod(5)]


def test_what_koord_reads_of_a_pod_is_all_there() -> None:
    subject = decode(Pod, pod_json(PODS_PER_APP))
    spec, status = subject.spec, subject.status
    assert subject.metadata.key == f"search/{subject.metadata.name}"
    assert subject.metadata.labels["koordinator.sh/qosClass"] == "LS"
    owner = subject.metadata.controller
    assert owner is not None
    assert owner.kind == "ReplicaSet"
    assert spec.node_name == "node-00000"
    assert spec.priority == 9500
    assert spec.scheduler_name == "koord-scheduler"
    assert [c.name for c in spec.containers] == ["app", "log-shipper"]
    assert spec.containers[1].resources.requests == {"cpu": "50m", "memory": "64Mi"}
    assert [t.key for t in spec.tolerations] == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert spec.affinity is not None
    assert spec.affinity.pod_anti_affinity is not None
    (term,) = spec.affinity.pod_anti_affinity.preferred_during_scheduling_ignored_during_execution
    assert (term.weight, term.pod_affinity_term.topology_key) == (100, "kubernetes.io/hostname")
    assert spec.volumes[1].empty_dir is not None
    assert (status.phase, status.qos_class) == ("Running", "Burstable")
    scheduled = status.condition("PodScheduled")
    assert scheduled is not None
    assert scheduled.status == "True"
    assert status.container_statuses[0].state.running is not None
    assert not subject.is_finished


def test_a_pods_own_node_reads_what_it_takes_to_run_it() -> None:
    subject = decode(RunnablePod, pod_json(1))
    app = subject.spec.containers[0]
    assert app.args[0] == "--listen=:8080"
    assert app.env[0].value_from is not None
    assert app.env[0].value_from.field_ref is not None
    assert app.env[0].value_from.field_ref.field_path == "metadata.name"
    assert app.volume_mounts[0].mount_path == "/etc/app"
    assert app.readiness_probe is not None
    assert app.readiness_probe.http_get is not None
    assert app.readiness_probe.http_get.port == "http"
    assert subject.spec.volumes[0].config_map is not None
    assert subject.spec.volumes[2].projected is not None
    assert subject.status.container_statuses[0].container_id.startswith("containerd://")
    assert subject.spec.node_name == decode(Pod, pod_json(1)).spec.node_name


@pytest.mark.parametrize("type_", [Pod, RunnablePod])
def test_decoding_then_encoding_loses_nothing_that_is_read(type_: type[Pod]) -> None:
    once = decode(type_, pod_json(1))
    assert decode(type_, msgspec.json.encode(once)) == once


def test_a_pod_of_6_kb_takes_at_most_7_kb() -> None:
    texts = [pod_json(i) for i in range(PODS)]
    decode(Pod, texts[0])
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        pods = [decode(Pod, text) for text in texts]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / len(pods) <= 7_168


def test_pods_stay_out_of_the_garbage_collector() -> None:
    subject = decode(Pod, pod_json(1))
    assert not gc.is_tracked(subject)
    assert not gc.is_tracked(subject.spec.containers[0])
    assert not gc.is_tracked(subject.metadata.labels)
