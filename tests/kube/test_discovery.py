"""Discovery in both forms that servers have."""

from __future__ import annotations

import pytest

from koord.kube.client import Client
from koord.kube.discovery import ServerVersion
from tests.kube.manual_clock import ManualClock
from tests.kube.raw_server import Answer, RawServer, Request, answer, refusal

OLD_SERVER: dict[str, object] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "apps",
                "versions": [
                    {"groupVersion": "apps/v1beta1", "version": "v1beta1"},
                    {"groupVersion": "apps/v1", "version": "v1"},
                ],
                "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
            },
            {
                "name": "metrics.k8s.io",
                "versions": [{"groupVersion": "metrics.k8s.io/v1", "version": "v1"}],
                "preferredVersion": {"groupVersion": "metrics.k8s.io/v1", "version": "v1"},
            },
        ],
    },
    "/api/v1": {
        "resources": [
            {
                "name": "pods",
                "singularName": "",
                "namespaced": True,
                "kind": "Pod",
                "verbs": ["get"],
                "shortNames": ["po"],
            },
            {"name": "pods/binding", "namespaced": True, "kind": "Binding", "verbs": ["create"]},
            {"name": "nodes", "namespaced": False, "kind": "Node", "verbs": ["get"]},
        ]
    },
    "/apis/apps/v1": {"resources": [{"name": "deployments", "namespaced": True, "kind": "Deployment"}]},
    "/apis/apps/v1beta1": {"resources": [{"name": "deployments", "namespaced": True, "kind": "Deployment"}]},
}

NEW_SERVER: dict[str, object] = {
    "/api": {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {
                "metadata": {},
                "versions": [
                    {
                        "version": "v1",
                        "freshness": "Current",
                        "resources": [
                            {
                                "resource": "pods",
                                "responseKind": {"group": "", "version": "", "kind": "Pod"},
                                "scope": "Namespaced",
                                "singularResource": "pod",
                                "verbs": ["get"],
                                "shortNames": ["po"],
                                "subresources": [{"subresource": "binding", "responseKind": None, "verbs": ["create"]}],
                            }
                        ],
                    }
                ],
            }
        ],
    },
    "/apis": {
        "kind": "APIGroupDiscoveryList",
        "items": [{"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1", "freshness": "Stale"}]}],
    },
}


def serving(answers: dict[str, object]) -> RawServer:
    def script(request: Request) -> Answer:
        body = answers.get(request.target)
        return answer(body) if body is not None else refusal(503, "ServiceUnavailable")

    return RawServer(script)


async def test_an_old_server_is_asked_group_by_group_and_a_broken_group_hides_no_other() -> None:
    async with serving(OLD_SERVER) as server, Client(server.config, clock=ManualClock()) as client:
        resources = await client.resources()
    deployment = resources.find("apps", "Deployment")
    assert deployment is not None
    assert deployment.version == "v1", "the preferred version, though it is not listed first"
    assert resources.find("apps", "Deployment", "v1beta1") is not None
    pod = resources.find("", "Pod")
    assert pod is not None
    assert (pod.subresources, pod.namespaced) == (("binding",), True)
    assert resources.missing == ("metrics.k8s.io/v1",)


@pytest.mark.parametrize("code", [400, 406, 415, 500])
async def test_a_server_that_refuses_to_tell_everything_at_once_is_asked_group_by_group(code: int) -> None:
    def script(request: Request) -> Answer:
        if "APIGroupDiscoveryList" in request.headers["accept"]:
            return refusal(code)
        body = OLD_SERVER.get(request.target)
        return answer(body) if body is not None else refusal(503, "ServiceUnavailable")

    async with RawServer(script) as server, Client(server.config, clock=ManualClock()) as client:
        resources = await client.resources()
    assert resources.find("", "Pod") is not None
    assert resources.find("apps", "Deployment") is not None


async def test_a_new_server_is_asked_twice() -> None:
    async with serving(NEW_SERVER) as server, Client(server.config, clock=ManualClock()) as client:
        resources = await client.resources()
    assert sorted(request.target for request in server.requests) == ["/api", "/apis"]
    pod = resources.find("", "Pod")
    assert pod is not None
    assert (pod.plural, pod.subresources, pod.namespaced) == ("pods", ("binding",), True)
    assert pod.as_kind().path("a", namespace="b") == "/api/v1/namespaces/b/pods/a"
    assert resources.missing == ("metrics.k8s.io/v1",)


async def test_people_may_name_a_kind_in_any_of_its_names() -> None:
    async with serving(OLD_SERVER) as server, Client(server.config, clock=ManualClock()) as client:
        resources = await client.resources()
    for word, kind in {
        "pods": "Pod",
        "pod": "Pod",
        "Pod": "Pod",
        "po": "Pod",
        "deployments.apps": "Deployment",
        "deployment.v1beta1.apps": "Deployment",
    }.items():
        resource = resources.named(word)
        assert resource is not None, word
        assert resource.kind == kind
    assert resources.named("deployments.other") is None
    assert resources.named("unknown") is None


def test_a_servers_version_is_read_whatever_a_vendor_appends() -> None:
    assert ServerVersion(major="1", minor="35").numbers == (1, 35)
    assert ServerVersion(major="1", minor="34+").numbers == (1, 34)
    assert ServerVersion().numbers == (0, 0)
