"""The store equals a model under any history, and its deltas tell that history exactly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from koord.kube.store import Delta, Identity, Store

KEYS = st.sampled_from([f"ns{n}/{name}" for n in range(2) for name in "abcdef"])
TAGS = st.frozensets(st.sampled_from("xyz"))


@dataclass(frozen=True)
class Thing:
    key: str
    uid: str
    version: int
    tags: frozenset[str] = frozenset()


def identity(thing: Thing) -> Identity:
    return thing.key, thing.uid, str(thing.version)


def by_tag(thing: Thing) -> Iterable[str]:
    return sorted(thing.tags)


def by_namespace(thing: Thing) -> Iterable[str]:
    return (thing.key.split("/")[0],)


def store(*things: Thing) -> Store[Thing]:
    made = Store(identity, {"tag": by_tag, "namespace": by_namespace})
    for thing in things:
        made.put(thing)
    return made


A1 = Thing("ns/a", "uid-a", 1, frozenset("x"))
A2 = replace(A1, version=2, tags=frozenset("y"))
OTHER_A = Thing("ns/a", "uid-other", 3)
B1 = Thing("ns/b", "uid-b", 1)


def test_what_is_new_is_added_and_what_has_another_version_is_updated() -> None:
    s = store()
    assert s.put(A1) == (Delta("ns/a", None, A1),)
    (delta,) = s.put(A2)
    assert (delta.type, delta.old, delta.new) == ("updated", A1, A2)


def test_the_same_version_again_is_no_change() -> None:
    assert store(A1).put(A1) == ()


def test_another_object_of_the_same_name_is_a_deletion_and_an_addition() -> None:
    s = store(A1)
    assert [(d.type, d.old, d.new) for d in s.put(OTHER_A)] == [("deleted", A1, None), ("added", None, OTHER_A)]
    assert s.get("ns/a") is OTHER_A
    assert s.by_index("tag", "x") == []


def test_a_deletion_gives_back_what_was_known() -> None:
    s = store(A1)
    assert s.delete("ns/a") == (Delta("ns/a", A1, None),)
    assert s.delete("ns/a") == ()


def test_a_relist_yields_exactly_the_differences() -> None:
    c1 = Thing("ns/c", "uid-c", 1)
    s = store(A1, B1)
    relist = s.relist()
    deltas = [*relist.put(A2), *relist.put(c1), *relist.finish()]
    assert [(d.type, d.key) for d in deltas] == [("updated", "ns/a"), ("added", "ns/c"), ("deleted", "ns/b")]


def test_a_relist_that_is_dropped_half_way_deletes_nothing() -> None:
    s = store(A1, B1)
    s.relist().put(A2)
    assert {thing.key for thing in s.records()} == {"ns/a", "ns/b"}


def test_an_object_that_the_relist_could_not_read_keeps_its_last_record() -> None:
    s = store(A1, B1)
    relist = s.relist()
    relist.keep("ns/a")
    assert [d.key for d in relist.finish()] == ["ns/b"]


def test_a_relist_copies_no_records() -> None:
    s = store(*(Thing(f"ns/{i}", f"u{i}", 1) for i in range(100)))
    known = {id(thing) for thing in s.records()}
    relist = s.relist()
    for i in range(100):
        relist.put(Thing(f"ns/{i}", f"u{i}", 1))
    assert list(relist.finish()) == []
    assert {id(thing) for thing in s.records()} == known


def test_a_late_index_covers_what_is_there() -> None:
    s = store(A1, B1)
    s.add_index("uid", lambda thing: (thing.uid,))
    assert s.by_index("uid", "uid-b") == [B1]


def test_an_index_name_means_one_function() -> None:
    s = store()
    s.add_index("tag", by_tag)
    with pytest.raises(ValueError, match="tag"):
        s.add_index("tag", by_namespace)


def test_an_index_function_that_fails_leaves_the_store_as_it_was() -> None:
    def picky(thing: Thing) -> Iterable[str]:
        if thing.version == 2:
            raise ValueError("no")
        return (thing.uid,)

    s = store(A1)
    s.add_index("picky", picky)
    with pytest.raises(ValueError, match="no"):
        s.put(A2)
    assert s.get("ns/a") is A1
    assert s.by_index("tag", "x") == [A1]
    assert s.by_index("picky", "uid-a") == [A1]


class StoreFollowsAnyHistory(RuleBasedStateMachine):
    """A server's truth, a store that hears of it by events, gaps and relists, and a reader of the deltas alone."""

    def __init__(self) -> None:
        super().__init__()
        self.truth: dict[str, Thing] = {}
        self.store = store()
        self.replayed: dict[str, Thing] = {}
        self.version = 0
        self.uids = 0
        self.gap = False

    def hear(self, deltas: Iterable[Delta[Thing]]) -> None:
        for delta in deltas:
            assert self.replayed.get(delta.key) == delta.old, "a delta must start from what was last told"
            if delta.new is None:
                del self.replayed[delta.key]
            else:
                assert delta.new != delta.old, "no change must give no delta"
                assert delta.old is None or delta.old.uid == delta.new.uid
                self.replayed[delta.key] = delta.new

    @rule(key=KEYS, tags=TAGS)
    def create_or_update(self, key: str, tags: frozenset[str]) -> None:
        self.version += 1
        old = self.truth.get(key)
        if old is None:
            self.uids += 1
            thing = Thing(key, f"uid{self.uids}", self.version, tags)
        else:
            thing = replace(old, version=self.version, tags=tags)
        self.truth[key] = thing
        if not self.gap:
            self.hear(self.store.put(thing))

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        if self.truth.pop(key, None) and not self.gap:
            self.hear(self.store.delete(key))

    @rule()
    def lose_the_stream(self) -> None:
        self.gap = True

    @rule(seen=st.integers(0, 12))
    def relist_breaks_off(self, seen: int) -> None:
        relist = self.store.relist()
        for thing in list(self.truth.values())[:seen]:
            self.hear(relist.put(thing))

    @rule(backwards=st.booleans())
    def relist_completes(self, backwards: bool) -> None:
        listed = sorted(self.truth.values(), key=lambda thing: thing.key, reverse=backwards)
        relist = self.store.relist()
        for thing in listed:
            self.hear(relist.put(thing))
        self.hear(relist.finish())
        self.gap = False

    @invariant()
    def deltas_replayed_give_the_store(self) -> None:
        assert self.replayed == {key: self.store.get(key) for key in self.store}

    @invariant()
    def without_a_gap_the_store_is_the_truth(self) -> None:
        if not self.gap:
            assert {thing.key: thing for thing in self.store.records()} == self.truth

    @invariant()
    def indexes_equal_their_recomputation(self) -> None:
        for name, function in (("tag", by_tag), ("namespace", by_namespace)):
            expected: dict[str, set[str]] = {}
            for thing in self.store.records():
                for index_key in function(thing):
                    expected.setdefault(index_key, set()).add(thing.key)
            found = {k: {thing.key for thing in self.store.by_index(name, k)} for k in self.store.index_keys(name)}
            assert found == expected


TestStoreFollowsAnyHistory = StoreFollowsAnyHistory.TestCase
TestStoreFollowsAnyHistory.settings = settings(max_examples=60, stateful_step_count=40)
