"""A real Prometheus with a day of history: the recording has the same use, page by page."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from koord.api.machinery.faults import BadInput
from koord.operate.live.prometheus import Prometheus
from koord.sim.live import prometheus_recording
from koord.sim.live.prometheus_recording import PrometheusRecording
from koord.sim.live.recording_folder import RecordingFolder
from koord.sim.live.traces import read_recording
from tests.operate.prometheus import Prometheus as RealPrometheus
from tests.operate.prometheus import prometheus

pytestmark = pytest.mark.prometheus

BEGIN_S = 1_790_000_040
MINUTES = 180
WEB = 'koordlet_pod_usage{node="n1",pod_namespace="shop",pod_name="web",qos="LS",priority="koord-prod",resource='
JOB = 'koordlet_pod_usage{node="n1",pod_namespace="lab",pod_name="job",qos="BE",priority="koord-batch",resource='


def history() -> str:
    """Metrics as agents and kube-state-metrics export them, in OpenMetrics: families one after the other."""
    times = [BEGIN_S + 60 * minute for minute in range(MINUTES)]
    lines = ["# TYPE koordlet_pod_usage gauge"]
    for minute, time_s in enumerate(times):
        lines += [f'{WEB}"cpu"}} {1 + minute / 100} {time_s}', f'{WEB}"memory"}} {1 << 30} {time_s}']
        if 30 <= minute < 60:
            lines.append(f'{JOB}"cpu"}} 0.5 {time_s}')
    lines.append("# TYPE koordlet_node_usage gauge")
    for minute, time_s in enumerate(times):
        batch = 0.5 if 30 <= minute < 60 else 0
        lines.append(f'koordlet_node_usage{{node="n1",resource="cpu"}} {1.25 + minute / 100 + batch} {time_s}')
    for family, labels, value in (
        ("kube_pod_container_resource_requests", 'namespace="shop",pod="web",container="a",resource="cpu"', 2),
        ("kube_pod_container_resource_requests", 'namespace="shop",pod="web",container="b",resource="cpu"', 1),
        ("kube_pod_container_resource_requests", 'namespace="shop",pod="web",container="a",resource="memory"', 1 << 32),
        ("kube_node_status_capacity", 'node="n1",resource="cpu"', 16),
        ("kube_node_status_capacity", 'node="n1",resource="memory"', 1 << 36),
    ):
        if (kind := f"# TYPE {family} gauge") not in lines:
            lines.append(kind)
        lines += [f"{family}{{{labels}}} {value} {time_s}" for time_s in times]
    lines.append("# TYPE koordlet_lent_to_pod gauge")
    lent = 'koordlet_lent_to_pod{pod_namespace="lab",pod_name="job",resource="cpu",what="requested"}'
    lines += [f"{lent} 1 {time_s}" for time_s in times[30:60]]
    return "\n".join([*lines, "# EOF\n"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPrometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "history.txt").write_text(history())
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "history.txt", "data"],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=60,
    )
    with prometheus(folder) as running:
        yield running


def recording(server: RealPrometheus, folder: Path) -> PrometheusRecording:
    opened = RecordingFolder(folder, f"Prometheus {server.url}", 1 << 30)
    return PrometheusRecording(Prometheus(server.url), opened, 60.0)


@pytest.mark.parametrize("most_points", [200_000, 40])
def test_the_recording_has_what_prometheus_has(
    server: RealPrometheus, tmp_path: Path, most_points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus_recording, "MOST_POINTS", most_points)
    pages: list[float] = []
    end_s = BEGIN_S + 60 * (MINUTES - 1)
    recording(server, tmp_path).run(BEGIN_S, end_s, lambda: False, pages.append)
    # Twice 20 points a page while there are two pods, then 40.
    assert len(pages) == (1 if most_points > 1000 else 7)
    trace = read_recording(tmp_path)
    assert trace.repairs == ()
    services, tasks, nodes = trace.services, trace.tasks, trace.nodes
    assert services is not None
    assert tasks is not None
    assert nodes is not None
    assert services.ids == ("shop/web",)
    assert np.allclose(services.cpu_milli[0], [round(1000 + 10 * minute) for minute in range(MINUTES)])
    assert services.request_cpu_milli is not None
    assert services.request_cpu_milli.tolist() == [3000]
    assert services.request_memory_bytes is not None
    assert services.request_memory_bytes.tolist() == [1 << 32]
    assert services.node == ("n1",)
    assert tasks.ids == ("lab/job",)
    assert tasks.request_cpu_milli.tolist() == [1000]
    # Prometheus shows a series for five minutes after its last sample.
    assert 30 <= len(tasks.use_milli) <= 35
    assert set(tasks.use_milli.tolist()) == {500}
    assert nodes.cpu_milli.tolist() == [16000]
    assert trace.system_milli is not None
    assert math.isclose(trace.system_milli[0], 250, abs_tol=15)


def test_a_recording_that_was_stopped_is_continued(server: RealPrometheus, tmp_path: Path) -> None:
    middle_s, end_s = BEGIN_S + 60 * 90, BEGIN_S + 60 * (MINUTES - 1)
    recording(server, tmp_path / "parts").run(BEGIN_S, middle_s, lambda: False, lambda at_s: None)
    recording(server, tmp_path / "parts").run(BEGIN_S, end_s, lambda: False, lambda at_s: None)
    recording(server, tmp_path / "whole").run(BEGIN_S, end_s, lambda: False, lambda at_s: None)
    parts, whole = (read_recording(tmp_path / name) for name in ("parts", "whole"))
    assert parts.services is not None
    assert whole.services is not None
    assert parts.repairs == ()
    assert np.array_equal(parts.services.cpu_milli, whole.services.cpu_milli)


def test_a_time_without_metrics_of_koord_is_refused(server: RealPrometheus, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no koordlet_pod_usage in this time: are koord's agents scraped"):
        recording(server, tmp_path).run(BEGIN_S - 90_000, BEGIN_S - 80_000, lambda: False, lambda at_s: None)
