"""One API server and one console for each module, on koord's own API server and on Kubernetes' own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.console.live.serving import Caller, Cluster, console, filled
from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.server_process import ServerProcess


@dataclass
class Served:
    cluster: Cluster
    url: str

    def __post_init__(self) -> None:
        self._tokens: dict[str, str] = {}

    def caller(self, account: str) -> Caller:
        if account not in self._tokens:
            self._tokens[account] = self.cluster.token(account)
        return Caller(self.url, self._tokens[account])

    @property
    def operator(self) -> Caller:
        return self.caller("operator")


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("console")
    if request.param == "embedded":
        with ServerProcess(folder / "data", "--durability", "fast"):
            cluster = filled(folder / "data" / "kubeconfig")
            with console(cluster.installed(folder), folder, "--sign-in", "token") as url:
                yield Served(cluster, url)
    else:
        with ControlPlane() as plane:
            cluster = filled(plane.kubeconfig)
            with console(cluster.installed(folder), folder, "--sign-in", "token") as url:
                yield Served(cluster, url)
