"""Quotas behind the webhooks: trees stay in order, and requests count as pods are admitted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import CLUSTER_ROLES, ELASTIC_QUOTAS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from koord.api.protocol.names import NAMESPACE_KOORDINATOR
from koord.kube.client import Client
from koord.kube.errors import ApiError, BadRequest
from koord_minicluster.up.bootstrap import bootstrap
from tests.manager.live.webhooks import admitting
from tests.operate.install.recorded import account_config
from tests.scheduler.live.embedded import pod_manifest, serving
from tests.scheduler.quotas import PREFIX


def manifest(name: str, least: str, most: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": {f"{PREFIX}{k}": v for k, v in labels.items()}},
        "spec": {"min": {"cpu": least}, "max": {"cpu": most}},
    }


async def create_pods(client: Client, *names: str) -> list[str]:
    """Pods of 2 cores of team a, at once; those that were admitted."""

    async def one(name: str) -> str:
        pod = pod_manifest(name, cpu="2", namespace="shop", labels={f"{PREFIX}name": "a"})
        try:
            await client.create(PODS, pod)
        except ApiError as error:
            return "" if "exceeded quota: shop/a" in str(error) else str(error)
        return name

    return [name for name in await asyncio.gather(*map(one, names)) if name]


async def test_quotas_are_kept_in_order_and_pods_count_as_they_come(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await bootstrap(client)
        await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        async with admitting(client, "EnableQuotaAdmission=true"):
            # A child right after its parent, as from one file.
            await client.create(ELASTIC_QUOTAS, manifest("top", "10", "20", **{"is-parent": "true", "tree-id": "t"}))
            child = await client.create(ELASTIC_QUOTAS, manifest("a", "6", "10", parent="top"))
            assert child.metadata.labels[f"{PREFIX}tree-id"] == "t"
            assert json.loads(child.metadata.annotations[f"{PREFIX}shared-weight"]) == {"cpu": "10"}
            with pytest.raises(BadRequest, match="children with this one is 11, above the min of top, 10"):
                await client.create(ELASTIC_QUOTAS, manifest("b", "5", "10", parent="top"))
            with pytest.raises(BadRequest, match="quota a is below it"):
                await client.delete(ELASTIC_QUOTAS, "top", namespace="shop")
            admitted = await create_pods(client, *(f"p{i}" for i in range(8)))
            assert len(admitted) == 5
            quota = await client.get(ELASTIC_QUOTAS, "a", namespace="shop")
            assert json.loads(quota.metadata.annotations[f"{PREFIX}child-request"]) == {"cpu": "10"}
            with pytest.raises(BadRequest, match=r"pod shop/p. uses it"):
                await client.delete(ELASTIC_QUOTAS, "a", namespace="shop")
            with pytest.raises(BadRequest, match="quota top is the parent of others and takes no pods"):
                await client.create(PODS, pod_manifest("q", namespace="shop", labels={f"{PREFIX}name": "top"}))


async def test_a_tenant_lists_only_namespaces_in_which_it_may_make_quotas(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await bootstrap(client)
        for name in ("shop", "lab", "hers"):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        rule = {"apiGroups": ["scheduling.sigs.k8s.io"], "resources": ["elasticquotas"], "verbs": ["*"]}
        await client.create(CLUSTER_ROLES, {"metadata": {"name": "quotas"}, "rules": [rule]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "quotas"}
        subject = {"kind": "ServiceAccount", "name": "mallory", "namespace": NAMESPACE_KOORDINATOR}
        for name in ("shop", "lab"):
            bound = {"metadata": {"name": "mallory", "namespace": name}, "roleRef": role, "subjects": [subject]}
            path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/rolebindings"
            await client.raw("POST", path, body=json.dumps(bound).encode())
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "mallory"}}, namespace=NAMESPACE_KOORDINATOR)

        def listing(name: str, *namespaces: str) -> dict[str, Any]:
            found = manifest(name, "0", "0")
            found["metadata"]["annotations"] = {f"{PREFIX}namespaces": json.dumps(namespaces)}
            return found

        async with admitting(client), Client(await account_config(client, "mallory")) as tenant:
            await tenant.create(ELASTIC_QUOTAS, listing("fine", "shop", "lab"))
            with pytest.raises(BadRequest, match=r"must not list hers: .*mallory may not create elasticquotas"):
                await tenant.create(ELASTIC_QUOTAS, listing("takes", "hers"))
            with pytest.raises(BadRequest, match="must not list kube-system"):
                await tenant.create(ELASTIC_QUOTAS, listing("takes", "kube-system"))
            more = {"metadata": {"annotations": {f"{PREFIX}namespaces": '["shop", "lab", "hers"]'}}}
            with pytest.raises(BadRequest, match="must not list hers"):
                await tenant.patch(ELASTIC_QUOTAS, "fine", more, namespace="shop")
            await client.create(ELASTIC_QUOTAS, listing("theirs", "hers"))
