"""Other people's clients on the embedded server: the official one, lightkube, and an operator written with kopf.

They are used as their documentation shows it, through the kubeconfig that the server writes.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import kubernetes
import kubernetes.dynamic
import kubernetes.utils
import kubernetes.watch
import pytest
from kubernetes.client.exceptions import ApiException
from lightkube import ApiError, Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.core_v1 import ConfigMapVolumeSource, Container, PodSpec, Volume
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Pod
from lightkube.types import PatchType

from koord_minicluster.apiserver.server import ApiServer, ServeOptions
from tests.waiting import until

official: Any = kubernetes
"""Its annotations are not complete enough to check calls against."""

GADGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server in a thread, without controllers; the clients have the main thread to themselves."""
    server = ApiServer(ServeOptions(tmp_path_factory.mktemp("server"), durability="fast"))
    with asyncio.Runner() as loop:
        loop.run(server.__aenter__())
        stop = asyncio.Event()

        async def serve() -> None:
            await stop.wait()
            await server.__aexit__(None, None, None)

        serving = Thread(target=loop.run, args=(serve(),))
        serving.start()
        try:
            yield server.kubeconfig
        finally:
            loop.get_loop().call_soon_threadsafe(stop.set)
            serving.join()


@pytest.fixture(scope="module")
def gadgets(kubeconfig: Path) -> None:
    api = official.client.ApiextensionsV1Api(official.config.new_client_from_config(str(kubeconfig)))
    api.create_custom_resource_definition(GADGETS)
    until(lambda: _established(api.read_custom_resource_definition("gadgets.example.com")))


def _established(definition: Any) -> bool:
    return any(
        condition.type == "Established" and condition.status == "True"
        for condition in definition.status.conditions or ()
    )


