"""`koord install` and `koord uninstall` as a user runs them, on koord's own API server and on a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from koord.api import kinds
from koord.api.kinds import Kind
from koord.cli.main import run as koord
from koord.install.live.cluster import Cluster
from koord.install.manifest import Key, key_of
from koord.kube.client import Client
from koord.kube.locate import locate
from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.server_process import ServerProcess

pytestmark = pytest.mark.timeout(180)
R = TypeVar("R")


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

    def create(self, kind: Kind[Any], body: dict[str, Any]) -> None:
        self.ask(lambda cluster: cluster.client.create(kind, body))

    def patch(self, kind: Kind[Any], name: str, body: dict[str, Any], **more: Any) -> None:
        self.ask(lambda cluster: cluster.client.patch(kind, name, body, **more))

    def delete(self, kind: Kind[Any], name: str, namespace: str = "") -> None:
        self.ask(lambda cluster: cluster.delete(Key(kind.api_version, kind.kind, name, namespace)))

    def versions(self, keys: list[Key]) -> dict[Key, str]:
        async def look(cluster: Cluster) -> dict[Key, str]:
            live = await cluster.live(keys)
            return {key: each["metadata"]["resourceVersion"] for key, each in live.items()}  # type: ignore[index]

        return self.ask(look)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("install") / "data"
    with ServerProcess(folder, "--durability", "fast"):
        yield folder / "kubeconfig"


@pytest.fixture(scope="module")
def real() -> Iterator[Path]:
    with ControlPlane() as plane:
        yield plane.kubeconfig


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def server(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Server]:
    server = Server(request.getfixturevalue(request.param), capsys)
    yield server
    with capsys.disabled():
        koord(["uninstall", "--yes", "--restore-timeout", "0", "--kubeconfig", str(server.kubeconfig)])


def printed(server: Server, *args: str) -> list[Key]:
    code, out, _ = server.koord("install", "--dry-run", *args)
    assert code == 0
    return [key_of(each) for each in yaml.safe_load_all(out)]


def test_a_second_run_changes_nothing_and_uninstall_takes_all_of_it_away(server: Server) -> None:
    keys = printed(server)
    code, out, _ = server.koord("install", "--diff")
    assert (code, server.versions([key for key in keys if key.kind == "Deployment"])) == (0, {})
    assert "+kind: DaemonSet" in out

    code, out, _ = server.koord("install")
    assert code == 0
    first = server.versions(keys)
    assert first.keys() == set(keys)
    assert server.koord("install")[0] == 0
    assert server.versions(keys) == first
    assert server.koord("install", "--diff")[:2] == (0, "")

    server.patch(kinds.DEPLOYMENTS, "koord-manager", {"spec": {"replicas": 5}}, namespace="koordinator-system")
    _, out, _ = server.koord("install", "--diff")
    assert "-  replicas: 5\n+  replicas: 2\n" in out
    assert server.get(kinds.DEPLOYMENTS, "koord-manager", "koordinator-system")["spec"]["replicas"] == 5
    _, out, _ = server.koord("install")
    assert "1 changed" in out
    assert server.get(kinds.DEPLOYMENTS, "koord-manager", "koordinator-system")["spec"]["replicas"] == 2

    _, out, _ = server.koord("install", "--components", "manager,agent")
    assert "deleted" in out
    assert server.get(kinds.DEPLOYMENTS, "koord-scheduler", "koordinator-system") is None

    code, out, err = server.koord("uninstall", "--yes", "--restore-timeout", "0")
    assert (code, err) == (0, "")
    left = {key.kind for key in server.versions(keys)}
    # No controller is there to finish the namespace.
    assert left <= {"CustomResourceDefinition", "Namespace"}
    assert "CustomResourceDefinition reservations.scheduling.koordinator.sh" in out
    assert server.koord("uninstall", "--yes")[0] == 2
