from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from koord.api.kubernetes.access import Access, UserInfo
from koord_minicluster.apiserver.access.bootstrap import roles_and_bindings
from koord_minicluster.apiserver.access.rbac import Authorizer, refused
from koord_minicluster.apiserver.access.rules import parse_rules
from tests.minicluster.apiserver.access import decisions
from tests.minicluster.apiserver.access.decisions import binding, role, rule

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "access.json").read_text())


def authorizer(*objects: dict[str, Any]) -> Authorizer:
    made = Authorizer()
    for obj in objects:
        made.put(obj["kind"], obj)
    return made


def access_of(wanted: dict[str, str]) -> Access:
    return Access(**wanted)


def test_decisions_and_reasons_are_those_of_a_real_server() -> None:
    known = authorizer(*roles_and_bindings(), *decisions.OBJECTS)
    for (user, groups, wanted), answer in zip(decisions.questions(), RECORDED["answers"], strict=True):
        allowed, why = known.allowed(UserInfo(user, groups=groups), access_of(wanted))
        assert {"allowed": allowed, **({"reason": why} if why else {})} == answer, (user, groups, wanted)


@pytest.mark.parametrize(("name", "rules"), decisions.GRANTS, ids=[name for name, _ in decisions.GRANTS])
def test_grants_beyond_what_is_held_are_told_as_a_real_server_tells_them(name: str, rules: list[Any]) -> None:
    held = role("t-held", *decisions.HELD, namespace="default")
    holds = binding("t-held", "Role/t-held", "User/nobody", namespace="default")
    known = authorizer(*roles_and_bindings(), held, holds)
    nobody = UserInfo("nobody", groups=("strangers", "system:authenticated"))
    fault = known.unheld(nobody, "default", parse_rules(rules))
    recorded = RECORDED["grants"][name].partition(" is forbidden: ")[2]
    assert fault == recorded


def test_a_changed_binding_takes_effect_and_a_removed_one_ends() -> None:
    known = authorizer(role("r", rule("get", "core", "pods")), binding("b", "ClusterRole/r", "User/ann"))
    pods = Access("get", resource="pods")
    assert known.allowed(UserInfo("ann"), pods)[0]
    known.put("ClusterRoleBinding", binding("b", "ClusterRole/r", "User/bob"))
    assert not known.allowed(UserInfo("ann"), pods)[0]
    assert known.allowed(UserInfo("bob"), pods)[0]
    known.remove("ClusterRoleBinding", "", "b")
    assert not known.allowed(UserInfo("bob"), pods)[0]


def test_bindings_of_one_name_in_different_places_are_different() -> None:
    known = authorizer(
        role("r", rule("get", "core", "pods")),
        binding("same", "ClusterRole/r", "User/ann", namespace="one"),
        binding("same", "ClusterRole/r", "User/ann", namespace="two"),
        binding("same", "ClusterRole/nothing", "User/ann"),
    )
    known.remove("RoleBinding", "one", "same")
    assert not known.allowed(UserInfo("ann"), Access("get", resource="pods", namespace="one"))[0]
    assert known.allowed(UserInfo("ann"), Access("get", resource="pods", namespace="two"))[0]


def aggregated(name: str, labels: dict[str, str], **selector: str) -> dict[str, Any]:
    made = role(name)
    made["metadata"]["labels"] = labels
    made["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": selector}]}
    return made


def labelled(obj: dict[str, Any], **labels: str) -> dict[str, Any]:
    obj["metadata"]["labels"] = labels
    return obj


def test_an_aggregated_role_has_the_rules_of_the_roles_it_selects_and_of_those_they_select() -> None:
    known = authorizer(
        aggregated("top", {}, to="top"),
        aggregated("middle", {"to": "top"}, to="middle"),
        labelled(role("low", rule("get", "core", "pods")), to="middle"),
        binding("b", "ClusterRole/top", "User/ann"),
    )
    assert known.allowed(UserInfo("ann"), Access("get", resource="pods"))[0]
    known.put("ClusterRole", labelled(role("low", rule("get", "core", "nodes")), to="middle"))
    assert not known.allowed(UserInfo("ann"), Access("get", resource="pods"))[0]
    known.remove("ClusterRole", "", "low")
    assert not known.allowed(UserInfo("ann"), Access("get", resource="nodes"))[0]


