"""Webhooks over real TLS: what they are asked, what their answers do, and what happens when they fail."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from koord.api.kubernetes.access import UserInfo
from koord_minicluster.apiserver.resource import Obj
from koord_minicluster.apiserver.status import StatusError
from tests.minicluster.apiserver.admission.world import World, config_map, namespace, opened, pod
from tests.waiting import forever

MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
CONFIG_MAPS = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}

Answer = Callable[[Obj], Obj]


class Hooks:
    """A TLS server with a behaviour for each path; `asked` keeps the requests."""

    def __init__(self) -> None:
        authority = trustme.CA()
        self._certificate = authority.issue_cert("127.0.0.1", "hook.shop.svc")
        self.ca = base64.b64encode(authority.cert_pem.bytes()).decode()
        self.behaviours: dict[str, Answer] = {}
        self.asked: list[Obj] = []
        self.at_once = self.most_at_once = 0
        self.port = 0

    async def start(self, directory: Path) -> web.ServerRunner:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._certificate.private_key_and_cert_chain_pem.write_to_path(str(directory / "hook.pem"))
        context.load_cert_chain(directory / "hook.pem")
        runner = web.ServerRunner(web.Server(self._answer))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = runner.addresses[0][1]
        return runner

    def hook(self, answer: Answer, name: str = "h.example.com", **more: Any) -> Obj:
        path = f"/{len(self.behaviours)}"
        self.behaviours[path] = answer
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.ca},
            "rules": [CONFIG_MAPS],
            **more,
        }

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        review = (await request.json())["request"]
        self.asked.append(review)
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await asyncio.sleep(0.02)
        self.at_once -= 1
        response = self.behaviours[request.path](review)
        if "raw" in response:
            return web.Response(status=response.get("code", 200), text=response["raw"])
        body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
        return web.json_response({**body, "response": {"uid": review["uid"], **response}})


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Hooks]:
    made = Hooks()
    runner = await made.start(tmp_path)
    yield made
    await runner.cleanup()


async def configure(world: World, kind: str, *hooks: Obj, name: str = "a") -> None:
    await world.put(kind, {"metadata": {"name": name}, "webhooks": list(hooks)})


def allow(_review: Obj) -> Obj:
    return {"allowed": True}


def deny(_review: Obj) -> Obj:
    return {"allowed": False, "status": {"message": "not today"}}


def labelling(key: str, value: str = "yes") -> Answer:
    def answer(review: Obj) -> Obj:
        labels = {**(review["object"]["metadata"].get("labels") or {}), key: value}
        return patching({"op": "add", "path": "/metadata/labels", "value": labels})

    return answer


def patching(*operations: Obj) -> Obj:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


async def mutate(world: World, obj: Obj | None = None, **more: Any) -> Obj:
    return await world.admission.mutate(world.write("CREATE", "configmaps", obj or config_map(), **more))


async def validate(world: World, obj: Obj | None = None, operation: str = "CREATE", **more: Any) -> None:
    await world.admission.validate(world.write(operation, "configmaps", obj or config_map(), **more))


async def refusal(world: World, obj: Obj | None = None, **more: Any) -> StatusError:
    with pytest.raises(StatusError) as refused:
        await validate(world, obj, **more)
    return refused.value


async def test_a_mutating_hook_changes_the_object_and_the_next_sees_it(world: World, hooks: Hooks) -> None:
    await configure(world, MUTATING, hooks.hook(labelling("b")), name="b")
    await configure(world, MUTATING, hooks.hook(labelling("a")), name="a")
    made = await mutate(world)
    assert made["metadata"]["labels"] == {"a": "yes", "b": "yes"}
    assert "labels" not in hooks.asked[0]["object"]["metadata"]
    assert hooks.asked[1]["object"]["metadata"]["labels"] == {"a": "yes"}


async def test_a_hook_is_told_all_about_the_request(world: World, hooks: Hooks) -> None:
    await configure(world, VALIDATING, hooks.hook(allow))
    user = UserInfo("ann", "u1", ("dev",), {"k": ("v",)})
    old, new = config_map(a="1"), config_map(a="2")
    await validate(world, new, "UPDATE", old=old, user=user, dry_run=True, options={"fieldManager": "me"})
    asked = {key: value for key, value in hooks.asked[0].items() if key != "uid"}
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    assert asked == {
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "c",
        "namespace": "default",
        "operation": "UPDATE",
        "userInfo": {"username": "ann", "uid": "u1", "groups": ["dev"], "extra": {"k": ["v"]}},
        "object": new,
        "oldObject": old,
        "dryRun": True,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"},
    }


async def test_a_refusal_is_the_hooks_with_its_name(world: World, hooks: Hooks) -> None:
    await configure(world, VALIDATING, hooks.hook(deny))
    error = await refusal(world)
    assert error.body() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'admission webhook "h.example.com" denied the request: not today',
        "code": 400,
    }


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (None, 400, " without explanation"),
        ({"reason": "Because"}, 400, ": Because"),
        ({"code": 409, "reason": "Conflict", "message": "taken"}, 409, ": taken"),
        ({"code": 200, "message": "odd"}, 400, ": odd"),
    ],
)
async def test_a_refusal_is_always_a_failure(
    world: World, hooks: Hooks, status: Obj | None, code: int, message: str
) -> None:
    await configure(world, VALIDATING, hooks.hook(lambda _review: {"allowed": False, "status": status}))
    error = await refusal(world)
    assert (error.code, error.body()["code"]) == (code, code)
    assert error.message == f'admission webhook "h.example.com" denied the request{message}'


async def test_warnings_reach_the_client_and_audit_notes_do_not(world: World, hooks: Hooks) -> None:
    said = {"allowed": True, "warnings": ["careful"], "auditAnnotations": {"k": "v"}}
    await configure(world, MUTATING, hooks.hook(lambda _review: said))
    attributes = world.write("CREATE", "configmaps", config_map())
    await world.admission.mutate(attributes)
    assert attributes.warnings == ["careful"]


@pytest.mark.parametrize(
    ("response", "detail"),
    [
        ({"allowed": True, "uid": "other"}, "received invalid webhook response: expected response.uid="),
        (
            {"allowed": True, "patch": "W10="},
            "received invalid webhook response: webhook returned response.patch but not",
        ),
        (
            {"allowed": True, "patchType": "JSONPatch"},
            "received invalid webhook response: webhook returned response.patchType",
        ),
        ({"allowed": True, "patchType": "X", "patch": "W3t9XQ=="}, 'unsupported patch type "X"'),
        (
            {"allowed": True, "patchType": "JSONPatch", "patch": "bm8="},
            "received undecodable patch in webhook response",
        ),
        ({"raw": ""}, "failed to call webhook: 0-length response with status code: 200"),
        ({"raw": "hello"}, "failed to call webhook: couldn't get version/kind; json parse error"),
        ({"raw": "{}"}, "received invalid webhook response: webhook response was absent"),
        ({"raw": "broken", "code": 500}, 'failed to call webhook: an error on the server ("broken") has prevented'),
        ({"raw": "", "code": 404}, "failed to call webhook: the server could not find the requested resource"),
    ],
)
async def test_an_answer_that_is_none_fails_the_request_or_is_passed_over(
    world: World, hooks: Hooks, response: Obj, detail: str
) -> None:
    await configure(world, MUTATING, hooks.hook(lambda _review: response))
    with pytest.raises(StatusError) as refused:
        await mutate(world)
    assert (refused.value.code, refused.value.reason) == (500, "InternalError")
    assert f'failed calling webhook "h.example.com": {detail}' in refused.value.message
    await configure(world, MUTATING, hooks.hook(lambda _review: response, failurePolicy="Ignore"))
    assert await mutate(world) == config_map()


async def test_a_refusal_counts_whatever_the_failure_policy(world: World, hooks: Hooks) -> None:
    await configure(world, VALIDATING, hooks.hook(deny, failurePolicy="Ignore"))
    assert (await refusal(world)).code == 400


async def test_a_hook_that_cannot_be_reached_is_told_as_go_does(world: World, hooks: Hooks) -> None:
    dead = {"url": "https://127.0.0.1:1/x", "caBundle": hooks.ca}
    await configure(world, VALIDATING, hooks.hook(allow, clientConfig=dead))
    error = await refusal(world)
    assert error.message == (
        'Internal error occurred: failed calling webhook "h.example.com": failed to call webhook: Post '
        '"https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused'
    )


async def test_a_hook_whose_certificate_is_not_its_authoritys_is_not_asked(world: World, hooks: Hooks) -> None:
    hook = hooks.hook(allow)
    hook["clientConfig"]["caBundle"] = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    await configure(world, VALIDATING, hook)
    error = await refusal(world)
    assert "tls: failed to verify certificate: x509: certificate signed by unknown authority" in error.message
    assert hooks.asked == []


async def test_a_slow_hook_is_given_up(tmp_path: Path, world: World, hooks: Hooks) -> None:
    async def stuck(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await forever()

    listener = await asyncio.start_server(stuck, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    client = {"url": f"https://127.0.0.1:{port}/x", "caBundle": hooks.ca}
    await configure(world, VALIDATING, hooks.hook(allow, clientConfig=client, timeoutSeconds=1))
    error = await refusal(world)
    assert error.message.endswith(f'Post "https://127.0.0.1:{port}/x?timeout=1s": context deadline exceeded')
    listener.close()


async def test_a_service_is_found_by_the_resolver_and_checked_by_its_own_name(tmp_path: Path, hooks: Hooks) -> None:
    services = {"hook": ("127.0.0.1", hooks.port), "other": ("127.0.0.1", hooks.port)}
    async with opened(tmp_path / "store", services) as world:
        for name, failed in (("hook", ""), ("other", "x509"), ("absent", 'service "absent" not found')):
            hook = hooks.hook(deny)
            path = hook["clientConfig"].pop("url").rpartition("/")[2]
            hook["clientConfig"]["service"] = {"namespace": "shop", "name": name, "path": f"/{path}"}
            await configure(world, VALIDATING, hook)
            error = await refusal(world)
            assert (failed or "not today") in error.message


async def test_validating_hooks_are_asked_together_and_the_first_refusal_is_told(world: World, hooks: Hooks) -> None:
    slow = [hooks.hook(allow, f"h{i}.example.com") for i in range(4)]
    await configure(world, VALIDATING, *slow, hooks.hook(deny, "x.example.com"), hooks.hook(deny, "y.example.com"))
    error = await refusal(world)
    assert 'admission webhook "x.example.com"' in error.message
    assert hooks.most_at_once > 1


@pytest.mark.parametrize(("side_effects", "asked"), [("None", 1), ("NoneOnDryRun", 1), ("Some", 0), ("Unknown", 0)])
async def test_a_rehearsal_asks_only_hooks_without_side_effects(
    world: World, hooks: Hooks, side_effects: str, asked: int
) -> None:
    await configure(world, VALIDATING, hooks.hook(allow, sideEffects=side_effects))
    if asked:
        await validate(world, dry_run=True)
    else:
        error = await refusal(world, dry_run=True)
        assert error.message == 'admission webhook "h.example.com" does not support dry run'
    assert len(hooks.asked) == asked


def counting(review: Obj) -> Obj:
    count = int((review["object"].get("data") or {}).get("count", "0")) + 1
    return patching({"op": "add", "path": "/data", "value": {"count": str(count)}})


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ({"reinvocationPolicy": "IfNeeded"}, labelling("x"), "2"),
        ({"reinvocationPolicy": "Never"}, labelling("x"), "1"),
        ({"reinvocationPolicy": "IfNeeded"}, allow, "1"),
    ],
)
async def test_a_hook_is_asked_again_if_it_wants_and_a_later_one_changed_the_object(
    world: World, hooks: Hooks, first: Obj, second: Answer, count: str
) -> None:
    await configure(
        world, MUTATING, hooks.hook(counting, "a.example.com", **first), hooks.hook(second, "b.example.com")
    )
    assert (await mutate(world))["data"]["count"] == count


async def test_built_in_steps_see_what_a_hook_made_of_a_pod(world: World, hooks: Hooks) -> None:
    rules = [{**CONFIG_MAPS, "resources": ["pods"]}]
    clearing = patching({"op": "remove", "path": "/spec/tolerations"})
    await configure(world, MUTATING, hooks.hook(lambda _review: clearing, rules=rules))
    made = await world.admission.mutate(world.write("CREATE", "pods", pod()))
    assert len(made["spec"]["tolerations"]) == 2


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        ({}, True),
        ({"operations": ["UPDATE", "DELETE"]}, False),
        ({"apiGroups": ["apps"]}, False),
        ({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}, True),
        ({"apiVersions": ["v2"]}, False),
        ({"resources": ["configmaps/status"]}, False),
        ({"resources": ["*/*"]}, True),
        ({"resources": ["configmaps/*"]}, True),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
    ],
)
async def test_rules_choose_the_writes(world: World, hooks: Hooks, rule: Obj, asked: bool) -> None:
    await configure(world, VALIDATING, hooks.hook(allow, rules=[{**CONFIG_MAPS, **rule}]))
    await validate(world)
    assert bool(hooks.asked) is asked


@pytest.mark.parametrize(
    ("more", "labels", "asked"),
    [
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, {"a": "b"}, True),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, {}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, {}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, {}, False),
        ({"matchConditions": [{"name": "n", "expression": 'object.metadata.name == "c"'}]}, {}, True),
        ({"matchConditions": [{"name": "n", "expression": 'request.operation == "DELETE"'}]}, {}, False),
        ({"matchConditions": [{"name": "n", "expression": '"system:masters" in request.userInfo.groups'}]}, {}, True),
        (
            {
                "matchConditions": [
                    {"name": "fails", "expression": "object.data.x == '1'"},
                    {"name": "no", "expression": "oldObject != null"},
                ]
            },
            {},
            False,
        ),
    ],
)
async def test_selectors_and_conditions_narrow_the_choice(
    world: World, hooks: Hooks, more: Obj, labels: dict[str, str], asked: bool
) -> None:
    await configure(world, VALIDATING, hooks.hook(allow, **more))
    await validate(world, config_map(labels=labels))
    assert bool(hooks.asked) is asked


async def test_a_condition_that_cannot_be_evaluated_follows_the_failure_policy(world: World, hooks: Hooks) -> None:
    conditions = [{"name": "n", "expression": 'object.data.x == "1"'}]
    await configure(world, VALIDATING, hooks.hook(allow, matchConditions=conditions))
    error = await refusal(world)
    assert error.message == (
        'configmaps "c" is forbidden: expression \'object.data.x == "1"\' resulted in error: no such key: data'
    )
    await configure(world, VALIDATING, hooks.hook(deny, matchConditions=conditions, failurePolicy="Ignore"))
    await validate(world)
    assert hooks.asked == []


async def test_the_same_objects_under_another_group_reach_a_hook_unless_it_is_exact(world: World, hooks: Hooks) -> None:
    rules = [{**CONFIG_MAPS, "apiGroups": ["events.k8s.io"], "resources": ["events"]}]
    event = {"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e", "namespace": "default"}}
    for policy, asked in (("Exact", 0), ("Equivalent", 1)):
        await configure(world, VALIDATING, hooks.hook(allow, rules=rules, matchPolicy=policy))
        await world.admission.validate(world.write("CREATE", "events", event))
        assert len(hooks.asked) == asked
    assert hooks.asked[0]["kind"]["group"] == "events.k8s.io"
    assert hooks.asked[0]["requestKind"]["group"] == ""
    assert hooks.asked[0]["object"]["apiVersion"] == "events.k8s.io/v1"


async def test_a_namespace_is_chosen_by_its_own_labels(world: World, hooks: Hooks) -> None:
    rules = [{**CONFIG_MAPS, "resources": ["namespaces"]}]
    await configure(world, VALIDATING, hooks.hook(allow, rules=rules, namespaceSelector={"matchLabels": {"team": "x"}}))
    for labels, asked in (({}, 0), ({"team": "x"}, 1)):
        await world.admission.validate(world.write("CREATE", "namespaces", namespace("new", **labels)))
        assert len(hooks.asked) == asked
    assert hooks.asked[0]["namespace"] == "new"


async def test_deletions_ask_mutating_and_validating_hooks_and_allow_no_change(world: World, hooks: Hooks) -> None:
    await configure(world, MUTATING, hooks.hook(allow, "m.example.com"))
    await configure(world, VALIDATING, hooks.hook(allow, "v.example.com"))
    await world.admission.validate(world.write("DELETE", "configmaps", None, old=config_map()))
    assert [each["object"] for each in hooks.asked] == [None, None]
    change = patching({"op": "add", "path": "/data", "value": {}})
    await configure(world, MUTATING, hooks.hook(lambda _review: change))
    with pytest.raises(StatusError) as refused:
        await world.admission.validate(world.write("DELETE", "configmaps", None, old=config_map()))
    assert "attempted to modify the object, which is not supported for this operation" in refused.value.message


async def test_configurations_of_webhooks_do_not_go_through_webhooks(world: World, hooks: Hooks) -> None:
    everything = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]
    await configure(world, VALIDATING, hooks.hook(deny, rules=everything))
    obj = {"metadata": {"name": "x"}}
    group = "admissionregistration.k8s.io"
    await world.admission.validate(world.write("CREATE", VALIDATING.partition(".")[0], obj, group=group))
    assert hooks.asked == []


async def test_a_removed_configuration_asks_no_more(world: World, hooks: Hooks) -> None:
    await configure(world, VALIDATING, hooks.hook(deny))
    await refusal(world)
    await world.remove(VALIDATING, "a")
    await validate(world)
    assert len(hooks.asked) == 1
