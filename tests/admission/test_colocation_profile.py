"""What profiles give to pods and reservations, which pods get them, and in which order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from koord.admission.request import Request
from koord.admission.review import mutate
from koord.api.kubernetes.core import PriorityClass
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.words import PreemptionPolicy
from tests.admission.build import (
    container,
    gates,
    known,
    labels_of,
    mutated,
    pod,
    profile,
    resources_of,
    spec_of,
)

BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
QOS, RANK = "koordinator.sh/qosClass", "koordinator.sh/priority"
ONE_CORE: dict[str, Any] = {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"cpu": "1", "memory": "4Gi"}}


def test_a_profile_gives_all_that_it_says_and_the_pod_becomes_a_batch_pod() -> None:
    given = profile(
        selector={"matchLabels": {"colocate": "yes"}},
        namespaceSelector={"matchLabels": {"team": "a"}},
        labels={"added": "1"},
        annotations={"note": "x"},
        schedulerName="koord-scheduler",
        qosClass="BE",
        priorityClassName="koord-batch",
        koordinatorPriority=1111,
        patch={"metadata": {"labels": {"patched": "p"}, "annotations": {"patched": "q"}}},
    )
    answer = mutated(
        pod(container(**ONE_CORE), labels={"colocate": "yes"}, overhead={"cpu": "1", "memory": "2Gi"}), known(given)
    )
    assert answer.allowed
    assert labels_of(answer) == {"colocate": "yes", "added": "1", "patched": "p", QOS: "BE", RANK: "1111"}
    assert answer.object is not None
    annotations = answer.object["metadata"]["annotations"]
    assert (annotations["note"], annotations["patched"]) == ("x", "q")
    spec = spec_of(answer)
    assert (spec["schedulerName"], spec["priorityClassName"], spec["priority"]) == (
        "koord-scheduler",
        "koord-batch",
        5000,
    )
    assert spec["preemptionPolicy"] == "PreemptLowerPriority"
    assert resources_of(answer) == {
        "requests": {BATCH_CPU: "1k", BATCH_MEMORY: "4Gi"},
        "limits": {BATCH_CPU: "1k", BATCH_MEMORY: "4Gi"},
    }
    assert spec["overhead"] == {BATCH_CPU: "1k", BATCH_MEMORY: "2Gi"}


@pytest.mark.parametrize(
    ("spec", "matches"),
    [
        ({}, True),
        ({"selector": {}, "namespaceSelector": {}}, True),
        ({"selector": {"matchLabels": {"app": "web"}}}, True),
        ({"selector": {"matchLabels": {"app": "db"}}}, False),
        ({"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}}, True),
        ({"selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}, "selector": {"matchLabels": {"app": "db"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}, "selector": {"matchLabels": {"app": "web"}}}, False),
    ],
)
def test_both_selectors_must_match_and_none_matches_everything(spec: dict[str, Any], matches: bool) -> None:
    answer = mutated(pod(labels={"app": "web"}), known(profile(labels={"got": "it"}, **spec)))
    assert ("got" in labels_of(answer)) == matches


@pytest.mark.parametrize("field", ["selector", "namespaceSelector"])
@pytest.mark.parametrize("expression", [{"operator": "In", "values": []}, {"operator": "Near", "values": ["x"]}])
def test_a_selector_that_makes_no_sense_counts_as_matching_and_says_so(field: str, expression: dict[str, Any]) -> None:
    broken: dict[str, Any] = {field: {"matchExpressions": [{"key": "app", **expression}]}}
    answer = mutated(pod(), known(profile(labels={"got": "it"}, **broken)))
    assert labels_of(answer) == {"got": "it"}
    (warning,) = answer.warnings
    assert f"ClusterColocationProfile profile spec.{field}" in warning


def test_a_namespace_that_nobody_knows_counts_as_matching_and_says_so() -> None:
    given = profile(namespaceSelector={"matchLabels": {"team": "b"}}, labels={"got": "it"})
    answer = mutated(pod(namespace="new"), known(given))
    assert labels_of(answer) == {"got": "it"}
    assert "namespace new is not known" in answer.warnings[0]


def test_the_namespace_may_be_in_the_request_alone() -> None:
    given = profile(namespaceSelector={"matchLabels": {"team": "a"}}, labels={"got": "it"})
    nameless = pod()
    del nameless["metadata"]["namespace"]
    answer = mutated(nameless, known(given), namespace="shop")
    assert labels_of(answer) == {"got": "it"}
    assert answer.object is not None
    assert "namespace" not in answer.object["metadata"]


def test_profiles_apply_by_name_and_later_ones_overwrite() -> None:
    one = profile("b-later", labels={"x": "b", "only-b": "1"}, qosClass="LS")
    other = profile("a-first", labels={"x": "a", "only-a": "1"}, qosClass="BE")
    answer = mutated(pod(labels={"x": "own"}), known(one, other))
    assert labels_of(answer) == {"x": "b", "only-a": "1", "only-b": "1", QOS: "LS"}


def test_keys_are_copied_and_an_absent_one_is_copied_as_empty() -> None:
    given = profile(
        labelKeysMapping={"app": "copy", "absent": "nothing"}, annotationKeysMapping={"note": "copied", "no": "none"}
    )
    answer = mutated(pod(labels={"app": "web"}, annotations={"note": "n"}), known(given))
    assert labels_of(answer) == {"app": "web", "copy": "web", "nothing": ""}
    assert answer.object is not None
    assert answer.object["metadata"]["annotations"] == {"note": "n", "copied": "n", "none": ""}


def test_suffixes_are_appended_to_labels_that_exist_after_labels_were_set_and_copied() -> None:
    given = profile(
        labels={"set": "v"}, labelKeysMapping={"app": "copy"}, labelSuffixes={"set": "-x", "copy": "-y", "no": "-z"}
    )
    answer = mutated(pod(labels={"app": "web"}), known(given))
    assert labels_of(answer) == {"app": "web", "set": "v-x", "copy": "web-y"}


def test_suffixes_of_several_profiles_add_up_and_are_given_once() -> None:
    what = known(profile("a", labelSuffixes={"app": "-a"}), profile("b", labelSuffixes={"app": "-b"}))
    once = mutated(pod(labels={"app": "web"}), what)
    assert labels_of(once) == {"app": "web-a-b"}
    twice = mutated(dict(once.object or {}), what)
    assert labels_of(twice) == {"app": "web-a-b"}
    assert twice.patch == ()


@pytest.mark.parametrize(
    ("probability", "share"), [(None, 1.0), (100, 1.0), ("100%", 1.0), (0, 0.0), ("0%", 0.0), (30, 0.3), ("30%", 0.3)]
)
def test_chance_gives_a_profile_to_its_share_of_pods(probability: int | str | None, share: float) -> None:
    what = known(profile(probability=probability, labels={"got": "it"}))
    got = Counter("got" in labels_of(mutated(pod(name=f"web-{i}"), what)) for i in range(1000))
    assert got[True] / 1000 == pytest.approx(share, abs=0.05)


def test_chance_is_the_same_when_asked_again_but_differs_between_requests_without_a_name() -> None:
    what = known(profile(probability=50, labels={"got": "it"}))
    named = [labels_of(mutated(pod(name="web-7"), what, uid=f"request-{i}")) for i in range(20)]
    assert all(each == named[0] for each in named)
    nameless = pod()
    del nameless["metadata"]["name"]
    answers = {str(labels_of(mutated(nameless, what, uid=f"request-{i}"))) for i in range(50)}
    assert len(answers) == 2


def test_a_profile_that_chance_withheld_still_translates_resources() -> None:
    answer = mutated(pod(container(**ONE_CORE), priority=5500), known(profile(probability=0, labels={"got": "it"})))
    assert labels_of(answer) == {}
    assert resources_of(answer)["requests"] == {BATCH_CPU: "1k", BATCH_MEMORY: "4Gi"}


def test_a_chance_that_is_no_percentage_fails_and_names_the_field() -> None:
    answer = mutated(pod(), known(profile(probability="often")))
    assert (answer.allowed, answer.code) == (False, 500)
    assert answer.message.startswith("ClusterColocationProfile profile spec.probability: must be a percentage")


@pytest.mark.parametrize(
    ("spec", "switched"),
    [
        ({"marked": {"config.koordinator.sh/skip-update-resources": ""}}, ""),
        ({}, "ColocationProfileSkipMutatingResources=true"),
    ],
)
def test_resources_are_left_alone_where_a_profile_or_a_gate_says_so(spec: dict[str, Any], switched: str) -> None:
    answer = mutated(
        pod(container(**ONE_CORE)), known(profile(qosClass="BE", priorityClassName="koord-batch", **spec)), switched
    )
    assert resources_of(answer) == ONE_CORE
    assert labels_of(answer) == {QOS: "BE"}


def test_resources_are_left_alone_where_no_profile_matches() -> None:
    answer = mutated(pod(container(**ONE_CORE), priority=5500, labels={QOS: "BE"}))
    assert answer.patch == ()
    assert resources_of(answer) == ONE_CORE


def test_a_priority_class_gives_its_number_and_policy() -> None:
    mine = PriorityClass(value=5555, metadata=ObjectMeta(name="mine"), preemption_policy=PreemptionPolicy.NEVER)
    answer = mutated(
        pod(priority=0, priorityClassName="old"),
        known(profile(priorityClassName="mine"), priority_classes={"mine": mine}),
    )
    spec = spec_of(answer)
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("mine", 5555, "Never")


def test_a_priority_class_that_is_not_there_fails_and_names_it() -> None:
    answer = mutated(pod(), known(profile(priorityClassName="gone")))
    assert (answer.allowed, answer.code) == (False, 500)
    assert "spec.priorityClassName" in answer.message
    assert "gone" in answer.message


def test_a_patch_that_makes_no_pod_fails_and_leaves_the_object_alone() -> None:
    given = pod()
    answer = mutated(given, known(profile(patch={"spec": {"containers": "none"}})))
    assert (answer.allowed, answer.code) == (False, 500)
    assert answer.object == given


def test_only_creation_changes_a_pod() -> None:
    what = known(profile(labels={"got": "it"}))
    for operation in ("UPDATE", "DELETE"):
        answer = mutate(Request(operation, "pods", object=pod(), old=pod()), what, gates())
        assert (answer.allowed, answer.patch) == (True, ())


@pytest.mark.parametrize(("resource", "subresource"), [("pods", "status"), ("pods", "resize"), ("services", "")])
def test_other_kinds_and_subresources_pass_untouched(resource: str, subresource: str) -> None:
    answer = mutated(pod(), known(profile(labels={"got": "it"})), resource=resource, subresource=subresource)
    assert (answer.allowed, answer.patch) == (True, ())


def test_an_object_that_is_no_pod_is_refused_with_the_field() -> None:
    answer = mutated({"metadata": {"name": "x"}, "spec": {"containers": {"name": "c"}}})
    assert (answer.allowed, answer.code) == (False, 400)
    assert answer.message.startswith("spec.containers: ")


RESERVATION_GIVEN = profile(
    labels={"added": "1"},
    labelSuffixes={"app": "-x"},
    schedulerName="koord-scheduler",
    qosClass="LSR",
    priorityClassName="koord-prod",
    koordinatorPriority=7,
    patch={"metadata": {"annotations": {"patched": "q"}}},
)


def test_a_reservation_gets_metadata_itself_and_the_rest_in_its_template() -> None:
    reservation: dict[str, Any] = {
        "metadata": {"name": "r", "labels": {"app": "web"}},
        "spec": {"template": {"spec": {"containers": [container(**ONE_CORE)]}}, "owners": [{"labelSelector": {}}]},
    }
    answer = mutated(reservation, known(RESERVATION_GIVEN), resource="reservations")
    assert labels_of(answer) == {"app": "web-x", "added": "1", QOS: "LSR", RANK: "7"}
    spec = spec_of(answer)
    assert spec["owners"] == [{"labelSelector": {}}]
    assert spec["template"]["spec"] == {
        "containers": [container(**ONE_CORE)],
        "schedulerName": "koord-scheduler",
        "priorityClassName": "koord-prod",
        "priority": 9000,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def test_a_reservation_without_a_template_gets_metadata_only() -> None:
    answer = mutated({"metadata": {"name": "r"}, "spec": {}}, known(RESERVATION_GIVEN), resource="reservations")
    assert spec_of(answer) == {}
    assert labels_of(answer)[QOS] == "LSR"


def test_namespace_selectors_do_not_concern_reservations() -> None:
    given = profile(namespaceSelector={"matchLabels": {"team": "nobody"}}, labels={"got": "it"})
    answer = mutated({"metadata": {"name": "r"}, "spec": {}}, known(given), resource="reservations")
    assert labels_of(answer) == {"got": "it"}
