"""A real Prometheus scrapes a real `koord up`: what alerts and boards name is there, and an alert fires."""

from __future__ import annotations

import json
import shlex
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from koord.cli.main import run as koord
from koord.operate.alerts import ALERTS
from koord.operate.boards import ALL
from koord.operate.install.monitoring import READING, files
from tests.control_plane import find_binary
from tests.minicluster.local.test_loop import Machine
from tests.operate.prometheus import Prometheus, prometheus
from tests.operate.promql import named
from tests.operate.test_runbooks import commands
from tools.reference.metrics import families

SCRAPED: Final = ("manager", "scheduler", "descheduler", "agent")
OF_THE_TARGET: Final = frozenset({"job", "instance"})
NOT_ON_THIS_MACHINE: Final = frozenset({"up", "koord_yarn_cap_unconfirmed_seconds"})
"""Prometheus' own, and what only YARN's operator exports."""

OBJECTS: Final = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: koord-metrics-reader}
rules: [%s]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: koord-metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: koord-metrics-reader}
subjects: [{kind: ServiceAccount, name: prometheus, namespace: default}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus, namespace: default}
---
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Reservation
metadata: {name: too-large}
spec:
  ttl: 24h
  owners: [{object: {namespace: default, name: nobody}}]
  template:
    spec:
      schedulerName: koord-scheduler
      containers: [{name: main, image: none, resources: {requests: {cpu: "1000"}}}]
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: team, namespace: default}
spec: {min: {cpu: 1}, max: {cpu: 2}}
---
apiVersion: v1
kind: Pod
metadata: {name: huge, namespace: default}
spec:
  schedulerName: koord-scheduler
  priorityClassName: koord-prod
  containers: [{name: main, image: none, resources: {requests: {cpu: "1000"}}}]
---
apiVersion: v1
kind: Pod
metadata:
  name: count
  namespace: default
  labels: {koordinator.sh/qosClass: BE, quota.scheduling.koordinator.sh/name: team}
spec:
  schedulerName: koord-scheduler
  priorityClassName: koord-batch
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: none
    command: [/bin/sh, -c, "while true; do sleep 0.2; done"]
    resources:
      requests: {kubernetes.io/batch-cpu: "200", kubernetes.io/batch-memory: 32Mi}
      limits: {kubernetes.io/batch-cpu: "200", kubernetes.io/batch-memory: 32Mi}
