"""What every namespace and every gathered role gets from the controllers."""

from __future__ import annotations

import uuid

import pytest
from msgspec.json import decode

from koord.api.kinds import CLUSTER_ROLES, CONFIG_MAPS, PODS
from koord.api.machinery.codec import encode
from koord.kube.errors import ApiError, NotFound
from koord_minicluster.controllers.live.root_ca import certificates
from tests.minicluster.controllers.cluster_fixtures import controllers
from tests.minicluster.controllers.conftest import Plane
from tests.waiting import eventually

pytestmark = pytest.mark.kubectl


async def test_every_namespace_knows_whom_to_trust(plane: Plane) -> None:
    namespace = f"ca-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        trusted = certificates(client.config)

        async def published() -> bool:
            try:
                config_map = await client.get(CONFIG_MAPS, "kube-root-ca.crt", namespace=namespace)
            except NotFound:
                return False
            return dict(config_map.data) == {"ca.crt": trusted}

        await eventually(published)
        await client.patch(CONFIG_MAPS, "kube-root-ca.crt", {"data": {"more": "x"}}, namespace=namespace, type="merge")
        await eventually(published)
        await client.delete(CONFIG_MAPS, "kube-root-ca.crt", namespace=namespace)
        await eventually(published)


async def test_gathered_roles_have_the_rules_of_those_they_select(plane: Plane) -> None:
    namespace = f"agg-{uuid.uuid4().hex[:6]}"
    rule = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    async with controllers(plane, namespace) as client:
        await client.create(CLUSTER_ROLES, {"metadata": {"name": namespace, "labels": label}, "rules": [rule]})

        async def gathered(wanted: bool) -> bool:
            view = await client.get(CLUSTER_ROLES, "view")
            return any("example.com" in rule.api_groups for rule in view.rules) is wanted

        async def there() -> bool:
            return await gathered(True)

        async def gone() -> bool:
            return await gathered(False)

        await eventually(there)
        await client.delete(CLUSTER_ROLES, namespace)
        await eventually(gone)


async def test_a_quota_holds_and_gives_back(plane: Plane) -> None:
    namespace = f"quota-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
        await client.raw("POST", path, body=encode(quota))

        async def used(wanted: str) -> bool:
            _, _, body = await client.raw("GET", f"{path}/q")
            return (decode(body).get("status") or {}).get("used") == {"pods": wanted}

        await eventually(lambda: used("0"))
        pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await client.create(PODS, pod, namespace=namespace)
        with pytest.raises(ApiError, match="exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"):
            await client.create(PODS, {**pod, "metadata": {"name": "b"}}, namespace=namespace)
        await client.delete(PODS, "a", namespace=namespace, grace_s=0)
        await eventually(lambda: used("0"))
        await client.create(PODS, {**pod, "metadata": {"name": "b"}}, namespace=namespace)
