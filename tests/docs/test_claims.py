"""What pages and examples claim, beyond that their commands run: each claim is put to the test."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.api import kinds
from koord.api.configuration import config_file
from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord.api.kinds import EVENTS, LEASES, PODS, Kind
from koord.api.protocol.annotations.notice import EVICTION_NOTICE, SCALE_FIRST
from koord.api.protocol.unacted import UNACTED
from koord.cli.main import run
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.operate.install.access import rights_of
from koord.operate.install.kinds import Head
from koord.operate.install.settings import DESCHEDULER, SCHEDULER, Settings
from koord.scheduler.live.run import SchedulerOptions
from koord_minicluster.up.bootstrap import bootstrap, priority_classes
from tests.descheduler.live.cluster import ask, cluster, deploy, descheduling, ends
from tests.operate.install.recorded import ELSEWHERE, Recorder, client_with
from tests.scheduler.live.embedded import make_nodes, node_manifest, pod_manifest, scheduling, serving, until_bound
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SETTINGS = Settings(image="koord:1", version="1")


async def as_the_example_allows(admin: Client, example: str = "scheduler", account: str = "koord-scheduler") -> Client:
    """A client with the rights of examples/EXAMPLE/rbac.yaml, and no others."""
    return await client_with(admin, yaml.safe_load_all((EXAMPLES / example / "rbac.yaml").read_text()), account)


UNUSED_BY_THE_SCHEDULER = ELSEWHERE | {
    # Quotas, volumes, gangs, networks, devices and claims have stories of their own in tests/scheduler/live.
    "create pods/eviction",
    "patch elasticquotas.scheduling.sigs.k8s.io",
    "patch elasticquotas.scheduling.sigs.k8s.io/status",
    "patch persistentvolumeclaims",
    "patch persistentvolumes",
    "patch podgroups.scheduling.sigs.k8s.io",
    "patch pods",
    "patch resourceclaims.resource.k8s.io",
    "patch resourceclaims.resource.k8s.io/binding",
    "patch resourceclaims.resource.k8s.io/status",
    "patch clusternetworktopologies.scheduling.koordinator.sh/status",
    "patch reservations.scheduling.koordinator.sh",
    "delete reservations.scheduling.koordinator.sh",
}
UNUSED_BY_THE_DESCHEDULER = ELSEWHERE | {
    # Jobs come from a user here, and none is old enough to be deleted.
    "create podmigrationjobs.scheduling.koordinator.sh",
    "delete podmigrationjobs.scheduling.koordinator.sh",
    "patch reservations.scheduling.koordinator.sh",
    "delete reservations.scheduling.koordinator.sh",
    "read clonesets.apps.kruise.io/scale",
    "read statefulsets.apps.kruise.io/scale",
}


async def test_the_rights_in_the_example_are_enough_for_all_that_a_scheduler_does(tmp_path: Path) -> None:
    heard = Recorder()
    async with serving(tmp_path) as admin:
        await bootstrap(admin)
        await make_nodes(admin, 2, cpu="4")
        async with await as_the_example_allows(admin) as client:
            heard.listen(client)
            with pytest.raises(ApiError):
                await client.delete(kinds.NODES, "node-000")
            heard.refused.clear()
            async with scheduling(client, SHIPPED, options=SchedulerOptions(elect=True, alone=True)):
                for name in ("small-0", "small-1"):
                    await admin.create(PODS, pod_manifest(name, cpu="3"))
                await until_bound(admin, "small-0", "small-1")
                await admin.create(PODS, pod_manifest("giant", cpu="40"))
                await admin.create(PODS, pod_manifest("urgent", cpu="3", priorityClassName="koord-prod"))
                # A less important pod has to make room: it is deleted, and the place is promised.
                await until_bound(admin, "urgent")
                await eventually(lambda: _told(admin, "giant"))
                for name, cpu in (("room", "500m"), ("too-much", "40")):
                    await admin.create(kinds.RESERVATIONS, _reservation(name, cpu))
                await eventually(lambda: _says(admin, "room", "Available"))
                await eventually(lambda: _says(admin, "too-much", "Unschedulable"))
                await eventually(lambda: _announced(admin))
    assert heard.refused == []
    assert heard.unused(rights_of(SCHEDULER, SETTINGS)) - UNUSED_BY_THE_SCHEDULER == set()


async def test_the_rights_in_the_example_are_enough_for_all_that_a_descheduler_does(tmp_path: Path) -> None:
    heard = Recorder()
    async with cluster(tmp_path) as admin:
        pods = {policy: await deploy(admin, policy.lower(), 2) for policy in ("Eviction", "Delete", "SoftEviction")}
        (single,) = await deploy(admin, "single", 1)
        wish: dict[str, Any] = {"metadata": {"annotations": {SCALE_FIRST.key: "true"}}}
        await admin.patch(kinds.DEPLOYMENTS, "single", wish, namespace="default")
        (pod, *_) = await deploy(admin, "told", 2)
        wish = {"metadata": {"annotations": {EVICTION_NOTICE.key: "1s"}}}
        await admin.patch(PODS, pod.metadata.name, wish, namespace="default")
        async with await as_the_example_allows(admin, "moves", "koord-descheduler") as client:
            heard.listen(client)
            with pytest.raises(ApiError):
                await client.delete(kinds.NODES, "hollow-0000")
            heard.refused.clear()
            async with descheduling(client, elect=True):
                for policy, (first, *_) in pods.items():
                    label = {"metadata": {"labels": {"koordinator.sh/evict-policy": policy}}}
                    await admin.patch(PODS, first.metadata.name, label, namespace="default")
                    mode = "ReservationFirst" if policy == "Eviction" else "EvictDirectly"
                    await ask(admin, first, policy.lower(), mode=mode)
                # Told first, replaced first, and taken back.
                await ask(admin, pod, "told")
                await ask(admin, single, "single")
                for name in ("eviction", "delete", "told", "single"):
                    assert (await ends(admin, name)).status.phase == "Succeeded"

                async def is_asked() -> bool:
                    first = pods["SoftEviction"][0].metadata
                    pod = await admin.get(PODS, first.name, namespace="default")
                    return "scheduling.koordinator.sh/soft-eviction" in pod.metadata.annotations

                await eventually(is_asked)
    assert heard.refused == []
    assert heard.unused(rights_of(DESCHEDULER, SETTINGS)) - UNUSED_BY_THE_DESCHEDULER == set()


def _reservation(name: str, cpu: str) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    template = {"spec": {"schedulerName": "koord-scheduler", "containers": containers}}
    spec = {"owners": [{"object": {"name": "web"}}], "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def _says(client: Client, name: str, reason: str) -> bool:
    status = (await client.get(kinds.RESERVATIONS, name)).status
    return any(condition.reason == reason for condition in status.conditions)


async def _told(client: Client, name: str) -> bool:
    return any(event.regarding.name == name for event in await client.list(EVENTS))


async def _announced(client: Client) -> bool:
    found = {lease.metadata.name for lease in await client.list(LEASES, namespace="koordinator-system")}
    return {"koord-scheduler", "koord-schedules-koord-scheduler"} <= found


async def test_the_example_packed_packs_and_the_other_profile_spreads(tmp_path: Path) -> None:
    path = EXAMPLES / "scheduler" / "config.yaml"
    config = config_file.read(path.read_text(), str(path))
    assert isinstance(config, SchedulerConfiguration)
    async with serving(tmp_path) as client, scheduling(client, config, options=SchedulerOptions()):
        for number in range(4):
            await client.create(kinds.NODES, node_manifest(f"node-{number}", cpu="32", memory="128Gi"))
        assert len(await _nodes_of_replicas(client, "packed")) == 1
        assert len(await _nodes_of_replicas(client, "spread-out")) == 3


async def _nodes_of_replicas(client: Client, profile: str) -> set[str]:
    """Where the pods of the example's Deployment go, made as its controllers make them, with this profile."""
    given = yaml.safe_load((EXAMPLES / "scheduler" / "packed.yaml").read_text())["spec"]
    labels = {"app": profile}
    template = {"metadata": {"labels": labels}, "spec": {**given["template"]["spec"], "schedulerName": profile}}
    owner = await client.create(
        kinds.REPLICA_SETS,
        {"metadata": _head(profile), "spec": {"selector": {"matchLabels": labels}, "template": template}},
    )
    controller = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": profile,
        "uid": owner.metadata.uid,
        "controller": True,
    }
    names = [f"{profile}-{number}" for number in range(given["replicas"])]
    for name in names:
        head = {**_head(name), "labels": labels, "ownerReferences": [controller]}
        await client.create(PODS, {"metadata": head, "spec": template["spec"]})
    placed = await until_bound(client, *names)
    return {placed[name] for name in names}


