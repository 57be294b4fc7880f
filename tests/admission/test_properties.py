"""What holds for all pods and profiles: twice is once, patches lead there, nothing is lost, inputs stay unchanged."""

from __future__ import annotations

import copy
import json
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.admission.json_patch import difference
from koord.admission.quota_tree_affinity import QuotaTrees
from koord.admission.request import Request
from koord.admission.review import admit
from koord.admission.strategic_merge import POD, merged
from koord.api.builtin_schemas import schema_for
from koord.api.machinery.codec import without_nulls
from koord_minicluster.apiserver.patch import json_patch, strategic
from tests.admission.build import admitted, container, gates, known, mutated, pod, profile

GATES = "MultiQuotaTree=true,ValidatePodDeviceResource=true"
QOS = "koordinator.sh/qosClass"

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 1.0]) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text("abc/~", max_size=2), json_values, max_size=5)


@settings(max_examples=150)
@given(objects, objects)
def test_a_difference_applied_to_the_one_gives_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    result = json_patch.apply(old, list(difference(old, new)))
    assert json_patch.same(result, new)
    assert difference(old, copy.deepcopy(old)) == ()


RESOURCES = ("cpu", "memory", "kubernetes.io/batch-cpu", "kubernetes.io/mid-cpu", "nvidia.com/gpu")
GPUS = ("koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu.shared")
amounts = st.dictionaries(
    st.sampled_from((*RESOURCES, *GPUS)), st.sampled_from(["1", "500m", "1Gi", 2, "200", "1500", 0.5]), max_size=4
)
texts = st.dictionaries(
    st.sampled_from(["app", "tier", "x", "y"]), st.sampled_from(["a", "b", "b-s", "a-s-t"]), max_size=3
)
qos = st.sampled_from([{}, {QOS: "BE"}, {QOS: "LS"}, {QOS: "LSR"}, {QOS: "odd"}])
own_fields: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"dnsPolicy": "ClusterFirst", "unheardOf": {"deep": [1, {"a": None}]}},
        {"tolerations": [{"operator": "Exists"}], "securityContext": {"runAsUser": 5}},
        {"affinity": {"podAffinity": {}, "nodeAffinity": None}, "nodeSelector": None},
    ]
)


@st.composite
def containers(draw: st.DrawFn) -> list[dict[str, Any]]:
    found = []
    for i in range(draw(st.integers(1, 2))):
        each = container(f"c{i}")
        each["image"] = "i"
        each["env"] = [{"name": "A", "value": "1"}]
        if draw(st.booleans()):
            each["resources"] = {"requests": draw(amounts), "limits": draw(amounts), "claims": [{"name": "x"}]}
        found.append(each)
    return found


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    more: dict[str, Any] = dict(draw(own_fields))
    if draw(st.booleans()):
        more["priority"] = draw(st.sampled_from([None, 0, 3500, 5500, 7500, 9500]))
    if draw(st.booleans()):
        more["initContainers"] = draw(containers())
    if draw(st.booleans()):
        more["overhead"] = {"cpu": "100m"}
    labels = {**draw(texts), **draw(qos)}
    return pod(
        *draw(containers()),
        labels=draw(st.sampled_from([labels, labels, None])),
        annotations=draw(st.sampled_from([{}, {"note": "n"}, None])),
        **more,
    )


patches = st.sampled_from(
    [
        {},
        {"metadata": {"annotations": {"patched": "1"}}, "spec": {"nodeSelector": {"disk": "ssd"}}},
        {"spec": {"containers": [{"name": "c0", "env": [{"name": "B", "value": "2"}]}, {"name": "added"}]}},
        {"spec": {"tolerations": [{"key": "t"}], "dnsPolicy": None, "initContainers": [{"$patch": "replace"}]}},
    ]
)


