"""From a definition to what it serves."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from koord_minicluster.apiserver.custom import kinds
from koord_minicluster.apiserver.resource import Obj
from koord_minicluster.apiserver.status import StatusError
from tests.minicluster.apiserver.bodies.definitions import crd, obj, ver

NOW = "2026-01-01T00:00:00Z"


def definition(**spec: Any) -> Obj:
    made: Obj = copy.deepcopy(crd(**spec))
    made["metadata"]["name"] = f"{made['spec']['names']['plural']}.{made['spec']['group']}"
    kinds.STRATEGY.default(made)
    kinds.STRATEGY.prepare_create(made)
    return made


def settled(made: Obj, *others: Obj) -> Obj:
    result = kinds.settled(made, others, NOW)
    assert result is not None
    return result


def conditions(made: Obj) -> dict[str, tuple[str, str]]:
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in made["status"]["conditions"]}


def test_nothing_is_served_before_the_names_are_accepted() -> None:
    assert kinds.resources_of(definition()) == []


def test_a_definition_without_conflicts_is_established_and_stays_as_it_is() -> None:
    made = settled(definition())
    assert conditions(made) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert made["status"]["storedVersions"] == ["v1"]
    assert kinds.settled(made, [], "2027-01-01T00:00:00Z") is None
    assert [(r.group, r.version, r.plural, r.kind) for r in kinds.resources_of(made)] == [("x.io", "v1", "foos", "Foo")]


def test_a_name_that_another_has_is_not_accepted_until_it_is_free() -> None:
    first = settled(definition())
    second = definition(names={"plural": "bars", "kind": "Foo", "shortNames": ["foo"]})
    refused = settled(second, first)
    assert conditions(refused) == {
        "NamesAccepted": ("False", "ListKindConflict"),
        "Established": ("False", "NotAccepted"),
    }
    assert refused["status"]["acceptedNames"]["plural"] == "bars"
    assert kinds.resources_of(refused) == []
    assert conditions(settled(refused))["Established"] == ("True", "InitialNamesAccepted")


def test_every_served_version_is_a_resource_and_all_share_what_is_stored() -> None:
    versions = [ver("v1", storage=True), ver("v2", schema=obj(spec={"type": "string"})), {**ver("v3"), "served": False}]
    resources = kinds.resources_of(settled(definition(versions=versions)))
    assert [resource.version for resource in resources] == ["v1", "v2"]
    assert {resource.collection for resource in resources} == {"foos.x.io"}
    assert {resource.storage_version for resource in resources} == {"x.io/v1"}


def test_columns_are_read_from_the_object() -> None:
    columns = [
        {"name": "Count", "type": "integer", "jsonPath": ".spec.n"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Since", "type": "date", "jsonPath": ".status.since"},
        {"name": "Spec", "type": "string", "jsonPath": ".spec", "priority": 1},
        {"name": "Broken", "type": "string", "jsonPath": ".spec["},
        {"name": "Wrong", "type": "integer", "jsonPath": ".status.since"},
    ]
    resource = kinds.resources_of(
        settled(definition(versions=[ver("v1", storage=True, additionalPrinterColumns=columns)]))
    )[0]
    thing = {
        "metadata": {"name": "a"},
        "spec": {"n": 3},
        "status": {"since": "2026-01-01T00:00:00Z", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    cells = [column.cell(thing, 1767225600.0 + 3600 * 3) for column in resource.strategy.columns]
    assert cells == ["a", 3, "True", "3h", '{"n":3}', None, None]
    assert [column.cell({"metadata": {"name": "b"}}, 0.0) for column in resource.strategy.columns][1:] == [None] * 6


def test_selectable_fields_are_text() -> None:
    fields = [{"jsonPath": ".spec.n"}, {"jsonPath": ".spec.on"}, {"jsonPath": ".spec.s"}]
    resource = kinds.resources_of(settled(definition(versions=[ver("v1", storage=True, selectableFields=fields)])))[0]
    found = resource.strategy.fields({"metadata": {}, "spec": {"n": 3, "on": True}})
    assert found == {"spec.n": "3", "spec.on": "true", "spec.s": ""}


def test_with_a_status_subresource_a_create_has_no_status_and_a_status_change_no_metadata() -> None:
    strategy = kinds.resources_of(settled(definition(versions=[ver("v1", storage=True, subresources={"status": {}})])))[
        0
    ].strategy
    thing: Obj = {"metadata": {"name": "a"}, "status": {"x": 1}}
    strategy.prepare_create(thing)
    assert "status" not in thing
    new = {"metadata": {"name": "a", "labels": {"new": "1"}, "managedFields": [1]}, "status": {}}
    strategy.prepare_status(new, {"metadata": {"name": "a", "labels": {"old": "1"}}})
    assert new["metadata"] == {"name": "a", "labels": {"old": "1"}, "managedFields": [1]}


@pytest.mark.parametrize(
    ("replicas", "fault"),
    [(3, None), (-1, "should be a non-negative integer"), (2**31, "should be less than or equal to 2147483647")],
)
def test_replicas_under_a_scale_subresource_are_bounded(replicas: int, fault: str | None) -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    resource = kinds.resources_of(
        settled(definition(versions=[ver("v1", storage=True, subresources={"scale": scale})]))
    )[0]
    assert resource.scale_paths == {"specReplicas": ".spec.n", "statusReplicas": ".status.n"}
    causes = resource.strategy.validate({"metadata": {}, "spec": {"n": replicas}})
    assert [cause.message for cause in causes] == ([] if fault is None else [f"Invalid value: {replicas}: {fault}"])


def test_nothing_new_while_the_definition_is_being_deleted() -> None:
    made = settled(definition())
    made["metadata"]["deletionTimestamp"] = NOW
    strategy = kinds.resources_of(made)[0].strategy
    with pytest.raises(StatusError, match="custom resource definition is terminating") as refused:
        strategy.prepare_create({"metadata": {"name": "a"}})
    assert refused.value.code == 403


def test_a_new_storage_version_is_remembered_beside_the_old_one() -> None:
    old = settled(definition())
    new = copy.deepcopy(old)
    new["spec"]["versions"] = [{**ver("v1"), "storage": False}, ver("v2", storage=True)]
    kinds.STRATEGY.prepare_update(new, old)
    assert new["status"]["storedVersions"] == ["v1", "v2"]


def test_what_was_stored_cannot_be_forgotten_and_names_cannot_change() -> None:
    old = settled(definition())
    new = copy.deepcopy(old)
    new["spec"]["versions"] = [ver("v2", storage=True)]
    new["spec"]["scope"] = "Cluster"
    kinds.STRATEGY.prepare_update(new, old)
    causes = {cause.field: cause.message for cause in kinds.STRATEGY.validate_update(new, old)}
    assert causes["spec.scope"] == 'Invalid value: "Cluster": field is immutable'
    assert causes["status.storedVersions[0]"].startswith('Invalid value: "v1": missing from spec.versions')


def test_deletion_waits_for_the_objects() -> None:
    made = settled(definition())
    assert kinds.STRATEGY.awaits(made)
    made["metadata"] |= {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0, "generation": 2}
    kinds.STRATEGY.on_deletion(made)
    assert made["metadata"]["finalizers"] == [kinds.CLEANUP_FINALIZER]
    assert made["metadata"]["generation"] == 1
    assert not kinds.STRATEGY.awaits(made)


def test_objects_are_shown_in_other_versions_as_the_stored_one_knows_them() -> None:
    stored = obj(spec=obj(a={"type": "string", "default": "one"}))
    versions = [ver("v1", storage=True, schema=stored), ver("v2", schema=obj(spec=obj(b={"type": "string"})))]
    first, second = kinds.resources_of(settled(definition(versions=versions)))
    assert first.convert is None
    assert second.convert is not None
    thing = {"apiVersion": "x.io/v2", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"b": "lost"}}
    converted = second.convert(thing, "x.io/v1")
    assert (converted["apiVersion"], converted["spec"]) == ("x.io/v1", {"a": "one"})


def test_after_a_change_of_the_definition_what_is_stored_is_completed_when_read() -> None:
    made = settled(definition())
    made["metadata"]["generation"] = 2
    made["spec"]["versions"] = [ver("v1", storage=True, schema=obj(spec=obj(a={"type": "string", "default": "later"})))]
    [resource] = kinds.resources_of(made)
    assert resource.convert is not None
    assert resource.convert({"metadata": {"name": "a"}, "spec": {}}, "x.io/v1")["spec"] == {"a": "later"}


def test_a_deprecated_version_says_what_to_use_instead() -> None:
    old: Obj = {**ver("v1alpha1"), "deprecated": True}
    told: Obj = {**ver("v1alpha2"), "deprecated": True, "deprecationWarning": "too old"}
    resources = kinds.resources_of(settled(definition(versions=[ver("v1", storage=True), old, told])))
    assert [resource.deprecation for resource in resources] == [
        "", "x.io/v1alpha1 Foo is deprecated; use x.io/v1 Foo", "too old",
    ]  # fmt: skip


def test_finalizers_without_a_domain_are_warned_of() -> None:
    [resource] = kinds.resources_of(settled(definition()))
    found = resource.strategy.warnings({"metadata": {"finalizers": ["a.b/c", "nope", "orphan"]}})
    assert [text.partition(":")[2][:8] for text in found] == [' "nope":']
