"""Random sequences: small random programs, run on both servers, which must answer alike.

Each program works on a few names of one kind, so that its steps meet: what one makes, the next changes, applies over,
deletes, lists and watches.
"""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.minicluster.apiserver.differential.client import Target
from tests.minicluster.apiserver.differential.normal import differences
from tests.minicluster.apiserver.differential.steps import (
    APPS,
    CORE,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Sequence,
    Step,
    apply,
    config_map,
    defined,
    delete,
    deployment,
    get,
    patch,
    pod,
    post,
    put,
    rv,
    watch,
    widget,
)
from tests.minicluster.apiserver.differential.targets import Failed, embedded, real, run_all

pytestmark = pytest.mark.cluster

NAMES = st.sampled_from(["a", "b"])
MANAGERS = st.sampled_from(["first", "second"])
KEYS = st.sampled_from(["x", "y", "z"])
VALUES = st.sampled_from(["1", "2", ""])
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["web", "db"]), max_size=2)
SMALL = st.integers(-1, 3)
_numbers = itertools.count()

EVENTS_ENOUGH = 99
"""More than a program can cause; the watch ends by itself."""

Obj = dict[str, Any]
Answers = dict[str, list[dict[str, Any]] | Failed]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Target, Target]]:
    with ExitStack() as running:
        yield running.enter_context(real()), running.enter_context(embedded())


@st.composite
def config_maps(draw: st.DrawFn) -> tuple[str, Obj]:
    name = draw(NAMES)
    made = config_map(name, draw(st.none() | st.dictionaries(KEYS, VALUES, max_size=3)))
    return name, _labelled(made, draw(LABELS))


@st.composite
def pods(draw: st.DrawFn) -> tuple[str, Obj]:
    name = draw(NAMES)
    requests = draw(
        st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "500m", "1Gi"]), max_size=2)
    )
    container: Obj = {"name": draw(st.sampled_from(["main", "other"])), "image": draw(st.sampled_from(["i:1", "i:2"]))}
    if requests:
        container["resources"] = {"requests": requests}
    spec: Obj = {"containers": [container]}
    if draw(st.booleans()):
        spec["terminationGracePeriodSeconds"] = draw(st.sampled_from([0, 1, 30]))
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": draw(KEYS), "operator": "Exists"}]
    return name, _labelled(pod(name, **spec), draw(LABELS))


@st.composite
def deployments(draw: st.DrawFn) -> tuple[str, Obj]:
    name = draw(NAMES)
    containers = [{"name": each, "image": draw(st.sampled_from(["i:1", "i:2"]))} for each in draw(st.sampled_from([["m"], ["m", "n"], ["n", "m"]]))]  # fmt: skip
    return name, _labelled(deployment(name, draw(st.none() | SMALL), containers=containers), draw(LABELS))


@st.composite
def widgets(draw: st.DrawFn) -> tuple[str, Obj]:
    name = draw(NAMES)
    spec = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "size": SMALL,
                "names": st.lists(KEYS, max_size=3),
                "parts": st.lists(st.fixed_dictionaries({"key": KEYS}, optional={"value": VALUES}), max_size=2),
            },
        )
        # Alone: the real server goes through a map, and stops at the first field that it does not know.
        | st.just({"size": 1, "unknown": 1})
    )
    return name, widget(name, spec=spec)


SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0, "default": 1},
                "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["key"],
                    "items": {
                        "type": "object",
                        "required": ["key"],
                        "properties": {"key": {"type": "string"}, "value": {"type": "string", "default": "d"}},
                    },
                },
            },
        }
    },
}


def _labelled(obj: Obj, labels: dict[str, str]) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}} if labels else obj