class TestTheOfficialClient:
    @pytest.fixture
    def client(self, kubeconfig: Path) -> Any:
        return official.config.new_client_from_config(str(kubeconfig))

    def test_it_creates_reads_changes_and_deletes_typed_objects(self, client: Any) -> None:
        core = official.client.CoreV1Api(client)
        made = core.create_namespaced_config_map(
            "default", official.client.V1ConfigMap(metadata={"name": "official"}, data={"a": "1"})
        )
        assert made.metadata.uid
        made.data["b"] = "2"
        assert core.replace_namespaced_config_map("official", "default", made).data == {"a": "1", "b": "2"}
        made.data["b"] = "3"
        with pytest.raises(ApiException) as stale:
            core.replace_namespaced_config_map("official", "default", made)
        assert (stale.value.status, stale.value.reason) == (409, "Conflict")
        patched = core.patch_namespaced_config_map("official", "default", {"data": {"a": None}})
        assert patched.data == {"b": "2"}
        core.delete_namespaced_config_map("official", "default")
        with pytest.raises(ApiException) as gone:
            core.read_namespaced_config_map("official", "default")
        assert gone.value.status == 404

    def test_it_lists_in_pages(self, client: Any) -> None:
        core = official.client.CoreV1Api(client)
        for number in range(5):
            core.create_namespaced_config_map(
                "default", {"metadata": {"name": f"page-{number}", "labels": {"of": "pages"}}}
            )
        names, token = [], None
        while token is None or token:
            page = core.list_namespaced_config_map("default", label_selector="of=pages", limit=2, _continue=token)
            names += [item.metadata.name for item in page.items]
            token = page.metadata._continue or ""
        assert names == [f"page-{number}" for number in range(5)]

    def test_it_watches(self, client: Any) -> None:
        core = official.client.CoreV1Api(client)
        version = core.list_namespaced_secret("default").metadata.resource_version
        core.create_namespaced_secret("default", {"metadata": {"name": "seen"}, "stringData": {"k": "v"}})
        core.patch_namespaced_secret("seen", "default", {"metadata": {"labels": {"x": "y"}}})
        core.delete_namespaced_secret("seen", "default")
        watcher = official.watch.Watch()
        seen = []
        for event in watcher.stream(
            core.list_namespaced_secret, "default", resource_version=version, timeout_seconds=5
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 3:
                watcher.stop()
        assert seen == [("ADDED", "seen"), ("MODIFIED", "seen"), ("DELETED", "seen")]

    def test_it_discovers_and_applies_anything(self, client: Any, gadgets: None, tmp_path: Path) -> None:

        dynamic = official.dynamic.DynamicClient(client, cache_file=str(tmp_path / "discovery"))
        resource = dynamic.resources.get(api_version="example.com/v1", kind="Gadget")
        body = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "d"}, "spec": {"size": 3}}
        assert resource.create(body, namespace="default").spec.size == 3
        applied = resource.server_side_apply(
            {**body, "spec": {"size": 4}}, namespace="default", field_manager="dynamic", force_conflicts=True
        )
        assert applied.spec.size == 4
        assert [item.metadata.name for item in resource.get(namespace="default").items] == ["d"]
        with pytest.raises(ApiException) as refused:
            resource.patch(
                {"spec": {"size": 0}}, name="d", namespace="default", content_type="application/merge-patch+json"
            )
        assert refused.value.status == 422
        resource.delete(name="d", namespace="default")

    def test_it_creates_from_yaml_and_scales(self, client: Any) -> None:
        manifest = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "official"},
            "spec": {
                "selector": {"matchLabels": {"app": "x"}},
                "template": {
                    "metadata": {"labels": {"app": "x"}},
                    "spec": {"containers": [{"name": "c", "image": "example/image"}]},
                },
            },
        }
        official.utils.create_from_dict(client, manifest, namespace="default")
        apps = official.client.AppsV1Api(client)
        apps.patch_namespaced_deployment_scale("official", "default", {"spec": {"replicas": 3}})
        assert apps.read_namespaced_deployment_scale("official", "default").spec.replicas == 3
        apps.delete_namespaced_deployment("official", "default", propagation_policy="Background")
        assert not apps.list_namespaced_deployment("default", field_selector="metadata.name=official").items

    def test_it_binds_and_evicts_pods(self, client: Any) -> None:
        core = official.client.CoreV1Api(client)
        core.create_namespaced_pod(
            "default", {"metadata": {"name": "bound"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        )
        target = official.client.V1ObjectReference(kind="Node", name="nowhere")
        binding = official.client.V1Binding(metadata={"name": "bound"}, target=target)
        core.create_namespaced_pod_binding("bound", "default", binding, _preload_content=False)
        assert core.read_namespaced_pod("bound", "default").spec.node_name == "nowhere"
        core.create_namespaced_pod_eviction("bound", "default", official.client.V1Eviction(metadata={"name": "bound"}))
        assert core.read_namespaced_pod("bound", "default").metadata.deletion_timestamp
        core.delete_namespaced_pod("bound", "default", grace_period_seconds=0)

    def test_it_asks_what_it_may(self, client: Any) -> None:
        api = official.client.AuthorizationV1Api(client)
        review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}}}
        assert api.create_self_subject_access_review(review).status.allowed is True
        assert official.client.VersionApi(client).get_code().major == "1"


