"""The report of a node's usage."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from koord.agent.host.files import Files
from koord.agent.report.node_metric import REPORT, node_metric_status
from koord.agent.report.report import Facts
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.api.protocol.crd.node_metric import NodeMetric, NodeMetricStatus
from koord.api.protocol.report_policy import ReportPolicy
from koord.api.text.quantity import milli
from tests.agent.states import GIB, NOW, cpus, node, pod


def measured(seconds: int) -> Samples:
    """A node whose CPU climbs by a milli-core a second, with a pod at half of it."""
    samples = Samples()
    for second in range(seconds):
        at_s = NOW - seconds + 1 + second
        samples.add(names.NODE_CPU, at_s, 1000 + second)
        samples.add(names.NODE_MEMORY, at_s, 4 * GIB)
        samples.add(names.SYSTEM_CPU, at_s, 200)
        samples.add(names.SYSTEM_MEMORY, at_s, GIB)
        samples.add(names.pod_cpu("web"), at_s, 500)
        samples.add(names.pod_memory("web"), at_s, 2 * GIB)
    return samples


STATE = node(pod("web", "LS", requests={"cpu": "1"}), pod("new", "BE"))


def test_usage_is_the_average_of_the_window() -> None:
    status = node_metric_status(STATE, measured(301), ReportPolicy(), NOW, "2026-11-15T04:25:02Z")
    assert status is not None
    assert status.node_metric is not None
    # 1000 .. 1300
    assert milli(status.node_metric.node_usage.resources["cpu"]) == 1150
    assert [(metric.namespace, metric.name, metric.qos, metric.priority) for metric in status.pods_metric] == [
        ("ns", "web", "LS", "koord-prod")
    ]


def test_longer_windows_are_told_from_half_of_them_on() -> None:
    status = node_metric_status(STATE, measured(400), ReportPolicy(), NOW, "2026-11-15T04:25:02Z")
    assert status is not None
    assert status.node_metric is not None
    windows = [usage.duration for usage in status.node_metric.aggregated_node_usages]
    assert len(windows) == 2, "300 s and 600 s, of which 399 s were seen; of 1800 s not half"
    usage = status.node_metric.aggregated_node_usages[0].usage
    assert set(usage) == {"avg", "p50", "p90", "p95", "p99"}
    assert milli(usage["p50"].resources["cpu"]) < milli(usage["p99"].resources["cpu"])


def test_before_the_first_measurement_nothing_is_reported() -> None:
    assert node_metric_status(STATE, Samples(), ReportPolicy(), NOW, "2026-11-15T04:25:02Z") is None


def test_usage_on_each_numa_node() -> None:
    state = node(topology=cpus(2, 4, 1))
    samples = measured(120)
    for second in range(120):
        at_s = NOW - 119 + second
        for each, used in ((0, 900), (1, 100)):
            samples.add(names.numa_cpu(each), at_s, used)
            samples.add(names.numa_memory(each), at_s, 2 * GIB)
    status = node_metric_status(state, samples, ReportPolicy(), NOW, "2026-11-15T04:25:02Z")
    assert status is not None
    assert status.node_metric is not None
    first, second_ = status.node_metric.numa_usages
    assert (first.numa_node_id, second_.numa_node_id) == (0, 1)
    assert milli(first.node_usage.resources["cpu"]) == 900
    # Of 200m, nine tenths.
    assert milli(first.system_usage.resources["cpu"]) == 180


def test_host_applications_are_told_by_name() -> None:
    state = node(slo={"hostApplications": [{"name": "b", "qos": "LS"}, {"name": "a", "qos": "BE"}, {"name": "c"}]})
    samples = measured(10)
    for name in "ab":
        samples.add(names.host_application_cpu(name), NOW, 100)
        samples.add(names.host_application_memory(name), NOW, GIB)
    status = node_metric_status(state, samples, ReportPolicy(), NOW, "2026-11-15T04:25:02Z")
    assert status is not None
    assert [(each.name, each.qos) for each in status.host_application_metric] == [("a", "BE"), ("b", "LS")]


def test_a_report_names_what_it_leaves_out_since_a_merge_patch_would_keep_it(tmp_path: Path) -> None:
    def said(state: NodeState) -> Mapping[str, Any]:
        facts = Facts(state, measured(301), Files(str(tmp_path)), NOW, "2026-11-15T04:25:02Z")
        change = REPORT.change(facts, NodeMetric())
        assert change is not None
        status: Mapping[str, Any] = change["status"]
        return status

    fields = {field_info.encode_name for field_info in msgspec.structs.fields(NodeMetricStatus)}
    assert said(STATE).keys() == said(node()).keys() == fields
    assert said(node())["podsMetric"] is None
    assert said(node())["nodeMetric"]["nodeUsage"]["devices"] is None
