from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kubernetes.access import Access
from koord_minicluster.apiserver.access.rules import RbacRule, missing, parse_rules

READ_PODS = RbacRule(("get", "list"), ("",), ("pods",))


@pytest.mark.parametrize(
    ("rule", "access", "allowed"),
    [
        (READ_PODS, Access("get", resource="pods"), True),
        (READ_PODS, Access("delete", resource="pods"), False),
        (READ_PODS, Access("get", "apps", "pods"), False),
        (READ_PODS, Access("get", resource="pods", subresource="log"), False),
        (RbacRule(("get",), ("",), ("pods/log",)), Access("get", resource="pods", subresource="log"), True),
        (RbacRule(("get",), ("",), ("pods/log",)), Access("get", resource="pods"), False),
        (RbacRule(("get",), ("*",), ("*/scale",)), Access("get", "apps", "deployments", "scale"), True),
        (RbacRule(("get",), ("*",), ("*/scale",)), Access("get", "apps", "deployments"), False),
        (RbacRule(("get",), ("",), ("pods/*",)), Access("get", resource="pods", subresource="log"), False),
        (RbacRule(("*",), ("*",), ("*",)), Access("get", "apps", "deployments", "scale", "x", "ns"), True),
        (RbacRule(("*",), ("*",), ("*",)), Access("get", path="/healthz"), False),
        (RbacRule(("get",), ("",), ("pods",), ("a", "b")), Access("get", resource="pods", name="b"), True),
        (RbacRule(("get",), ("",), ("pods",), ("a", "b")), Access("get", resource="pods", name="c"), False),
        (RbacRule(("list",), ("",), ("pods",), ("a",)), Access("list", resource="pods"), False),
        (RbacRule(("get",), urls=("/healthz",)), Access("get", path="/healthz"), True),
        (RbacRule(("get",), urls=("/healthz",)), Access("get", path="/healthz/ping"), False),
        (RbacRule(("get",), urls=("/healthz/*",)), Access("get", path="/healthz/ping"), True),
        (RbacRule(("get",), urls=("/healthz*",)), Access("get", path="/healthz"), True),
        (RbacRule(("get",), urls=("*",)), Access("get", path="/any"), True),
        (RbacRule(("get",), urls=("*",)), Access("post", path="/any"), False),
        (RbacRule(("get",), urls=("*",)), Access("get", resource="pods"), False),
    ],
)
def test_a_rule_allows_what_its_lists_multiply_to(rule: RbacRule, access: Access, allowed: bool) -> None:
    assert rule.allows(access) is allowed


@pytest.mark.parametrize(
    ("held", "wanted", "lacking"),
    [
        ([READ_PODS], [RbacRule(("get",), ("",), ("pods",))], []),
        (
            [READ_PODS],
            [RbacRule(("get", "watch", "delete"), ("",), ("pods",))],
            ['Resources:["pods"], Verbs:["watch" "delete"]'],
        ),
        ([RbacRule(("*",), ("*",), ("*",))], [RbacRule(("get",), ("a", "b"), ("x", "y/z"), ("n",))], []),
        ([RbacRule(("get",), ("",), ("*/log",))], [RbacRule(("get",), ("",), ("pods/log",))], []),
        (
            [RbacRule(("get",), ("",), ("*/log",))],
            [RbacRule(("get",), ("",), ("pods",))],
            ['Resources:["pods"], Verbs:["get"]'],
        ),
        (
            [RbacRule(("get",), ("",), ("pods",), ("a",))],
            [RbacRule(("get",), ("",), ("pods",))],
            ['Resources:["pods"], Verbs:["get"]'],
        ),
        ([RbacRule(("get",), ("",), ("pods",))], [RbacRule(("get",), ("",), ("pods",), ("a",))], []),
        ([RbacRule(("get",), urls=("/a/*",))], [RbacRule(("get",), urls=("/a/b", "/a/*"))], []),
        (
            [RbacRule(("get",), urls=("/a/*",))],
            [RbacRule(("get",), urls=("/b",))],
            ['{NonResourceURLs:["/b"], Verbs:["get"]}'],
        ),
    ],
)
def test_what_is_not_covered_is_told_by_verbs(held: list[RbacRule], wanted: list[RbacRule], lacking: list[str]) -> None:
    found = [str(rule) for rule in missing(held, wanted)]
    assert len(found) == len(lacking)
    assert all(part in text for part, text in zip(lacking, found, strict=True))


def test_rules_read_absent_and_null_lists_as_empty() -> None:
    assert parse_rules(None) == ()
    assert parse_rules([{"verbs": ["get"], "apiGroups": None}]) == (RbacRule(("get",)),)


_words = st.lists(st.sampled_from(["*", "a", "b", "a/s", "*/s"]), min_size=1, max_size=3).map(tuple)
_names = st.lists(st.sampled_from(["n", "m"]), max_size=2).map(tuple)
_rules = st.builds(RbacRule, _words, _words, _words, _names)


@settings(max_examples=200)
@given(
    _rules,
    _rules,
    st.builds(
        Access,
        st.sampled_from("ab"),
        st.sampled_from("ab"),
        st.sampled_from("ab"),
        st.sampled_from(["", "s"]),
        st.sampled_from(["", "n", "m"]),
    ),
)
def test_nothing_is_allowed_by_a_covered_rule_that_the_holder_may_not(
    held: RbacRule, wanted: RbacRule, access: Access
) -> None:
    if not missing([held], [wanted]) and wanted.allows(access):
        assert held.allows(access)