"""


class Watched:
    """The cluster, its Prometheus, and what each component exports."""

    def __init__(self, machine: Machine, watching: Prometheus, token: str) -> None:
        self.machine, self.prometheus, self.token = machine, watching, token

    def exported(self) -> dict[str, frozenset[str]]:
        """All that is scraped: labels by the name of a sample. Families without series have no labels yet."""
        found: dict[str, frozenset[str]] = {}
        for url in health(self.machine).values():
            asked = urllib.request.Request(f"{url}/metrics", headers={"Authorization": f"Bearer {self.token}"})
            with urllib.request.urlopen(asked, timeout=60) as answer:
                text = answer.read().decode()
            for family in text_string_to_metric_families(text):
                name = f"{family.name}_total" if family.type == "counter" else family.name
                found.setdefault(name, frozenset())
                for sample in family.samples:
                    found[sample.name] = found.get(sample.name, frozenset()) | sample.labels.keys()
        return found


def health(machine: Machine) -> dict[str, str]:
    told = json.loads((machine.data / "endpoints.json").read_text())["components"]
    return {name: told[name].get("endpoints", {}).get("health", "") for name in SCRAPED}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    machine = Machine(folder, "2")
    try:
        machine.kubectl("apply", "-f", "-", given=OBJECTS % json.dumps(READING))
        token = machine.kubectl("create", "token", "prometheus", "-n", "default").strip()
        machine.until(lambda: all(health(machine).values()))
        targets = {f"koord-{name}": url.removeprefix("http://") for name, url in health(machine).items()}
        with prometheus(folder / "prometheus", rules=files()["rules.yaml"], targets=targets, token=token) as watching:
            yield Watched(machine, watching, token)
    finally:
        machine.stop()


def declared() -> dict[str, frozenset[str]]:
    """The labels of families by their definition, for those that have no series yet."""
    labels: dict[str, frozenset[str]] = {}
    for family in (family for exported in families().values() for family in exported):
        is_histogram = family.type == "histogram"
        name = f"{family.name}_bucket" if is_histogram else family.name
        labels[name] = frozenset(family.labels) | ({"le"} if is_histogram else set())
    return labels


EXPRESSIONS: Final = [
    *((alert.name, alert.expr) for alert in ALERTS),
    *((board.name, query.expr) for board in ALL for query in board.queries()),
    *((board.name, f"{variable.metric.partition('.')[0]}") for board in ALL for variable in board.variables),
]


@pytest.mark.root
@pytest.mark.kubectl
@pytest.mark.prometheus
def test_everything_that_alerts_and_boards_name_is_exported(watched: Watched) -> None:
    watched.prometheus.until(lambda: watched.prometheus.query('koordlet_lent_to_pod{what="used"}'))
    exported, known = watched.exported(), declared()
    for where, expr in EXPRESSIONS:
        found = named(expr)
        assert found.metrics, expr
        labels: set[str] = set(OF_THE_TARGET)
        for metric, matched in found.metrics.items():
            assert metric in exported or metric in NOT_ON_THIS_MACHINE, f"{where}: no component exports {metric}"
            own = exported.get(metric) or known.get(metric, frozenset())
            assert matched <= own | OF_THE_TARGET, f"{where}: {metric} has the labels {sorted(own)}"
            labels |= own
        assert found.listed <= labels, f"{where}: no series has {sorted(found.listed - labels)}"


@pytest.mark.root
@pytest.mark.kubectl
@pytest.mark.prometheus
def test_the_reference_has_every_metric_that_components_export(watched: Watched) -> None:
    listed = {family.name for exported in families().values() for family in exported}
    usual = ("process_", "python_")
    parts = ("_bucket", "_sum", "_count", "_created")
    exported = {name for name in watched.exported() if not name.startswith(usual) and not name.endswith(parts)}
    assert exported - listed == set()


@pytest.mark.root
@pytest.mark.kubectl
@pytest.mark.prometheus
def test_an_alert_fires_for_a_reservation_that_fits_nowhere(watched: Watched) -> None:
    found = watched.prometheus.until(lambda: watched.prometheus.firing().get("KoordReservationPending"))
    assert found["annotations"]["summary"] == "reservation too-large finds no node"
    # At its start Prometheus has not scraped all of them yet.
    watched.prometheus.until(lambda: "KoordComponentDown" not in watched.prometheus.firing())


@pytest.mark.root
@pytest.mark.kubectl
@pytest.mark.prometheus
@pytest.mark.parametrize(
    "holds",
    [
        'koord_scheduler_oldest_pending_seconds{priority="koord-prod"} > 0',
        'koord_scheduler_oldest_pending_seconds{priority="koord-mid"} == 0',
        'koord_manager_nodes{report="fresh"} == 1',
        "koord_manager_webhook_registered == 1",
        "koord_manager_admission_off == 0",
        "koord_manager_webhook_certificate_expiry_timestamp_seconds > time() + 180 * 86400",
        "koord_manager_configuration_faults == 0",
        'koordlet_report_failing_seconds{report="usage"} == 0',
        'koord_descheduler_open_jobs{phase="Running"} == 0',
        'koordlet_lent_to_pod{what="requested",resource="cpu",pod_name="count",quota="team"} == 0.2',
    ],
)
def test_components_say_how_it_is(watched: Watched, holds: str) -> None:
    assert watched.prometheus.until(lambda: watched.prometheus.query(holds))


@pytest.mark.root
@pytest.mark.kubectl
@pytest.mark.prometheus
@pytest.mark.parametrize("board", ALL, ids=lambda board: board.name)
def test_prometheus_answers_every_query_of_a_board(watched: Watched, board: Any) -> None:
    for query in board.queries():
        expr = query.expr.replace("$node", ".*").replace("$quota", ".*").replace("$resource", ".*")
        watched.prometheus.query(expr)


@pytest.mark.root
@pytest.mark.kubectl
@pytest.mark.prometheus
def test_kubectl_takes_the_commands_of_the_runbooks(watched: Watched) -> None:
    lines = {line for _, line in commands() if line.startswith("kubectl") and " logs " not in line}
    assert len(lines) > 5
    for line in sorted(lines):
        words = [str(find_binary("kubectl")), "--kubeconfig", str(watched.machine.data / "kubeconfig")]
        done = subprocess.run([*words, *shlex.split(line)[1:]], capture_output=True, text=True, timeout=60, check=False)
        # An object of that name need not be there; a kind, an option or a field has to.
        assert done.returncode == 0 or "(NotFound)" in done.stderr, f"{line}: {done.stderr}"


@pytest.mark.root
@pytest.mark.kubectl
@pytest.mark.prometheus
def test_a_report_from_prometheus_adds_up_and_says_how_far_back_it_can_look(
    watched: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    def report(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = koord(["report", "--prometheus", watched.prometheus.url, *arguments])
        return (code, *capsys.readouterr())

    def reported() -> Any:
        code, out, _ = report("--since", "5s", "-o", "json")
        found = json.loads(out) if code == 0 else {}
        return found if found.get("namespaces") and found["total"]["used"]["gibHours"] > 0 else None

    found = watched.prometheus.until(reported)
    total = found["total"]
    (data,) = found["namespaces"]
    assert (data["namespace"], found["quotas"][0]["quota"]) == ("default", "team")
    assert found["workloads"][0]["workload"] == "default/pod/count"
    for of in (data, found["quotas"][0], found["workloads"][0]):
        assert of["lent"] == total["lent"]
    # 0.2 cores for at most 5 seconds.
    assert 0 < total["lent"]["coreHours"] <= 0.2 * 6 / 3600
    assert total["lent"]["coreHours"] <= found["offered"]["coreHours"]
    assert "default,team,pod/count," in report("--since", "5s", "-o", "csv")[1]
    assert "<svg" in report("--since", "5s", "-o", "html")[1]
    code, _, err = report("--since", "7d")
    assert code == 2
    assert "has figures of koord only since" in err


@pytest.mark.root
@pytest.mark.kubectl
@pytest.mark.prometheus
def test_a_report_from_the_api_counts_what_runs_and_names_every_missing_right(
    watched: Watched, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = watched.machine.data / "kubeconfig"
    assert koord(["report", "--since", "1h", "-o", "json", "--kubeconfig", str(config)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [workload["workload"] for workload in found["workloads"]] == ["default/pod/count"]
    assert found["total"]["lent"]["coreHours"] > 0
    stranger = json.loads(config.read_text())
    stranger["users"][0]["user"] = {"token": watched.token}
    (tmp_path / "kubeconfig").write_text(json.dumps(stranger))
    assert koord(["report", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 2
    rights = "list pods, list nodes, list nodemetrics.slo.koordinator.sh, list events.events.k8s.io"
    assert f"missing rights: {rights}" in capsys.readouterr().err


def test_what_is_named_is_found_in_an_expression() -> None:
    found = named('sum by (le, job) (rate(a_bucket{x="y, b=c"}[5m])) / ignoring (field) b > 2 unless c{d=~"e",f!="g"}')
    assert found.metrics == {"a_bucket": {"x"}, "b": frozenset(), "c": {"d", "f"}}
    assert found.listed == {"le", "job", "field"}
