"""What is created, patched, left or refused: decided from wanted and live objects alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.machinery.faults import Invalid
from koord.operate.install.manifest import Json, Key, key_of
from koord.operate.install.node_agent import mounts
from koord.operate.install.objects import desired
from koord.operate.install.plan import Plan, contains, plan
from koord.operate.install.record import DamagedRecord, begun, finished, read
from koord.operate.install.settings import Settings

SETTINGS = Settings(image="koord:1", version="1.0.0")
WANTED = desired(SETTINGS)
DONE = finished(SETTINGS, WANTED)


def cluster() -> dict[Key, Any]:
    """A cluster where all of it is installed; the server's own fields included."""
    live = copy.deepcopy({key_of(each): each for each in WANTED})
    for manifest in live.values():
        manifest["metadata"]["resourceVersion"] = "7"  # type: ignore[index]
    return live


def named(kind: str, name: str, live: dict[Key, Any]) -> Any:
    return next(each for key, each in live.items() if (key.kind, key.name) == (kind, name))


def planned(live: dict[Key, Json], *, adopt: bool = False) -> Plan:
    return plan(WANTED, live, DONE.applied, adopt=adopt)


def test_on_an_empty_cluster_everything_is_created_and_namespaces_come_first() -> None:
    steps = plan(WANTED, {}).steps
    assert {step.action for step in steps} == {"create"}
    kinds = [step.key.kind for step in steps]
    assert kinds.index("Namespace") < kinds.index("ServiceAccount") < kinds.index("Deployment")
    assert kinds.index("ClusterRole") < kinds.index("Deployment")


def test_where_all_is_installed_nothing_is_to_do() -> None:
    assert planned(cluster()).changes == ()


def test_what_somebody_changed_is_put_right_and_nothing_else_is_touched() -> None:
    live = cluster()
    named("Deployment", "koord-scheduler", live)["spec"]["replicas"] = 0
    assert [(change.action, change.key.name) for change in planned(live).changes] == [("patch", "koord-scheduler")]


def test_what_others_add_to_an_object_is_theirs() -> None:
    live = cluster()
    named("Deployment", "koord-scheduler", live)["metadata"]["annotations"] = {"team": "platform"}
    assert planned(live).changes == ()


def test_a_field_that_a_new_version_leaves_out_is_taken_away() -> None:
    """Live has all that is wanted; only the record tells that more was applied."""
    applied = {**DONE.applied, key_of(WANTED[-1]): "another"}
    assert [change.key for change in plan(WANTED, cluster(), applied).changes] == [key_of(WANTED[-1])]


def test_an_agent_sees_of_the_host_what_its_gates_need() -> None:
    def mounted(gates: str) -> set[str]:
        return {mount.name for mount in mounts(replace(SETTINGS, gates={"agent": gates}))}

    assert mounted("PodResourcesProxy=true") - mounted("") == {"pod-resources"}


def test_a_component_that_is_dropped_goes_with_its_rights_and_kinds_stay() -> None:
    fewer = desired(replace(SETTINGS, components=("manager", "agent")))
    gone = plan(fewer, cluster(), DONE.applied).of("delete")
    assert {step.key.name for step in gone} == {"koord-scheduler", "koord-descheduler"}
    assert "CustomResourceDefinition" not in {step.key.kind for step in gone}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("MutatingWebhookConfiguration", "koordinator-mutating-webhook-configuration"),
        ("ClusterRole", "koord-manager"),
        ("Deployment", "koord-scheduler"),
        ("Secret", "koordinator-webhook-certs"),
    ],
)
def test_an_object_of_somebody_else_is_refused_and_taken_over_on_demand(kind: str, name: str) -> None:
    live = cluster()
    meta = named(kind, name, live)["metadata"]
    meta["labels"] = {"team": "others"}
    meta["managedFields"] = [{"manager": "helm"}]
    (refused,) = planned(live).refusals
    assert (refused.key.kind, refused.key.name) == (kind, name)
    assert "helm" in refused.why
    assert not planned(live, adopt=True).refusals


def test_a_webhook_configuration_that_a_manager_registered_is_koords() -> None:
    live = cluster()
    meta = named("MutatingWebhookConfiguration", "koordinator-mutating-webhook-configuration", live)["metadata"]
    meta["labels"] = {}
    meta["managedFields"] = [{"manager": "koord-manager-webhooks"}]
    assert not planned(live).refusals


