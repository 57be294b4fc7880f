"""A definition is served when it is established, and goes when its objects are gone."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from koord.api.kubernetes.access import MASTERS, UserInfo
from koord_minicluster.apiserver.objects import Context
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.server import ApiServer, ServeOptions
from koord_minicluster.apiserver.status import StatusError
from tests.minicluster.apiserver.bodies.definitions import crd
from tests.waiting import eventually


def context() -> Context:
    return Context(UserInfo("tester", groups=(MASTERS,)), "tester")


class Cluster:
    """A server, spoken to without HTTP."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        resource = server.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert resource is not None
        self.definitions: Resource = resource

    async def define(self, definition: Obj) -> None:
        await self.server.objects.create(self.definitions, "", copy.deepcopy(definition), context())

    def served(self, plural: str = "foos") -> Resource | None:
        return self.server.registry.find("x.io", "v1", plural)

    def definition(self, name: str = "foos.x.io") -> Obj | None:
        entry = self.server.objects.collection(self.definitions).get(name)
        return msgspec.json.decode(entry.value) if entry is not None else None

    def condition(self, type_: str, name: str = "foos.x.io") -> str:
        conditions = ((self.definition(name) or {}).get("status") or {}).get("conditions") or ()
        return next((condition["status"] for condition in conditions if condition["type"] == type_), "")

    async def create(self, name: str, **metadata: object) -> None:
        resource = self.served()
        assert resource is not None
        foo = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": name, **metadata}}
        await self.server.objects.create(resource, "default", foo, context())


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with ApiServer(ServeOptions(tmp_path)) as server:
        yield Cluster(server)


async def test_a_definition_is_served_by_the_time_it_says_so(cluster: Cluster) -> None:
    await cluster.define(crd())
    await eventually(lambda: cluster.condition("Established") == "True")
    assert cluster.served() is not None
    await cluster.create("a")


async def test_a_definition_whose_names_are_taken_waits_for_them(cluster: Cluster) -> None:
    await cluster.define(crd())
    await eventually(lambda: cluster.condition("Established") == "True")
    second = crd(names={"plural": "bars", "kind": "Foo"})
    second["metadata"]["name"] = "bars.x.io"
    await cluster.define(second)
    await eventually(lambda: cluster.condition("NamesAccepted", "bars.x.io") == "False")
    assert cluster.served("bars") is None
    await cluster.server.objects.delete(cluster.definitions, "", "foos.x.io", {}, context())
    await eventually(lambda: cluster.condition("Established", "bars.x.io") == "True")
    assert cluster.served("bars") is not None


async def test_a_deleted_definition_takes_its_objects_along_and_waits_for_their_finalizers(cluster: Cluster) -> None:
    await cluster.define(crd())
    await eventually(lambda: cluster.condition("Established") == "True")
    await cluster.create("a")
    await cluster.create("b", finalizers=["x.io/hold"])
    resource = cluster.served()
    assert resource is not None
    await cluster.server.objects.delete(cluster.definitions, "", "foos.x.io", {}, context())
    await eventually(lambda: len(cluster.server.objects.collection(resource)) == 1)
    assert cluster.condition("Terminating") == "True"
    with pytest.raises(StatusError, match="terminating"):
        await cluster.create("c")

    def released(obj: Obj) -> Obj:
        return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "finalizers"}}

    await cluster.server.objects.update(resource, "default", "b", released, context())
    await eventually(lambda: cluster.definition() is None)
    assert cluster.served() is None


async def test_what_was_established_is_served_again_after_a_restart(tmp_path: Path) -> None:
    async with ApiServer(ServeOptions(tmp_path)) as server:
        cluster = Cluster(server)
        await cluster.define(crd())
        await eventually(lambda: cluster.condition("Established") == "True")
        await cluster.create("a")
    async with ApiServer(ServeOptions(tmp_path)) as server:
        resource = Cluster(server).served()
        assert resource is not None
        assert server.objects.collection(resource).get("default/a") is not None


async def test_a_change_of_the_schema_takes_effect(cluster: Cluster) -> None:
    await cluster.define(crd())
    await eventually(lambda: cluster.condition("Established") == "True")
    generation = cluster.server.registry.generation

    def stricter(obj: Obj) -> Obj:
        obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"] = ["spec"]
        return obj

    await cluster.server.objects.update(cluster.definitions, "", "foos.x.io", stricter, context())
    await eventually(lambda: cluster.server.registry.generation > generation)
    with pytest.raises(StatusError, match="spec: Required value"):
        await cluster.create("a")
