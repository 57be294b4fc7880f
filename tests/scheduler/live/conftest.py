"""A scheduler's API servers, each started once and emptied for each test: `server`, `client`, and who `seen` all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from koord.kube.client import Client
from tests.control_plane import ControlPlane
from tests.scheduler.live.embedded import serving
from tests.scheduler.live.servers import NO_TAINTS, Embedded, Real, Server, empty
from tests.scheduler.live.witness import Witness, witness


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Embedded(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def real_server() -> Iterator[Server]:
    with ControlPlane(NO_TAINTS) as plane:
        yield Real(plane)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def server(request: pytest.FixtureRequest) -> Server:
    """Each test on each server."""
    found: Server = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    """Of a server that has nothing yet."""
    async with Client.from_config(str(server.kubeconfig)) as client:
        await empty(client)
        yield client


@pytest.fixture
async def seen(client: Client) -> AsyncIterator[Witness]:
    async with witness(client) as seen:
        yield seen


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
async def new_server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Path]:
    """A new API server, koord's own and a real one: the kubeconfig of its administrator."""
    if request.param == "embedded":
        async with serving(tmp_path):
            yield tmp_path / "kubeconfig"
        return
    with ControlPlane(NO_TAINTS) as plane:
        yield plane.kubeconfig


@pytest.fixture
async def anywhere(new_server: Path) -> AsyncIterator[Client]:
    """A client of a new API server."""
    async with Client.from_config(str(new_server)) as client:
        yield client
