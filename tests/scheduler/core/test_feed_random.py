"""Whatever happens, and in whatever order it arrives: in the end the state is what the API server says.

A small API server of dictionaries; its changes come to the feed kind by kind, late, and interleaved at will, while
decisions are made and bound. In the end everything is heard, and the state is compared with one fed from scratch.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api import kinds
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.scheduler.core.decision import Bind, Broken, Decision, Nowhere
from koord.scheduler.core.entity import Where
from koord_chaos.stories.dice import Dice
from tests.scheduler.core.build import Fed, changed, deleting, finished, node, picture, pod

PODS = ("a", "b", "c", "d", "e")
NODES = ("n1", "n2", "n3")
CPU = 3


@dataclass
class Api:
    """What the API server has, and what of it has not been heard."""

    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    unheard_pods: deque[tuple[str, Pod]] = field(default_factory=deque)
    unheard_nodes: deque[tuple[str, Node]] = field(default_factory=deque)
    bound: dict[str, list[str]] = field(default_factory=dict)
    "Every binding that took effect, by uid."
    uids: count[int] = field(default_factory=lambda: count(1))

    def put_pod(self, given: Pod) -> None:
        self.pods[given.metadata.name] = given
        self.unheard_pods.append(("put", given))

    def drop_pod(self, name: str) -> None:
        self.unheard_pods.append(("drop", self.pods.pop(name)))

    def bind(self, name: str, uid: str, to: str) -> bool:
        """As the API server does: once, only for that pod, not for one that is being deleted; to any name of a node."""
        known = self.pods.get(name)
        if known is None or known.metadata.uid != uid or known.spec.node_name or known.metadata.deletion_timestamp:
            return False
        self.put_pod(changed(known, node_name=to))
        self.bound.setdefault(uid, []).append(to)
        return True


class Story:
    def __init__(self) -> None:
        self.api, self.fed = Api(), Fed()
        self.under_way: list[Bind] = []
        self.foreign = False

    def do(self, what: str, number: int) -> None:
        getattr(self, f"_{what}")(number)

    def _create(self, number: int) -> None:
        name = PODS[number % len(PODS)]
        if name not in self.api.pods:
            uid, cpu = f"{name}-{next(self.api.uids)}", str(1 + number % 2)
            self.api.put_pod(pod(name, uid=uid, cpu=cpu, priority=number % 3))

    def _delete(self, number: int) -> None:
        name = PODS[number % len(PODS)]
        if name in self.api.pods:
            self.api.drop_pod(name)

    def _mark(self, number: int) -> None:
        known = self.api.pods.get(PODS[number % len(PODS)])
        if known is not None and not known.metadata.deletion_timestamp:
            self.api.put_pod(deleting(known))

    def _finish(self, number: int) -> None:
        known = self.api.pods.get(PODS[number % len(PODS)])
        if known is not None and known.spec.node_name:
            self.api.put_pod(finished(known))

    def _label(self, number: int) -> None:
        known = self.api.pods.get(PODS[number % len(PODS)])
        if known is not None:
            new = changed(known)
            self.api.put_pod(replace(new, metadata=replace(new.metadata, labels={"n": str(number)})))

    def _snatch(self, number: int) -> None:
        """Somebody else binds a pod."""
        known = self.api.pods.get(PODS[number % len(PODS)])
        if known is not None and self.api.bind(known.metadata.name, known.metadata.uid, NODES[number % len(NODES)]):
            self.foreign = True

    def _node(self, number: int) -> None:
        name = NODES[number % len(NODES)]
        if name in self.api.nodes and number % 2:
            self.api.unheard_nodes.append(("drop", self.api.nodes.pop(name)))
        else:
            new = node(name, cpu=str(CPU), labels={"n": str(number)})
            self.api.nodes[name] = new
            self.api.unheard_nodes.append(("put", new))

    def _hear_pods(self, number: int) -> None:
        for _ in range(min(number % 3 + 1, len(self.api.unheard_pods))):
            what, thing = self.api.unheard_pods.popleft()
            self.fed.put(thing) if what == "put" else self.fed.delete(thing)
            assert_sound(self)

    def _hear_nodes(self, number: int) -> None:
        for _ in range(min(number % 3 + 1, len(self.api.unheard_nodes))):
            what, thing = self.api.unheard_nodes.popleft()
            self.fed.put(thing) if what == "put" else self.fed.delete(thing)
            assert_sound(self)

    def _relist(self, number: int) -> None:
        """A gap: what was missed comes as the difference to the present state."""
        self.api.unheard_pods.clear()
        relist = self.fed.pods.relist()
        for each in self.api.pods.values():
            for delta in relist.put(each):
                self.fed.hear(kinds.PODS, delta)
        for delta in relist.finish():
            self.fed.hear(kinds.PODS, delta)

    def _decide(self, number: int) -> None:
        self.fed.clock.advance(number % 4)
        self._take(self.fed.step())
        assert_sound(self)

    def _take(self, decision: Decision | None) -> None:
        assert not isinstance(decision, Broken), decision
        if isinstance(decision, Bind):
            self.under_way.append(decision)
        elif isinstance(decision, Nowhere):
            for key in decision.remedy.victims:
                # Who has to go is deleted by name; another one of that name may be there by then, and stays.
                name, record = key.partition("/")[2], self.fed.feed.cluster.pods[key][0]
                if name in self.api.pods and self.api.pods[name].metadata.uid == record.uid:
                    self.api.drop_pod(name)

    def _carry_out(self, number: int) -> None:
        """A binding gets its answer. With `number` odd the call never reached the server."""
        if not self.under_way:
            return
        bind = self.under_way.pop(number // 2 % len(self.under_way))
        feed, meta = self.fed.feed, bind.ask.meta
        if feed.stands(bind.ask, bind.node) is None or number % 2:
            feed.let_go(bind.ask)
            feed.queue.failed(bind.attempt, self.fed.clock.monotonic())
        elif self.api.bind(meta.name, meta.uid, bind.node):
            feed.queue.done(bind.attempt)
        else:
            known = self.api.pods.get(meta.name)
            feed.let_go(bind.ask)
            if known is not None and known.metadata.uid == meta.uid and not known.spec.node_name:
                feed.queue.failed(bind.attempt, self.fed.clock.monotonic())
            else:
                feed.queue.done(bind.attempt)

    def settle(self) -> None:
        """Everything is heard and decided; nothing new comes."""
        for _ in range(60):
            while self.api.unheard_nodes:
                self._hear_nodes(0)
            while self.api.unheard_pods:
                self._hear_pods(0)
            while self.under_way:
                self._carry_out(0)
            self.fed.clock.advance(11)
            decision = self.fed.step()
            self._take(decision)
            if decision is None and not self.api.unheard_pods:
                return
        raise AssertionError("it does not come to rest")


def assert_sound(story: Story) -> None:
    """At any time: no pod is both placed and ready to be placed, and no pod that fits waits for something to happen."""
    feed = story.fed.feed
    for attempt in feed.queue:
        if attempt.where is not Where.IN_FLIGHT:
            assert attempt.entity.key not in feed.cluster.pods, attempt.entity.key
        if attempt.where is Where.UNSCHEDULABLE:
            (ask,) = attempt.entity.pods
            engine = feed.engine_of(ask)
            assert engine is not None
            with feed.cluster.nominations.without(ask.key):
                assert engine.class_of(ask).best() is None, f"{ask.key} would fit, and is not tried"


STEPS = (
    "create",
    "delete",
    "mark",
    "finish",
    "label",
    "node",
    "hear_pods",
    "hear_nodes",
    "relist",
    "decide",
    "carry_out",
)
BUSY = (*("create", "hear_pods", "decide") * 2, "carry_out", "delete", "mark", "finish", "node", "hear_nodes", "snatch")
"Mostly what makes nodes full and empty again."


def check(steps: list[tuple[str, int]]) -> None:
    story = Story()
    for what, number in steps:
        story.do(what, number)
    story.settle()
    api, feed = story.api, story.fed.feed
    fresh = Fed()
    fresh.put(*api.nodes.values(), *api.pods.values())
    assert picture(feed.cluster) == picture(fresh.feed.cluster)
    assert not feed.assumed
    assert not len(feed.cluster.nominations), "no pod is promised what will not come"
    assert story.fed.waiting == fresh.waiting
    for uid, places in api.bound.items():
        assert len(places) == 1, (uid, places)
    for waiting in api.pods.values():
        if feed.is_ours(waiting):
            assert waiting.metadata.key in story.fed.waiting, "lost"
            tried = fresh.step()
            assert isinstance(tried, Nowhere), "it would fit, and is not tried"
            assert tried.remedy.node is None, "room would be made for it, and is not"
    if not story.foreign:
        for name, row in feed.cluster.table.row_of.items():
            assert int(feed.cluster.table.columns[("requested", "cpu")][row]) <= CPU * 1000, name


NUMBERS = st.integers(0, 23)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), NUMBERS), max_size=60))
def test_in_the_end_the_state_is_what_the_api_server_says(steps: list[tuple[str, int]]) -> None:
    check([("node", 0), ("node", 2), *steps])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
@example(35)
@example(59)
@example(62)
def test_likewise_while_nodes_are_full_most_of_the_time(seed: int) -> None:
    dice = Dice(seed)
    steps = [(dice.one(BUSY), dice.integer(0, 23)) for _ in range(dice.integer(20, 100))]
    check([("node", 0), ("hear_nodes", 0), *steps])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from((*STEPS, "snatch")), NUMBERS), max_size=60))
def test_likewise_where_somebody_else_binds_pods_too(steps: list[tuple[str, int]]) -> None:
    check([("node", 0), ("node", 2), *steps])
