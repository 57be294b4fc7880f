"""What pods were given is written by schedulers alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from koord.admission.request import AdmissionAnswer, Operation, Request
from koord.admission.review import mutate, validate
from koord.admission.scheduler_annotations import FOR_VENDORS, GIVEN, Schedulers
from tests.admission.build import container, gates, known, pod

TENANT = ("system:serviceaccount:shop:builder", ("system:authenticated",))
SCHEDULERS = [
    ("system:serviceaccount:koordinator-system:koord-scheduler", ()),
    ("system:serviceaccount:koord-system:koord-scheduler", ()),
    ("system:serviceaccount:mine:koord-scheduler", ()),
    ("system:kube-scheduler", ()),
    ("root", ("system:masters", "system:authenticated")),
    ("the-one-that-is-listed", ()),
    ("somebody", ("a-group-that-is-listed",)),
]
LISTED = frozenset({"the-one-that-is-listed", "a-group-that-is-listed"})
KNOWN = replace(known(), schedulers=Schedulers(LISTED, "mine"))


def given(value: str = "{}", *keys: str, **more: Any) -> dict[str, Any]:
    return pod(annotations=dict.fromkeys(keys or GIVEN, value), **more)


def asked(new: dict[str, Any], old: dict[str, Any] | None, by: tuple[str, tuple[str, ...]]) -> AdmissionAnswer:
    operation: Operation = "CREATE" if old is None else "UPDATE"
    return validate(Request(operation, "pods", object=new, old=old, user=by[0], groups=by[1]), KNOWN, gates())


@pytest.mark.parametrize("by", SCHEDULERS)
def test_a_scheduler_writes_what_it_gave_and_takes_it_back(by: tuple[str, tuple[str, ...]]) -> None:
    assert asked(given(), pod(), by).allowed
    assert asked(pod(), given(), by).allowed


def test_controllers_are_no_schedulers_even_as_administrators() -> None:
    """They make the pods of a tenant from the template that the tenant wrote."""
    controllers = ("system:kube-controller-manager", ("system:masters", "system:authenticated"))
    assert not asked(given(), None, controllers).allowed
    assert not asked(given(), pod(), controllers).allowed
    request = Request("CREATE", "pods", object=given(), user=controllers[0], groups=controllers[1])
    listed = Schedulers(frozenset({controllers[0]}))
    assert not KNOWN.schedulers.sent(request)
    assert listed.sent(request)


@pytest.mark.parametrize("key", GIVEN)
def test_nobody_else_adds_changes_or_removes_it(key: str) -> None:
    refused = asked(given("{}", key), pod(), TENANT)
    assert not refused.allowed
    assert f"metadata.annotations[{key}]: must stay absent: only a scheduler writes it" in refused.message
    assert "--scheduler-identities" in refused.message
    assert "must stay unchanged" in asked(given('{"a":1}', key), given("{}", key), TENANT).message
    assert "must stay unchanged" in asked(pod(), given("{}", key), TENANT).message
    assert not asked(given("{}", key), None, TENANT).allowed


def test_who_leaves_it_alone_may_change_the_rest_of_a_pod() -> None:
    changed = given(labels={"app": "web"})
    assert asked(changed, given(), TENANT).allowed


def test_a_pod_that_is_being_deleted_still_has_what_it_was_given() -> None:
    going = given('{"a":1}')
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not asked(going, given(), TENANT).allowed


def test_a_service_account_of_the_same_name_elsewhere_is_no_scheduler() -> None:
    assert not asked(given(), pod(), ("system:serviceaccount:shop:koord-scheduler", ())).allowed


def test_a_copy_of_a_pod_is_created_without_what_the_first_one_has() -> None:
    copy = pod(annotations={**dict.fromkeys(GIVEN, "{}"), "mine": "stays"})
    request = Request("CREATE", "pods", object=copy, user=TENANT[0], groups=TENANT[1])
    answer = mutate(request, KNOWN, gates())
    assert answer.object is not None
    assert answer.object["metadata"]["annotations"].keys() & {*GIVEN, "mine"} == {"mine"}
    assert sum("dropped: only a scheduler writes it" in warning for warning in answer.warnings) == len(GIVEN)
    as_scheduler = mutate(replace(request, user=SCHEDULERS[0][0]), KNOWN, gates())
    assert as_scheduler.object is not None
    assert set(GIVEN) <= as_scheduler.object["metadata"]["annotations"].keys()


def test_manifests_in_files_say_what_pods_have() -> None:
    answer = mutate(Request("CREATE", "pods", object=given()), KNOWN, gates())
    assert answer.allowed
    assert not answer.warnings
    assert set(GIVEN) <= (answer.object or {})["metadata"]["annotations"].keys()


CARD = container(limits={"koordinator.sh/gpu-core": 50})


@pytest.mark.parametrize("resource", ["koordinator.sh/gpu-core", "kubernetes.io/gpu", "huawei.com/npu-core"])
def test_no_tenant_tells_a_device_plugin_which_card_a_pod_has(resource: str) -> None:
    card = container(requests={resource: 1})
    for key in FOR_VENDORS:
        assert not asked(given("0", key, containers=[card]), None, TENANT).allowed
        assert not asked(given("0", key, containers=[card]), pod(card), TENANT).allowed
        assert asked(given("0", key, containers=[card]), pod(card), SCHEDULERS[0]).allowed
    copy = given("0", *FOR_VENDORS, containers=[card])
    answer = mutate(Request("CREATE", "pods", object=copy, user=TENANT[0]), KNOWN, gates())
    assert not (answer.object or {})["metadata"].get("annotations")


@pytest.mark.parametrize("key", FOR_VENDORS)
def test_device_plugins_and_other_schedulers_write_their_own_keys(key: str) -> None:
    """A plugin changes them on pods of its node; a pod without koord's resources is another scheduler's."""
    assert asked(given("true", key, containers=[CARD], nodeName="n1"), pod(CARD, nodeName="n1"), TENANT).allowed
    assert asked(given("0", key), None, TENANT).allowed
