"""koord on older API servers: the story of an installation, on each kube-apiserver-1.NN that is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.admission.hooks import hooks
from koord.api import kinds
from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.kinds import Kind
from koord.api.protocol import names
from koord.kube.errors import Invalid
from koord.manager.live.registration import Endpoint, Registration
from koord.operate.install.live.cluster import Cluster
from koord.operate.install.versions import FINE_KUBELET_RIGHTS, OLDEST_SERVER, SERVER_FEATURES, read
from tests.control_plane import ControlPlane, find_binaries
from tests.operate.install.test_on_servers import Server, printed

OLDER = find_binaries("kube-apiserver-1.*")


def test_a_version_in_the_name_of_a_binary_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kube-apiserver-1.30", "kube-apiserver", "kubectl"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert "kube-apiserver-1.30" in find_binaries("kube-apiserver-1.*")


@pytest.mark.cluster
@pytest.mark.parametrize("binary", OLDER)
def test_koord_installs_works_and_goes_on_an_older_api_server(binary: str, capsys: pytest.CaptureFixture[str]) -> None:
    version = read(binary.rpartition("-")[2])
    assert version is not None
    assert version >= OLDEST_SERVER
    with ControlPlane(apiserver=binary) as plane:
        server = Server(plane.kubeconfig, capsys)
        keys = printed(server)
        assert server.koord("install")[0] == 0
        first = server.versions(keys)
        assert first.keys() == set(keys)
        assert server.koord("install")[0] == 0
        assert server.versions(keys) == first
        assert server.koord("install", "--diff")[:2] == (0, "")
        lacking_is_said(server, version)
        agents_may_ask_old_kubelets(server, version)
        server.ask(webhooks_keep_their_conditions)
        server.ask(kinds_check_what_they_are_given)
        assert server.koord("uninstall", "--yes", "--delete-crds", "--restore-timeout", "0")[0] == 0
        # No controller is there to finish the namespace.
        assert {key.kind for key in server.versions(keys)} <= {"Namespace"}


def lacking_is_said(server: Server, version: tuple[int, int]) -> None:
    _, out, _ = server.koord("check", "-o", "json")
    found = {check["feature"]: check for check in json.loads(out)["checks"]}
    assert found["API server"]["state"] == "works"
    assert found["kinds"]["state"] == "works"
    for feature in SERVER_FEATURES:
        assert (feature.name in found) is (version < feature.since)


def agents_may_ask_old_kubelets(server: Server, version: tuple[int, int]) -> None:
    """The rights of agents follow the kubelets that there may be."""
    rules = server.get(kinds.CLUSTER_ROLES, "koord-agent")["rules"]
    granted = {resource for rule in rules for resource in rule["resources"]}
    assert ("nodes/proxy" in granted) is (version < FINE_KUBELET_RIGHTS)


async def webhooks_keep_their_conditions(cluster: Cluster) -> None:
    """Otherwise all pods wait while no manager answers."""
    registration = Registration(
        cluster.client, names.WEBHOOK_MUTATING_CONFIGURATION, names.WEBHOOK_VALIDATING_CONFIGURATION
    )
    wanted = list(hooks(parse_gates(ManagerGate, "")))
    endpoint = Endpoint("koordinator-system", "koordinator-webhook-service")
    bundle = b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
    await registration.ensure(wanted, endpoint, bundle)
    assert not await registration.ensure(wanted, endpoint, bundle)
    kept = await cluster.client.get(kinds.MUTATING_WEBHOOK_CONFIGURATIONS, names.WEBHOOK_MUTATING_CONFIGURATION)
    expected = {hook.name: len(hook.conditions) for hook in wanted if hook.mutating}
    assert {webhook.name: len(webhook.match_conditions) for webhook in kept.webhooks} == expected
    assert any(expected.values())
    registered: list[tuple[Kind[Any], str]] = [
        (kinds.MUTATING_WEBHOOK_CONFIGURATIONS, names.WEBHOOK_MUTATING_CONFIGURATION),
        (kinds.VALIDATING_WEBHOOK_CONFIGURATIONS, names.WEBHOOK_VALIDATING_CONFIGURATION),
    ]
    for kind, name in registered:
        await cluster.client.patch(kind, name, {"webhooks": []})


async def kinds_check_what_they_are_given(cluster: Cluster) -> None:
    def reservation(name: str, **spec: Any) -> dict[str, Any]:
        template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
        owners = [{"object": {"namespace": "default", "name": "p"}}]
        return {"metadata": {"name": name}, "spec": {"template": template, "owners": owners, "ttl": "1h", **spec}}

    await cluster.client.create(kinds.RESERVATIONS, reservation("good"))
    with pytest.raises(Invalid):
        await cluster.client.create(kinds.RESERVATIONS, reservation("bad", owners="nobody"))
    reservations = await cluster.client.list(kinds.RESERVATIONS)
    assert [reservation.metadata.name for reservation in reservations] == ["good"]
