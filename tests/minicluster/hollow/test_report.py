from __future__ import annotations

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import check
from koord.api.protocol.crd.node_metric import AggregatePolicy, NodeMetricCollectPolicy, NodeMetricStatus
from koord.api.protocol.report_policy import ReportPolicy, policy_of
from koord_minicluster.hollow.load_model import NodeUsage, Usage, shape_of
from koord_minicluster.hollow.report import (
    History,
    node_metric_status,
    sample_of,
    sample_times,
)
from tests.minicluster.hollow.builders import pod

MI = 1024**2
NOW_S = 1_700_000_000.0


def history(pods: list[Pod], cpu: list[int], step_s: float = 15.0) -> History:
    """Samples up to now in which each pod used `cpu` in turn, and the system 100m."""
    made = History()
    for number, used in enumerate(cpu):
        time_s = NOW_S - step_s * (len(cpu) - 1 - number)
        usage = NodeUsage(Usage(100, MI), tuple(Usage(used, used * MI) for _ in pods))
        made.add(sample_of([(pod, shape_of(pod, 0.0)) for pod in pods], usage, time_s))
    return made


def test_usage_is_the_average_over_the_window() -> None:
    web = pod("web", cpu="1")
    status = node_metric_status([web], history([web], [100, 200, 300]), ReportPolicy(), NOW_S)
    assert status.node_metric is not None
    assert status.node_metric.node_usage.resources == {"cpu": "300m", "memory": "201Mi"}  # 200 + 100, 200 + 1
    assert status.node_metric.system_usage.resources == {"cpu": "100m", "memory": "1Mi"}
    (metric,) = status.pods_metric
    assert metric.pod_usage.resources == {"cpu": "200m", "memory": "200Mi"}
    assert (metric.namespace, metric.name, metric.qos, metric.priority) == ("shop", "web", "LS", "koord-prod")


def test_percentiles_come_once_samples_span_half_of_a_window() -> None:
    web = pod("web", cpu="1")
    policy = ReportPolicy(longer_s=(300.0, 1800.0))
    few = node_metric_status([web], history([web], [100] * 10), policy, NOW_S)
    assert few.node_metric is not None
    assert few.node_metric.aggregated_node_usages == ()  # 135 s of 300 s
    many = node_metric_status([web], history([web], list(range(100, 300, 10))), policy, NOW_S)
    assert many.node_metric is not None
    (five_minutes,) = many.node_metric.aggregated_node_usages
    assert five_minutes.duration == "5m0s"
    # 20 samples of 100..290, and 100 of the system: the 10th is 190, the 18th 270, the 19th 280, the 20th 290.
    found = {name: usage.resources["cpu"] for name, usage in five_minutes.usage.items()}
    assert found == {"avg": "295m", "p50": "290m", "p90": "370m", "p95": "380m", "p99": "390m"}


def test_what_prod_pods_do_not_use_may_be_lent() -> None:
    prod = pod("web", cpu="1", memory="1Gi")
    batch = pod("batch", labels={"koordinator.sh/qosClass": "BE"}, priority=5500, cpu="1")
    status = node_metric_status([prod, batch], history([prod, batch], [100, 400, 200]), ReportPolicy(), NOW_S)
    assert status.prod_reclaimable_metric is not None
    assert status.prod_peak_metric is not None
    # Requested 1000m, peak 400m with a tenth on top: 1000 - 440.
    assert status.prod_reclaimable_metric.resource.resources["cpu"] == "560m"
    # (400 of the pod + 100 of the system) with a tenth on top.
    assert status.prod_peak_metric.resource.resources["cpu"] == "550m"


def test_a_pod_of_several_containers_says_which_uses_what() -> None:
    one, two = ({"name": name, "resources": {"requests": {"cpu": cpu}}} for name, cpu in (("a", "3"), ("b", "1")))
    both = pod("both", containers=(one, two))
    status = node_metric_status([both], history([both], [400]), ReportPolicy(), NOW_S)
    assert status.pods_metric[0].extensions == {
        "containers": {"a": {"cpu": "300m", "memory": "200Mi"}, "b": {"cpu": "100m", "memory": "200Mi"}}
    }


def test_a_report_is_what_the_protocol_says_a_report_is() -> None:
    import msgspec

    web = pod("web", cpu="1")
    status = node_metric_status([web], history([web], [100] * 200), ReportPolicy(), NOW_S)
    assert check(NodeMetricStatus, msgspec.to_builtins(status), "status") == status


def test_the_spec_says_how_to_report() -> None:
    asked = NodeMetricCollectPolicy(
        aggregate_duration_seconds=120,
        report_interval_seconds=30,
        node_aggregate_policy=AggregatePolicy(durations=("10m",)),
    )
    assert policy_of(asked, ReportPolicy()) == ReportPolicy(30.0, 120.0, (600.0,))
    assert policy_of(None, ReportPolicy()) == ReportPolicy()
    assert policy_of(NodeMetricCollectPolicy(), ReportPolicy(45.0)) == ReportPolicy(45.0)


def test_history_has_a_sample_each_fifteen_seconds_however_seldom_reports_are() -> None:
    assert sample_times(None, 100.0) == [100.0]
    assert sample_times(40.0, 100.0) == [55.0, 70.0, 85.0, 100.0]
    assert sample_times(90.0, 100.0) == []
    assert len(sample_times(0.0, 10.0**9)) == 120


def test_history_forgets_what_is_older_than_its_longest_window() -> None:
    made = history([], [1] * 500)
    assert made.samples[0].time_s == NOW_S - 1800


def test_who_reports_more_often_than_each_15_s_has_a_sample_for_each_report() -> None:
    assert sample_times(100.0, 105.0, 5.0) == [105.0]
    assert sample_times(100.0, 103.0, 5.0) == []
    assert sample_times(100.0, 131.0, 5.0) == [116.0, 131.0]
