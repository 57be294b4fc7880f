"""Garbage collection on a modelled server: what is left is exactly what still has an owner."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds import CONFIG_MAPS, NODES
from koord.api.kubernetes.meta import ObjectMeta, OwnerReference
from koord_minicluster.controllers.actions import Delete, Patch
from koord_minicluster.controllers.garbage import FOREGROUND, ORPHAN, Ask, Graph, Standing


def meta(name: str, *owners: str, block: bool = True) -> ObjectMeta:
    refs = tuple(
        OwnerReference("v1", "ConfigMap", owner, f"uid-{owner}", block_owner_deletion=block) for owner in owners
    )
    return ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", resource_version="1", owner_references=refs)


@dataclass
class Server:
    """Objects, and a queue of what the graph wants to look at."""

    graph: Graph = field(default_factory=Graph)
    objects: dict[str, ObjectMeta] = field(default_factory=dict)
    queue: list[str] = field(default_factory=list)
    asked: int = 0

    def put(self, obj: ObjectMeta) -> None:
        version = int(self.objects[obj.name].resource_version) + 1 if obj.name in self.objects else 1
        obj = msgspec.structs.replace(obj, resource_version=str(version))
        if obj.deletion_timestamp and not obj.finalizers:
            self.objects.pop(obj.name, None)
            self.queue += self.graph.remove(obj.uid)
            return
        self.objects[obj.name] = obj
        self.queue += self.graph.put(CONFIG_MAPS, obj)

    def delete(self, name: str, policy: str) -> None:
        obj = self.objects[name]
        added = {"Foreground": (FOREGROUND,), "Orphan": (ORPHAN,)}.get(policy, ())
        finalizers = (*obj.finalizers, *(f for f in added if f not in obj.finalizers))
        self.put(msgspec.structs.replace(obj, deletion_timestamp="2026-01-01T00:00:00Z", finalizers=finalizers))

    def run(self) -> None:
        for _ in range(10_000):
            if not self.queue:
                return
            self.look(self.queue.pop(0))
        raise AssertionError("it does not end")

    def look(self, uid: str) -> None:
        answers: dict[str, Standing] = {}
        decision = self.graph.decide(uid, answers)
        if isinstance(decision, Ask):
            self.asked += 1
            for ref in decision.owners:
                there = self.objects.get(ref.name)
                answers[ref.uid] = "solid" if there is not None and there.uid == ref.uid else "absent"
            decision = self.graph.decide(uid, answers)
        assert not isinstance(decision, Ask)
        for action in decision:
            obj = self.objects.get(getattr(action, "name", ""))
            if obj is None:
                continue
            if isinstance(action, Delete):
                self.delete(action.name, action.propagation)
            elif isinstance(action, Patch):
                change = action.body["metadata"]
                if "finalizers" in change:
                    obj = msgspec.structs.replace(obj, finalizers=tuple(change["finalizers"] or ()))
                if "ownerReferences" in change:
                    refs = msgspec.convert(change["ownerReferences"] or [], tuple[OwnerReference, ...])
                    obj = msgspec.structs.replace(obj, owner_references=refs)
                self.put(obj)


names = [f"o{i}" for i in range(8)]
graphs = st.dictionaries(st.sampled_from(names), st.sets(st.sampled_from(names), max_size=3), min_size=1)
policies = st.sampled_from(["Background", "Foreground", "Orphan"])


@settings(max_examples=200)
@given(graphs, st.lists(st.tuples(st.sampled_from(names), policies), max_size=4), st.randoms(use_true_random=False))
def test_what_is_left_has_an_owner_or_never_had_one(
    owners: dict[str, set[str]], deletions: list[tuple[str, str]], order: object
) -> None:
    # An owner is older than what it owns: no object owns itself.
    owners = {name: of - {name} for name, of in owners.items()}
    server = Server()
    for name in sorted(owners, key=lambda n: order.random()):  # type: ignore[attr-defined]
        server.put(meta(name, *sorted(owners[name])))
    server.run()
    expect(server, dict(owners))
    for name, policy in deletions:
        if name in server.objects:
            before = {n: {ref.name for ref in obj.owner_references} for n, obj in server.objects.items()}
            server.delete(name, policy)
            server.run()
            del before[name]
            if policy == "Orphan":
                before = {n: of - {name} for n, of in before.items()}
                free = {n for n in before if not before[n]}
                assert free <= set(server.objects), "orphans stay"
            expect(server, before)


def expect(server: Server, owners: dict[str, set[str]]) -> None:
    """The least set that remains: without owners, or with one that remains; circles keep each other."""
    left = dict(owners)
    while True:
        lost = [n for n, of in left.items() if of and not of & set(left)]
        if not lost:
            break
        for name in lost:
            del left[name]
    assert set(server.objects) == set(left)
    for name, obj in server.objects.items():
        assert not obj.finalizers, f"{name} waits for ever"


def test_an_owner_deleted_in_the_foreground_waits_for_those_that_block_it() -> None:
    server = Server()
    server.put(meta("owner"))
    server.put(meta("blocks", "owner"))
    held = msgspec.structs.replace(meta("held", "owner"), finalizers=("test/hold",))
    server.put(held)
    server.delete("owner", "Foreground")
    server.run()
    assert set(server.objects) == {"owner", "held"}, "the owner goes last"
    server.put(msgspec.structs.replace(server.objects["held"], finalizers=()))
    server.run()
    assert server.objects == {}


def test_a_dependent_that_does_not_block_is_not_waited_for() -> None:
    server = Server()
    server.put(meta("owner"))
    held = msgspec.structs.replace(meta("held", "owner", block=False), finalizers=("test/hold",))
    server.put(held)
    server.delete("owner", "Foreground")
    server.run()
    assert set(server.objects) == {"held"}


def test_an_owner_that_is_known_is_never_asked_for() -> None:
    server = Server()
    server.put(meta("child", "owner"))
    server.put(meta("owner"))
    server.run()
    assert server.asked == 0
    assert set(server.objects) == {"child", "owner"}


def test_an_owner_of_another_namespace_is_no_owner() -> None:
    graph = Graph()
    graph.put(CONFIG_MAPS, msgspec.structs.replace(meta("owner"), namespace="elsewhere"))
    graph.put(CONFIG_MAPS, meta("child", "owner"))
    decision = graph.decide("uid-child", {})
    assert isinstance(decision, Ask)
    assert isinstance(graph.decide("uid-child", {"uid-owner": "absent"})[0], Delete)  # type: ignore[index]


def test_an_owner_without_namespace_reaches_every_namespace() -> None:
    graph = Graph()
    graph.put(NODES, ObjectMeta(name="n", uid="uid-n", resource_version="1"))
    ref = OwnerReference("v1", "Node", "n", "uid-n")
    graph.put(CONFIG_MAPS, msgspec.structs.replace(meta("child"), owner_references=(ref,)))
    assert graph.decide("uid-child", {}) == []


def test_an_owner_of_a_kind_that_nobody_knows_keeps_its_dependents() -> None:
    graph = Graph()
    graph.put(CONFIG_MAPS, meta("child", "owner"))
    assert graph.decide("uid-child", {"uid-owner": "unknowable"}) == []
