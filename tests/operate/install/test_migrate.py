"""From Koordinator to koord and back, component by component, on API servers that have Koordinator's objects."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from koord.admission.hooks import hooks
from koord.api import kinds
from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.protocol import hand_over
from koord.api.protocol.lease_holders import identity
from koord.cli.main import run as koord
from koord.manager.live.registration import Endpoint, before_koord, entries
from koord.operate.install.kinds import kind_of
from koord.operate.install.live import migrating
from koord.operate.install.live.cluster import Cluster
from koord.operate.install.live.uninstalling import WEBHOOKS
from koord.operate.install.manifest import Json, Key, key_of
from koord.operate.install.migration import (
    THEIRS,
    Side,
    Standing,
    Theirs,
    in_the_way,
    moves,
    of_component,
    pause,
    resume,
    unusable_quotas,
    with_component,
)
from koord.operate.install.settings import COMPONENTS
from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.server_process import ServerProcess
from tests.operate.install import koordinator
from tests.operate.install.test_on_servers import Server
from tests.waiting import eventually

THERE, HERE = "koordinator-system", "koord-system"
LEASES = {each.component.name: each.lease for each in THEIRS if each.lease}


def side(kind: str, name: str, namespace: str, *, paused: bool = False, pods: int = 2) -> Side:
    return Side(Key("apps/v1", kind, name, namespace), paused, pods)


def standing(name: str, *, holder: str = "", there: Side | None = None, here: Side | None = None) -> Standing:
    return Standing(of_component(name), there, here, holder)


@pytest.mark.parametrize(
    ("of", "acts"),
    [
        (standing("scheduler", holder="koord-scheduler-7d_0b1c"), "Koordinator"),
        (standing("scheduler", holder=identity("koord-scheduler-7d", "0b1c")), "koord"),
        (standing("scheduler"), "nobody"),
        (standing("agent", there=side("DaemonSet", "koordlet", THERE)), "Koordinator"),
        (standing("agent", there=side("DaemonSet", "koordlet", THERE, paused=True, pods=0)), "nobody"),
        (
            standing(
                "agent",
                there=side("DaemonSet", "koordlet", THERE, paused=True, pods=1),
                here=side("DaemonSet", "koord-agent", HERE),
            ),
            "both",
        ),
    ],
)
def test_who_acts_is_said_by_the_lease_and_for_agents_by_their_pods(of: Standing, acts: str) -> None:
    assert of.acts == acts


@pytest.mark.parametrize("theirs", THEIRS, ids=lambda each: each.component.name)
def test_no_step_lets_both_act(theirs: Theirs) -> None:
    """A component with a lease may start before the other goes. One without starts after the other's pods are gone."""
    forth, back = moves(theirs.component, back=False), moves(theirs.component, back=True)
    assert forth.index("pause") < forth.index("wait")
    if theirs.lease:
        assert forth.index("install") < forth.index("pause")
        assert forth[-1] == "lead"
    else:
        assert forth.index("wait") < forth.index("install")
        assert back.index("restore") < back.index("remove") < back.index("resume")
    assert ("theirs lead" in back) == bool(theirs.lease)


@pytest.mark.parametrize(
    ("there", "namespace", "back", "says"),
    [
        (None, HERE, False, "koord install --components scheduler"),
        (side("Deployment", "koord-scheduler", "elsewhere"), HERE, False, "has its leases there"),
        (side("Deployment", "koord-scheduler", THERE), THERE, False, "choose another by -n"),
        (side("Deployment", "koord-scheduler", THERE), HERE, True, "Koordinator's already"),
        (side("Deployment", "koord-scheduler", THERE), HERE, False, ""),
        (side("Deployment", "koord-scheduler", THERE, paused=True, pods=0), HERE, True, ""),
    ],
)
def test_what_stands_in_the_way_is_said_before_anything_is_done(
    there: Side | None, namespace: str, back: bool, says: str
) -> None:
    why = in_the_way(standing("scheduler", there=there), namespace, back=back)
    assert says in why
    assert bool(why) == bool(says)


def merged(value: Any, patch: Any) -> Any:
    """A merge patch."""
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for name, each in patch.items():
        if each is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), each)
    return found


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_a_workload_that_was_paused_is_as_before_when_it_is_resumed(kind: str) -> None:
    workload = koordinator.workload(kind, "x", **({"replicas": 3} if kind == "Deployment" else {}))
    paused: Json = merged(workload, pause(workload))
    assert paused != workload
    assert pause(paused) is None
    assert resume(workload) is None
    again = merged(paused, resume(paused))
    # Empty maps are no difference to an API server.
    again["metadata"] = {name: each for name, each in again["metadata"].items() if each != {}}
    assert again == workload