class TestLightkube:
    @pytest.fixture
    def client(self, kubeconfig: Path) -> Any:
        return Client(KubeConfig.from_file(str(kubeconfig)), namespace="default", field_manager="lightkube")

    def test_it_creates_applies_patches_and_deletes(self, client: Any) -> None:
        client.create(ConfigMap(metadata=ObjectMeta(name="light"), data={"a": "1"}))
        applied = client.apply(ConfigMap(metadata=ObjectMeta(name="light"), data={"b": "2"}))
        assert applied.data == {"a": "1", "b": "2"}
        patched = client.patch(ConfigMap, "light", {"data": {"a": None}}, patch_type=PatchType.MERGE)
        assert patched.data == {"b": "2"}
        assert [each.metadata.name for each in client.list(ConfigMap, fields={"metadata.name": "light"})] == ["light"]
        client.delete(ConfigMap, "light")
        with pytest.raises(ApiError) as gone:
            client.get(ConfigMap, "light")
        assert gone.value.status.code == 404
        assert gone.value.status.reason == "NotFound"

    def test_it_sends_whole_pods_and_reads_their_defaults(self, client: Any) -> None:
        volume = Volume(name="v", configMap=ConfigMapVolumeSource(name="c"))
        spec = PodSpec(containers=[Container(name="c", image="example/image:1")], volumes=[volume])
        made = client.create(Pod(metadata=ObjectMeta(generateName="light-"), spec=spec))
        assert made.metadata.name.startswith("light-")
        assert made.spec.restartPolicy == "Always"
        assert made.spec.volumes[0].configMap.defaultMode == 420
        client.set(Pod, made.metadata.name, labels={"x": "y"})
        assert client.get(Pod, made.metadata.name).metadata.labels == {"x": "y"}
        client.delete(Pod, made.metadata.name, grace_period=0)

    def test_it_watches_and_waits(self, client: Any) -> None:
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "light"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "l"}},
                "template": {
                    "metadata": {"labels": {"app": "l"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            },
        }
        client.create(Deployment.from_dict(deployment))
        client.patch(
            Deployment.Status,
            "light",
            {"status": {"conditions": [{"type": "Available", "status": "True"}]}},
            patch_type=PatchType.MERGE,
        )
        assert client.wait(Deployment, "light", for_conditions=["Available"]).metadata.name == "light"
        for kind, seen in client.watch(Deployment, fields={"metadata.name": "light"}):
            assert (kind, seen.metadata.name) == ("ADDED", "light")
            break
        client.delete(Deployment, "light")

    def test_it_knows_custom_resources(self, client: Any, gadgets: None) -> None:
        gadget: Any = create_namespaced_resource("example.com", "v1", "Gadget", "gadgets")
        client.create(gadget(metadata={"name": "l"}, spec={"size": 2}))
        assert client.get(gadget, "l").spec == {"size": 2}
        with pytest.raises(ApiError) as refused:
            client.create(gadget(metadata={"name": "m"}, spec={"size": "two"}))
        assert refused.value.status.code == 422
        client.delete(gadget, "l")


OPERATOR = """
import kopf

@kopf.on.create("example.com", "v1", "gadgets")
def created(spec, name, patch, **_):
    patch.status["doubled"] = spec["size"] * 2
    return {"by": "kopf"}

@kopf.on.field("example.com", "v1", "gadgets", field="spec.size")
def resized(old, new, patch, **_):
    if old is not None:
        patch.status["doubled"] = new * 2

@kopf.on.delete("example.com", "v1", "gadgets")
def deleted(name, **_):
    pass
"""


def test_a_kopf_operator_reconciles(kubeconfig: Path, gadgets: None, tmp_path: Path) -> None:
    operator = tmp_path / "operator.py"
    operator.write_text(OPERATOR)
    log = tmp_path / "log"
    api = official.client.CustomObjectsApi(official.config.new_client_from_config(str(kubeconfig)))
    where = ("example.com", "v1", "default", "gadgets")

    def doubled(name: str, value: int) -> bool:
        found = api.get_namespaced_custom_object(*where, name)
        return bool(found.get("status", {}).get("doubled") == value)

    def gone(name: str) -> bool:
        return not any(item["metadata"]["name"] == name for item in api.list_namespaced_custom_object(*where)["items"])

    with log.open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace=default", str(operator)],
            stdout=out,
            stderr=out,
            env={"KUBECONFIG": str(kubeconfig), "PATH": "", "HOME": str(tmp_path)},
        )
    try:
        gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "k"}, "spec": {"size": 3}}
        api.create_namespaced_custom_object(*where, gadget)
        until(lambda: doubled("k", 6))
        finalizers = api.get_namespaced_custom_object(*where, "k")["metadata"]["finalizers"]
        assert finalizers == ["kopf.zalando.org/KopfFinalizerMarker"]
        api.patch_namespaced_custom_object(*where, "k", {"spec": {"size": 5}})
        until(lambda: doubled("k", 10))
        api.delete_namespaced_custom_object(*where, "k")
        until(lambda: gone("k"))
    except (AssertionError, TimeoutError):
        raise AssertionError(log.read_text()[-3000:]) from None
    finally:
        running.terminate()
        running.wait(60)
