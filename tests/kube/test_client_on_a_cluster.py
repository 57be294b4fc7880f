"""Every call of the client against a real kube-apiserver."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator

import msgspec
import pytest

from koord.api.kinds import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS, Kind
from koord.api.kubernetes.core import ConfigMap
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.codec import decode
from koord.kube.client import Client
from koord.kube.discovery import Unstructured
from koord.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    EvictionRefused,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    Unauthorized,
    UnsupportedMediaType,
)
from koord.operate.install.versions import OLDEST_SERVER
from tests.control_plane import STREAMS_LISTS, ControlPlane

pytestmark = pytest.mark.cluster


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.from_config(str(control_plane.kubeconfig)) as opened:
        yield opened


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    name = f"client-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, name)


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, labels={"app": name[0]}), data=data)


def pod(name: str, **labels: str) -> dict[str, object]:
    container = {"name": "app", "image": "app:1"}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


async def test_metadata_only_reads_leave_the_rest_on_the_server(client: Client, namespace: str) -> None:
    made = await client.create(CONFIG_MAPS, config_map("a", k="1"), namespace=namespace)
    lean = client.metadata_only()
    assert (await lean.get(CONFIG_MAPS, "a", namespace=namespace)) == ConfigMap(metadata=made.metadata)
    assert ConfigMap(metadata=made.metadata) in await lean.list(CONFIG_MAPS, namespace=namespace)
    async with contextlib.aclosing(
        lean.watch(CONFIG_MAPS, namespace=namespace, send_initial_events=STREAMS_LISTS, timeout_s=5)
    ) as batches:
        async for batch in batches:
            found = [event.object for event in batch if b'"name":"a"' in bytes(event.object)]
            if found:
                assert decode(ConfigMap, bytes(found[0])) == ConfigMap(metadata=made.metadata)
                break


async def test_create_get_update_patch_and_delete(client: Client, namespace: str) -> None:
    made = await client.create(CONFIG_MAPS, config_map("a", k="1"), namespace=namespace)
    assert made.metadata.uid
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace)

    read = await client.get(CONFIG_MAPS, "a", namespace=namespace)
    assert read == made

    changed = {"metadata": {"name": "a", "resourceVersion": made.metadata.resource_version}, "data": {"k": "2"}}
    updated = await client.update(CONFIG_MAPS, changed, namespace=namespace)
    assert dict(updated.data) == {"k": "2"}
    with pytest.raises(Conflict, match=f"update ConfigMap {namespace}/a"):
        await client.update(CONFIG_MAPS, changed, namespace=namespace)

    merged = await client.patch(CONFIG_MAPS, "a", {"data": {"m": "3"}}, namespace=namespace)
    assert dict(merged.data) == {"k": "2", "m": "3"}
    by_path = [{"op": "replace", "path": "/data/m", "value": "4"}, {"op": "remove", "path": "/data/k"}]
    patched = await client.patch(CONFIG_MAPS, "a", by_path, namespace=namespace, type="json")
    assert dict(patched.data) == {"m": "4"}

    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid="another")
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "a", namespace=namespace, resource_version="1")
    await client.delete(CONFIG_MAPS, "a", namespace=namespace, dry_run=True)
    await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid=made.metadata.uid, propagation="Background")
    with pytest.raises(NotFound, match=f'get ConfigMap {namespace}/a: configmaps "a" not found'):
        await client.get(CONFIG_MAPS, "a", namespace=namespace)


async def test_apply_owns_fields_and_conflicts_unless_forced(client: Client, namespace: str) -> None:
    for manager in ("one", "two"):
        await client.patch(
            CONFIG_MAPS, "a", {"data": {manager: "1"}}, namespace=namespace, type="apply", field_manager=manager
        )
    both = await client.get(CONFIG_MAPS, "a", namespace=namespace)
    assert dict(both.data) == {"one": "1", "two": "1"}
    contested = {"data": {"one": "2", "two": "1"}}
    with pytest.raises(Conflict, match="apply ConfigMap"):
        await client.patch(CONFIG_MAPS, "a", contested, namespace=namespace, type="apply", field_manager="two")
    forced = await client.patch(
        CONFIG_MAPS, "a", contested, namespace=namespace, type="apply", field_manager="two", force=True
    )
    assert dict(forced.data) == {"one": "2", "two": "1"}
    less = await client.patch(
        CONFIG_MAPS, "a", {"data": {"two": "1"}}, namespace=namespace, type="apply", field_manager="two"
    )
    assert dict(less.data) == {"two": "1"}, "what a manager no longer applies goes away"


async def test_strategic_patches_merge_lists_by_key_and_other_kinds_refuse_them(client: Client, namespace: str) -> None:
    await client.create(PODS, pod("p"), namespace=namespace)
    image = {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}
    changed = await client.patch(PODS, "p", image, namespace=namespace, type="strategic")
    assert [(c.name, c.image) for c in changed.spec.containers] == [("app", "app:2")]
    with pytest.raises((UnsupportedMediaType, BadRequest)):
        await client.raw("PATCH", PODS.path("p", namespace=namespace), body=b"{}", content_type="application/x-none")


async def test_dry_runs_change_nothing(client: Client, namespace: str) -> None:
    shown = await client.create(CONFIG_MAPS, config_map("a"), namespace=namespace, dry_run=True)
    assert shown.metadata.name == "a"
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a", namespace=namespace)


async def test_status_is_a_subresource(client: Client, namespace: str) -> None:
    await client.create(PODS, pod("p"), namespace=namespace)
    await client.patch(PODS, "p", {"status": {"phase": "Running"}}, namespace=namespace)
    assert (await client.get(PODS, "p", namespace=namespace)).status.phase == "Pending"
    await client.patch(PODS, "p", {"status": {"phase": "Running"}}, namespace=namespace, subresource="status")
    assert (await client.get(PODS, "p", namespace=namespace)).status.phase == "Running"


async def test_invalid_objects_name_the_fields(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid) as caught:
        await client.create(PODS, {"metadata": {"name": "p"}, "spec": {}}, namespace=namespace)
    assert "spec.containers" in {cause.field for cause in caught.value.status.details.causes}


async def test_lists_come_in_pages_and_selected(client: Client, namespace: str) -> None:
    names = [f"{letter}{i}" for letter in "ab" for i in range(6)]
    for name in names:
        await client.create(CONFIG_MAPS, config_map(name), namespace=namespace)
    listed = await client.list(CONFIG_MAPS, namespace=namespace, limit=5)
    assert [item.metadata.name for item in listed] == names
    pages = [page async for page in client.list_pages(CONFIG_MAPS, namespace=namespace, limit=5)]
    assert [len(page.items) for page in pages] == [5, 5, 2]
    assert pages[0].metadata.remaining_item_count == 7
    assert len({page.metadata.resource_version for page in pages}) == 1
    assert decode(ConfigMap, pages[0].items[0]).metadata.name == "a0"
    typed = [page async for page in client.typed_pages(CONFIG_MAPS, namespace=namespace, limit=5)]
    assert [item for page in typed for item in page.items] == listed

    by_label = await client.list(CONFIG_MAPS, namespace=namespace, labels="app in (b)")
    assert [item.metadata.name for item in by_label] == [name for name in names if name.startswith("b")]
    by_field = await client.list(CONFIG_MAPS, namespace=namespace, fields="metadata.name=a3")
    assert [item.metadata.name for item in by_field] == ["a3"]
    cached = await client.list(CONFIG_MAPS, namespace=namespace, resource_version="0")
    assert len(cached) <= len(names)
    version = pages[0].metadata.resource_version
    await client.create(CONFIG_MAPS, config_map("z"), namespace=namespace)
    exact = await client.list(
        CONFIG_MAPS, namespace=namespace, resource_version=version, resource_version_match="Exact"
    )
    assert len(exact) == len(names)

    await client.delete_collection(CONFIG_MAPS, namespace=namespace, labels="app=a")
    left = await client.list(CONFIG_MAPS, namespace=namespace)
    assert [item.metadata.name for item in left] == [*(name for name in names if name.startswith("b")), "z"]


async def test_a_watch_tells_every_change_in_order(client: Client, namespace: str) -> None:
    page = await anext(client.list_pages(CONFIG_MAPS, namespace=namespace))
    start = page.metadata.resource_version
    seen: list[tuple[str, str]] = []

    async def look() -> None:
        async with contextlib.aclosing(client.watch(CONFIG_MAPS, namespace=namespace, resource_version=start)) as watch:
            async for batch in watch:
                seen.extend((event.type, decode(ConfigMap, event.object).data.get("k", "")) for event in batch)
                if ("DELETED", "2") in seen:
                    return

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(look())
        await client.create(CONFIG_MAPS, config_map("a", k="1"), namespace=namespace)
        await client.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}, namespace=namespace)
        await client.delete(CONFIG_MAPS, "a", namespace=namespace)
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


@pytest.mark.skipif(not STREAMS_LISTS, reason="this API server does not stream lists")
async def test_a_watch_list_sends_what_is_there_and_says_when_that_is_done(client: Client, namespace: str) -> None:
    for name in ("a", "b"):
        await client.create(CONFIG_MAPS, config_map(name), namespace=namespace)
    seen: list[str] = []
    async with asyncio.timeout(60):
        watch = client.watch(CONFIG_MAPS, namespace=namespace, send_initial_events=True)
        async with contextlib.aclosing(watch):
            async for batch in watch:
                for event in batch:
                    head = decode(Unstructured, event.object).metadata
                    seen.append(f"{event.type} {head.name}".strip())
                    if head.annotations.get("k8s.io/initial-events-end") == "true":
                        break
                else:
                    continue
                break
    assert seen == ["ADDED a", "ADDED b", "BOOKMARK"]


async def test_a_watch_ends_after_its_time(client: Client, namespace: str) -> None:
    async with asyncio.timeout(60):
        batches = [batch async for batch in client.watch(CONFIG_MAPS, namespace=namespace, timeout_s=1)]
    assert batches[0] == []


async def test_a_pod_is_bound_once(client: Client, namespace: str) -> None:
    made = await client.create(PODS, pod("p"), namespace=namespace)
    with pytest.raises(Conflict):
        await client.bind(namespace, "p", "node-1", uid="another")
    await client.bind(namespace, "p", "node-1", uid=made.metadata.uid, annotations={"koord.test/why": "free"})
    bound = await client.get(PODS, "p", namespace=namespace)
    assert bound.spec.node_name == "node-1"
    assert bound.metadata.annotations["koord.test/why"] == "free"
    with pytest.raises(Conflict, match=f"bind to node node-2 Pod {namespace}/p"):
        await client.bind(namespace, "p", "node-2")


async def test_an_eviction_that_a_budget_forbids_is_refused_with_the_reason(client: Client, namespace: str) -> None:
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
    await client.create(POD_DISRUPTION_BUDGETS, budget, namespace=namespace)
    observed = {
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": 0,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        }
    }
    await client.patch(POD_DISRUPTION_BUDGETS, "b", observed, namespace=namespace, subresource="status")
    await client.create(PODS, pod("held", app="web"), namespace=namespace)
    await client.bind(namespace, "held", "node-1")
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(PODS, "held", running, namespace=namespace, subresource="status")
    with pytest.raises(EvictionRefused, match=f"evict Pod {namespace}/held: Cannot evict pod"):
        await client.evict(namespace, "held")

    free = await client.create(PODS, pod("free"), namespace=namespace)
    await client.evict(namespace, "free", dry_run=True)
    await client.evict(namespace, "free", uid=free.metadata.uid, grace_s=0)
    with pytest.raises(NotFound):
        await client.get(PODS, "free", namespace=namespace)


async def test_scale_is_read_and_set(client: Client, namespace: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await client.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec}, namespace=namespace)
    scale = await client.get_scale(DEPLOYMENTS, "d", namespace=namespace)
    assert (scale.spec.replicas, scale.status.selector) == (2, "a=b")
    assert (await client.set_scale(DEPLOYMENTS, "d", 5, namespace=namespace)).spec.replicas == 5
    assert (await client.get_scale(DEPLOYMENTS, "d", namespace=namespace)).spec.replicas == 5


async def test_the_server_says_its_version_and_all_that_it_serves(client: Client) -> None:
    assert (await client.server_version()).numbers >= OLDEST_SERVER
    resources = await client.resources()
    pods = resources.find("", "Pod")
    assert pods is not None
    assert {"get", "list", "watch", "patch"} <= set(pods.verbs)
    assert {"binding", "eviction", "status"} <= set(pods.subresources)
    assert resources.named("deploy") == resources.find("apps", "Deployment")
    # The same in the form of servers before 1.27.
    _, _, body = await client.raw("GET", "/apis")
    assert json.loads(body)["kind"] == "APIGroupList"


async def test_an_unknown_kind_is_readable_by_discovery(client: Client, namespace: str) -> None:
    api_resource = (await client.resources()).find("", "ConfigMap")
    assert api_resource is not None
    kind = api_resource.as_kind()
    await client.create(kind, {"metadata": {"name": "a"}, "data": {"k": "v"}}, namespace=namespace)
    assert (await client.get(kind, "a", namespace=namespace)).metadata.name == "a"
    assert msgspec.json.decode(await client.get_bytes(kind, "a", namespace=namespace))["data"] == {"k": "v"}


async def test_what_is_not_served_is_not_found(client: Client) -> None:
    nothing: Kind[Unstructured] = Kind("nothing.test", "v1", "Nothing", "nothings", False, Unstructured)
    with pytest.raises(NotFound, match=r"get Nothing a: (404 page not found|.*could not find)"):
        await client.get(nothing, "a")
    with pytest.raises(MethodNotAllowed):
        await client.raw("POST", "/api/v1/nodes/n", body=b"{}")


async def test_any_path_may_be_read_or_streamed(client: Client) -> None:
    status, headers, body = await client.raw("GET", "/readyz", {"verbose": ""}, accept="*/*")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    assert b"etcd" in body
    pieces = [piece async for piece in client.stream("/metrics")]
    assert b"apiserver_request_total" in b"".join(pieces)


async def test_tokens_identify_and_unknown_ones_do_not(control_plane: ControlPlane) -> None:
    for token, error in (("admin-token", None), ("nobody-token", Forbidden), ("wrong", Unauthorized)):
        path = control_plane.write_kubeconfig(control_plane.dir / f"token-{token}", {"token": token})
        async with Client.from_config(str(path), "test") as client:
            if error is None:
                await client.list(NODES)
            else:
                with pytest.raises(error, match="list nodes"):
                    await client.list(NODES)


async def test_impersonation_acts_as_somebody_else(control_plane: ControlPlane) -> None:
    user: dict[str, object] = {"token": "admin-token", "as": "jane", "as-groups": ["strangers"]}
    path = control_plane.write_kubeconfig(control_plane.dir / "as-jane", user)
    async with Client.from_config(str(path)) as client:
        with pytest.raises(Forbidden, match='User "jane" cannot list resource "nodes"'):
            await client.list(NODES)


async def test_reads_survive_a_restart_of_the_server_and_compacted_versions_are_gone(
    own_control_plane: ControlPlane,
) -> None:
    async with Client.from_config(str(own_control_plane.kubeconfig)) as client:
        old = (await client.create(CONFIG_MAPS, config_map("a"), namespace="default")).metadata.resource_version
        await client.patch(CONFIG_MAPS, "a", {"data": {"k": "v"}}, namespace="default")
        await asyncio.to_thread(own_control_plane.stop_apiserver, kill=True)
        await asyncio.to_thread(own_control_plane.compact_etcd)
        reading = asyncio.create_task(client.limited(attempts=40).list(NAMESPACES))
        await asyncio.to_thread(own_control_plane.start_apiserver)
        async with asyncio.timeout(60):
            assert "default" in {item.metadata.name for item in await reading}
        with pytest.raises(Gone, match="watch configmaps"):
            async for _ in client.watch(CONFIG_MAPS, resource_version=old, timeout_s=10):
                pass
        with pytest.raises(Gone, match="list configmaps"):
            await client.list(CONFIG_MAPS, resource_version=old, resource_version_match="Exact")