def test_a_workload_that_somebody_scaled_up_meanwhile_is_paused_again() -> None:
    workload = koordinator.workload("Deployment", "x", replicas=3)
    by_hand = merged(merged(workload, pause(workload)), {"spec": {"replicas": 2}})
    assert resume(by_hand) is None
    again = merged(by_hand, pause(by_hand))
    assert merged(again, resume(again))["spec"]["replicas"] == 2


def elastic_quota(name: str, least: str, most: str, parent: str = "") -> Json:
    labels = {"quota.scheduling.koordinator.sh/parent": parent} if parent else {}
    spec = {"min": {"cpu": least}, "max": {"cpu": most}}
    return {"metadata": {"name": name, "namespace": "teams", "labels": labels}, "spec": spec}


def test_quotas_that_koords_scheduler_does_not_go_by_are_named_with_what_they_hold_up() -> None:
    quotas = [
        elastic_quota("good", "1", "2"),
        elastic_quota("top", "20", "10"),
        elastic_quota("a", "1", "10", "top"),
        elastic_quota("b", "1", "10", "a"),
        elastic_quota("odd", "many", "10"),
    ]
    one, other = unusable_quotas(quotas)
    assert one == (
        "ElasticQuota teams/top: spec.min.cpu: must be at most spec.max.cpu, 10, not 20; with koord's scheduler, new "
        "pods of this quota and of 2 quotas below it would wait: correct it first"
    )
    assert other.startswith("ElasticQuota teams/odd: 'many' is not a quantity")
    assert unusable_quotas(quotas[:1]) == []


def test_components_stay_in_the_order_in_which_they_are_rolled_out() -> None:
    assert with_component(("agent",), "manager", back=False) == ("manager", "agent")
    assert with_component(("manager", "agent"), "agent", back=True) == ("manager",)
    assert with_component((), "agent", back=True) == ()
    assert {each.component for each in THEIRS} == set(COMPONENTS)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def server(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    if request.param == "real":
        with ControlPlane() as plane:
            yield Server(plane.kubeconfig, capsys)
    else:
        with ServerProcess(tmp_path / "data", "--durability", "fast"):
            yield Server(tmp_path / "data" / "kubeconfig", capsys)


async def apply(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, Any]:
    """As another user; as the server has it afterwards."""
    key = key_of(manifest)
    path = kind_of(key).path(key.name, namespace=key.namespace)
    query = {"fieldManager": "helm", "force": "true"}
    body = json.dumps(manifest).encode()
    _, _, answer = await cluster.client.raw("PATCH", path, query, body, "application/apply-patch+yaml")
    found: dict[str, Any] = json.loads(answer)
    return found


async def install_koordinator(cluster: Cluster, version: str) -> list[Key]:
    """All of it but its processes; what a user has of it is returned."""
    definitions = koordinator.definitions(version)
    for definition in definitions:
        await apply(cluster, definition)
    for definition in definitions:
        await defined(cluster, key_of(definition))
    own = [*koordinator.components(version), *koordinator.users(version)]
    for each in own:
        await apply(cluster, each)
    for lease in LEASES.values():
        await hold(cluster, lease, f"{lease}-7d_0b1c")
    return [key_of(each) for each in own]


async def defined(cluster: Cluster, key: Key) -> None:
    async def is_established() -> bool:
        definition: Any = await cluster.get(key)
        conditions = definition.get("status", {}).get("conditions") or []
        return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)

    await eventually(is_established, what=f"{key} is established")


def done(server: Server, *args: str) -> str:
    """What a command said that ended well."""
    code, out, err = server.koord(*args)
    assert code == 0, err
    return out


async def hold(cluster: Cluster, lease: str, holder: str) -> None:
    meta = {"name": lease, "namespace": THERE}
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    await apply(cluster, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec})


def holder(server: Server, lease: str) -> str:
    return str(server.get(kinds.LEASES, lease, THERE)["spec"].get("holderIdentity") or "")


def said_by_users(server: Server, keys: list[Key]) -> dict[Key, Any]:
    """All that stands in these objects, but for what servers count and who wrote it."""

    async def look(cluster: Cluster) -> dict[Key, Any]:
        return {key: _content(each) for key, each in (await cluster.live(keys)).items()}

    return server.ask(look)


def _content(manifest: Any) -> Any:
    meta = {name: manifest["metadata"].get(name) for name in ("name", "namespace", "labels", "uid", "finalizers")}
    meta["annotations"] = {
        name: each
        for name, each in manifest["metadata"].get("annotations", {}).items()
        if name not in ("install.koord.sh/webhooks-before", "deprecated.daemonset.template.generation")
    }
    if "template" in meta["annotations"]:
        meta["annotations"]["template"] = json.dumps(json.loads(meta["annotations"]["template"]))
    return {**manifest, "metadata": meta, "status": None}


