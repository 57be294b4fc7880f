"""Rules that roles gather from others, each once and in a fixed order."""

from __future__ import annotations

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.rbac import AggregationRule, ClusterRole, PolicyRule
from koord.api.machinery.codec import encode
from koord.api.text.selector import LabelSelector
from koord_minicluster.controllers.role_aggregation import aggregated, gathered

PODS = PolicyRule(verbs=("get",), api_groups=("",), resources=("pods",))
JOBS = PolicyRule(verbs=("get",), api_groups=("batch",), resources=("jobs",))


def _role(name: str, *rules: PolicyRule, label: str = "") -> ClusterRole:
    labels = {"to": label} if label else {}
    return ClusterRole(metadata=ObjectMeta(name=name, labels=labels, uid=f"uid-{name}"), rules=rules)


def _gathering(*labels: str, rules: tuple[PolicyRule, ...] = ()) -> ClusterRole:
    selectors = tuple(LabelSelector(match_labels={"to": label}) for label in labels)
    return ClusterRole(
        metadata=ObjectMeta(name="all", labels={"to": "one"}, uid="u"),
        rules=rules,
        aggregation_rule=AggregationRule(selectors),
    )


def test_rules_come_by_selector_then_by_name_and_each_once() -> None:
    others = [_role("b", PODS, label="one"), _role("a", JOBS, label="two"), _role("c", PODS, JOBS, label="one")]
    assert gathered(_gathering("two", "one"), others) == (JOBS, PODS)
    assert gathered(_gathering("one"), others) == (PODS, JOBS)


def test_a_role_does_not_gather_from_itself() -> None:
    role = _gathering("one", rules=(PODS,))
    assert gathered(role, [role]) == ()


def test_only_what_changes_is_written() -> None:
    others = [_role("b", PODS, label="one")]
    assert aggregated(_gathering("one", rules=(PODS,)), others) == []
    assert aggregated(_role("plain", PODS), others) == []
    (patch,) = aggregated(_gathering("one"), others)
    assert encode(patch.body["rules"]) == b'[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]'