def test_aggregated_roles_that_select_each_other_come_to_an_end() -> None:
    known = authorizer(
        aggregated("one", {"to": "two"}, to="one"),
        aggregated("two", {"to": "one"}, to="two"),
        binding("b", "ClusterRole/one", "User/ann"),
    )
    assert known.allowed(UserInfo("ann"), Access("get", resource="pods")) == (False, "")


def test_the_usual_roles_give_what_their_names_say() -> None:
    known = authorizer(
        *roles_and_bindings(),
        binding("v", "ClusterRole/view", "User/viewer", namespace="shop"),
        binding("e", "ClusterRole/edit", "User/editor", namespace="shop"),
        binding("a", "ClusterRole/admin", "User/admin", namespace="shop"),
    )

    def may(user: str, verb: str, resource: str, group: str = "") -> bool:
        return known.allowed(UserInfo(user), Access(verb, group, resource, "", "", "shop"))[0]

    assert may("viewer", "list", "pods")
    assert not may("viewer", "get", "secrets")
    assert not may("viewer", "delete", "pods")
    assert may("editor", "delete", "pods")
    assert may("editor", "get", "secrets")
    assert not may("editor", "create", "roles", "rbac.authorization.k8s.io")
    assert may("admin", "create", "roles", "rbac.authorization.k8s.io")
    assert not may("admin", "create", "nodes")


def test_the_index_gives_what_looking_at_every_binding_would() -> None:
    chance = random.Random(7)
    users, groups, namespaces = ("u1", "u2", "u3"), ("g1", "g2"), ("", "n1", "n2")
    roles = [
        role(f"r{i}", rule(chance.choice(("get", "list", "*")), "core", chance.choice(("pods", "nodes", "*"))))
        for i in range(4)
    ]
    known = authorizer(*roles)
    alive: dict[tuple[str, str], dict[str, Any]] = {}
    for _ in range(300):
        namespace, name = chance.choice(namespaces), chance.choice(("b1", "b2", "b3"))
        kind = "RoleBinding" if namespace else "ClusterRoleBinding"
        if chance.random() < 0.3:
            known.remove(kind, namespace, name)
            alive.pop((namespace, name), None)
        else:
            subjects = chance.sample([*(f"User/{u}" for u in users), *(f"Group/{g}" for g in groups)], 2)
            made = binding(name, f"ClusterRole/r{chance.randrange(4)}", *subjects, namespace=namespace)
            known.put(kind, made)
            alive[namespace, name] = made
        user = UserInfo(chance.choice(users), groups=(chance.choice(groups),))
        wanted = Access(
            chance.choice(("get", "list")), "", chance.choice(("pods", "nodes")), "", "", chance.choice(namespaces)
        )
        assert known.allowed(user, wanted)[0] is slowly_allowed(roles, alive, user, wanted)


def slowly_allowed(roles: list[Any], alive: dict[tuple[str, str], Any], user: UserInfo, wanted: Access) -> bool:
    for (namespace, _), made in alive.items():
        named = {(s["kind"], s["name"]) for s in made["subjects"]}
        applies = ("User", user.name) in named or any(("Group", group) in named for group in user.groups)
        if namespace not in ("", wanted.namespace) or not applies:
            continue
        rules = next(role["rules"] for role in roles if role["metadata"]["name"] == made["roleRef"]["name"])
        if any(rbac_rule.allows(wanted) for rbac_rule in parse_rules(rules)):
            return True
    return False


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (
            Access("list", resource="pods", namespace="shop"),
            'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "shop"',
        ),
        (
            Access("get", "apps", "deployments", "scale", "web", "shop"),
            'deployments.apps "web" is forbidden: User "ann" cannot get resource "deployments/scale" '
            'in API group "apps" in the namespace "shop"',
        ),
        (
            Access("list", resource="nodes"),
            'nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (Access("get", path="/metrics"), 'forbidden: User "ann" cannot get path "/metrics"'),
        (Access("get", path="/<b>&"), 'forbidden: User "ann" cannot get path "/&lt;b&gt;&amp;"'),
    ],
)
def test_refusals_say_who_wanted_what_where(access: Access, message: str) -> None:
    assert refused(UserInfo("ann"), access).message == message