@st.composite
def profiles(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Profiles whose selectors ask for labels that none of them writes, and that copy to keys that none copies from."""
    found = []
    for i in range(draw(st.integers(0, 3))):
        spec: dict[str, Any] = {
            "selector": draw(st.sampled_from([None, {}, {"matchLabels": {"tier": "a"}}])),
            "probability": draw(st.sampled_from([None, 50, "0%"])),
            "labels": draw(st.sampled_from([{}, {"given": f"{i}"}])),
            "annotations": draw(st.sampled_from([{}, {"given": f"{i}"}])),
            "labelKeysMapping": draw(st.sampled_from([{}, {"app": "copy"}, {"absent": "empty"}])),
            "labelSuffixes": draw(st.sampled_from([{}, {"app": "-s"}, {"given": "-t", "no": "-u"}])),
            "qosClass": draw(st.sampled_from([None, "BE", "LS"])),
            "priorityClassName": draw(st.sampled_from(["", "koord-batch", "koord-mid", "koord-prod"])),
            "koordinatorPriority": draw(st.sampled_from([None, 3])),
            "schedulerName": draw(st.sampled_from(["", "koord-scheduler"])),
            "patch": draw(patches),
        }
        found.append(profile(f"p{i}", **spec))
    return found


TREES = QuotaTrees({"shop": "t"}, {}, {"t": ({"key": "pool", "operator": "In", "values": ["a"]},)})


@settings(max_examples=80, deadline=None)
@given(pods(), profiles())
def test_admitting_twice_is_admitting_once(obj: dict[str, Any], given_: list[dict[str, Any]]) -> None:
    what = known(*given_, trees=TREES)
    once = mutated(obj, what, GATES)
    assert once.object is not None
    if once.allowed:
        twice = mutated(dict(once.object), what, GATES)
        assert twice.allowed
        assert twice.patch == ()


@settings(max_examples=80, deadline=None)
@given(pods(), profiles())
def test_the_patches_lead_from_the_object_as_it_came_to_the_one_to_be_stored(
    obj: dict[str, Any], given_: list[dict[str, Any]]
) -> None:
    before = copy.deepcopy(obj)
    answer = admitted(obj, known(*given_, trees=TREES), GATES)
    assert obj == before, "the input does not change"
    assert answer.object is not None
    over_the_wire = json.loads(json.dumps(answer.patch))
    assert json_patch.same(json_patch.apply(before, over_the_wire), dict(answer.object))
    if not answer.allowed:
        assert answer.patch == ()
        assert answer.object == before
        assert answer.message


@settings(max_examples=80, deadline=None)
@given(pods())
def test_nothing_that_no_rule_concerns_is_lost(obj: dict[str, Any]) -> None:
    giving = known(profile(labels={"given": "1"}, qosClass="BE", priorityClassName="koord-batch"))
    answer = mutated(obj, giving)
    assert answer.object is not None
    # Nulls stand for what is absent, and may go.
    after, obj = (cast("Any", without_nulls(json.loads(json.dumps(each)))) for each in (answer.object, obj))
    own = {"priority", "priorityClassName", "preemptionPolicy", "containers", "initContainers", "overhead"}
    assert {k: v for k, v in after["spec"].items() if k not in own} == {
        k: v for k, v in obj["spec"].items() if k not in own
    }
    for field in ("containers", "initContainers"):
        for new, old in zip(after["spec"].get(field, []), obj["spec"].get(field, []), strict=True):
            assert {k: v for k, v in new.items() if k != "resources"} == {
                k: v for k, v in old.items() if k != "resources"
            }
            assert new.get("resources", {}).get("claims") == old.get("resources", {}).get("claims")
    assert (
        obj["metadata"].get("labels", {}).items() - {(QOS, v) for v in ("LS", "LSR", "odd")}
        <= after["metadata"]["labels"].items()
    )


names = st.sampled_from(["a", "b", "c", "d"])
some_names = st.lists(names, min_size=1, max_size=2, unique=True)


def items(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    search_strategy = st.fixed_dictionaries({"name": names}, optional=fields)
    return st.lists(search_strategy, max_size=3, unique_by=lambda item: item["name"])


env = items(value=st.sampled_from(["1", "2"]))
changed_env = items(**{"value": st.just("3"), "$patch": st.just("delete")})
command = st.sampled_from([["x"], ["y", "z"]])
selectors = st.sampled_from([None, {"x": "p"}, {"x": None}, {"$patch": "replace", "z": "1"}])


@st.composite
def merges(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod and a patch that makes sense for it."""
    present = draw(items(env=env, command=command))
    metadata = {"labels": draw(texts), "finalizers": draw(st.lists(names, max_size=3, unique=True))}
    spec = {"containers": present, "nodeSelector": draw(texts), "tolerations": [{"key": "k"}]}
    meta_patch: dict[str, Any] = {"labels": draw(st.dictionaries(names, st.sampled_from(["p", None]), max_size=2))}
    if draw(st.booleans()):
        meta_patch["finalizers"] = draw(some_names)
    elif draw(st.booleans()):
        meta_patch["$deleteFromPrimitiveList/finalizers"] = draw(some_names)
    patch: dict[str, Any] = {"nodeSelector": draw(selectors)}
    changed = draw(items(env=changed_env, command=command))
    if changed and present:
        patch["containers"] = changed
        if draw(st.booleans()):
            changed[0]["$patch"] = draw(st.sampled_from(["delete", "replace"]))
    if draw(st.booleans()):
        patch["tolerations"] = [{"key": "other"}]
    return {"metadata": metadata, "spec": spec}, {"metadata": meta_patch, "spec": patch}


@settings(max_examples=150, deadline=None)
@given(merges())
def test_patches_of_profiles_merge_as_the_api_server_merges(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    obj, patch = case
    wanted = strategic.apply(copy.deepcopy(obj), copy.deepcopy(patch), schema_for("", "v1", "Pod"))
    assert merged(obj, patch, POD) == _read_as_a_pod(wanted)


def _read_as_a_pod(value: Any) -> Any:
    """The value without directives that had no target: the server does not read them as fields."""
    if isinstance(value, dict):
        return {key: _read_as_a_pod(item) for key, item in value.items() if not key.startswith("$")}
    return [_read_as_a_pod(item) for item in value] if isinstance(value, list) else value


def test_directives_in_what_was_not_there_leave_no_field_behind() -> None:
    patch = {"spec": {"affinity": {"$retainKeys": ["nodeAffinity"], "nodeAffinity": {}}, "$setElementOrder/x": []}}
    assert merged({"spec": {}}, patch, POD) == {"spec": {"affinity": {"nodeAffinity": {}}}}


def test_lists_of_fields_that_nobody_listed_are_replaced() -> None:
    obj = {"spec": {"newField": [{"a": 1}], "newMap": {"kept": {"x": 1}, "list": [1]}}}
    patch = {"spec": {"newField": [{"b": 2}], "newMap": {"kept": {"y": 2}, "list": [2]}}}
    assert merged(obj, patch, POD) == {
        "spec": {"newField": [{"b": 2}], "newMap": {"kept": {"x": 1, "y": 2}, "list": [2]}}
    }


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def spoilt(draw: st.DrawFn, whole: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """An object in which something, somewhere, is anything."""
    obj = copy.deepcopy(draw(whole))
    for _ in range(draw(st.integers(1, 3))):
        place: Any = obj
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            below = place[key]
            if not isinstance(below, dict | list) or not below or draw(st.booleans()):
                place[key] = draw(ANYTHING)
                break
            place = below
    return obj


nodes = st.just(
    {
        "metadata": {
            "name": "n1",
            "labels": {"pool": "a"},
            "annotations": {
                "node.koordinator.sh/resource-amplification-ratio": '{"cpu":2}',
                "node.koordinator.sh/raw-allocatable": '{"cpu":"1"}',
            },
        },
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}},
    }
)
reservations = st.just(
    {
        "metadata": {"name": "r", "labels": {"app": "web"}, "annotations": {"a": "b"}},
        "spec": {
            "template": {"metadata": {}, "spec": {"containers": [{"name": "c"}]}},
            "owners": [{"labelSelector": {}}],
        },
    }
)
config_maps = st.just(
    {
        "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
        "data": {"colocation-config": '{"enable":true,"nodeConfigs":[{"nodeSelector":{"matchLabels":{"a":"b"}}}]}'},
    }
)
EVERY_RULE = "AllAlpha=true,DisableExtendedResourceSpec=false,DisableDeviceResourceSpec=false"
CASES = {"pods": pods(), "nodes": nodes, "reservations": reservations, "configmaps": config_maps}


@settings(max_examples=150, deadline=None)
@given(st.data(), profiles(), st.sampled_from(sorted(CASES)), st.sampled_from(["CREATE", "UPDATE"]))
def test_whatever_is_sent_is_answered(
    data: st.DataObject, given_: list[dict[str, Any]], resource: str, how: Any
) -> None:
    obj, old = data.draw(spoilt(CASES[resource])), data.draw(CASES[resource])
    what = known(*given_, trees=TREES, slo_config={"colocation-config": "{}"}, node_labels={"n1": {"a": "b"}})
    for subresource in ("", "status"):
        request = Request(how, resource, object=obj, old=old, subresource=subresource, uid="u")
        answer = admit(request, what, gates(EVERY_RULE))
        assert answer.allowed or answer.message
        assert json_patch.same(json_patch.apply(obj, list(answer.patch)), dict(answer.object or {}))
