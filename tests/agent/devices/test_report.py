"""The Device object of a node: made, kept, and left alone where it says what it shall. And what is used of GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from koord.agent.devices import use
from koord.agent.devices.inventory import Inventory
from koord.agent.devices.nvml import Use
from koord.agent.host.files import Files
from koord.agent.report import device
from koord.agent.report.node_metric import node_metric_status
from koord.agent.report.report import Facts
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.api.protocol.crd.device import Device
from koord.api.protocol.report_policy import ReportPolicy
from tests.agent.devices.machines import AT, composed, recorded
from tests.agent.states import NOW, node, pod

GPU = "koordinator.sh/gpu"


def _change(inventory: Inventory | None, known: Device | None, tmp_path: Path) -> Any:
    state = replace(node(), devices=inventory)
    return device.REPORT.change(Facts(state, Samples(), Files(str(tmp_path)), NOW, AT), known)


def _made(change: Any) -> Device:
    return msgspec.convert({"metadata": {}, **change}, Device)


def test_the_object_is_made_with_its_node_as_owner(tmp_path: Path) -> None:
    change = _change(recorded("h200"), None, tmp_path)
    assert change["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert [device["id"][:4] for device in change["spec"]["devices"]] == ["GPU-"]


def test_nothing_is_told_before_anybody_looked_nor_of_a_machine_without_devices(tmp_path: Path) -> None:
    assert _change(None, None, tmp_path) is None
    assert _change(Inventory(), None, tmp_path) is None


def test_what_is_told_already_is_not_told_again(tmp_path: Path) -> None:
    linked = composed({0: {"0000:11:00.0": 4}, 1: {"0000:10:00.0": 4}})
    known = _made(_change(linked, None, tmp_path))
    assert _change(linked, known, tmp_path) is None


def test_labels_of_others_stay_and_ones_that_are_no_longer_true_go(tmp_path: Path) -> None:
    known = _made(_change(recorded("h200"), None, tmp_path))
    labels = {**known.metadata.labels, "team": "vision", "node.koordinator.sh/gpu-partition-policy": "Honor"}
    known = msgspec.structs.replace(known, metadata=msgspec.structs.replace(known.metadata, labels=labels))
    assert _change(recorded("h200"), known, tmp_path) is None
    mixed = composed({0: {}}, "Tesla T4")
    both = msgspec.structs.replace(mixed, gpus=(*mixed.gpus, *composed({1: {}}).gpus))
    change = _change(both, known, tmp_path)
    assert change["metadata"]["labels"]["node.koordinator.sh/gpu-model"] is None
    assert "team" not in change["metadata"]["labels"]
    assert "node.koordinator.sh/gpu-partition-policy" not in change["metadata"]["labels"]


def _with_processes(root: Path, **cgroups: str) -> Files:
    for pid, cgroup in cgroups.items():
        folder = root / f"proc/{pid.removeprefix('p')}"
        folder.mkdir(parents=True)
        (folder / "cgroup").write_text(f"4:memory:/{cgroup}\n0::/\n")
    return Files(str(root))


def test_what_processes_use_is_summed_up_by_gpu_and_by_pod(tmp_path: Path) -> None:
    one, other = pod("one"), pod("other")
    pods = {pod.uid: pod for pod in (one, other)}
    files = _with_processes(
        tmp_path, p10=f"{one.directory}/c1", p11=f"{one.directory}/c2", p12=f"{other.directory}/c", p13="user.slice"
    )
    uses = [Use(0, 10, 30.0, 100), Use(0, 11, 20.0, 50), Use(1, 12, 5.0, 7), Use(1, 13, 40.0, 1), Use(1, 99, 1.0, 2)]
    samples = Samples()
    use.put(samples, uses, (0, 1, 2), pods, files, NOW)

    def last(series: Any) -> float | None:
        return samples.last(series, NOW, 1.0)

    assert [last(names.gpu_core(minor)) for minor in (0, 1, 2)] == [50.0, 46.0, 0.0]
    assert [last(names.gpu_memory(minor)) for minor in (0, 1, 2)] == [150, 10, 0]
    assert (last(names.gpu_core(0, "one")), last(names.gpu_memory(0, "one"))) == (50.0, 150)
    assert (last(names.gpu_core(1, "other")), last(names.gpu_core(0, "other"))) == (5.0, None)


def test_processors_that_the_driver_does_not_tell_of_are_not_reported_as_idle(tmp_path: Path) -> None:
    samples = Samples()
    use.put(samples, [Use(1049, 10, None, 5)], (1049,), {}, Files(str(tmp_path)), NOW)
    assert samples.last(names.gpu_core(1049), NOW, 1.0) is None
    assert samples.last(names.gpu_memory(1049), NOW, 1.0) == 5


def test_the_usage_report_has_gpus(tmp_path: Path) -> None:
    web = pod("web")
    state: NodeState = replace(node(web), devices=recorded("h200"))
    samples = Samples()
    for series in (names.NODE_CPU, names.NODE_MEMORY, names.pod_cpu("web"), names.pod_memory("web")):
        samples.add(series, NOW, 10.0)
    files = _with_processes(tmp_path, p10=f"{web.directory}/c1")
    use.put(samples, [Use(0, 10, 30.0, 150754820096 // 4)], (0,), {"web": web}, files, NOW)
    status = node_metric_status(state, samples, ReportPolicy(), NOW, AT)
    assert status is not None
    assert status.node_metric is not None
    (of_node,) = status.node_metric.node_usage.devices
    (of_pod,) = status.pods_metric[0].pod_usage.devices
    assert of_node.resources == of_pod.resources
    assert of_pod.resources == {f"{GPU}-core": "30", f"{GPU}-memory": "36805376Ki", f"{GPU}-memory-ratio": "25"}
