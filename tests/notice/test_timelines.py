"""Notice over random times: evictors that restart, two at once, stale reads, clocks that step, pods that are ready."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.eviction_notice import Asker, Go, Tell, decide, is_ready, withdrawal
from tests.notice.build import AGENT, DESCHEDULER, SCHEDULER, START_S, Stale, annotated, patched, pod

NOTICE_S = 30.0
PERIOD_S = 1.0
ASKERS = (SCHEDULER, DESCHEDULER, AGENT)
BOUND_S = {AGENT: 10.0}

happening = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(ASKERS), st.booleans()),
    st.tuples(st.just("withdraw"), st.sampled_from(ASKERS), st.booleans()),
    st.tuples(st.just("pass"), st.sampled_from([0.3, 1.0, 5.0, 12.0]), st.none()),
    st.tuples(st.just("ready"), st.none(), st.none()),
)


@dataclass
class World:
    """A pod on its server, with the version before, which a slow reader still sees."""

    now_s: float = START_S
    pod: Pod = field(default_factory=lambda: pod("30s"))
    before: Pod = field(default_factory=lambda: pod("30s"))
    asked_s: dict[Asker, float] = field(default_factory=dict)
    "Since when each asker has wanted the pod gone without a break."
    told: list[Asker] = field(default_factory=list)
    gone: bool = False

    def put(self, new: Pod) -> None:
        self.before, self.pod = self.pod, new

    def ask(self, asker: Asker, is_stale: bool) -> None:
        """As `koord.kube.eviction_notice` does: on a conflict, the pod is read again."""
        for seen in (self.before if is_stale else self.pod, self.pod):
            verdict = decide(seen, asker, self.now_s, BOUND_S.get(asker, 3600.0))
            if isinstance(verdict, Go):
                self.go()
                return
            if not isinstance(verdict, Tell):
                return
            try:
                self.put(patched(self.pod, verdict.patch))
            except Stale:
                continue
            self.asked_s.setdefault(asker, self.now_s)
            if verdict.is_new:
                self.told.append(asker)
            return

    def withdraw(self, asker: Asker, is_stale: bool) -> None:
        for seen in (self.before if is_stale else self.pod, self.pod):
            patch = withdrawal(seen, asker, self.now_s)
            if patch is None:
                if seen is self.pod:
                    return
                continue
            try:
                self.put(patched(self.pod, patch))
            except Stale:
                continue
            self.asked_s.pop(asker, None)
            self.told = [each for each in self.told if each is not asker]
            return

    def go(self) -> None:
        waited = [
            self.now_s - since_s >= min(NOTICE_S, BOUND_S.get(asker, NOTICE_S))
            for asker, since_s in self.asked_s.items()
        ]
        assert any(waited) or is_ready(self.pod.metadata), "it went before its deadline, and had not said that it could"
        self.gone = True


@settings(max_examples=50, deadline=None)
@given(st.lists(happening, max_size=40))
def test_nobody_goes_before_the_deadline_and_nobody_is_told_twice(story: list[tuple[str, object, object]]) -> None:
    world = World()
    for what, which, is_stale in story:
        if world.gone:
            break
        match what, which:
            case "ask", Asker() as asker:
                world.ask(asker, bool(is_stale))
            case "withdraw", Asker() as asker:
                world.withdraw(asker, bool(is_stale))
            case "pass", float(time_s):
                world.now_s += time_s
            case _:
                world.put(annotated(world.pod))
    assert len(set(world.told)) == len(world.told)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(ASKERS), min_size=1, max_size=3, unique=True),
    st.lists(st.tuples(st.booleans(), st.floats(0.1, PERIOD_S)), min_size=60, max_size=60),
    st.integers(0, 40),
    st.sampled_from([0.0, -7200.0, -20.0]),
)
def test_as_long_as_somebody_asks_a_pod_is_gone_one_period_after_its_deadline(
    askers: list[Asker], rounds: list[tuple[bool, float]], step_at: int, step_s: float
) -> None:
    """The evictors come again and again and remember nothing, which is what restarts amount to. A clock that is set
    back begins the wait again, and no more."""
    world, waited_s = World(), 0.0
    for number, (is_stale, passes_s) in enumerate(rounds * 2):
        if number == step_at and step_s:
            world.now_s += step_s
            world.asked_s = dict.fromkeys(world.asked_s, world.now_s)
            waited_s = 0.0
        for asker in askers:
            if not world.gone:
                world.ask(asker, is_stale)
        if world.gone:
            return
        world.now_s += passes_s
        waited_s += passes_s
        # A deadline is a whole second.
        assert waited_s <= NOTICE_S + 1.0 + 2 * PERIOD_S
