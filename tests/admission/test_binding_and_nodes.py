"""Who may bind pods; what becomes of a node's status; which labels and which configuration are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.admission.binding import BindingSettings, listed
from koord.admission.request import AdmissionAnswer, Request
from koord.admission.review import mutate, validate
from koord.api.kubernetes.meta import ObjectMeta
from tests.admission.build import gates, known

POD = ObjectMeta(name="web", namespace="shop")


def binding(
    settings: BindingSettings, user: str = "kube-scheduler", *, on: bool = True, **more: Any
) -> AdmissionAnswer:
    request = Request(
        "CREATE", "pods", subresource="binding", user=user, name="web", object={}, **{"namespace": "shop", **more}
    )
    what = known(binding=settings, pods={"shop/web": POD})
    return validate(request, what, gates(f"BindingAdmissionWebhook={str(on).lower()}"))


OURS = BindingSettings(user_names=("koord-scheduler", "other"), namespaces=("*",))


def test_only_users_whose_names_contain_an_allowed_one_may_bind() -> None:
    answer = binding(OURS)
    assert (answer.allowed, answer.code) == (False, 403)
    assert answer.message == (
        "user 'kube-scheduler' may not bind pods in namespace shop: the name must contain one of koord-scheduler, other"
    )
    assert binding(OURS, "system:serviceaccount:koordinator-system:koord-scheduler").allowed
    assert binding(OURS, "an-other-one").allowed


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        (OURS, {"on": False}),
        (BindingSettings(namespaces=("*",)), {}),
        (BindingSettings(user_names=("koord",)), {}),
        (BindingSettings(user_names=("koord",), namespaces=("jobs",)), {}),
        (BindingSettings(user_names=("koord",), namespaces=("*",), excluded_namespaces=("shop",)), {}),
        (OURS, {"namespace": "kube-system"}),
        (OURS, {"namespace": "nobody-knows"}),
    ],
)
def test_everybody_may_bind_where_it_does_not_hold(settings: BindingSettings, more: dict[str, Any]) -> None:
    assert binding(settings, **more).allowed


@pytest.mark.parametrize(
    ("labels", "annotations", "settings", "allowed"),
    [
        ({"koordinator.sh/binding-admission-bypass": "no matter"}, {}, OURS, True),
        ({"mine": ""}, {}, BindingSettings(("koord",), ("*",), bypass_labels=("a", "mine")), True),
        ({}, {"mine": ""}, BindingSettings(("koord",), ("*",), bypass_annotations=("mine",)), True),
        ({"mine": ""}, {}, OURS, False),
    ],
)
def test_a_pod_can_be_exempt(
    labels: dict[str, str], annotations: dict[str, str], settings: BindingSettings, allowed: bool
) -> None:
    pod = ObjectMeta(name="web", namespace="shop", labels=labels, annotations=annotations)
    request = Request("CREATE", "pods", subresource="binding", user="x", name="web", namespace="shop", object={})
    what = known(binding=settings, pods={"shop/web": pod})
    assert validate(request, what, gates("BindingAdmissionWebhook=true")).allowed == allowed


def test_a_rehearsal_lets_everybody_bind_and_tells() -> None:
    answer = binding(BindingSettings(user_names=("koord",), namespaces=("*",), dry_run=True))
    assert answer.allowed
    assert answer.warnings[0].startswith("would be denied: user 'kube-scheduler'")


@pytest.mark.parametrize(
    ("user", "namespace", "pod", "settings", "decision"),
    [
        ("koord-scheduler", "shop", POD, OURS, "allowed_username"),
        ("x", "kube-system", POD, OURS, "excluded_ns"),
        ("x", "shop", POD, BindingSettings(("koord",), ("jobs",)), "out_of_scope"),
        ("x", "shop", POD, OURS, "denied"),
        ("x", "shop", POD, BindingSettings(("koord",), ("*",), dry_run=True), "dry_run"),
        ("x", "shop", None, OURS, ""),
        ("x", "shop", POD, BindingSettings(), ""),
        ("x", "shop", POD, BindingSettings(("koord",)), ""),
    ],
)
def test_decisions_have_the_words_of_their_metric(
    user: str, namespace: str, pod: ObjectMeta | None, settings: BindingSettings, decision: str
) -> None:
    assert settings.decide(user, namespace, pod).value == decision


def test_lists_of_options_are_trimmed() -> None:
    assert listed(" a , b,,") == ("a", "b")
    assert listed("") == ()


RATIO, RAW = "node.koordinator.sh/resource-amplification-ratio", "node.koordinator.sh/raw-allocatable"


def node(annotations: dict[str, str] | None = None, **allocatable: str) -> dict[str, Any]:
    status = {"allocatable": allocatable, "capacity": {"cpu": "64"}} if allocatable else {}
    return {"metadata": {"name": "n1", "annotations": annotations or {}}, "status": status}


def reported(new: dict[str, Any], old: dict[str, Any] | None = None) -> AdmissionAnswer:
    return mutate(Request("UPDATE", "nodes", object=new, old=old or new, subresource="status"), known(), gates())


@pytest.mark.parametrize(
    ("annotations", "allocatable", "raw", "after"),
    [
        # Example 16: 64 cores times 1.94.
        ({RATIO: '{"cpu":1.94}'}, {"cpu": "64"}, '{"cpu":"64"}', {"cpu": "124160m"}),
        (
            {RATIO: '{"cpu":1.5,"memory":1.25}'},
            {"cpu": "1", "memory": "4Gi", "pods": "110"},
            '{"cpu":"1","memory":"4Gi"}',
            {"cpu": "1500m", "memory": "5Gi", "pods": "110"},
        ),
        ({RATIO: '{"cpu":0.5}'}, {"cpu": "1"}, '{"cpu":"1"}', {"cpu": "1"}),
        ({RATIO: '{"cpu":1}'}, {"cpu": "1"}, '{"cpu":"1"}', {"cpu": "1"}),
        ({RATIO: '{"eni":2}'}, {"cpu": "1", "eni": "5"}, '{"cpu":"1"}', {"cpu": "1", "eni": "5"}),
        ({RATIO: '{"cpu":2}', RAW: '{"cpu":"1"}'}, {"cpu": "2"}, '{"cpu":"1"}', {"cpu": "2"}),
        ({RATIO: '{"cpu":3}', RAW: '{"cpu":"1"}'}, {"cpu": "2"}, '{"cpu":"1"}', {"cpu": "3"}),
        ({RATIO: '{"cpu":3}', RAW: "{}"}, {"cpu": "2"}, "{}", {"cpu": "2"}),
        ({RAW: "{}"}, {"cpu": "1"}, None, {"cpu": "1"}),
        ({RATIO: "", RAW: "{}"}, {"cpu": "1"}, None, {"cpu": "1"}),
        ({}, {"cpu": "1"}, None, {"cpu": "1"}),
    ],
)
def test_allocatable_is_raw_times_ratio(
    annotations: dict[str, str], allocatable: dict[str, str], raw: str | None, after: dict[str, str]
) -> None:
    answer = reported(node(annotations, **allocatable))
    assert answer.object is not None
    assert answer.object["metadata"]["annotations"].get(RAW) == raw
    assert answer.object["status"]["allocatable"] == after


def test_a_kubelet_that_reports_something_else_renews_the_record() -> None:
    before = node({RATIO: '{"cpu":2}', RAW: '{"cpu":"8"}'}, cpu="16")
    after = node({RATIO: '{"cpu":2}', RAW: '{"cpu":"8"}'}, cpu="6")
    answer = reported(after, before)
    assert answer.object is not None
    assert answer.object["metadata"]["annotations"][RAW] == '{"cpu":"6"}'
    assert answer.object["status"]["allocatable"] == {"cpu": "12"}
    # The manager's own writes leave cpu unchanged.
    stored = dict(answer.object)
    assert reported(stored, stored).patch == ()


def test_other_resources_that_change_do_not_renew_the_record() -> None:
    before = node({RATIO: '{"cpu":2}', RAW: '{"cpu":"8"}'}, cpu="16", pods="10")
    after = node({RATIO: '{"cpu":2}', RAW: '{"cpu":"8"}'}, cpu="16000m", pods="20")
    answer = reported(after, before)
    assert answer.object is not None
    assert answer.object["status"]["allocatable"] == {"cpu": "16", "pods": "20"}
    assert answer.object["metadata"]["annotations"][RAW] == '{"cpu":"8"}'


def test_capacity_is_never_touched_and_a_node_without_allocatable_passes() -> None:
    answer = reported(node({RATIO: '{"cpu":2}'}, cpu="64"))
    assert answer.object is not None
    assert answer.object["status"]["capacity"] == {"cpu": "64"}
    assert reported(node({RATIO: '{"cpu":2}'})).patch == ()


@pytest.mark.parametrize("annotations", [{RATIO: "{"}, {RATIO: '{"cpu":"x"}'}, {RATIO: '{"cpu":2}', RAW: "["}])
def test_annotations_that_cannot_be_read_fail(annotations: dict[str, str]) -> None:
    answer = reported(node(annotations, cpu="1"))
    assert (answer.allowed, answer.code) == (False, 500)
    assert answer.message.startswith("metadata.annotations[node.koordinator.sh/")


def test_a_new_node_passes_as_it_is() -> None:
    request = Request("CREATE", "nodes", object=node({RATIO: '{"cpu":2}'}, cpu="1"), subresource="status")
    assert mutate(request, known(), gates()).patch == ()


def entry(name: str, **labels: str) -> dict[str, Any]:
    return {"name": name, "nodeSelector": {"matchLabels": labels}, "enable": True}


CONFLICTING = {
    "colocation-config": json.dumps({"enable": True, "nodeConfigs": [entry("x", pool="a"), entry("y", zone="1")]}),
    "cpu-burst-config": "{broken",
}


def relabelled(operation: str, new: dict[str, str], old: dict[str, str] | None) -> AdmissionAnswer:
    obj, before = ({"metadata": {"name": "n1", "labels": labels}} for labels in (new, old or {}))
    request = Request(operation, "nodes", object=obj, old=None if old is None else before)  # type: ignore[arg-type]
    return validate(request, known(slo_config=CONFLICTING), gates())


def test_labels_by_which_two_entries_pick_a_node_are_refused() -> None:
    answer = relabelled("UPDATE", {"pool": "a", "zone": "1"}, {"pool": "a"})
    assert (answer.allowed, answer.code) == (False, 400)
    assert answer.message == (
        "metadata.labels: are picked by nodeConfigs[0] (x) and nodeConfigs[1] (y) of colocation-config, where only "
        "one entry may pick a node"
    )


@pytest.mark.parametrize(
    ("operation", "new", "old"),
    [
        ("UPDATE", {"pool": "a"}, {}),
        ("UPDATE", {"pool": "a", "zone": "1"}, {"pool": "a", "zone": "1"}),
        ("CREATE", {"pool": "a", "zone": "1"}, None),
    ],
)
def test_labels_that_pass(operation: str, new: dict[str, str], old: dict[str, str] | None) -> None:
    assert relabelled(operation, new, old).allowed


def test_a_new_node_with_such_labels_is_told_so() -> None:
    (warning,) = relabelled("CREATE", {"pool": "a", "zone": "1"}, None).warnings
    assert "nodeConfigs[0] (x) and nodeConfigs[1] (y) of colocation-config" in warning


def config_map(data: dict[str, Any], name: str = "slo-controller-config", namespace: str = "koordinator-system") -> Any:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in data.items()}
    return {"metadata": {"name": name, "namespace": namespace}, "data": texts}


def stored(new: Any, old: Any = None, **what: Any) -> AdmissionAnswer:
    operation = "CREATE" if old is None else "UPDATE"
    return validate(Request(operation, "configmaps", object=new, old=old), known(**what), gates())  # type: ignore[arg-type]


def refusal(answer: AdmissionAnswer) -> Any:
    assert (answer.allowed, answer.code) == (False, 400)
    assert answer.message.startswith("___")
    assert answer.message.endswith("___")
    return json.loads(answer.message[3:-3])


@pytest.mark.parametrize(
    ("data", "reason", "part"),
    [
        ({"colocation-config": "{"}, "ParseConfigFail", "colocation-config: is not JSON"),
        (
            {"colocation-config": {"metricAggregateDurationSeconds": 0}},
            "ConfigParamInvalid",
            "colocation-config.metricAggregateDurationSeconds: must be an integer from 1 to 2592000, not 0",
        ),
        (
            {"colocation-config": {"nodeConfigs": [entry("x", a="1"), entry("y", a="1", b="2")]}},
            "NodeStrategiesOverlap",
            "nodeConfigs[1].nodeSelector: overlaps with nodeConfigs[0] (x)",
        ),
        (
            {"colocation-config": {"nodeConfigs": [entry("x", pool="a"), entry("y", zone="1")]}},
            "ExistNodeConfict",
            "picks node n1, as nodeConfigs[0] (x) does",
        ),
        (
            # Both set by hand, and the scheduler would lend more than the agent lets anyone use.
            {
                "colocation-config": {"enable": True, "cpuReclaimThresholdPercent": 80},
                "resource-threshold-config": {"clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 65}},
            },
            "ConfigParamInvalid",
            "colocation-config.cpuReclaimThresholdPercent: must be below "
            "resource-threshold-config.clusterStrategy.cpuSuppressThresholdPercent (65), not 80",
        ),
    ],
)
def test_a_configuration_that_cannot_hold_is_refused_in_the_form_that_programs_read(
    data: dict[str, Any], reason: str, part: str
) -> None:
    found = refusal(stored(config_map(data), node_labels={"n1": {"pool": "a", "zone": "1"}}))
    assert found["reason"] == reason
    assert part in found["message"]


def test_only_changed_sections_are_judged_and_deletion_passes() -> None:
    old = config_map({"colocation-config": "{", "cpu-burst-config": {}})
    new = config_map({"colocation-config": "{", "cpu-burst-config": {"clusterStrategy": {"cpuBurstPercent": 200}}})
    assert stored(new, old).allowed
    assert validate(Request("DELETE", "configmaps", old=old), known(), gates()).allowed


def test_other_config_maps_pass() -> None:
    assert stored(config_map({"colocation-config": "{"}, name="mine")).allowed
    assert stored(config_map({"colocation-config": "{"}, namespace="shop")).allowed
    assert not stored(config_map({"colocation-config": "{"}, namespace="shop"), config_namespace="shop").allowed


def test_misspelt_fields_are_warned_about() -> None:
    (warning,) = stored(config_map({"colocation-config": {"enabled": True}})).warnings
    assert warning.startswith("colocation-config.enabled: unknown field")