def _patches(kind: str) -> st.SearchStrategy[tuple[Any, str]]:
    labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.none() | st.sampled_from(["web", "db"]), max_size=2)
    common = st.builds(lambda values: ({"metadata": {"labels": values}}, MERGE), labels)
    finalizers = st.builds(lambda names: ({"metadata": {"finalizers": names}}, MERGE), st.none() | st.lists(st.sampled_from(["e.com/a", "e.com/b"]), max_size=2, unique=True))  # fmt: skip
    test = st.builds(lambda value: ([{"op": "test", "path": "/metadata/labels/app", "value": value}], JSON_PATCH), st.sampled_from(["web", "db"]))  # fmt: skip
    own: dict[str, st.SearchStrategy[tuple[Any, str]]] = {
        "configmaps": st.builds(lambda data, how: ({"data": data}, how), st.none() | st.dictionaries(KEYS, st.none() | VALUES, max_size=2), st.sampled_from([MERGE, STRATEGIC])),
        "pods": st.builds(lambda image, how: ({"spec": {"containers": [{"name": "main", "image": image}]}}, how), st.sampled_from(["i:1", "i:3"]), st.sampled_from([MERGE, STRATEGIC])),
        "deployments": st.builds(lambda replicas, how: ({"spec": {"replicas": replicas}}, how), st.none() | SMALL, st.sampled_from([MERGE, STRATEGIC])),
        "widgets": st.builds(lambda size: ({"spec": {"size": size}}, MERGE), st.none() | SMALL),
    }  # fmt: skip
    return common | finalizers | test | own[kind]


KINDS: dict[str, tuple[str, st.SearchStrategy[tuple[str, Obj]]]] = {
    "configmaps": (f"{CORE}/configmaps", config_maps()),
    "pods": (f"{CORE}/pods", pods()),
    "deployments": (f"{APPS}/deployments", deployments()),
    "widgets": ("/apis/{{seq}}.example.com/v1/namespaces/{{ns}}/widgets", widgets()),
}


@st.composite
def programs(draw: st.DrawFn, kind: str) -> list[Step]:
    path, objects = KINDS[kind]
    steps: list[Step] = []
    for _ in range(draw(st.integers(3, 8))):
        name, obj = draw(objects)
        one = f"{path}/{name}"
        query = draw(st.sampled_from(["", "", "", "?dryRun=All", "?fieldValidation=Strict"]))
        manager, force = draw(MANAGERS), draw(st.booleans())
        body, how = draw(_patches(kind))
        steps.append(
            draw(
                st.sampled_from(
                    [
                        post(path + query, obj),
                        put(one + query, obj),
                        patch(one + query, body, how),
                        apply(one + query, obj, manager, force),
                        delete(one + ("" if query.endswith("Strict") else query)),
                        get(one),
                        get(f"{path}?labelSelector=app%3Dweb"),
                        get(f"{path}?limit=1"),
                    ]
                )
            )
        )
    start = rv(post(f"{CORE}/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "start"}}), "start")
    selector = draw(st.sampled_from(["", "&labelSelector=app%3Dweb", "&labelSelector=app%21%3Dweb"]))
    seen = watch(f"{path}?resourceVersion={{{{start}}}}&timeoutSeconds=1{selector}", EVENTS_ENOUGH)
    return [start, *steps, get(path), seen]


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    # A program is short already, and each run costs a second.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(data=st.data())
def test_both_servers_answer_alike(kind: str, both: tuple[Target, Target], data: st.DataObject) -> None:
    drawn = data.draw(st.lists(programs(kind), min_size=8, max_size=8), label="programs")
    sequences = [_sequence(kind, steps) for steps in drawn]

    async def run() -> tuple[Answers, Answers]:
        first, second = both
        return await asyncio.gather(run_all(first, sequences, 8), run_all(second, sequences, 8))

    want, got = asyncio.run(run())
    for sequence in sequences:
        _compare(sequence, want[sequence.name], got[sequence.name])


def _sequence(kind: str, steps: list[Step]) -> Sequence:
    before = defined(schema=SCHEMA) if kind == "widgets" else []
    return Sequence(f"generated-{kind}-{next(_numbers)}", (*before, *steps))


def _compare(sequence: Sequence, want: list[dict[str, Any]] | Failed, got: list[dict[str, Any]] | Failed) -> None:
    assert not isinstance(want, Failed), str(want)
    assert not isinstance(got, Failed), str(got)
    for index, (left, right) in enumerate(zip(want, got, strict=True)):
        found = differences(left, right)
        done = "\n".join(f"  {step.method} {step.path} {step.body}" for step in sequence.steps[: index + 1])
        assert not found, f"after\n{done}\nthe servers differ\n" + "\n".join(found)
