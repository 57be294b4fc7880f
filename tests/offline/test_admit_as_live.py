"""The same pods both ways: to an API server with koord's webhooks, and to `koord admit`."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from koord.api import kinds
from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.text.manifest import parse
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.offline.admit import Admitted, admit_all
from tests.manager.live.webhooks import admitting, prepare
from tests.scheduler.live.embedded import serving

QOS, BATCH_CPU = "koordinator.sh/qosClass", "kubernetes.io/batch-cpu"
LSR_BY_LIMITS: dict[str, Any] = {
    "metadata": {"name": "lsr", "labels": {QOS: "LSR"}},
    "spec": {
        "priorityClassName": "koord-prod",
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}],
    },
}
BATCH_BY_LIMITS: dict[str, Any] = {
    "metadata": {"name": "batch"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {BATCH_CPU: "1k"}}}]},
}
SURROUNDINGS: tuple[dict[str, Any], ...] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "jobs", "labels": {"colocation": "on"}}},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bounded"}},
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "usual", "namespace": "bounded"},
        "spec": {"limits": [{"type": "Container", "default": {"cpu": "2"}, "min": {"memory": "0.5Mi"}}]},
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "heavy"},
        "handler": "heavy",
        "overhead": {"podFixed": {"cpu": "0.25"}},
        "scheduling": {"nodeSelector": {"heavy": "yes"}, "tolerations": [{"key": "heavy", "operator": "Exists"}]},
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "patient"},
        "value": 9100,
        "preemptionPolicy": "Never",
    },
    {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": "batch"},
        "spec": {
            "namespaceSelector": {"matchLabels": {"colocation": "on"}},
            "qosClass": "BE",
            "priorityClassName": "koord-batch",
            "labels": {"given": "yes"},
            "schedulerName": "koord-scheduler",
        },
    },
)
AMOUNTS: tuple[dict[str, Any], ...] = (
    {},
    {"cpu": "2"},
    {"cpu": 2, "memory": "1Gi"},
    {"cpu": "1500m", "memory": "0.5Gi"},
    {BATCH_CPU: "1k", "kubernetes.io/batch-memory": "1Gi"},
    {"cpu": "1", BATCH_CPU: 500},
)


def generated(number: int) -> list[dict[str, Any]]:
    """Pods that an API server takes as far as their own shape goes, drawn with a fixed seed."""
    chance = random.Random(11)
    found = []
    for i in range(number):
        containers = [_container(chance, f"c{j}") for j in range(chance.choice((1, 1, 2)))]
        spec: dict[str, Any] = {"containers": containers}
        if chance.random() < 0.25:
            spec["initContainers"] = [_container(chance, "init")]
        if chance.random() < 0.5:
            classes = ("koord-prod", "koord-batch", "koord-mid", "patient", "nobody-knows", "system-node-critical")
            spec["priorityClassName"] = chance.choice(classes)
        if chance.random() < 0.2:
            spec["runtimeClassName"] = chance.choice(("heavy", "nobody-knows"))
        if chance.random() < 0.2:
            spec |= {"hostNetwork": True, "nodeSelector": {"heavy": chance.choice(("yes", "no"))}}
        namespace = chance.choice(("shop", "jobs", "bounded"))
        if namespace != "bounded" and chance.random() < 0.2:
            # A LimitRange gives containers requests that the pod as a whole would not have.
            spec["resources"] = {"limits": {"cpu": "8", "memory": "8Gi"}}
        if chance.random() < 0.2:
            spec["volumes"] = [{"name": "v"}, {"name": "w", "configMap": {"name": "w"}}]
        labels = chance.choice(({}, {}, {QOS: "BE"}, {QOS: "LS"}, {QOS: "LSR"}, {QOS: "LSE"}))
        metadata = {"name": f"p{i}", "namespace": namespace, "labels": labels}
        found.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return found


def _container(chance: random.Random, name: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": chance.choice(("i", "i:1", "i:latest"))}
    limits = chance.choice(AMOUNTS)
    # Requests only of what is not limited: then no request is above its limit.
    requests = {key: value for key, value in chance.choice(AMOUNTS).items() if key not in limits}
    if limits or requests or chance.random() < 0.5:
        container["resources"] = {"limits": limits or None, "requests": requests or None}
    if chance.random() < 0.3:
        container["ports"] = [{"containerPort": 8000 + len(name)}]
    return container


def offline(*objects: dict[str, Any]) -> list[Admitted]:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*SURROUNDINGS, *objects]})
    return admit_all(parse(text, "input"), parse_gates(ManagerGate))[len(SURROUNDINGS) :]


async def sent(client: Client, obj: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """The pod as an API server stored it, or why it did not."""
    name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
    try:
        await client.create(kinds.PODS, obj, namespace=namespace)
    except ApiError as error:
        return None, error.status.message
    return json.loads(await client.get_bytes(kinds.PODS, name, namespace=namespace)), ""


def decided(obj: Any) -> dict[str, Any]:
    """The part of a stored pod that its author and admission decide."""
    meta = obj["metadata"]
    return {"labels": meta.get("labels") or {}, "annotations": meta.get("annotations") or {}, "spec": obj["spec"]}


def test_requests_that_follow_from_limits_count_for_admission() -> None:
    given = [{"apiVersion": "v1", "kind": "Pod", **each} for each in (LSR_BY_LIMITS, BATCH_BY_LIMITS)]
    lsr, batch = offline(*given)
    assert (lsr.allowed, lsr.message) == (True, "")
    assert not batch.allowed
    assert QOS in batch.message


async def test_an_api_server_with_koords_webhooks_and_koord_admit_say_the_same(tmp_path: Path) -> None:
    given = [{"apiVersion": "v1", "kind": "Pod", **each} for each in (LSR_BY_LIMITS, BATCH_BY_LIMITS)]
    for each in given:
        each["metadata"] = {**each["metadata"], "namespace": "shop"}
    given += generated(60)
    expected = offline(*given)
    assert len({each.allowed for each in expected}) == 2, "examples of one sort only"
    async with serving(tmp_path) as client:
        await prepare(client, "shop")
        for each in SURROUNDINGS:
            kind = kinds.find(each["apiVersion"], each["kind"])
            assert kind is not None
            await client.create(kind, each, namespace=each["metadata"].get("namespace", ""))
        async with admitting(client):
            for obj, answer in zip(given, expected, strict=True):
                stored, refusal = await sent(client, obj)
                assert answer.allowed == (stored is not None), f"{obj}\nlive: {refusal}\noffline: {answer.message}"
                if stored is None:
                    assert answer.message.removeprefix("the API server would refuse it: ") in refusal
                else:
                    assert decided(answer.object) == decided(stored), obj
