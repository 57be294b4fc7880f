"""`koord install` and `koord uninstall` as a user runs them, on koord's own API server and on a real one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast
from unittest.mock import ANY

import pytest

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.protocol import names
from koord.api.text.yaml import load_all
from koord.cli.main import run as koord
from koord.kube.client import Client
from koord.kube.errors import ApiError, Forbidden, NotFound
from koord.kube.locate import locate
from koord.operate.install.kinds import kind_of
from koord.operate.install.live.cluster import Cluster
from koord.operate.install.manifest import Key, key_of, made
from koord.operate.install.objects import desired
from koord.operate.install.settings import Settings
from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.server_process import ServerProcess
from tests.waiting import eventually, until

R = TypeVar("R")
MOST = {"spec": {"max": {"cpu": "100"}}}
SETTINGS = Settings(image="koord:1", version="1.0.0")
ALL = [key_of(each) for each in desired(SETTINGS)]


@dataclass
class Server:
    """One API server, without nodes or controllers."""

    kubeconfig: Path
    said: Any

    def koord(self, *args: str, kubeconfig: Path | None = None) -> tuple[int, str, str]:
        """The exit code, and what was said on stdout and stderr."""
        self.said.readouterr()
        code = koord([*args, "--kubeconfig", str(kubeconfig or self.kubeconfig)])
        out, err = self.said.readouterr()
        return code, out, err

    def ask(self, work: Callable[[Cluster], Coroutine[Any, Any, R]]) -> R:
        async def go() -> R:
            async with Client(locate(str(self.kubeconfig))) as client:
                return await work(Cluster(client))

        return asyncio.run(go())

    def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        return self.ask(lambda cluster: cluster.get(Key(kind.api_version, kind.kind, name, namespace)))

    def create(self, kind: Kind[Any], body: dict[str, Any], *, dry_run: bool = False) -> None:
        self.ask(lambda cluster: cluster.client.create(kind, body, dry_run=dry_run))

    def patch(self, kind: Kind[Any], name: str, body: dict[str, Any], **more: Any) -> None:
        self.ask(lambda cluster: cluster.client.patch(kind, name, body, **more))

    def delete(self, kind: Kind[Any], name: str, namespace: str = "") -> None:
        self.ask(lambda cluster: cluster.delete(Key(kind.api_version, kind.kind, name, namespace)))

    def until_gone(self, kind: Kind[Any], name: str) -> None:
        until(lambda: self.get(kind, name) is None, what=f"{kind} {name} is gone")

    def versions(self, keys: list[Key]) -> dict[Key, str]:
        """The versions of those that exist."""

        async def look(cluster: Cluster) -> dict[Key, str]:
            return {key: _version(each) for key, each in (await cluster.live(keys)).items()}

        return self.ask(look)


def _version(manifest: Any) -> str:
    meta = manifest["metadata"]
    if manifest["kind"] == "CustomResourceDefinition":
        # A server writes conditions into it by and by; any other change makes another generation of it.
        return f"{meta['uid']}/{meta['generation']}"
    return str(meta["resourceVersion"])


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("install") / "data"
    with ServerProcess(folder, "--durability", "fast"):
        yield folder / "kubeconfig"


@pytest.fixture(scope="module")
def real() -> Iterator[Path]:
    with ControlPlane() as plane:
        yield plane.kubeconfig


async def finish_namespace(cluster: Cluster) -> None:
    """What the namespace controller does when a namespace that is being deleted is empty."""
    found: Any = await cluster.get(Key("v1", "Namespace", "koordinator-system"))
    if found is None or not found["metadata"].get("deletionTimestamp"):
        return
    path = "/api/v1/namespaces/koordinator-system/finalize"
    body = {**found, "spec": {"finalizers": []}}
    await cluster.client.raw("PUT", path, body=json.dumps(body).encode())
    with suppress(NotFound):
        await cluster.client.patch(kinds.NAMESPACES, "koordinator-system", {"metadata": {"finalizers": None}})


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def server(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Server]:
    server = Server(request.getfixturevalue(request.param), capsys)
    yield server
    if server.get(kinds.CONFIG_MAPS, "koord-installation", "koordinator-system") is not None:
        server.koord("uninstall", "--yes", "--delete-crds", "--restore-timeout", "0")
    server.ask(finish_namespace)


def printed(server: Server, *args: str) -> list[Key]:
    code, out, _ = server.koord("install", "--dry-run", *args)
    assert code == 0
    return [key_of(each) for each in load_all(out, "stdout") if isinstance(each, dict)]


def test_a_second_run_changes_nothing_and_uninstall_takes_all_of_it_away(server: Server) -> None:
    keys = printed(server)
    code, out, _ = server.koord("install", "-o", "json")
    assert code == 0
    assert set(json.loads(out)["created"]) == {str(key) for key in keys}
    first = server.versions(keys)
    assert first.keys() == set(keys)
    assert server.koord("install")[0] == 0
    assert server.versions(keys) == first
    assert server.koord("install", "--diff") == (0, "", "nothing would change\n")

    server.patch(kinds.DEPLOYMENTS, "koord-manager", {"spec": {"replicas": 5}}, namespace="koordinator-system")
    _, out, _ = server.koord("install", "--diff")
    assert "-  replicas: 5\n+  replicas: 2\n" in out
    assert server.get(kinds.DEPLOYMENTS, "koord-manager", "koordinator-system")["spec"]["replicas"] == 5
    _, out, _ = server.koord("install")
    assert "1 changed" in out
    assert server.get(kinds.DEPLOYMENTS, "koord-manager", "koordinator-system")["spec"]["replicas"] == 2

    server.ask(a_node_that_koord_wrote_on)
    _, out, _ = server.koord("uninstall", "--dry-run", "-o", "json")
    assert "Deployment koordinator-system/koord-manager" in json.loads(out)["delete"]
    code, _, err = server.koord("uninstall")
    assert code == 2
    assert "there is no terminal to ask on: add --yes to delete without asking, or --dry-run" in err
    code, out, err = server.koord("uninstall", "--yes", "--restore-timeout", "0")
    assert (code, err) == (0, "")
    node = server.get(kinds.NODES, "n1")
    assert node["status"]["allocatable"] == node["status"]["capacity"] == {"cpu": "4"}
    assert node["metadata"]["labels"] == {"pool": "web"}
    assert "koord" not in json.dumps(node["metadata"].get("annotations", {}))
    server.delete(kinds.NODES, "n1")
    assert server.ask(maps) <= {"kube-root-ca.crt"}
    left = {key.kind for key in server.versions(keys)}
    # No controller is there to finish the namespace.
    assert left <= {"CustomResourceDefinition", "Namespace"}
    assert "CustomResourceDefinition reservations.scheduling.koordinator.sh" in out
    assert server.koord("uninstall", "--yes")[0] == 2


def test_a_quota_that_a_manager_which_still_runs_refuses_to_delete_stays_and_the_rest_goes(server: Server) -> None:
    """As where koord up runs its own manager: it registers its webhooks again, and keeps its quotas."""
    assert server.koord("install")[0] == 0

    async def refused(cluster: Cluster) -> None:
        meta = {"name": names.QUOTA_DEFAULT, "namespace": names.NAMESPACE_KOORDINATOR}
        await cluster.client.create(kinds.ELASTIC_QUOTAS, {"metadata": meta, **MOST}, field_manager="koord-scheduler")
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["elasticquotas"]}
        entry = {
            "name": "velasticquota.koordinator.sh",
            "clientConfig": {"url": "https://127.0.0.1:9/validate"},
            "rules": [rule],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        body = {"metadata": {"name": "still-runs"}, "webhooks": [entry]}
        await cluster.client.create(kinds.VALIDATING_WEBHOOK_CONFIGURATIONS, body)

        async def is_refused() -> bool:
            try:
                await cluster.client.delete(
                    kinds.ELASTIC_QUOTAS, meta["name"], namespace=meta["namespace"], dry_run=True
                )
            except ApiError:
                return True
            return False

        # Servers follow configurations a moment later.
        await eventually(is_refused)

    server.ask(refused)
    code, out, err = server.koord("uninstall", "--yes", "--restore-timeout", "0")
    assert (code, err) == (0, "")
    assert "a manager that still runs refuses to delete it" in out
    assert server.get(kinds.ELASTIC_QUOTAS, names.QUOTA_DEFAULT, names.NAMESPACE_KOORDINATOR) is not None
    assert server.get(kinds.CONFIG_MAPS, "koord-installation", names.NAMESPACE_KOORDINATOR) is None
    assert server.get(kinds.SECRETS, "koordinator-webhook-certs", names.NAMESPACE_KOORDINATOR) is None
    server.delete(kinds.VALIDATING_WEBHOOK_CONFIGURATIONS, "still-runs")
    server.ask(lambda cluster: cluster.client.delete(kinds.NAMESPACES, names.NAMESPACE_KOORDINATOR))


async def maps(cluster: Cluster) -> set[str]:
    config_maps = await cluster.client.list(kinds.CONFIG_MAPS, namespace=names.NAMESPACE_KOORDINATOR)
    return {config_map.metadata.name for config_map in config_maps}


async def a_node_that_koord_wrote_on(cluster: Cluster) -> None:
    """What a manager and an agent write, beside what kubelet and a user wrote."""
    client = cluster.client
    await client.create(kinds.NODES, {"metadata": {"name": "n1", "labels": {"pool": "web"}}}, field_manager="kubectl")
    plain = {"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}}
    await client.patch(kinds.NODES, "n1", plain, subresource="status", field_manager="kubelet")
    lent = {"kubernetes.io/batch-cpu": "2000"}
    more = {"status": {"capacity": lent, "allocatable": lent}}
    await client.patch(kinds.NODES, "n1", more, subresource="status", field_manager="koord-manager")
    noted = {"metadata": {"annotations": {"node.koordinator.sh/last": "x"}, "labels": {"koord": "yes"}}}
    await client.patch(kinds.NODES, "n1", noted, field_manager="koord-agent")
    meta = {"name": names.CONFIGMAP_ROLLOUTS, "namespace": names.NAMESPACE_KOORDINATOR}
    rollouts = {"metadata": meta, "data": {"lending": "{}"}}
    await client.create(kinds.CONFIG_MAPS, rollouts, field_manager="koord-cli")


class Killed(BaseException):
    """As a signal that cannot be caught: nothing more is written."""


def killed_after(patched: pytest.MonkeyPatch, writes: int, server: Server, *line: str) -> None:
    """A command that comes to its end at its so-manyeth write."""
    left = [writes]

    def mortal(write: Callable[..., Coroutine[Any, Any, R]]) -> Callable[..., Coroutine[Any, Any, R]]:
        async def done(cluster: Cluster, *args: Any, **more: Any) -> R:
            left[0] -= not more.get("dry_run")
            if left[0] < 0:
                raise Killed
            return await write(cluster, *args, **more)

        return done

    with patched.context() as until_then:
        for name in ("apply", "delete", "patch"):
            until_then.setattr(Cluster, name, mortal(getattr(Cluster, name)))
        with pytest.raises((Killed, BaseExceptionGroup)):
            server.koord(*line)
    assert left[0] < 0


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
def test_what_was_killed_in_the_middle_is_finished_or_undone_by_the_next_run(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = ("uninstall", "--yes", "--delete-crds", "--restore-timeout", "0")
    keys = printed(server)
    # Among the kinds, and among the workloads.
    killed_after(monkeypatch, 7, server, "install")
    killed_after(monkeypatch, 35, server, "install")
    assert server.koord("install")[0] == 0
    assert server.koord("install", "--diff")[:2] == (0, "")
    # Among the rights, and among what goes last.
    killed_after(monkeypatch, 4, server, *away)
    killed_after(monkeypatch, 20, server, *away)
    assert server.koord(*away)[0] == 0
    server.ask(finish_namespace)
    # Kinds go when their objects are gone.
    until(lambda: not server.versions(keys))


def test_an_upgrade_keeps_the_settings_and_refuses_to_go_back(server: Server) -> None:
    assert server.koord("install", "--replicas", "3", "--components", "manager")[0] == 0
    code, out, _ = server.koord("check", "-o", "json")
    checks = {check["feature"]: check["state"] for check in json.loads(out)["checks"]}
    assert server.koord("status")[0] == 1
    # Nobody runs it here.
    assert (code, checks["manager"], checks["kinds"], checks["scheduler"]) == (1, "broken", "works", "off")
    assert server.koord("upgrade", "--diff")[:2] == (0, "")
    code, out, _ = server.koord("upgrade", "--image", "other:2", "--wait", "0")
    assert (code, "1 changed" in out) == (0, True)
    spec = server.get(kinds.DEPLOYMENTS, "koord-manager", "koordinator-system")["spec"]
    assert (spec["replicas"], spec["template"]["spec"]["containers"][0]["image"]) == (3, "other:2")

    record = server.get(kinds.CONFIG_MAPS, "koord-installation", "koordinator-system")
    newer = record["data"]["settings"].replace('"version":"0.1.0"', '"version":"9.0.0"')
    patch = {"data": {"settings": newer}}
    server.patch(kinds.CONFIG_MAPS, "koord-installation", patch, namespace="koordinator-system")
    code, _, err = server.koord("upgrade")
    assert code == 2
    assert "installed is 9.0.0, this is 0.1.0" in err
    assert server.koord("upgrade", "--allow-downgrade", "--wait", "0")[0] == 0


@pytest.mark.cluster
def test_the_restricted_profile_admits_all_pods_but_the_agents(real: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(real, capsys)
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    server.create(kinds.NAMESPACES, {"metadata": {"name": "strict", "labels": label}})
    workloads: list[Any] = [each for each in desired(SETTINGS) if each["kind"] in ("Deployment", "DaemonSet")]
    assert len(workloads) == 4
    for workload in workloads:
        name = workload["metadata"]["name"]
        pod = {"metadata": {"name": name, "namespace": "strict"}, "spec": workload["spec"]["template"]["spec"]}
        if name == "koord-agent":
            with pytest.raises(Forbidden, match="restricted"):
                server.create(kinds.PODS, pod, dry_run=True)
        else:
            server.create(kinds.PODS, pod, dry_run=True)


def account(server: Server, folder: Path, *rules: dict[str, Any]) -> Path:
    """A kubeconfig of a user who has these rights in the whole cluster, and no others."""
    name = "half-trusted"

    async def make(cluster: Cluster) -> str:
        await cluster.apply(made("v1", "ServiceAccount", name, "default"))
        rbac = "rbac.authorization.k8s.io"
        await cluster.apply(made(f"{rbac}/v1", "ClusterRole", name, rules=list(rules)))
        await cluster.apply(
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
            }
        )
        body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).encode()
        path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
        _, _, answer = await cluster.client.raw("POST", path, body=body)
        return str(json.loads(answer)["status"]["token"])

    token = server.ask(make)
    (config,) = cast("list[Any]", load_all(server.kubeconfig.read_text(), "kubeconfig"))
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    path = folder / "half-trusted"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path


def everything_but(*resources: str) -> dict[str, Any]:
    known = {kind_of(key).plural for key in ALL}
    verbs = ["get", "list", "watch", "create", "patch", "delete"]
    return {"apiGroups": ["*"], "resources": sorted(known - set(resources)), "verbs": verbs}


def test_every_missing_right_is_named_at_once_and_nothing_is_half_installed(server: Server, tmp_path: Path) -> None:
    before = server.versions(ALL)
    kubeconfig = account(server, tmp_path, everything_but("deployments", "clusterroles"))
    code, out, err = server.koord("install", kubeconfig=kubeconfig)
    assert (code, out) == (2, "")
    for right in (
        "create clusterroles.rbac.authorization.k8s.io",
        "patch deployments.apps koord-scheduler in namespace koordinator-system",
        "get deployments.apps koord-manager in namespace koordinator-system",
    ):
        assert right in err
    assert "nothing was changed" in err
    assert server.versions(ALL) == before


def test_who_may_not_grant_rights_is_told_before_anything_is_written(server: Server, tmp_path: Path) -> None:
    """Creating a role takes having its rights: the dry run finds that out."""
    before = server.versions(ALL)
    kubeconfig = account(server, tmp_path, everything_but())
    code, _, err = server.koord("install", kubeconfig=kubeconfig)
    assert code == 2
    for component in ("manager", "scheduler", "descheduler", "agent"):
        assert f"ClusterRole koord-{component}: " in err
    assert server.versions(ALL) == before


def test_a_webhook_of_somebody_else_an_old_kind_and_a_dying_namespace_are_refused_together(
    server: Server, tmp_path: Path
) -> None:
    name = names.WEBHOOK_MUTATING_CONFIGURATION
    server.create(kinds.MUTATING_WEBHOOK_CONFIGURATIONS, {"metadata": {"name": name, "labels": {"team": "others"}}})
    server.create(kinds.NAMESPACES, {"metadata": {"name": "koordinator-system", "finalizers": ["test/stay"]}})
    server.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, "podgroups.scheduling.sigs.k8s.io")
    server.until_gone(kinds.CUSTOM_RESOURCE_DEFINITIONS, "podgroups.scheduling.sigs.k8s.io")
    server.create(kinds.CUSTOM_RESOURCE_DEFINITIONS, _old_kind())
    before = server.versions(ALL)
    server.delete(kinds.NAMESPACES, "koordinator-system")
    try:
        code, out, err = server.koord("install", "--adopt")
        assert (code, out) == (2, "")
        assert "Namespace koordinator-system: it is being deleted" in err
        assert "podgroups.scheduling.sigs.k8s.io: objects are stored as v1" in err
        # Without --adopt, and by a user who may look at everything and not write Deployments.
        looking = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]}
        kubeconfig = account(server, tmp_path, everything_but("deployments"), looking)
        code, out, err = server.koord("install", kubeconfig=kubeconfig)
        assert (code, out) == (2, "")
        assert "Namespace koordinator-system: it is being deleted" in err
        assert "podgroups.scheduling.sigs.k8s.io: objects are stored as v1" in err
        assert f"MutatingWebhookConfiguration {name}: it exists and is not koord's" in err
        assert "missing right: create deployments.apps in namespace koordinator-system" in err
        assert "nothing was changed" in err
        assert server.versions(ALL) == {**before, Key("v1", "Namespace", "koordinator-system"): ANY}
        kept = server.get(kinds.MUTATING_WEBHOOK_CONFIGURATIONS, name)
        assert kept["metadata"]["labels"] == {"team": "others"}
    finally:
        server.delete(kinds.MUTATING_WEBHOOK_CONFIGURATIONS, name)
        server.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, "podgroups.scheduling.sigs.k8s.io")


def test_an_agent_of_another_system_on_the_same_names_is_refused_with_its_reason(server: Server) -> None:
    where = {"name": "volcano-agent", "namespace": "default"}
    labels = {"name": "volcano-agent"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "volcano-agent", "image": "a:1"}]}}
    server.create(
        kinds.DAEMON_SETS, {"metadata": where, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    )
    try:
        before = server.versions(ALL)
        code, out, err = server.koord("install")
        assert (code, out) == (2, "")
        assert "DaemonSet default/volcano-agent is Volcano's node agent: it writes kubernetes.io/batch-cpu" in err
        assert "nothing was changed" in err
        assert server.versions(ALL) == before
        code, out, _ = server.koord("check", "-o", "json")
        checks = {check["feature"]: check["state"] for check in json.loads(out)["checks"]}
        assert (code, checks["Volcano's node agent (DaemonSet default/volcano-agent)"]) == (1, "broken")
        assert server.koord("install", "--components", "scheduler,descheduler")[0] == 0
    finally:
        server.delete(kinds.DAEMON_SETS, "volcano-agent", "default")


def test_neighbours_are_named_by_what_they_leave_on_the_cluster(server: Server) -> None:
    """A provider may run an autoscaler where users cannot see its pods."""
    status = {"name": "cluster-autoscaler-status", "namespace": "kube-system"}
    server.ask(lambda cluster: cluster.client.create(kinds.CONFIG_MAPS, {"metadata": status}))
    definition = _old_kind()
    definition["metadata"]["name"] = "nodepools.karpenter.sh"
    definition["metadata"].pop("annotations", None)
    definition["spec"] |= {
        "group": "karpenter.sh",
        "names": {"kind": "NodePool", "listKind": "NodePoolList", "plural": "nodepools", "singular": "nodepool"},
    }
    server.create(kinds.CUSTOM_RESOURCE_DEFINITIONS, definition)
    try:
        deadline_s = time.monotonic() + 60
        wanted = {
            "Cluster Autoscaler (ConfigMap kube-system/cluster-autoscaler-status)",
            "Karpenter (API group karpenter.sh)",
        }
        while True:
            _, out, _ = server.koord("check", "-o", "json")
            found = {check["feature"]: check["state"] for check in json.loads(out)["checks"]}
            # A server serves a new group a moment after it is stored.
            if wanted <= found.keys():
                break
            assert time.monotonic() < deadline_s, found
        assert {found[each] for each in wanted} == {"works"}
        assert found["other co-location systems"] == "works"
    finally:
        server.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, "nodepools.karpenter.sh")
        server.delete(kinds.CONFIG_MAPS, "cluster-autoscaler-status", "kube-system")


def _old_kind() -> dict[str, Any]:
    """podgroups as another product defines them: stored in a version that koord does not serve."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    return {
        "metadata": {
            "name": "podgroups.scheduling.sigs.k8s.io",
            "annotations": {
                "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/52"
            },
        },
        "spec": {
            "group": "scheduling.sigs.k8s.io",
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "kind": "PodGroup"},
            "versions": [version],
        },
    }
