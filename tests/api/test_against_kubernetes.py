"""koord's reading of objects against what a real API server and kubectl make of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from koord.api.kinds import BUILT_IN, PODS, Kind
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_limits, pod_requests
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.codec import convert
from koord.api.protocol.priority import compute_kube_qos
from koord.api.text.quantity import milli, value
from tests.control_plane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]

NAMESPACE = "lean-objects"
NODE = "lean-objects-node"
RUNTIME_CLASS = "lean-objects-sandbox"

# Fields of types that stand in several places, where one of the places does not have them.
ELSEWHERE = (
    ".conditions[].observedGeneration",
    ".rollingUpdate.partition",
    ".rollingUpdate.maxSurge",
    ".webhooks[].reinvocationPolicy",
    ".spec.resources.claims",
    ".sources[].configMap.defaultMode",
    ".sources[].downwardAPI.defaultMode",
)


@pytest.fixture(scope="module")
def pods(control_plane: ControlPlane) -> list[dict[str, Any]]:
    """Pods with resources at random, as the server stored them."""
    chance = random.Random(42)
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": {"allocatable": {"cpu": "64"}}},
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": RUNTIME_CLASS},
            "handler": "sandbox",
            "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
        },
        *(_pod(chance, number) for number in range(60)),
    ]
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return _stored(control_plane)


def _stored(control_plane: ControlPlane) -> list[dict[str, Any]]:
    listed = json.loads(control_plane.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json").stdout)
    assert len(listed["items"]) == 60
    items: list[dict[str, Any]] = listed["items"]
    return items


def _pod(chance: random.Random, number: int) -> dict[str, Any]:
    guaranteed = chance.random() < 0.4
    spec: dict[str, Any] = {
        "nodeName": NODE,
        "containers": [_container(chance, f"c{i}", guaranteed) for i in range(chance.randint(1, 3))],
        "initContainers": [
            _container(chance, f"i{i}", guaranteed) | ({"restartPolicy": "Always"} if chance.random() < 0.5 else {})
            for i in range(chance.randint(0, 3))
        ],
    }
    if chance.random() < 0.3:
        spec["runtimeClassName"] = RUNTIME_CLASS
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number}", "namespace": NAMESPACE},
        "spec": spec,
    }


def _container(chance: random.Random, name: str, guaranteed: bool) -> dict[str, Any]:
    cpu = chance.choice(["100m", "1", "0.5", "1500m", 2, "0.1234"])
    memory = chance.choice(["64Mi", "1Gi", "1e9", 1000, "1.5Gi", "128974848"])
    both = {"cpu": cpu, "memory": memory}
    limits = chance.choice([{}, both, {"cpu": "4", "memory": "4Gi"}, {"memory": "4Gi"}])
    requests = chance.choice([{}, both, {"cpu": cpu}, {"memory": 0}])
    resources = {"limits": both, "requests": both} if guaranteed else {"limits": limits, "requests": requests}
    return {"name": name, "image": "pause", "resources": resources}


def test_kubernetes_computes_the_same_qos(pods: list[dict[str, Any]]) -> None:
    for data in pods:
        assert compute_kube_qos(convert(Pod, data).spec) == data["status"]["qosClass"], data["spec"]
    assert {data["status"]["qosClass"] for data in pods} == {"Guaranteed", "Burstable", "BestEffort"}


def _containers(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [*data["spec"]["containers"], *data["spec"].get("initContainers", [])]


def shown_by_kubectl(control_plane: ControlPlane) -> dict[str, tuple[int, int, int, int]]:
    """By pod: requested milli-cores, their limit, requested bytes, their limit."""
    shown = {}
    for line in control_plane.kubectl("describe", "node", NODE).stdout.splitlines():
        words = line.split()
        if words[:1] == [NAMESPACE]:
            cpu_request, cpu_limit, memory_request, memory_limit = words[2:10:2]
            shown[words[1]] = (milli(cpu_request), milli(cpu_limit), value(memory_request), value(memory_limit))
    return shown


def test_kubectl_computes_the_same_requests_and_limits(control_plane: ControlPlane, pods: list[dict[str, Any]]) -> None:
    computed = {}
    for data in pods:
        requests, limits = pod_requests(convert(Pod, data)), pod_limits(convert(Pod, data))
        computed[data["metadata"]["name"]] = tuple(
            amounts.get(resource, 0) for resource in ("cpu", "memory") for amounts in (requests, limits)
        )
    assert computed == shown_by_kubectl(control_plane)


@pytest.mark.kubectl(oldest=(1, 35))
@pytest.mark.parametrize("reason", ["Deferred", "Infeasible"])
def test_kubectl_computes_the_same_requests_while_pods_are_resized(
    control_plane: ControlPlane, pods: list[dict[str, Any]], reason: str
) -> None:
    chance = random.Random(reason)
    # kubectl leaves resizes out of limits, and breaks on a container that is resized from no requests at all.
    for data in [data for data in pods if all(c["resources"].get("requests") for c in _containers(data))][:8]:
        status = {
            list_name: [
                {
                    "name": container["name"],
                    "ready": True,
                    "restartCount": 0,
                    "image": "pause",
                    "imageID": "",
                    "resources": {"requests": {"cpu": chance.choice(["50m", "700m", "3"]), "memory": "2Gi"}},
                    "allocatedResources": {"cpu": chance.choice(["60m", "800m", "4"])},
                }
                for container in data["spec"].get(containers, [])
            ]
            for containers, list_name in (
                ("containers", "containerStatuses"),
                ("initContainers", "initContainerStatuses"),
            )
        }
        pending = [{"type": "PodResizePending", "status": "True", "reason": reason}]
        patch = json.dumps({"status": {**status, "conditions": pending}})
        name = data["metadata"]["name"]
        control_plane.kubectl(
            "patch", "pod", name, "-n", NAMESPACE, "--subresource=status", "--type=merge", "-p", patch
        )
    shown = shown_by_kubectl(control_plane)
    resized = {data["metadata"]["name"]: pod_requests(convert(Pod, data)) for data in _stored(control_plane)}
    before = {data["metadata"]["name"]: pod_requests(convert(Pod, data)) for data in pods}
    assert sum(resized[name] != before[name] for name in before) >= 6
    for name, requests in resized.items():
        assert (requests.get("cpu", 0), requests.get("memory", 0)) == (shown[name][0], shown[name][2]), name


@pytest.mark.parametrize("type_", [Pod, RunnablePod])
def test_stored_pods_decode_at_the_first_try(pods: list[dict[str, Any]], type_: type[Pod]) -> None:
    for data in pods:
        msgspec.json.decode(json.dumps(data), type=type_)


@pytest.mark.parametrize("kind", BUILT_IN, ids=str)
def test_kubernetes_serves_every_kind_where_koord_looks_for_it(control_plane: ControlPlane, kind: Kind[Any]) -> None:
    collection = json.loads(control_plane.kubectl("get", "--raw", kind.path()).stdout)
    assert (collection["kind"], collection["apiVersion"]) == (f"{kind.kind}List", kind.api_version)
    for item in collection["items"] or []:
        convert(kind.type, item)
    if not kind.namespaced:
        return
    missing = control_plane.kubectl("get", "--raw", kind.path("absent", namespace="default"), check=False)
    assert f'{kind.resource} "absent" not found' in missing.stderr


@pytest.fixture(scope="module")
def definitions(control_plane: ControlPlane) -> dict[str, Any]:
    """Kubernetes' own description of every type."""
    found: dict[str, Any] = json.loads(control_plane.kubectl("get", "--raw", "/openapi/v2").stdout)["definitions"]
    return found