def _head(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "default"}


def test_the_priority_classes_of_the_example_are_koords() -> None:
    made: list[dict[str, Any]] = priority_classes()
    wanted = {each["metadata"]["name"]: (each["value"], each["description"]) for each in made}
    found = list(yaml.safe_load_all((EXAMPLES / "priority-classes.yaml").read_text()))
    assert {each["metadata"]["name"]: (each["value"], each["description"]) for each in found} == wanted


def test_the_dry_run_of_the_agents_page_shows_writes_with_their_arithmetic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = tmp_path / "host"
    subprocess.run(["sh", str(EXAMPLES / "agent" / "compose-host.sh"), str(host)], check=True)
    before = {path: path.read_bytes() for path in host.rglob("*") if path.is_file()}
    command = ["agent", "--once", "--dry-run", "--host-root", str(host), "-f", str(EXAMPLES / "agent"), "-o", "json"]
    assert run(command) == 0
    writes = {(write["file"], write["by"]): write for write in json.loads(capsys.readouterr().out)["writes"]}
    # 65% of 8 cores, less 3 that the service uses, less half a core of the system: 1.7 cores.
    suppressed = writes["sys/fs/cgroup/kubepods/besteffort/cpu.max", "cpu_suppress"]
    assert (suppressed["old"], suppressed["value"]) == ("max 100000", "170000 100000")
    limited = "sys/fs/cgroup/kubepods/besteffort/pod11111111-0000-4000-8000-000000000002/memory.max"
    assert writes[limited, "batch_resource"]["value"] == str(8 << 30)
    assert {path: path.read_bytes() for path in before} == before, "a dry run writes nothing"


