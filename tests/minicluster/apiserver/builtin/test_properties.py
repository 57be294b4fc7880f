"""What holds of every object, however odd: nothing that a client sends makes a strategy fail."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import decode
from koord.api.protocol.priority import compute_kube_qos
from koord_minicluster.apiserver import tables
from koord_minicluster.apiserver.bodies import typed
from koord_minicluster.apiserver.builtin.pod_qos import qos_class
from tests.minicluster.apiserver.builtin import ours
from tests.minicluster.apiserver.builtin.case import Obj
from tests.minicluster.apiserver.builtin.record import DATA
from tests.minicluster.apiserver.builtin.tables_of_cases import TABLES

OBJECTS: list[Obj] = [
    answer["object"]
    for name in TABLES
    for answer in json.loads((DATA / f"builtin_{name}.json").read_text())["answers"].values()
    if "object" in answer
] + [row["object"] for row in json.loads((DATA / "builtin_tables.json").read_text())["rows"].values()]
ODD: tuple[Any, ...] = (None, "", [], {}, 0, -1, 2**31 - 1, True, "..", "a b", "100%", "1Gi", "é" * 300, [{}], {"": ""})


def paths(value: Any, before: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [before] if before else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths(item, (*before, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            found += paths(item, (*before, i))
    return found


@st.composite
def mangled(draw: st.DrawFn) -> Obj:
    """A good object with some of its fields taken away or replaced."""
    obj: Obj = copy.deepcopy(draw(st.sampled_from(OBJECTS)))
    for _ in range(draw(st.integers(0, 3))):
        where = [path for path in paths(obj) if path[0] not in ("kind", "apiVersion")]
        if not where:
            break
        path = draw(st.sampled_from(where))
        parent = obj
        for part in path[:-1]:
            parent = parent[part]  # type: ignore[index] # a path leads through lists too
        if draw(st.booleans()):
            parent[path[-1]] = copy.deepcopy(draw(st.sampled_from(ODD)))  # type: ignore[index]
        else:
            del parent[path[-1]]  # type: ignore[arg-type]
    return obj


@settings(max_examples=1500)
@given(mangled())
def test_any_object_of_the_right_types_is_taken_or_refused(obj: Obj) -> None:
    resource = ours.resource_of(obj)
    obj.setdefault("metadata", {})
    try:
        new, _, _ = ours.create(resource, obj)
    except typed.Mistyped:
        return
    resource.strategy.fields(new)
    tables.table(resource, [new], 0.0)
    for subresource in ("", "status"):
        ours.update(resource, new, copy.deepcopy(new), subresource)


@settings(max_examples=600)
@given(mangled())
def test_defaults_change_nothing_the_second_time(obj: Obj) -> None:
    resource = ours.resource_of(obj)
    try:
        once = ours.read(resource, obj)
    except typed.Mistyped:
        return
    twice = copy.deepcopy(once)
    resource.strategy.default(twice)
    assert twice == once


@given(st.sampled_from(OBJECTS))
def test_a_stored_object_is_valid_and_stays_as_it_is(obj: Obj) -> None:
    resource = ours.resource_of(obj)
    stored = ours.read(resource, obj)
    again = ours.read(resource, stored)
    assert again == stored


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu"]), st.sampled_from(["0", "1", "2", "500m"])
)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})


@given(st.lists(RESOURCES, min_size=1, max_size=3), st.lists(RESOURCES, max_size=2))
def test_the_qos_class_is_the_one_that_the_typed_words_compute(containers: list[Obj], inits: list[Obj]) -> None:
    spec = {
        "containers": [{"name": f"c{i}", "resources": container} for i, container in enumerate(containers)],
        "initContainers": [{"name": f"i{i}", "resources": each} for i, each in enumerate(inits)],
    }
    pod = decode(Pod, json.dumps({"metadata": {"name": "p"}, "spec": spec}))
    assert qos_class(spec) == compute_kube_qos(pod.spec)
