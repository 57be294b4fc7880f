"""What a tenant reaches with the rights of Kubernetes' own role `edit`: nothing that others rely on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from koord.admission.scheduler_annotations import GIVEN
from koord.api.kinds import NODE_METRICS, NODES, POD_MIGRATION_JOBS, PODS, RESERVATIONS
from koord.kube.client import Client
from koord.kube.errors import ApiError, Forbidden
from koord.operate.install.live.cluster import Cluster
from koord.operate.install.manifest import Json
from tests.control_plane import ControlPlane
from tests.manager.live.managing import make_node
from tests.manager.live.webhooks import admitting, forget, pod, prepare
from tests.operate.install.recorded import account_config
from tests.scheduler.live.embedded import serving

TENANT = "tenant"
"""A service account, so that both servers know it."""
EDIT = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods/ephemeralcontainers", "pods/resize"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["pods/status", "pods/log"], "verbs": ["get"]},
]
"""What `edit` says of pods, and the rights to debug and to resize them."""


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
async def admin(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("own_control_plane")
        async with Client.from_config(str(plane.kubeconfig)) as client:
            await prepare(client, "shop", "other")
            yield client
            await forget(client)
    else:
        async with serving(tmp_path) as client:
            await prepare(client, "shop", "other")
            yield client


async def tenant_of(admin: Client) -> Client:
    rbac = "rbac.authorization.k8s.io"
    where = {"name": TENANT, "namespace": "shop"}
    account = {"kind": "ServiceAccount", "name": TENANT, "namespace": "koordinator-system"}
    manifests: list[Json] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**where, "namespace": "koordinator-system"}},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": where, "rules": EDIT},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": where,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": TENANT},
            "subjects": [account],
        },
    ]
    for manifest in manifests:
        await Cluster(admin).apply(manifest)
    return Client(await account_config(admin, TENANT))


async def refusal(call: Callable[[], Awaitable[Any]]) -> str:
    try:
        await call()
    except ApiError as error:
        return error.message
    return ""


def annotated(key: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {key: "{}"}}}


async def test_forged_allocations_are_stripped_from_new_pods_and_refused_on_old_ones(admin: Client) -> None:
    async with admitting(admin), await tenant_of(admin) as tenant:
        await tenant.create(PODS, pod("plain", "shop"))
        forged = pod("forged", "shop")
        forged["metadata"]["annotations"] = {**{str(key): "{}" for key in GIVEN}, "mine": "stays"}
        made = await tenant.create(PODS, forged)
        assert made.metadata.annotations.keys() & {*GIVEN, "mine"} == {"mine"}
        for key in GIVEN:
            said = await refusal(partial(tenant.patch, PODS, "plain", annotated(key), namespace="shop"))
            assert "only a scheduler writes it, and system:serviceaccount:koordinator-system:tenant is not one" in said
        assert not (await admin.get(PODS, "plain", namespace="shop")).metadata.annotations.keys() & {*GIVEN}


async def test_no_subresource_is_a_way_around(admin: Client) -> None:
    """What changes one part of a pod changes no annotation, so no review has to look at it."""
    debugger = {"name": "debug", "image": "shell:1", "targetContainerName": "main"}
    bodies: dict[str, dict[str, Any]] = {
        "ephemeralcontainers": {"spec": {"ephemeralContainers": [debugger]}},
        "resize": {"spec": {}},
    }
    async with admitting(admin), await tenant_of(admin) as tenant:
        made = await tenant.create(PODS, pod("plain", "shop"))
        before = made.metadata.annotations
        for subresource, body in bodies.items():
            forged = {**body, "metadata": {"annotations": {str(key): "{}" for key in GIVEN}}}
            await refusal(partial(tenant.patch, PODS, "plain", forged, namespace="shop", subresource=subresource))
            assert (await admin.get(PODS, "plain", namespace="shop")).metadata.annotations == before, subresource


async def test_what_others_rely_on_is_out_of_reach(admin: Client) -> None:
    await make_node(admin, "n1")
    await admin.create(NODE_METRICS, {"metadata": {"name": "n1"}})
    await admin.create(PODS, pod("theirs", "other"))
    binding: Json = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "plain"}}
    binding["target"] = {"kind": "Node", "name": "n1"}
    running = {"status": {"phase": "Running"}}
    report: dict[str, Any] = {"status": {}}
    moved: dict[str, Any] = {"metadata": {"name": "j"}, "spec": {"podRef": {"namespace": "other", "name": "theirs"}}}
    async with admitting(admin), await tenant_of(admin) as tenant:
        await tenant.create(PODS, pod("plain", "shop"))
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "bind a pod": lambda: tenant.raw(
                "POST", "/api/v1/namespaces/shop/pods/plain/binding", body=json.dumps(binding).encode()
            ),
            "say that a pod runs": lambda: tenant.patch(PODS, "plain", running, namespace="shop", subresource="status"),
            "change another's pod": lambda: tenant.patch(PODS, "theirs", {"metadata": {}}, namespace="other"),
            "label a node": lambda: tenant.patch(NODES, "n1", {"metadata": {"labels": {"a": "b"}}}),
            "report usage": lambda: tenant.patch(NODE_METRICS, "n1", report, subresource="status"),
            "have a pod moved": lambda: tenant.create(POD_MIGRATION_JOBS, moved),
            "reserve a node": lambda: tenant.create(RESERVATIONS, {"metadata": {"name": "r"}, "spec": {}}),
        }
        for what, call in calls.items():
            with pytest.raises(Forbidden):
                await call()
                pytest.fail(f"a tenant could {what}")
