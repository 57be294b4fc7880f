"""Random patches and applies, sent to a real server and worked out here: results, owners and refusals agree."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

from koord_minicluster.apiserver.patch import managed_fields, strategic
from koord_minicluster.apiserver.patch.reach import reach_of
from koord_minicluster.apiserver.status import StatusError
from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.patch.apply_sequences import CUSTOM_KIND
from tests.minicluster.apiserver.patch.record import Server
from tests.minicluster.apiserver.patch.recorded import Obj, difference, with_sorted_causes
from tests.minicluster.apiserver.patch.test_apply import now_of, resource_of
from tests.waiting import until

pytestmark = pytest.mark.cluster

MANAGERS = ("one", "two", "three")
THINGS = "/apis/example.com/v1/namespaces/default/things"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"


def _some(rng: random.Random, choices: dict[str, Callable[[], Any]]) -> Obj:
    return {key: make() for key, make in choices.items() if rng.random() < 0.5}


def _thing_spec(rng: random.Random) -> Obj:
    def items() -> list[Obj]:
        return [{"key": key, "value": rng.randint(1, 2)} for key in rng.sample("abcd", rng.randint(0, 3))]

    def ports() -> list[Obj]:
        kinds = rng.sample([(1, None), (1, "UDP"), (2, "TCP"), (2, "UDP")], rng.randint(0, 3))
        return [{"port": port, **({"protocol": kind} if kind else {})} for port, kind in kinds]

    def free(depth: int = 2) -> Any:
        if depth == 0 or rng.random() < 0.3:
            return rng.choice([1, "x", True, [1, 2]])
        return {key: free(depth - 1) for key in rng.sample("pqr", rng.randint(0, 2))}

    return _some(
        rng,
        {
            "size": lambda: rng.randint(1, 2),
            "replicas": lambda: rng.randint(0, 2),
            "maybe": lambda: rng.choice(["m", "n", None]),
            "either": lambda: rng.choice([1, "1"]),
            "items": items,
            "ports": ports,
            "tags": lambda: rng.sample(["x", "y", "z"], rng.randint(0, 3)),
            "steps": lambda: [{"n": rng.randint(1, 2)} for _ in range(rng.randint(0, 2))],
            "whole": lambda: dict.fromkeys(rng.sample("ab", rng.randint(0, 2)), 1),
            "free": lambda: {key: free() for key in rng.sample("abc", rng.randint(0, 2))},
            "anything": free,
        },
    )


def _pod_template(rng: random.Random) -> Obj:
    def container(name: str) -> Obj:
        more = _some(
            rng,
            {
                "args": lambda: rng.sample(["a", "b"], rng.randint(0, 2)),
                "env": lambda: [
                    {"name": key, "value": rng.choice("12")} for key in rng.sample("ABCD", rng.randint(0, 3))
                ],
                "ports": lambda: [{"containerPort": port} for port in rng.sample([80, 443, 9], rng.randint(0, 2))],
                "resources": lambda: {"limits": {"cpu": rng.choice(["1", "2"])}},
                "workingDir": lambda: rng.choice(["/a", "/b"]),
                "securityContext": lambda: _some(
                    rng, {"runAsUser": lambda: rng.randint(1, 2), "privileged": lambda: True}
                ),
            },
        )
        return {"name": name, "image": rng.choice(["i:1", "i:2"]), **more}

    containers = [container(name) for name in ["a", *rng.sample("bcd", rng.randint(0, 2))]]
    rng.shuffle(containers)
    spec = _some(
        rng,
        {
            "nodeSelector": lambda: {key: rng.choice("12") for key in rng.sample("xyz", rng.randint(0, 2))},
            "tolerations": lambda: [{"key": key, "operator": "Exists"} for key in rng.sample("kl", rng.randint(0, 2))],
            "hostAliases": lambda: [{"ip": f"10.0.0.{at}"} for at in rng.sample([1, 2, 3], rng.randint(0, 2))],
            "securityContext": lambda: _some(rng, {"fsGroup": lambda: rng.randint(1, 2)}),
        },
    )
    return {"metadata": {"labels": {"app": "x"}}, "spec": {**spec, "containers": containers}}


def _meta(rng: random.Random) -> Obj:
    return _some(
        rng,
        {
            "labels": lambda: {key: rng.choice("12") for key in rng.sample("xyz", rng.randint(0, 2))},
            "annotations": lambda: {key: rng.choice("12") for key in rng.sample("uv", rng.randint(0, 2))},
            "finalizers": lambda: [f"example.com/{key}" for key in rng.sample("fgh", rng.randint(0, 2))],
        },
    )


def _object(rng: random.Random, kind: str, name: str) -> Obj:
    if kind == "Thing":
        obj: Obj = {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name, **_meta(rng)}}
        return {**obj, "spec": _thing_spec(rng)} if rng.random() < 0.9 else obj
    obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **_meta(rng)}}
    return {**obj, "template": _pod_template(rng)}


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> Server:
    server = Server(control_plane)
    server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CUSTOM_KIND)
    until(lambda: server.ask("GET", THINGS)[0] == 200)
    return server


def _applied(before: Obj | None, config: Obj, manager: str, force: bool, after: Obj) -> tuple[Obj | None, Obj | None]:
    resource = resource_of(config)
    try:
        result = managed_fields.apply(
            before,
            config,
            manager=manager,
            force=force,
            schema=resource.schema,
            api_version=config["apiVersion"],
            kind=config["kind"],
            now=now_of(before, after),
            reach=reach_of(resource),
        )
    except StatusError as error:
        refusal = error.body()
        del refusal["metadata"]
        return None, refusal
    return result, None


@pytest.mark.parametrize(("kind", "collection"), [("Thing", THINGS), ("PodTemplate", TEMPLATES)])
@pytest.mark.parametrize("seed", range(6))
def test_random_applies_and_patches_by_three_managers(server: Server, kind: str, collection: str, seed: int) -> None:
    rng = random.Random(f"{kind}-{seed}")
    name = f"random-{seed}"
    path = f"{collection}/{name}"
    before: Obj | None = None
    server.ask("PATCH", path, {"metadata": {"finalizers": None}}, "merge")
    server.ask("DELETE", path)
    for number in range(25):
        manager, force = rng.choice(MANAGERS), rng.random() < 0.5
        config = _object(rng, kind, name)
        patching = before is not None and rng.random() < 0.35
        verb = "merge" if patching else "apply"
        query = {"fieldManager": manager} if patching or not force else {"fieldManager": manager, "force": "true"}
        sent = config if not patching else {key: config[key] for key in config if key not in ("apiVersion", "kind")}
        code, answer = server.ask("PATCH", path, sent, verb, **query)
        after = server.ask("GET", path)[1] if code < 400 else answer
        note = f"step {number}: {verb} by {manager} {force=}\n{sent}\non {before}"
        if code == 422 and answer["details"].get("causes"):
            continue
        if verb == "apply":
            result, refusal = _applied(before, config, manager, force, after)
            if code >= 400:
                answer.pop("metadata", None)
                assert with_sorted_causes(refusal) == with_sorted_causes(answer), note
                continue
            assert refusal is None, note
            assert result is not None
            owners = result["metadata"].pop("managedFields", None)
            for each in ("resourceVersion", "generation", "uid", "creationTimestamp"):
                result["metadata"].pop(each, None)
            shown = copy.deepcopy(after)
            shown["metadata"].pop("managedFields", None)
            assert difference(result, shown) == [], note
        else:
            assert code == 200, answer
            new = copy.deepcopy(after)
            new["metadata"]["managedFields"] = (before or {})["metadata"].get("managedFields")
            resource = resource_of(after)
            managed_fields.track(
                before,
                new,
                manager=manager,
                operation_api_version=after["apiVersion"],
                schema=resource.schema,
                now=now_of(before, after),
                reach=reach_of(resource),
            )
            owners = new["metadata"].get("managedFields")
        assert owners == after["metadata"].get("managedFields"), note
        before = after


@pytest.mark.parametrize("seed", range(4))
def test_random_strategic_patches(server: Server, seed: int) -> None:
    rng = random.Random(seed)
    name = f"strategic-{seed}"
    path = f"{TEMPLATES}/{name}"
    server.ask("PATCH", path, {"metadata": {"finalizers": None}}, "merge")
    server.ask("DELETE", path)
    code, live = server.ask("POST", TEMPLATES, _object(rng, "PodTemplate", name))
    assert code == 201, live
    for _ in range(30):
        patch = _with_directives(rng, _object(rng, "PodTemplate", name))
        code, answer = server.ask("PATCH", path, patch, "strategic", dryRun="All")
        try:
            result = strategic.apply(live, patch, resource_of(live).schema)
        except StatusError as error:
            refusal = error.body()
            assert (refusal["code"], refusal["message"]) == (code, answer["message"]), patch
            continue
        if code == 422:
            continue
        assert code == 200, (patch, answer)
        for each in ("managedFields", "generation", "resourceVersion"):
            result["metadata"].pop(each, None)
            answer["metadata"].pop(each, None)
        assert difference(result, answer) == [], (patch, live)
        if rng.random() < 0.3:
            code, live = server.ask("PATCH", path, patch, "strategic")
            assert code == 200


def _with_directives(rng: random.Random, obj: Obj) -> Obj:
    """A patch with some directives thrown in, at the places where they may stand."""
    spec = obj["template"]["spec"]
    containers = spec["containers"]
    for container in containers:
        if rng.random() < 0.2:
            container["$patch"] = rng.choice(["delete", "replace"])
        for field, key in (("env", "name"), ("ports", "containerPort")):
            for item in container.get(field, []):
                if rng.random() < 0.3:
                    item["$patch"] = "delete"
            if container.get(field) and rng.random() < 0.3:
                container[f"$setElementOrder/{field}"] = [{key: item[key]} for item in container[field]]
    if rng.random() < 0.4:
        order = [{"name": item["name"]} for item in containers]
        if rng.random() < 0.5:
            order.insert(rng.randint(0, len(order)), {"name": rng.choice("abcd")})
        spec["$setElementOrder/containers"] = order
    if rng.random() < 0.2:
        spec["$retainKeys"] = [*spec, "restartPolicy"] if rng.random() < 0.8 else ["containers"]
    finalizers = obj["metadata"].get("finalizers")
    if finalizers and rng.random() < 0.5:
        # Not one that is added as well: which of the two comes first is up to the real server's luck.
        gone = [f"example.com/{key}" for key in "fgh" if f"example.com/{key}" not in finalizers]
        obj["metadata"]["$deleteFromPrimitiveList/finalizers"] = gone
    elif finalizers and rng.random() < 0.5:
        obj["metadata"]["$setElementOrder/finalizers"] = finalizers
    if "labels" in obj["metadata"] and rng.random() < 0.3:
        obj["metadata"]["labels"]["$patch"] = rng.choice(["replace", "delete"])
    return obj