@pytest.mark.parametrize(
    ("kind", "type_"),
    [*((kind, kind.type) for kind in BUILT_IN), (PODS, RunnablePod)],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_every_field_is_one_of_kubernetes(definitions: dict[str, Any], kind: Kind[Any], type_: Any) -> None:
    names = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    (schema,) = (d for d in definitions.values() if names in d.get("x-kubernetes-group-version-kind", ()))
    found = strangers(inspect.type_info(type_), schema, definitions, kind.kind)
    assert [path for path in found if not path.endswith(ELSEWHERE)] == []


def strangers(type_: inspect.Type, schema: dict[str, Any], definitions: dict[str, Any], path: str) -> Iterator[str]:
    """Fields of a type that the schema does not have, or has as something else."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/definitions/")]
    json_type = schema.get("type")
    match type_:
        case inspect.Metadata(type=inner):
            yield from strangers(inner, schema, definitions, path)
        case inspect.UnionType(types=types):
            members = [member for member in types if not isinstance(member, inspect.NoneType)]
            if len(members) == 1:
                yield from strangers(members[0], schema, definitions, path)
            elif json_type != "string":  # numbers or strings, which Kubernetes calls strings
                yield f"{path} is {json_type}"
        case inspect.StructType(fields=fields):
            for field in fields:
                if field.encode_name in schema.get("properties", {}):
                    property_ = schema["properties"][field.encode_name]
                    yield from strangers(field.type, property_, definitions, f"{path}.{field.encode_name}")
                else:
                    yield f"{path}.{field.encode_name}"
        case inspect.VarTupleType(item_type=item) if json_type == "array":
            yield from strangers(item, schema["items"], definitions, f"{path}[]")
        case inspect.DictType(value_type=item) if "additionalProperties" in schema:
            yield from strangers(item, schema["additionalProperties"], definitions, f"{path}{{}}")
        case inspect.DictType(value_type=inspect.AnyType()) | inspect.AnyType():
            return
        case inspect.StrType() | inspect.EnumType() | inspect.LiteralType() | inspect.BytesType() if (
            json_type == "string"
        ):
            return
        case inspect.IntType() if json_type == "integer":
            return
        case inspect.BoolType() if json_type == "boolean":
            return
        case _:
            yield f"{path} is {json_type}"


def test_what_koord_leaves_out_of_a_pod_it_can_still_send(control_plane: ControlPlane) -> None:
    """A manifest made from a typed object is accepted by the server, and reads back equal."""
    written = convert(
        Pod,
        {
            "metadata": {"name": "typed", "namespace": "default", "labels": {"app": "typed"}},
            "spec": {
                "containers": [{"name": "app", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}],
                "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "topology.kubernetes.io/zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "typed"}},
                        "minDomains": 2,
                        "matchLabelKeys": ["pod-template-hash"],
                    }
                ],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
                "schedulingGates": [{"name": "example.com/wait"}],
            },
        },
    )
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(PODS.manifest(written)))
    stored = convert(Pod, json.loads(control_plane.kubectl("get", "pod", "typed", "-o", "json").stdout))
    assert stored.spec.containers == written.spec.containers
    assert stored.spec.volumes == written.spec.volumes
    assert stored.spec.scheduling_gates == written.spec.scheduling_gates
    (constraint,) = stored.spec.topology_spread_constraints
    assert (constraint.min_domains, constraint.match_label_keys) == (2, ("pod-template-hash",))
    assert written.spec.tolerations[0] in stored.spec.tolerations
