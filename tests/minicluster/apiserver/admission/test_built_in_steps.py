from __future__ import annotations

from typing import Any

import pytest

from koord.api.kubernetes.access import UserInfo
from koord_minicluster.apiserver.resource import Obj
from koord_minicluster.apiserver.status import StatusError
from tests.minicluster.apiserver.access.decisions import binding, role, rule
from tests.minicluster.apiserver.admission.world import World, config_map, namespace, pod

CLASSES = "priorityclasses.scheduling.k8s.io"
RBAC = "rbac.authorization.k8s.io"


def priority_class(name: str, value: int, **more: Any) -> Obj:
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, **more}


async def refusal(world: World, operation: str, plural: str, obj: Obj | None, **more: Any) -> StatusError:
    attributes = world.write(operation, plural, obj, **more)
    with pytest.raises(StatusError) as refused:
        if operation != "DELETE":
            await world.admission.mutate(attributes)
        await world.admission.validate(attributes)
    return refused.value


async def test_nothing_is_created_in_a_namespace_that_is_not_there(world: World) -> None:
    error = await refusal(world, "CREATE", "configmaps", config_map(), namespace="nowhere")
    assert (error.code, error.message) == (404, 'namespaces "nowhere" not found')


async def test_nothing_new_is_created_in_a_namespace_that_goes_away(world: World) -> None:
    await world.put("namespaces", namespace("ending", "Terminating"))
    error = await refusal(world, "CREATE", "configmaps", config_map(), namespace="ending")
    assert error.code == 403
    assert error.message == (
        'configmaps "c" is forbidden: unable to create new content in namespace ending because it is being terminated'
    )
    assert [(cause.reason, cause.field) for cause in error.causes] == [("NamespaceTerminating", "metadata.namespace")]
    await world.admission.mutate(
        world.write("UPDATE", "configmaps", config_map(), old=config_map(), namespace="ending")
    )


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_the_namespaces_of_every_cluster_stay(world: World, name: str) -> None:
    error = await refusal(world, "DELETE", "namespaces", None, old=namespace(name))
    assert (error.code, error.message) == (403, f'namespaces "{name}" is forbidden: this namespace may not be deleted')


async def test_other_namespaces_and_what_is_in_missing_ones_can_be_deleted(world: World) -> None:
    await world.admission.validate(world.write("DELETE", "namespaces", None, old=namespace("other")))
    await world.admission.validate(world.write("DELETE", "configmaps", None, old=config_map(), namespace="nowhere"))


@pytest.mark.parametrize(
    ("spec", "priority", "policy"),
    [
        ({}, 0, "PreemptLowerPriority"),
        ({"priorityClassName": "high"}, 1000, None),
        ({"priorityClassName": "meek"}, 10, "Never"),
        ({"priorityClassName": "meek", "priority": 10, "preemptionPolicy": "Never"}, 10, "Never"),
        ({"priority": 0}, 0, "PreemptLowerPriority"),
    ],
)
async def test_a_pods_priority_is_its_classes(world: World, spec: Obj, priority: int, policy: str | None) -> None:
    await world.put(CLASSES, priority_class("high", 1000))
    await world.put(CLASSES, priority_class("meek", 10, preemptionPolicy="Never"))
    made = await world.admission.mutate(world.write("CREATE", "pods", pod(**spec)))
    assert (made["spec"]["priority"], made["spec"].get("preemptionPolicy")) == (priority, policy)


async def test_the_global_default_applies_to_pods_that_name_no_class(world: World) -> None:
    await world.put(CLASSES, priority_class("usual", 50, globalDefault=True))
    made = await world.admission.mutate(world.write("CREATE", "pods", pod()))
    assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == ("usual", 50)
    error = await refusal(
        world,
        "CREATE",
        CLASSES.partition(".")[0],
        priority_class("b", 1, globalDefault=True),
        group="scheduling.k8s.io",
    )
    assert error.message.endswith("PriorityClass usual is already marked as default. Only one default can exist")
    again = world.write(
        "UPDATE", "priorityclasses", priority_class("usual", 50, globalDefault=True), group="scheduling.k8s.io"
    )
    await world.admission.validate(again)


async def test_the_classes_of_the_system_stay(world: World) -> None:
    old = priority_class("system-node-critical", 2_000_001_000)
    error = await refusal(world, "DELETE", "priorityclasses", None, old=old, group="scheduling.k8s.io")
    assert error.message.endswith("is forbidden: this is a system priority class and cannot be deleted")