def test_the_namespace_of_an_installation_is_loosened_when_the_agent_comes_later() -> None:
    control_plane = replace(SETTINGS, components=("manager", "scheduler"))
    live = {key_of(each): each for each in desired(control_plane)}
    (step,) = [step for step in plan(WANTED, live).steps if step.key.kind == "Namespace"]
    assert step.action == "patch"


def test_a_users_namespace_priorities_and_configuration_are_left_as_they_are() -> None:
    live = cluster()
    for kind, name in (
        ("Namespace", "koordinator-system"),
        ("PriorityClass", "koord-batch"),
        ("ConfigMap", "slo-controller-config"),
    ):
        named(kind, name, live)["metadata"]["labels"] = {}
    named("ConfigMap", "slo-controller-config", live)["data"] = {"colocation-config": '{"enable":true}'}
    assert not planned(live).changes
    assert not planned(live).refusals


@pytest.mark.parametrize(
    ("kind", "name", "change", "says"),
    [
        ("Namespace", "koordinator-system", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "deleted"),
        (
            "Namespace",
            "koordinator-system",
            {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}},
            "privileged",
        ),
        ("PriorityClass", "koord-batch", {"value": 12}, "need 5000"),
        (
            "CustomResourceDefinition",
            "reservations.scheduling.koordinator.sh",
            {"status": {"storedVersions": ["v1alpha0", "v1alpha1"]}},
            "stored as v1alpha0",
        ),
        ("Deployment", "koord-manager", {"spec": {"selector": {"matchLabels": {"app": "x"}}}}, "selector"),
        ("ClusterRoleBinding", "koord-manager", {"roleRef": {"name": "admin"}}, "another role"),
    ],
)
def test_what_cannot_be_mended_is_refused_whatever_the_flags(
    kind: str, name: str, change: dict[str, Any], says: str
) -> None:
    live = cluster()
    manifest = named(kind, name, live)
    for part, fields in change.items():
        old = manifest.get(part)
        manifest[part] = {**old, **fields} if isinstance(old, dict) else fields
    (refused,) = planned(live, adopt=True).refusals
    assert refused.key.name == name
    assert says in refused.why


@pytest.mark.parametrize(
    ("live", "wanted", "holds"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": [{"x": 1, "filled": 0}]}, {"a": [{"x": 1}]}, True),
        ({"a": [{"x": 1}, {"x": 2}]}, {"a": [{"x": 1}]}, False),
        ({}, {"a": {}}, True),
        ({}, {"a": ""}, True),
        ({}, {"a": False}, True),
        ({"a": "1"}, {"a": 1}, False),
    ],
)
def test_live_contains_what_is_wanted(live: Any, wanted: Any, holds: bool) -> None:
    assert contains(live, wanted) is holds


def test_a_record_says_before_the_first_write_what_may_be_there() -> None:
    before = begun(SETTINGS, WANTED, None)
    assert before.applied.keys() == DONE.applied.keys()
    assert set(before.applied.values()) == {""}
    assert read(DONE.manifest()) == DONE


def test_what_a_dropped_component_leaves_stays_in_the_record_until_all_of_it_goes() -> None:
    left = finished(replace(SETTINGS, components=("scheduler",)), desired(SETTINGS), DONE)
    without = finished(replace(SETTINGS, components=()), desired(replace(SETTINGS, components=())), left)
    kept = {key.name for key in without.applied}
    assert {"koordinator-webhook-certs", "koordinator-mutating-webhook-configuration"} <= kept
    assert "koord-manager" not in kept


def test_a_damaged_record_is_named() -> None:
    manifest: Any = DONE.manifest()
    manifest["data"]["settings"] = "{"
    with pytest.raises(DamagedRecord, match="ConfigMap koordinator-system/koord-installation"):
        read(manifest)


def test_all_that_is_wrong_with_settings_is_told_at_once() -> None:
    wrong = Settings(
        image="a b",
        version="1",
        namespace="Not_A_Name",
        replicas=0,
        components=("manager", "magician"),
        gates={"agent": "NoSuchGate=true", "wizard": "A=true"},
        configurations={"agent": ""},
        extras=("fairy",),
    )
    with pytest.raises(Invalid) as told:
        desired(wrong)
    paths = [fault.path for fault in told.value.faults]
    assert paths == [
        "image",
        "namespace",
        "replicas",
        "components",
        "extras",
        "gates.agent",
        "gates.wizard",
        "configurations.agent",
    ]
