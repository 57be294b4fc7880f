"""StatefulSets and DaemonSets on a real API server and on koord's own, with kubectl."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from koord.api.kinds import DAEMON_SETS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, Kind
from koord.api.kubernetes.storage import VolumeAttributesClass
from koord_minicluster.controllers.claim_protection import CLASS_FINALIZER
from tests.minicluster.controllers.cluster_fixtures import controllers
from tests.minicluster.controllers.conftest import Plane
from tests.minicluster.controllers.test_deployment_on_a_cluster import kubectl
from tests.minicluster.controllers.test_nodes_on_a_cluster import ready_node
from tests.waiting import always, eventually

pytestmark = pytest.mark.kubectl

CLASSES: Kind[VolumeAttributesClass] = Kind(
    "storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", False, VolumeAttributesClass
)


def body(name: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"containers": [{"name": "app", "image": "app:1"}], "terminationGracePeriodSeconds": 1}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template, **spec}}


async def test_a_stateful_set_has_names_claims_and_ordered_updates(plane: Plane) -> None:
    namespace = f"sts-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": "data"}, "spec": storage}
        made = body("db", replicas=3, serviceName="db", volumeClaimTemplates=[claim])
        await client.create(STATEFUL_SETS, made, namespace=namespace)
        await kubectl(plane, namespace, "rollout", "status", "statefulset/db", "--timeout=60s")
        pods = {pod.metadata.name: pod for pod in await client.list(PODS, namespace=namespace)}
        assert sorted(pods) == ["db-0", "db-1", "db-2"]
        assert pods["db-1"].metadata.labels["apps.kubernetes.io/pod-index"] == "1"
        mounted = [v.persistent_volume_claim for v in pods["db-1"].spec.volumes if v.persistent_volume_claim]
        assert [claim.claim_name for claim in mounted] == ["data-db-1"]
        claims = {c.metadata.name for c in await client.list(PERSISTENT_VOLUME_CLAIMS, namespace=namespace)}
        assert claims == {"data-db-0", "data-db-1", "data-db-2"}

        partition = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}}
        await client.patch(STATEFUL_SETS, "db", partition, namespace=namespace)
        await kubectl(plane, namespace, "set", "image", "statefulset/db", "app=app:2")
        await kubectl(plane, namespace, "rollout", "status", "statefulset/db", "--timeout=60s")

        async def images() -> dict[str, str]:
            return {p.metadata.name: p.spec.containers[0].image for p in await client.list(PODS, namespace=namespace)}

        assert await images() == {"db-0": "app:1", "db-1": "app:1", "db-2": "app:2"}
        # Below the partition, a pod comes back unchanged.
        await client.delete(PODS, "db-0", namespace=namespace, grace_s=0)

        async def back() -> bool:
            found = {p.metadata.name: p for p in await client.list(PODS, namespace=namespace)}
            return "db-0" in found and found["db-0"].metadata.uid != pods["db-0"].metadata.uid

        await eventually(back)
        assert (await images())["db-0"] == "app:1"

        partition["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 0
        await client.patch(STATEFUL_SETS, "db", partition, namespace=namespace)
        await kubectl(plane, namespace, "rollout", "status", "statefulset/db", "--timeout=60s")
        assert set((await images()).values()) == {"app:2"}
        await kubectl(plane, namespace, "rollout", "undo", "statefulset/db")
        await kubectl(plane, namespace, "rollout", "status", "statefulset/db", "--timeout=60s")
        assert set((await images()).values()) == {"app:1"}
        await kubectl(plane, namespace, "scale", "statefulset/db", "--replicas=1")

        async def one() -> bool:
            return set(await images()) == {"db-0"}

        await eventually(one)
        assert len(await client.list(PERSISTENT_VOLUME_CLAIMS, namespace=namespace)) == 3


async def test_a_daemon_set_follows_the_nodes(plane: Plane) -> None:
    word = uuid.uuid4().hex[:6]
    namespace = f"ds-{word}"
    async with controllers(plane, namespace) as client:
        for name in ("a", "b"):
            await ready_node(client, f"{word}-{name}", pool=word)
        made = body("agent")
        made["spec"]["template"]["spec"]["nodeSelector"] = {"pool": word}
        await client.create(DAEMON_SETS, made, namespace=namespace)

        async def pods_on() -> list[str]:
            pods = await client.list(PODS, namespace=namespace)
            return sorted(
                field.values[0]
                for pod in pods
                if pod.metadata.deletion_timestamp is None
                if pod.spec.affinity and pod.spec.affinity.node_affinity
                for required in [pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution]
                if required
                for term in required.node_selector_terms
                for field in term.match_fields
            )

        async def rolled_out() -> bool:
            read = await client.get(DAEMON_SETS, "agent", namespace=namespace)
            status = read.status
            seen = status.observed_generation == read.metadata.generation
            return seen and status.desired_number_scheduled == status.number_available == 2

        await eventually(rolled_out)
        assert await pods_on() == [f"{word}-a", f"{word}-b"]
        await kubectl(plane, namespace, "set", "image", "daemonset/agent", "app=app:2")
        await kubectl(plane, namespace, "rollout", "status", "daemonset/agent", "--timeout=60s")
        images = {p.spec.containers[0].image for p in await client.list(PODS, namespace=namespace)}
        assert images == {"app:2"}
        history = await kubectl(plane, namespace, "rollout", "history", "daemonset/agent")
        assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]

        taint = {"spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoExecute"}]}}
        await client.patch(NODES, f"{word}-b", taint)

        async def only_a() -> bool:
            return await pods_on() == [f"{word}-a"]

        await eventually(only_a)
        for name in ("a", "b"):
            await client.delete(NODES, f"{word}-{name}")


async def test_a_claim_goes_when_its_last_user_has(plane: Plane) -> None:
    namespace = f"pvc-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        meta = {"name": "data", "finalizers": ["kubernetes.io/pvc-protection"]}
        await client.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": meta, "spec": storage}, namespace=namespace)
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        spec = {"containers": [{"name": "app", "image": "app"}], "volumes": [volume], "nodeName": "node-a"}
        await client.create(PODS, {"metadata": {"name": "user"}, "spec": spec}, namespace=namespace)
        await client.delete(PERSISTENT_VOLUME_CLAIMS, "data", namespace=namespace)

        async def gone() -> bool:
            return not await client.list(PERSISTENT_VOLUME_CLAIMS, namespace=namespace)

        await always(lambda: client.list(PERSISTENT_VOLUME_CLAIMS, namespace=namespace), 0.3)
        await client.delete(PODS, "user", namespace=namespace)
        await eventually(gone)


async def test_a_class_of_volume_attributes_goes_when_its_last_user_has(plane: Plane) -> None:
    namespace = f"vac-{uuid.uuid4().hex[:6]}"
    async with controllers(plane, namespace) as client:
        meta = {"name": namespace, "finalizers": [CLASS_FINALIZER]}
        await client.create(CLASSES, {"metadata": meta, "driverName": "disk.example.com", "parameters": {"iops": "9"}})
        asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": "data"}, "spec": {**asked, "volumeAttributesClassName": namespace}}
        await client.create(PERSISTENT_VOLUME_CLAIMS, claim, namespace=namespace)
        await client.delete(CLASSES, namespace)

        async def gone() -> bool:
            return namespace not in {class_.metadata.name for class_ in await client.list(CLASSES)}

        await always(lambda: client.get(CLASSES, namespace), 0.3)
        await client.delete(PERSISTENT_VOLUME_CLAIMS, "data", namespace=namespace)
        await eventually(gone)