def test_webhooks_that_change_hands_wait_for_nobody_and_get_their_policies_back() -> None:
    (mutating,) = [
        component for component in koordinator.components("v1.8") if component["kind"] == "MutatingWebhookConfiguration"
    ]
    late = koordinator.webhook("mnode", "/mutate-node", failurePolicy="Ignore")
    before = {**mutating, "webhooks": [*mutating["webhooks"], late]}
    patch = hand_over.opened(before, HERE)
    assert patch is not None
    during = {
        **before,
        "webhooks": patch["webhooks"],
        "metadata": {
            **before["metadata"],
            "annotations": {**before["metadata"]["annotations"], **patch["metadata"]["annotations"]},
        },
    }
    assert [webhook["failurePolicy"] for webhook in during["webhooks"]] == ["Ignore", "Ignore"]
    assert hand_over.opened(during, HERE) is None, "nothing is left to open"
    # The manager that takes over keeps what was there before.
    endpoint = Endpoint(HERE, "koordinator-webhook-service")
    assert json.loads(before_koord(during, endpoint) or "") == before["webhooks"]
    koords = {**before, "webhooks": entries(hooks(parse_gates(ManagerGate), HERE), endpoint, b"")}
    assert hand_over.opened(koords, HERE) is None
    back = hand_over.closed(during)
    assert back is not None
    assert back["webhooks"] == before["webhooks"]
    template = json.loads(back["metadata"]["annotations"]["template"])
    assert template == json.loads(before["metadata"]["annotations"]["template"])
    assert hand_over.closed(before) is None


MOST = {"spec": {"max": {"cpu": "100"}}}
QUOTAS = ("koordinator-root-quota", "koordinator-system-quota", "koordinator-default-quota")


async def write_as_koordinator(cluster: Cluster) -> None:
    """Under the names that koord's components write under, too."""
    for name in QUOTAS:
        meta = {"name": name, "namespace": THERE}
        await cluster.client.create(kinds.ELASTIC_QUOTAS, {"metadata": meta, **MOST}, field_manager="koord-scheduler")
    await cluster.client.create(
        kinds.NODE_SLOS, {"metadata": {"name": "n9"}, "spec": {"extensions": {}}}, field_manager="koord-manager"
    )
    await cluster.client.create(kinds.NODES, {"metadata": {"name": "n9"}})
    lent = {"status": {"allocatable": {"kubernetes.io/batch-cpu": "2k"}}}
    await cluster.client.patch(kinds.NODES, "n9", lent, subresource="status", field_manager="koord-manager")


def test_uninstall_beside_a_running_koordinator_leaves_what_that_one_uses(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrating, "UNRENEWED_S", 0.0)
    keys = server.ask(lambda cluster: install_koordinator(cluster, "v1.8"))
    before = said_by_users(server, keys)
    done(server, "migrate", "scheduler", "--wait", "0")
    server.ask(write_as_koordinator)
    done(server, "migrate", "scheduler", "--back", "--wait", "0")
    code, out, err = server.koord("uninstall", "--yes", "--restore-timeout", "0", "-n", HERE)
    assert (code, err) == (0, "")
    assert "Koordinator's scheduler uses it" in out
    for name in QUOTAS:
        assert server.get(kinds.ELASTIC_QUOTAS, name, THERE) is not None
    assert server.get(kinds.NODE_SLOS, "n9") is not None
    assert server.get(kinds.NODES, "n9")["status"]["allocatable"] == {"kubernetes.io/batch-cpu": "2k"}
    assert server.get(kinds.CONFIG_MAPS, "koord-installation", HERE) is None
    assert server.get(kinds.SECRETS, "koordinator-webhook-certs", HERE) is None
    assert said_by_users(server, keys) == before
    assert server.koord("uninstall", "--yes", "-n", HERE)[0] == 2, "nothing is left to take away"