@pytest.mark.parametrize(
    ("spec", "detail"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priorityClassName": "meek", "priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller "
            "computed 10 from the given PriorityClass name",
        ),
        (
            {"priorityClassName": "meek", "preemptionPolicy": "PreemptLowerPriority"},
            "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority "
            "admission controller computed Never from the given PriorityClass name",
        ),
    ],
)
async def test_a_pod_that_contradicts_its_class_is_refused(world: World, spec: Obj, detail: str) -> None:
    await world.put(CLASSES, priority_class("meek", 10, preemptionPolicy="Never"))
    error = await refusal(world, "CREATE", "pods", pod(**spec))
    assert (error.code, error.message) == (403, f'pods "p" is forbidden: {detail}')


async def test_an_update_keeps_the_priority_that_creation_resolved(world: World) -> None:
    old = pod(priority=10, preemptionPolicy="Never")
    made = await world.admission.mutate(world.write("UPDATE", "pods", pod(), old=old))
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (10, "Never")


NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], [NOT_READY, UNREACHABLE]),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}], [UNREACHABLE]),
        ([{"key": NOT_READY, "operator": "Exists"}], [UNREACHABLE]),
        ([{"operator": "Exists"}], []),
        ([{"key": UNREACHABLE, "operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
    ],
)
async def test_pods_tolerate_a_lost_node_for_a_while(world: World, given: list[Obj], added: list[str]) -> None:
    made = await world.admission.mutate(world.write("CREATE", "pods", pod(tolerations=given)))
    new = made["spec"]["tolerations"][len(given) :]
    assert [each["key"] for each in new] == added
    assert all((each["effect"], each["tolerationSeconds"]) == ("NoExecute", 300) for each in new)


async def test_pods_get_the_default_service_account_unless_a_node_made_them(world: World) -> None:
    made = await world.admission.mutate(world.write("CREATE", "pods", pod()))
    assert (made["spec"]["serviceAccountName"], made["spec"]["serviceAccount"]) == ("default", "default")
    mirror = pod()
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    made = await world.admission.mutate(world.write("CREATE", "pods", mirror))
    assert "serviceAccountName" not in made["spec"]


DEV = UserInfo("dev", groups=("system:authenticated",))


def grant(world: World, *rules: Obj) -> None:
    world.authorizer.put("Role", role("held", *rules, namespace="default"))
    world.authorizer.put("RoleBinding", binding("held", "Role/held", "User/dev", namespace="default"))


async def test_nobody_writes_a_role_with_more_than_they_hold(world: World) -> None:
    grant(world, rule("get", "core", "pods"))
    wanted = role("r", rule("get,delete", "core", "pods"), namespace="default")
    error = await refusal(world, "CREATE", "roles", wanted, user=DEV, group=RBAC)
    assert error.code == 403
    assert error.message == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "dev" (groups=["system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}'
    )
    grant(world, rule("get,delete", "core", "pods"))
    await world.admission.mutate(world.write("CREATE", "roles", wanted, user=DEV, group=RBAC))


async def test_the_verbs_escalate_and_bind_lift_the_limit(world: World) -> None:
    everything = role("r", rule("*", "*", "*"), namespace="default")
    bound = binding("b", "ClusterRole/cluster-admin", "User/dev", namespace="default")
    assert (await refusal(world, "CREATE", "roles", everything, user=DEV, group=RBAC)).code == 403
    assert (await refusal(world, "CREATE", "rolebindings", bound, user=DEV, group=RBAC)).code == 403
    grant(world, rule("escalate", RBAC, "roles"), rule("bind", RBAC, "clusterroles", "cluster-admin"))
    await world.admission.mutate(world.write("CREATE", "roles", everything, user=DEV, group=RBAC))
    await world.admission.mutate(world.write("CREATE", "rolebindings", bound, user=DEV, group=RBAC))


async def test_owners_and_finalizers_of_a_great_role_can_be_changed_by_anyone_who_may_update_it(world: World) -> None:
    old = role("r", rule("*", "*", "*"), namespace="default")
    new = {**old, "metadata": {**old["metadata"], "finalizers": ["example.com/x"]}}
    await world.admission.mutate(world.write("UPDATE", "roles", new, old=old, user=DEV, group=RBAC))
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert (await refusal(world, "UPDATE", "roles", labelled, old=old, user=DEV, group=RBAC)).code == 403


async def test_aggregation_needs_all_rights(world: World) -> None:
    wanted = role("agg")
    wanted["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    error = await refusal(world, "CREATE", "clusterroles", wanted, user=DEV, group=RBAC)
    assert error.message.endswith("must have cluster-admin privileges to use the aggregationRule")
