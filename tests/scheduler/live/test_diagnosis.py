"""Looking into a running scheduler over HTTP: flags, services, figures, and who may."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord.api.kinds import (
    CLUSTER_ROLES,
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
)
from koord.kube.authorize import Authorizer
from koord.kube.client import Client
from koord.kube.health import HealthServer
from koord.kube.metrics import Metrics
from koord.kube.serving_tls import ServingTls
from koord.kube.settings_paths import SettingsPaths
from koord.scheduler.auditor import AuditLimits
from koord.scheduler.framework.controller import Controller
from koord.scheduler.live import diagnosis, monitor
from koord.scheduler.live.diagnosis import Inspection
from koord.scheduler.live.metrics import uncounted
from koord.scheduler.live.onlooker import Onlooker
from koord.scheduler.live.run import SchedulerOptions
from koord.scheduler.plugins.load_aware_scheduling import LoadAwareScheduling
from koord.scheduler.state.cluster import Cluster
from tests.allowing import EVERYBODY
from tests.control_plane import ControlPlane
from tests.kube.manual_clock import ManualClock
from tests.kube.test_health import Certificates
from tests.scheduler.core.build import Fed, node, pod
from tests.scheduler.live.embedded import make_nodes, pod_manifest, scheduling, serving, until_bound
from tests.waiting import eventually


@dataclass
class Running:
    """A scheduler with its endpoints, on the embedded server."""

    client: Client
    inspection: Inspection
    port: int
    logged: pytest.LogCaptureFixture

    async def ask(self, path: str, method: str = "GET", body: str = "") -> tuple[int, str]:
        return await asked(self.port, path, method, body)

    async def get(self, path: str) -> tuple[int, Any]:
        status, text = await self.ask(path)
        return status, json.loads(text)

    async def put(self, flag: str, value: str) -> None:
        status, text = await self.ask(f"/debug/flags/{flag}", "PUT", value)
        assert status == 200, text

    async def until_logged(self, words: str) -> None:
        async def is_logged() -> bool:
            return words in self.logged.text

        await eventually(is_logged)

    async def told(self, name: str) -> str:
        """The message of a pod that fits nowhere, once there is one."""
        found: list[str] = []

        async def is_told() -> bool:
            condition = (await self.client.get(PODS, name, namespace="default")).status.condition("PodScheduled")
            found.append(condition.message if condition is not None and condition.status == "False" else "")
            return bool(found[-1])

        await eventually(is_told)
        return found[-1]


@asynccontextmanager
async def running(
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    config: SchedulerConfiguration = SHIPPED,
    *,
    audit: AuditLimits | None = None,
    nodes: int = 2,
) -> AsyncIterator[Running]:
    inspection, metrics = Inspection(), Metrics(process=False)
    options = SchedulerOptions(alone=True, inspection=inspection, audit=audit)
    async with serving(folder) as client, HealthServer("127.0.0.1:0", metrics=metrics, authorizer=EVERYBODY) as server:
        server.add_paths(inspection.handle)
        await make_nodes(client, nodes)
        with caplog.at_level(logging.INFO):
            async with scheduling(client, config, options=options, metrics=metrics):
                yield Running(client, inspection, server.port, caplog)


async def asked(port: int, path: str, method: str = "GET", body: str = "") -> tuple[int, str]:
    url = f"http://127.0.0.1:{port}{path}"
    headers = {"Authorization": "Bearer somebody"}
    async with aiohttp.ClientSession() as session, session.request(method, url, data=body, headers=headers) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    ("method", "flag", "body", "status", "text"),
    [
        ("PUT", "s", "5", 200, "successfully set debugTopNScores to 5"),
        ("PUT", "f", "true", 200, "successfully set debugFilterFailure to true"),
        ("PUT", "d", "t", 200, "successfully set debugFilterFailure to t"),
        ("PUT", "db", "1", 200, "successfully set debugFilterFailure to 1"),
        ("PUT", "v", "5", 200, "successfully set klog.logging.verbosity to 5"),
        ("PUT", "s", "five", 400, "failed set debugTopNScores five"),
        ("PUT", "f", "maybe", 400, "failed set debugFilterFailure maybe"),
        ("PUT", "d", "", 400, "failed set debugFilterFailure"),
        ("PUT", "db", "2", 400, "failed set debugFilterFailure 2"),
        ("PUT", "v", "loud", 400, "failed set klog.logging.verbosity loud"),
        *(("GET", flag, "", 406, "") for flag in ("v", "s", "f", "d", "db")),
        *((method, "s", "1", 406, "") for method in ("POST", "DELETE", "PATCH")),
        ("PUT", "x", "1", 404, ""),
    ],
)
async def test_flags_answer_to_put_alone(method: str, flag: str, body: str, status: int, text: str) -> None:
    level = logging.getLogger("koord").level
    try:
        async with HealthServer("127.0.0.1:0", authorizer=EVERYBODY) as server:
            assert (await asked(server.port, f"/debug/flags/{flag}", method, body))[0] == 404
            server.add_paths(SettingsPaths(Inspection().handle).handle)
            found = await asked(server.port, f"/debug/flags/{flag}", method, body)
    finally:
        logging.getLogger("koord").setLevel(level)
    assert found[0] == status
    assert found[1].startswith(text)


async def test_who_does_not_lead_does_not_answer() -> None:
    async with HealthServer("127.0.0.1:0", authorizer=EVERYBODY) as server:
        server.add_paths(Inspection().handle)
        for path in ("__services__", "nodes/n1", "plugins/LoadAwareScheduling/node/n1"):
            status, text = await asked(server.port, f"/apis/v1/{path}")
            assert (status, json.loads(text)) == (503, {"message": "the instance is not leader"})


async def test_services_of_a_running_scheduler(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, caplog) as run:
        assert await run.get("/apis/v1/__services__") == (
            200,
            {
                "GET": [
                    "/apis/v1/__services__",
                    "/apis/v1/nodes/:nodeName",
                    "/apis/v1/pending",
                    "/apis/v1/plugins/Coscheduling/gang/:namespace/:name",
                    "/apis/v1/plugins/Coscheduling/gangs",
                    "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries",
                    "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries/:name",
                    "/apis/v1/plugins/ElasticQuota/quota/:name",
                    "/apis/v1/plugins/ElasticQuota/quotas",
                    "/apis/v1/plugins/ElasticQuota/quotas/:name",
                    "/apis/v1/plugins/LoadAwareScheduling/node/:nodeName",
                    "/apis/v1/plugins/NodeNUMAResource/availableCPUs/:nodeName",
                    "/apis/v1/plugins/NodeNUMAResource/cpuTopologyOptions/:nodeName",
                    "/apis/v1/plugins/NodeNUMAResource/nodes/:nodeName",
                    "/apis/v1/plugins/Reservation/nodeReservations/:nodeName",
                    "/apis/v1/plugins/Reservation/reservationSelectorIndex",
                ]
            },
        )
        await run.client.create(PODS, pod_manifest("small"))
        where = (await until_bound(run.client, "small"))["small"]
        status, told = await run.get(f"/apis/v1/nodes/{where}")
        assert status == 200
        assert [pod["key"] for pod in told["pods"]] == ["default/small"]
        assert told["node"]["metadata"]["name"] == where
        assert (told["requested"]["cpu"], told["remaining"]["cpu"], told["allocatable"]["cpu"]) == ("1", "3", "4")
        assert told["nonZeroRequested"] == {"cpu": "1", "memory": "64Mi"}
        assert await run.get("/apis/v1/nodes/x") == (404, {"message": "cannot find node x"})
        status, told = await run.get(f"/apis/v1/plugins/LoadAwareScheduling/node/{where}")
        assert status == 200
        assert [pod["pod"] for pod in told["pods"]] == ["default/small"]
        assert (await run.ask("/apis/v1/plugins/Nobody/x"))[0] == 404
        assert (await run.ask("/apis/v1/nodes/n", "POST"))[0] == 405
        assert (await run.ask("/nothing"))[0] == 404


async def test_a_table_of_scores_is_logged_for_each_decision_among_several_nodes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, caplog) as run:
        await run.put("s", "2")
        await run.client.create(PODS, pod_manifest("small"))
        where = (await until_bound(run.client, "small"))["small"]
        (text,) = [record.getMessage() for record in caplog.records if "Top2 scores" in record.getMessage()]
        first, header, rule, best, second = text.splitlines()
        plugins = first.partition("plugins:[")[2].removesuffix("]").split()
        assert first.startswith("Top2 scores for Pod: default/small, feasibleNodes: 2, plugins:[")
        assert header == f"| # | Pod | Node | Score | {' | '.join(plugins)} |"
        assert rule == "| --- | --- | --- | ---:| " + " ".join("---:|" for _ in plugins)
        assert best.startswith(f"| 0 | default/small | {where} | ")
        assert second.startswith("| 1 | default/small | ")
        # One node is taken without a score, and a flag that is off says nothing.
        only = {"kubernetes.io/hostname": "node-001"}
        await run.client.create(PODS, pod_manifest("only", nodeSelector=only))
        await until_bound(run.client, "only")
        await run.put("s", "0")
        await run.client.create(PODS, pod_manifest("quiet"))
        await until_bound(run.client, "quiet")
        assert caplog.text.count("Top2 scores") == 1


async def test_every_node_that_a_filter_turns_away_is_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, caplog) as run:
        await run.put("f", "true")
        await run.client.create(PODS, pod_manifest("giant", cpu="50"))
        await run.told("giant")
        for name in ("node-000", "node-001"):
            line = f'Failed to filter for Pod "default/giant" on Node "{name}" (pass 1), failedPlugin: NodeResourcesFit'
            assert f"{line}, reason: Insufficient cpu" in caplog.text


@pytest.mark.parametrize("flag", ["d", "db"])
async def test_a_pod_that_fits_nowhere_is_a_line_of_json(
    flag: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, caplog) as run:
        await run.put(flag, "true")
        await run.client.create(PODS, pod_manifest("giant", cpu="50"))
        await run.until_logged("dump diagnosis for default/giant, targetPod: default/giant/")
        (line,) = [text for text in caplog.messages if text.startswith("dump diagnosis")]
        told = json.loads(line.partition(": $")[2])
        assert told["questionedKey"] == "default/giant"
        assert told["isRootCausePod"] is True
        assert told["scheduleDiagnosis"]["nodeFailedDetails"] == [
            {
                "failedPlugin": "NodeResourcesFit",
                "reason": "Insufficient cpu",
                "preemptMightHelp": False,
                "failedNodes": ["node-000", "node-001"],
            }
        ]
        await run.put("d", "false")
        assert not run.inspection.flags.any


def test_diagnoses_that_nobody_writes_are_dropped_beyond_so_many_unless_written_at_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "MOST_UNWRITTEN", 2)
    inspection = Inspection()
    fed = Fed(observer=Onlooker(ManualClock(), uncounted, inspection))
    fed.put(node("n1"), *(pod(f"p{number}", cpu="100") for number in range(4)))
    inspection.flags.set("d", "true")
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            fed.nowhere()
        assert "dump diagnosis" not in caplog.text
        assert caplog.text.count("is dropped") == 1
        inspection.flags.set("db", "true")
        fed.nowhere()
    assert caplog.text.count("dump diagnosis") == 1


async def test_the_first_suggestion_is_in_what_users_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, caplog, nodes=1) as run:
        for name, value in (("low", 10), ("high", 1000)):
            await run.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        # It stays for a while: another controller has to release it.
        low = pod_manifest("low", cpu="3", priorityClassName="low")
        low["metadata"]["finalizers"] = ["example.com/kept"]
        await run.client.create(PODS, low)
        await until_bound(run.client, "low")
        await run.client.create(PODS, pod_manifest("high", cpu="3", priorityClassName="high"))
        told = "Suggestion: {type: WaitingVictimReleased, message: default/low must be gone from node-000 first}"
        assert (await run.told("high")).endswith(told)

        async def is_an_event() -> bool:
            events = await run.client.list(EVENTS, namespace="default")
            return any(event.reason == "FailedScheduling" and event.note.endswith(told) for event in events)

        await eventually(is_an_event)
        await run.client.patch(PODS, "low", {"metadata": {"finalizers": None}}, namespace="default")
        await until_bound(run.client, "high")


async def test_figures_have_kube_schedulers_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, caplog, nodes=1) as run:
        for name, value in (("low", 10), ("high", 1000)):
            await run.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        await run.client.create(PODS, pod_manifest("low", cpu="3", priorityClassName="low"))
        await until_bound(run.client, "low")
        await run.client.create(PODS, pod_manifest("high", cpu="3", priorityClassName="high"))
        await until_bound(run.client, "high")
        point, mine = "scheduler_framework_extension_point_duration_seconds_count", 'profile="koord-scheduler"'
        wanted = {
            f'{point}{{extension_point="Filter",{mine},status="Success"}} 2.0',
            f'{point}{{extension_point="PostFilter",{mine},status="Success"}} 1.0',
            f'{point}{{extension_point="Bind",{mine},status="Success"}} 2.0',
            'scheduler_plugin_execution_duration_seconds_count{extension_point="Bind",plugin="DefaultBinder"'
            ',status="Success"} 2.0',
            f'scheduler_schedule_attempts_total{{{mine},result="scheduled"}} 2.0',
            'scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"} 2.0',
            'scheduler_queue_incoming_pods_total{event="ScheduleAttemptFailure",queue="unschedulable"} 1.0',
            "scheduler_preemption_victims_count 1.0",
            'scheduler_preemption_goroutines_execution_total{result="success"} 1.0',
            'scheduler_preemption_goroutines_duration_seconds_count{result="success"} 1.0',
            'scheduler_pending_pods{queue="active"} 0.0',
            'scheduler_cache_size{type="nodes"} 1.0',
            'scheduler_pending_async_api_calls{call_type="pod_binding"} 0.0',
            "# TYPE scheduler_pod_scheduling_attempts histogram",
            "# TYPE scheduler_unschedulable_pods gauge",
            "# TYPE scheduler_permit_wait_duration_seconds histogram",
            "# TYPE scheduler_scheduling_timeout gauge",
        }
        missing: list[set[str]] = []

        async def measured() -> bool:
            missing.append(wanted - set((await run.ask("/metrics"))[1].splitlines()))
            return not missing[-1]

        try:
            await eventually(measured)
        except TimeoutError:
            pytest.fail(f"missing: {missing[-1]}")
        text = (await run.ask("/metrics"))[1]
        assert "scheduler_preemption_attempts_total 1.0" in text or "scheduler_preemption_attempts_total 2.0" in text


async def test_an_attempt_that_takes_too_long_is_logged_and_counted_while_it_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "LONGEST_ATTEMPT_S", 0.2)
    monkeypatch.setattr(monitor, "LOOK_EVERY_S", 0.1)
    async with running(tmp_path, caplog) as run:
        late = {"metadata": {"name": "late"}, "provisioner": "x.example.com"}
        await run.client.create(STORAGE_CLASSES, {**late, "volumeBindingMode": "WaitForFirstConsumer"})
        size = {"requests": {"storage": "1Gi"}}
        claim = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": size}
        await run.client.create(
            PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data", "namespace": "default"}, "spec": claim}
        )
        mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        made = await run.client.create(PODS, pod_manifest("db", volumes=mounted))
        await run.until_logged(f"!!!CRITICAL TIMEOUT!!! scheduling pod default/db({made.metadata.uid}) took longer (")

        async def is_counted() -> bool:
            return 'scheduler_scheduling_timeout{profile="koord-scheduler"}' in (await run.ask("/metrics"))[1]

        await eventually(is_counted)


async def test_stuck_preemption_and_lack_of_progress_are_alerted_on_where_that_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, caplog, audit=AuditLimits(victims_s=0.5, progress_s=0.5), nodes=1) as run:
        for name, value in (("low", 10), ("high", 1000)):
            await run.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        low = pod_manifest("low", cpu="3", priorityClassName="low")
        low["metadata"]["finalizers"] = ["example.com/kept"]
        await run.client.create(PODS, low)
        await until_bound(run.client, "low")
        gated = [{"name": "example.com/later"}]
        await run.client.create(PODS, pod_manifest("gated", cpu="100", schedulingGates=gated))
        await run.client.create(PODS, pod_manifest("giant", cpu="100"))
        await run.client.create(PODS, pod_manifest("high", cpu="3", priorityClassName="high"))
        await run.until_logged("preemption is stuck: 1 of its victims are not gone")
        await run.until_logged("workloadauditor: ALERT: default/giant/")
        assert "no progress for" in caplog.text
        assert "ALERT: default/gated" not in caplog.text
        await run.client.patch(PODS, "low", {"metadata": {"finalizers": None}}, namespace="default")
        await until_bound(run.client, "high")
        _, text = await run.ask("/metrics")
        assert 'scheduler_workload_auditor_preemption_to_victim_deleted_seconds_count{priority=""} 1.0' in text


async def test_without_being_asked_nobody_audits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, caplog, nodes=0) as run:
        assert "workload_auditor" not in (await run.ask("/metrics"))[1]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane("--disable-admission-plugins=TaintNodesByCondition") as real:
        yield real


@pytest.mark.cluster
async def test_from_afar_only_those_whom_the_api_server_allows_look_into_it(
    plane: ControlPlane, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = Certificates(tmp_path)
    tls = ServingTls(str(certificates.cert), str(certificates.key))
    inspection, metrics = Inspection(), Metrics(process=False)
    async with Client.from_config(str(plane.kubeconfig)) as client:
        # As it serves on all interfaces; for this test it is bound to loopback alone.
        exposed = HealthServer("0.0.0.0:0", metrics=metrics, tls=tls, authorizer=Authorizer(client))
        exposed.add_paths(inspection.handle)
        server = TestServer(exposed.app(), host="127.0.0.1", scheme="https")
        await server.start_server(ssl=tls.context)
        options = SchedulerOptions(alone=True, inspection=inspection)
        try:
            async with scheduling(client, options=options, metrics=metrics), aiohttp.ClientSession() as http:

                async def status(path: str, token: str = "", method: str = "GET", body: str = "") -> int:
                    headers = {"Authorization": f"Bearer {token}"} if token else {}
                    url = server.make_url(path)
                    asking = http.request(method, url, data=body, headers=headers, ssl=certificates.trust)
                    async with asking as answer:
                        return answer.status

                services = "/apis/v1/__services__"
                for path in (services, "/apis/v1/nodes/n1", "/metrics"):
                    assert await status(path) == 401
                    assert await status(path, "made-up") == 401
                    assert await status(path, "nobody-token") == 403
                assert await status("/debug/flags/s", "nobody-token", "PUT", "3") == 403
                assert inspection.flags.top_scores == 0
                assert await status(services, "admin-token") == 200
                assert await status("/debug/flags/s", "admin-token", "PUT", "3") == 200
                assert inspection.flags.top_scores == 3
                assert await status("/livez") == 200
                # Who may read may not therefore set.
                rules = [{"nonResourceURLs": ["/debug/apis/v1/*"], "verbs": ["get"]}]
                await client.create(CLUSTER_ROLES, {"metadata": {"name": "looks-in"}, "rules": rules})
                binding = ("clusterrolebinding", "looks-in", "--clusterrole=looks-in", "--user=nobody")
                assert plane.kubectl("create", *binding).returncode == 0

                async def may_look() -> bool:
                    return await status("/apis/v1/plugins/none", "nobody-token") == 404

                await eventually(may_look)
                assert await status("/debug/flags/f", "nobody-token", "PUT", "true") == 403
        finally:
            await server.close()


async def test_plugins_may_be_asked_for_things_with_two_names_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    gangs = {"shop/web": {"members": 3}}
    services: dict[str, Callable[[str], object]] = {
        "gang/:namespace/:name": gangs.get,
        "gangs": lambda name: gangs,
        "index": lambda name: {"detail": False},
        "index?detail=true": lambda name: {"detail": True},
    }
    attach = LoadAwareScheduling.attach

    def attach_with_services(plugin: LoadAwareScheduling, cluster: Cluster) -> None:
        attach(plugin, cluster)
        plugin.controller = Controller(services=services)

    monkeypatch.setattr(LoadAwareScheduling, "attach", attach_with_services)
    fed, inspection = Fed(SHIPPED), Inspection()
    inspection.look_at(lambda: fed.core, lambda: True)
    base = "/apis/v1/plugins/LoadAwareScheduling"
    async with HealthServer("127.0.0.1:0", authorizer=EVERYBODY) as server:
        server.add_paths(inspection.handle)

        async def get(path: str) -> tuple[int, Any]:
            status, text = await asked(server.port, path)
            return status, json.loads(text)

        told = (await get("/apis/v1/__services__"))[1]["GET"]
        assert [path for path in told if path.startswith(base)] == [
            f"{base}/gang/:namespace/:name",
            f"{base}/gangs",
            f"{base}/index",
        ]
        assert await get(f"{base}/gang/shop/web") == (200, {"members": 3})
        assert await get(f"{base}/gang/shop/none") == (404, {"message": "cannot find gang shop/none"})
        assert await get(f"{base}/gangs") == (200, gangs)
        assert await get(f"{base}/index") == (200, {"detail": False})
        assert await get(f"{base}/index?detail=true") == (200, {"detail": True})
        assert (await get(f"{base}/gang/shop"))[0] == 404