@pytest.mark.parametrize("version", ["v1.4", pytest.param("v1.8", marks=pytest.mark.cluster)])
def test_each_component_changes_hands_and_back_and_all_of_koordinator_is_as_before(
    server: Server, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Here no process renews a lease, and no controller makes pods.
    monkeypatch.setattr(migrating, "UNRENEWED_S", 0.0)
    keys = server.ask(lambda cluster: install_koordinator(cluster, version))
    before = said_by_users(server, keys)
    assert len(before) == len(keys)
    code, out, err = server.koord("migrate")
    assert (code, err) == (0, "")
    assert out.count("Koordinator  ") >= 3
    assert "Nothing stands in the way" in out
    assert len(done(server, "migrate", "manager", "--dry-run").splitlines()) == 6
    assert said_by_users(server, keys) == before
    theirs = {f"koord-{lease}" for lease in LEASES} | {"koordlet"}
    for each in ("scheduler", "manager", "descheduler", "agent"):
        done(server, "migrate", each, "--wait", "0")
        if lease := LEASES.get(each):
            assert holder(server, lease) == ""
            server.ask(lambda cluster, lease=lease, name=each: hold(cluster, lease, identity(name, "1")))  # type: ignore[misc]
    now = said_by_users(server, keys)
    # No object of a user's and no configuration is another; the workloads wait, and no request waits for the webhooks.
    assert {key.name for key in keys if now[key] != before[key]} == theirs | {key.name for key in WEBHOOKS}
    for key in WEBHOOKS:
        assert {entry["failurePolicy"] for entry in now[key]["webhooks"]} == {"Ignore"}
        assert '"Fail"' not in now[key]["metadata"]["annotations"]["template"]
    assert server.get(kinds.DEPLOYMENTS, "koord-descheduler", THERE)["spec"]["replicas"] == 0
    ours = server.get(kinds.CONFIG_MAPS, "koord-scheduler-config", HERE)["data"]["config.yaml"]
    assert "usageThresholds" in ours
    code, out, _ = server.koord("migrate", "-o", "json")
    assert [(each["component"], each["koordinator"]["paused"]) for each in json.loads(out)["components"]] == [
        (component.name, True) for component in COMPONENTS
    ]
    assert {each["acts"] for each in json.loads(out)["components"]} == {"koord", "nobody"}

    for each in ("manager", "agent", "scheduler", "descheduler"):
        done(server, "migrate", each, "--back", "--wait", "0")
        if lease := LEASES.get(each):
            server.ask(lambda cluster, lease=lease: hold(cluster, lease, f"{lease}-7d_0b1c"))  # type: ignore[misc]
    assert said_by_users(server, keys) == before
    assert server.get(kinds.DEPLOYMENTS, "koord-scheduler", HERE) is None

    code, out, err = server.koord("uninstall", "--yes", "--delete-crds", "--restore-timeout", "0", "-n", HERE)
    assert (code, err) == (0, "")
    assert "it was there before koord (written by helm" in out
    assert server.get(kinds.SECRETS, "koordinator-webhook-certs", HERE) is None
    assert said_by_users(server, keys) == before
    assert {holder(server, lease) for lease in LEASES.values()} == {f"{lease}-7d_0b1c" for lease in LEASES.values()}


def test_a_holder_that_lives_keeps_its_lease_and_a_configuration_that_koord_does_not_take_is_named(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It ends as soon as it sees a renewal.
    monkeypatch.setattr(migrating, "UNRENEWED_S", 60.0)
    server.ask(lambda cluster: install_koordinator(cluster, "v1.8"))
    text = server.get(kinds.CONFIG_MAPS, "koord-scheduler-config", THERE)["data"]["koord-scheduler-config"]
    wrong = {"data": {"koord-scheduler-config": text.replace("usageThresholds", "usageTresholds")}}
    server.patch(kinds.CONFIG_MAPS, "koord-scheduler-config", wrong, namespace=THERE)
    code, out, err = server.koord("migrate", "scheduler", "--wait", "0")
    assert (code, out) == (2, "")
    assert "usageTresholds" in err
    right = {"data": {"koord-scheduler-config": text}}
    server.patch(kinds.CONFIG_MAPS, "koord-scheduler-config", right, namespace=THERE)

    async def renewed(cluster: Cluster) -> None:
        """By a process that no Deployment knows of."""
        transitions = 0
        while True:
            transitions += 1
            spec = {"spec": {"leaseTransitions": transitions}}
            await cluster.client.patch(kinds.LEASES, "koord-scheduler", spec, namespace=THERE)
            await asyncio.sleep(0.02)

    async def beside(cluster: Cluster) -> str:
        task = asyncio.create_task(renewed(cluster))
        try:
            command = ["migrate", "scheduler", "--wait", "0", "--kubeconfig", str(server.kubeconfig)]
            code = await asyncio.to_thread(koord, command)
        finally:
            task.cancel()
        assert code == 2
        return str(server.said.readouterr().err)

    assert "koord-scheduler-7d_0b1c still renews it" in server.ask(beside)
    assert holder(server, "koord-scheduler") == "koord-scheduler-7d_0b1c"
    # It is as far as that, and goes on when the process has ended; or back.
    monkeypatch.setattr(migrating, "UNRENEWED_S", 0.0)
    done(server, "migrate", "scheduler", "--wait", "0")
    done(server, "migrate", "scheduler", "--back", "--wait", "0")
    assert server.get(kinds.DEPLOYMENTS, "koord-scheduler", THERE)["spec"]["replicas"] == 2
