"""What objects say at rest is the truth, however late words are written and heard, and whatever writes over them."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import ELASTIC_QUOTAS, NODES, POD_GROUPS, PODS, Kind
from koord.api.machinery.codec import convert, encode
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.api.protocol.crd.pod_group import PodGroup
from koord.scheduler.core.core import Core
from koord.scheduler.core.moment import Moment
from koord.scheduler.framework.pending_statuses import SEEN_WITHIN_S, PendingStatuses
from koord.scheduler.framework.writes import Patch
from koord.scheduler.profiles import profiles_of
from koord_bench.statuses import mistaken
from koord_minicluster.apiserver.patch.merge_patch import apply
from tests.scheduler.builders import node
from tests.scheduler.gangs import pod_group
from tests.scheduler.quotas import quota, team_pod

Key = tuple[Kind[Any], str]


class LateServer:
    """Keeps quotas and PodGroups. Of each object one write is under way at a time, and the newest word waits; what has
    changed arrives later, in order."""

    def __init__(self) -> None:
        self.core = Core(profiles_of(SHIPPED), alone=True)
        self.now_s = 0.0
        self.stored: dict[Key, Any] = {}
        self.words: dict[Key, deque[Patch]] = {}
        self.echoes: deque[tuple[Kind[Any], Any]] = deque()
        self.pods: dict[str, Any] = {}
        self.core.put(NODES, node("n0", cpu="100", memory="100Gi"))

    def make(self, kind: Kind[Any], thing: Any) -> None:
        self.stored[kind, thing.metadata.key] = thing
        self.core.put(kind, thing)

    def tell(self) -> None:
        for write in self.core.take_writes():
            if not isinstance(write, Patch):
                continue
            waiting = self.words.setdefault((write.kind, f"{write.namespace}/{write.name}"), deque())
            while len(waiting) > 1:
                waiting.pop()
            waiting.append(write)

    def write_one(self, *, lose: bool = False) -> None:
        """The server takes the oldest write of a scheduler, or it is lost."""
        key = next((key for key, waiting in self.words.items() if waiting), None)
        if key is None:
            return
        write = self.words[key].popleft()
        self.words[key] = self.words.pop(key)
        if not lose:
            self._store(key, write.body)

    def meddle(self) -> None:
        """Somebody else has an object say something."""
        for key in self.stored:
            if key[0] is POD_GROUPS:
                self._store(key, {"status": {"scheduled": 7}})
            elif key[1] == "teams/a":
                self._store(key, {"status": {"used": {"cpu": "77"}}})

    def hear_one(self) -> None:
        if self.echoes:
            self.core.put(*self.echoes.popleft())

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.core.at(Moment(self.now_s, self.now_s))

    def _store(self, key: Key, body: Any) -> None:
        data = apply(json.loads(encode(self.stored[key])), body)
        type_ = ElasticQuota if key[0] is ELASTIC_QUOTAS else PodGroup
        self.stored[key] = convert(type_, data)
        self.echoes.append((key[0], self.stored[key]))

    def pod(self, number: int, on: str, team: str) -> None:
        pod = team_pod(f"p{number}", team, on=on, phase="Running" if on else "Pending")
        labels = {**pod.metadata.labels, names.LABEL_POD_GROUP: "train"}
        pod = replace(pod, metadata=replace(pod.metadata, labels=labels))
        self.core.put(PODS, pod, self.pods.get(pod.metadata.key))
        self.pods[pod.metadata.key] = pod

    def no_pod(self, number: int) -> None:
        pod = self.pods.pop(f"shop/p{number}", None)
        if pod is not None:
            self.core.removed(PODS, pod)

    def wrong(self) -> list[str]:
        found: dict[Kind[Any], list[Any]] = {kind: [] for kind in (NODES, ELASTIC_QUOTAS, POD_GROUPS, PODS)}
        found[NODES] = [node("n0", cpu="100", memory="100Gi")]
        for (kind, _), thing in self.stored.items():
            found[kind].append(thing)
        found[PODS] = list(self.pods.values())
        return list(mistaken(found))


STEPS: dict[str, Callable[[LateServer, int], None]] = {
    "waits": lambda server, i: server.pod(i, "", "a"),
    "runs": lambda server, i: server.pod(i, "n0", "a"),
    "runs elsewhere": lambda server, i: server.pod(i, "n0", "b"),
    "goes": lambda server, i: server.no_pod(i),
    "tell": lambda server, i: server.tell(),
    "write": lambda server, i: server.write_one(),
    "lose": lambda server, i: server.write_one(lose=True),
    "hear": lambda server, i: server.hear_one(),
    "meddle": lambda server, i: server.meddle(),
    "pause": lambda server, i: server.wait(0.6),
}


def _at_rest(server: LateServer) -> None:
    for _ in range(12):
        server.wait(1.0)
        server.tell()
        while any(server.words.values()):
            server.write_one()
        while server.echoes:
            server.hear_one()


def _world() -> LateServer:
    server = LateServer()
    server.make(ELASTIC_QUOTAS, quota("top", "0", "100", is_parent=True))
    for name in ("a", "b"):
        server.make(ELASTIC_QUOTAS, quota(name, "0", "100", parent="top"))
    server.make(POD_GROUPS, pod_group(least=2))
    return server


def test_a_word_that_is_written_after_the_truth_came_back_is_put_right() -> None:
    server = _world()
    _at_rest(server)
    server.pod(0, "n0", "a")
    server.wait(1)
    server.tell()
    # Before that is written, the pod is gone: objects are heard to say what is true again.
    server.no_pod(0)
    server.wait(1)
    server.tell()
    _at_rest(server)
    assert server.wrong() == []


def test_parts_of_a_word_that_was_overtaken_are_written_again() -> None:
    server = _world()
    _at_rest(server)
    server.pod(0, "n0", "a")
    server.wait(1)
    server.tell()
    server.no_pod(0)
    server.wait(1)
    server.tell()
    server.pod(0, "", "a")
    server.wait(1)
    server.tell()
    _at_rest(server)
    assert server.wrong() == []


@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 3)), max_size=40))
@settings(max_examples=25)
def test_whatever_is_late_or_lost_the_last_word_is_true(steps: list[tuple[str, int]]) -> None:
    server = _world()
    for step, i in steps:
        STEPS[step](server, i)
    _at_rest(server)
    assert server.wrong() == []


def test_a_word_that_is_not_heard_is_lost_after_a_while_and_the_next_one_counts_anew() -> None:
    words = PendingStatuses[str]()
    words.sent("a", "1", "x", 0.0)
    words.sent("b", "1", "x", 1.0)
    words.sent("a", "1", "y", 2.0)
    assert (words.last("a", "1"), words.last("a", "2"), words.next_s()) == ("y", None, 1.0 + SEEN_WITHIN_S)
    assert words.take_lost(1.0 + SEEN_WITHIN_S) == ["b"]
    words.heard("a")
    assert (len(words), words.next_s(), words.take_lost(100.0)) == (0, None, [])