def test_the_page_about_kinds_says_of_each_whether_koord_acts_on_it() -> None:
    rows = {}
    for line in (ROOT / "docs" / "kinds.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 5 and cells[0] not in ("kind", "---"):
            rows[cells[0]] = cells[3]
    assert set(rows) == {kind.kind for kind in kinds.CUSTOM}
    waiting = {each.kind.kind for each in UNACTED if each.kind is not None}
    assert {kind for kind, acts in rows.items() if acts.startswith("to come")} == waiting


async def test_the_api_servers_page_is_right_about_quotas_limits_and_replication_controllers(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "apiserver.md").read_text()
    assert "ResourceQuotas are enforced" in page
    assert "LimitRanges are applied" in page
    amount: Kind[Any] = Kind("", "v1", "ResourceQuota", "resourcequotas", True, Head)
    limits: Kind[Any] = Kind("", "v1", "LimitRange", "limitranges", True, Head)
    async with serving(tmp_path) as client:
        default = {"type": "Container", "default": {"cpu": "500m"}}
        await client.create(limits, {"metadata": _head("limits"), "spec": {"limits": [default]}})
        spec = {"containers": [{"name": "c", "image": "c"}]}
        made = await client.create(PODS, {"metadata": _head("one"), "spec": spec})
        assert made.spec.containers[0].resources.limits["cpu"] == "500m"
        await client.create(amount, {"metadata": _head("none"), "spec": {"hard": {"pods": "0"}}})
        # What the controller of quotas writes when it has counted.
        counted = {"status": {"hard": {"pods": "0"}, "used": {"pods": "1"}}}
        await client.patch(amount, "none", counted, namespace="default", subresource="status")
        with pytest.raises(ApiError, match="exceeded quota"):
            await client.create(PODS, {"metadata": _head("two"), "spec": spec})
        assert await client.list(kinds.REPLICATION_CONTROLLERS) == []
        with pytest.raises(ApiError) as refused:
            await client.raw("GET", "/api/v1/pods", accept="application/cbor")
        assert refused.value.code == 406
