"""What is served is listed as a real server lists it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from koord_minicluster.apiserver.builtin import event_forms
from koord_minicluster.apiserver.builtin.resources import builtin_resources
from koord_minicluster.apiserver.custom import kinds
from koord_minicluster.apiserver.discovery import Discovery, by_priority, wants_aggregated
from koord_minicluster.apiserver.registry import Registry
from tests.minicluster.apiserver.custom.test_kinds import definition, settled
from tests.minicluster.apiserver.record_discovery import DATA

RECORDED: dict[str, Any] = json.loads(DATA.read_text())
LEFT_OUT = frozenset(
    {
        "validatingadmissionpolicies", "validatingadmissionpolicies/status",
        "validatingadmissionpolicybindings",
    }
)  # fmt: skip
"""Not needed by koord or its users."""


@pytest.fixture
def registry() -> Registry:
    return Registry(builtin_resources())


@pytest.mark.parametrize("path", RECORDED["lists"])
def test_each_resource_is_listed_as_the_real_server_does(registry: Registry, path: str) -> None:
    theirs = RECORDED["lists"][path]
    *_, group, version = ("", *path.strip("/").split("/")) if path.startswith("/apis/") else ("", "", "v1")
    ours = Discovery(registry).resource_list(group, version)
    assert ours is not None
    known = {resource["name"]: resource for resource in theirs["resources"] if resource["name"] not in LEFT_OUT}
    assert {resource["name"]: resource for resource in ours["resources"]} == known
    assert {**ours, "resources": None} == {**theirs, "resources": None}


@pytest.mark.parametrize("group", RECORDED["groups"])
def test_each_group_is_described_as_the_real_server_does(registry: Registry, group: str) -> None:
    assert Discovery(registry).group(group) == RECORDED["groups"][group]


def test_the_aggregated_form_says_the_same_as_the_lists(registry: Registry) -> None:
    discovery = Discovery(registry)
    body, _ = discovery.aggregated(core=False)
    items = msgspec.json.decode(body)["items"]
    assert [item["metadata"]["name"] for item in items] == [group["name"] for group in discovery.group_list()["groups"]]
    for item in items:
        for version in item["versions"]:
            listed = discovery.resource_list(item["metadata"]["name"], version["version"])
            assert listed is not None
            names = {resource["name"] for resource in listed["resources"]}
            found = {resource["resource"] for resource in version["resources"]}
            found |= {
                f"{e['resource']}/{s['subresource']}" for e in version["resources"] for s in e.get("subresources", ())
            }
            assert found == names


def test_documents_change_with_what_is_served(registry: Registry) -> None:
    discovery = Discovery(registry)
    _, before = discovery.aggregated(core=False)
    assert discovery.aggregated(core=False)[1] == before
    [resource] = kinds.resources_of(settled(definition()))
    registry.add(resource)
    body, after = discovery.aggregated(core=False)
    assert after != before
    assert b'"x.io"' in body
    listed = discovery.resource_list("x.io", "v1")
    assert listed is not None
    assert listed["resources"][0]["verbs"] == [
        "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch",
    ]  # fmt: skip
    registry.remove("x.io", "v1", "foos")
    assert discovery.aggregated(core=False)[1] == before
    assert discovery.group("x.io") is None


def test_versions_are_preferred_by_stability_then_number() -> None:
    versions = ["foo1", "v1alpha2", "v10", "v2", "v1beta1", "v12alpha1", "v3beta1", "foo10", "v1beta10"]
    assert by_priority(versions) == [
        "v10", "v2", "v3beta1", "v1beta10", "v1beta1", "v12alpha1", "v1alpha2", "foo1", "foo10",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("application/json", ""),
        ("", ""),
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", "v2"),
        ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", "v2beta1"),
        ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json", ""),
        ("application/json,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ""),
    ],
)
def test_the_first_form_that_can_be_given_wins(accept: str, wanted: str) -> None:
    assert wants_aggregated(accept) == wanted


def test_an_event_reads_the_same_after_both_conversions() -> None:
    core = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "involvedObject": {"name": "p"}, "message": "m",
        "reason": "r", "source": {"component": "c"}, "firstTimestamp": None, "lastTimestamp": None, "eventTime": None,
        "reportingComponent": "", "reportingInstance": "", "count": 2,
    }  # fmt: skip
    newer = event_forms.convert(core, event_forms.EVENTS)
    assert (newer["note"], newer["regarding"], newer["deprecatedCount"]) == ("m", {"name": "p"}, 2)
    assert event_forms.convert(newer, event_forms.CORE) == core
