"""From windows to actions: the pod that is named, what is done, one thing at a time, and undone if it did not help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koord.agent.interference.control import HELD_FOR, LEAST_MILLI, SPARED_S, UNSEEN_FOR, Outcome, OwnMeans, Standing
from koord.agent.interference.culprits import Candidate, correlation, score, suspects
from koord.agent.interference.episode import HeldBy, Step
from koord.agent.interference.signals import Dimension, Signal
from koord.agent.interference.story import sentence
from koord.agent.interference.suffering import Compared, compared
from koord.agent.interference.window import PodWindow
from tests.agent.interference.nodes import BATCH, SERVICE, WINDOW_S, Story

QUIET = {"web": 300.0, "build": 10.0, "idle": 5.0}
BUSY = {"web": 300.0, "build": 1900.0, "idle": 5.0}


def story(**given: object) -> Story:
    return Story({"web": SERVICE, "build": BATCH, "idle": BATCH}, **given)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize(
    ("direct", "rise", "together", "is_offline", "expected"),
    [
        (0.7, 3.2, 0.8, False, 0.5 * 0.7 + 0.3 * 0.8 + 0.2 * 0.8),  # .35 + .24 + .16 = .75
        (None, 3.2, 0.8, False, 0.6 * 0.8 + 0.4 * 0.8),  # .48 + .32 = .80
        (None, 9.0, 1.0, True, 1.2),  # the rise counts up to 4 deviations
        (0.0, -3.0, -1.0, True, 0.0),
    ],
)
def test_a_score_is_made_of_three_parts(
    direct: float | None, rise: float, together: float, is_offline: bool, expected: float
) -> None:
    assert score(direct, rise, together, is_offline=is_offline) == pytest.approx(expected)


def test_a_neighbour_that_was_busy_two_windows_earlier_still_correlates() -> None:
    use = [0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    victim = [0.0, 0.0, *use[:-2]]
    assert correlation(victim, use) == pytest.approx(1.0)
    assert correlation(use, victim) < 0.9, "what comes after the suffering did not cause it"


def test_two_neighbours_that_rise_alike_are_unclear() -> None:
    victim, is_slow = [0.5] * 8 + [5.0] * 3, [False] * 8 + [True] * 3
    both = [Candidate(name, [10.0] * 8 + [900.0] * 3, is_offline=False) for name in ("a", "b")]
    found = suspects(Dimension.CPU, victim, is_slow, both)
    assert len(found.listed) == 2
    assert found.culprit is None


def test_a_spinner_is_named_within_three_windows_and_held_back() -> None:
    node = story()
    node.calm()
    for window in range(3):
        assert not node.findings, f"{window} windows are not enough"
        node.window({"web": 5.0}, BUSY)
    assert node.steps == [(Step.SLOWED, ""), (Step.HELD_BACK, "build")]
    assert node.held("build")[0].milli == 475, "a quarter of 1900"
    assert node.findings[-1].episode.times == pytest.approx(10.0, rel=0.1)


@pytest.mark.parametrize(
    ("signal", "steps"),
    [
        (Signal.PROBE, [(Step.SLOWED, ""), (Step.HELD_BACK, "build")]),
        (Signal.CPI, [(Step.SLOWED, ""), (Step.HELD_BACK, "build")]),
        (Signal.RUN_QUEUE_DELAY, []),
    ],
)
def test_a_service_that_works_a_third_slower_suffers_and_one_that_waits_a_third_longer_does_not(
    signal: Signal, steps: list[tuple[Step, str]]
) -> None:
    node = story()
    for _ in range(8):
        node.window({"web": 3.0}, QUIET, signal)
    for _ in range(3):
        node.window({"web": 4.0}, BUSY, signal)
    assert node.steps == steps


@pytest.mark.parametrize(("used_milli", "held_milli"), [(1900.0, 10), (16000.0, 80)])
def test_who_slows_work_down_hardly_runs_since_a_hundredth_of_the_time_shows_in_p99(
    used_milli: float, held_milli: int
) -> None:
    node = story()
    for _ in range(8):
        node.window({"web": 3.0}, QUIET, Signal.PROBE)
    for _ in range(3):
        node.window({"web": 9.0}, {**BUSY, "build": used_milli}, Signal.PROBE)
    assert node.held("build")[0].milli == held_milli


@pytest.mark.parametrize(
    ("build", "web", "culprit"),
    [
        ({}, [540.0, 500.0, 520.0], "build"),  # 1.7 times the CPU time for the same work, 1.8 times as slow
        ({"build": 10.0}, [540.0, 500.0, 520.0], None),  # as much work as ever, and no new pod
        ({"build": 10.0}, [1800.0, 1700.0, 1900.0], "web"),  # six times the CPU time: it has more to do itself
    ],
    ids=["a neighbour came", "nobody came", "its own load rose"],
)
def test_a_victim_that_needs_more_cpu_time_for_the_same_work_does_not_slow_itself_down(
    build: dict[str, float], web: list[float], culprit: str | None
) -> None:
    """The service's own figures beside a neighbour that streams memory: requests, and with them its CPU time, grow."""
    node = story()
    for noise in (0.0, 0.2, -0.1, 0.1, 0.0, -0.2, 0.1, 0.0):
        node.window({"web": 4.6 + noise}, {**QUIET, "web": 300.0 + 50 * noise}, Signal.PROBE)
    for probe, use in zip((9.0, 6.6, 8.0), web, strict=True):
        node.window({"web": probe}, {**BUSY, "web": use, **build}, Signal.PROBE)
    assert node.steps[0] == (Step.SLOWED, "")
    suspect = node.findings[0].episode.suspects.culprit
    assert (suspect.uid if suspect else None) == culprit


def test_a_mid_pod_keeps_its_request_also_where_its_victim_works_slower() -> None:
    mid = Standing(is_service=True, is_offline=False, can_be_held=True, least_milli=500)
    node = Story({"web": SERVICE, "build": mid})
    for _ in range(8):
        node.window({"web": 3.0}, QUIET, Signal.CPI)
    for _ in range(3):
        node.window({"web": 9.0}, BUSY, Signal.CPI)
    assert node.held("build")[0].milli == 500


def test_an_idle_neighbour_is_never_suspected() -> None:
    node = story()
    node.calm()
    for _ in range(4):
        outcome = node.window({"web": 5.0}, {"web": 300.0, "build": 60.0, "idle": 40.0})
        assert outcome.evict is outcome.move is None
    assert node.steps == [(Step.SLOWED, "")]
    assert not node.findings[0].episode.suspects.listed
    assert not node.memory.holds


def test_the_gate_of_detection_alone_names_and_holds_nobody() -> None:
    node = story(may_act=False)
    node.calm()
    for _ in range(5):
        node.window({"web": 5.0}, BUSY)
    assert node.steps == [(Step.SLOWED, "")]
    culprit = node.findings[0].episode.suspects.culprit
    assert culprit is not None
    assert culprit.uid == "build"
    assert not node.memory.holds


def test_a_hold_that_helped_is_let_go_when_the_victim_has_been_well_for_a_while() -> None:
    node = story()
    node.calm()
    for _ in range(3):
        node.window({"web": 5.0}, BUSY)
    node.window({"web": 0.5}, {**BUSY, "build": 475.0})
    assert node.steps[-1] == (Step.BETTER, "")
    node.calm(2, {**BUSY, "build": 475.0})
    assert node.steps[-1] == (Step.OVER, "")
    assert node.held("build")
    node.calm(HELD_FOR)
    assert not node.memory.holds


def test_a_hold_that_did_not_help_is_undone_after_three_windows_and_its_pod_is_spared() -> None:
    node = story()
    node.calm()
    for _ in range(3):
        node.window({"web": 5.0}, BUSY)
    for _ in range(2):
        node.window({"web": 5.0}, {**BUSY, "build": 475.0})
        assert node.held("build")
    node.window({"web": 5.0}, {**BUSY, "build": 475.0})
    assert node.steps[-1] == (Step.UNDONE, "build")
    assert not node.memory.holds
    for _ in range(int(SPARED_S / WINDOW_S) - 1):
        node.window({"web": 5.0}, BUSY)
        assert not node.memory.holds, "it is spared"


@pytest.mark.parametrize("ends", ["the gate is switched off", "the pod is gone"])
def test_a_hold_that_ended_early_proves_nothing(ends: str) -> None:
    """Neither that it was the wrong one, when the victim stays slow, nor that it was the right one."""
    node = story()
    node.calm()
    for _ in range(3):
        node.window({"web": 5.0}, BUSY)
    assert node.steps[-1] == (Step.HELD_BACK, "build")
    if ends == "the pod is gone":
        node.standings = {"web": SERVICE, "idle": BATCH}
    else:
        node.may_act = False
    for _ in range(5):
        node.window({"web": 5.0}, BUSY)
    assert not node.memory.holds
    assert not node.memory.spared_until_s
    node.calm(4)
    assert [step for step, _ in node.steps] == [Step.SLOWED, Step.HELD_BACK, Step.OVER]
    assert not node.memory.helped_s


def test_a_culprit_that_comes_back_is_evicted_if_it_is_offline() -> None:
    node = story()
    node.calm()
    for _ in range(3):
        node.window({"web": 5.0}, BUSY)
    node.calm(3 + HELD_FOR)
    assert not node.memory.holds
    outcome = [node.window({"web": 5.0}, BUSY) for _ in range(3)][-1]
    assert outcome.evict is not None
    assert node.steps[-1] == (Step.EVICTED, "build")


def test_a_hold_that_helped_too_little_is_followed_by_an_eviction() -> None:
    node = story()
    node.calm()
    for _ in range(3):
        node.window({"web": 20.0}, BUSY)
    outcomes = [node.window({"web": 8.0}, {**BUSY, "build": 900.0}) for _ in range(3)]
    assert [outcome.evict is not None for outcome in outcomes] == [False, False, True]


def test_the_victim_is_moved_once_where_the_culprit_is_as_important() -> None:
    important = Standing(is_service=True, is_offline=False)
    node = Story({"web": SERVICE, "build": important})
    node.calm()
    moves = [node.window({"web": 5.0}, BUSY).move for _ in range(12)]
    assert [move.victim for move in moves if move] == ["web"]
    assert node.steps[1] == (Step.MOVE_ASKED, "build")
    assert not node.memory.holds


def test_a_mid_pod_is_not_held_below_its_request() -> None:
    mid = Standing(is_service=True, is_offline=False, can_be_held=True, least_milli=1500)
    node = Story({"web": SERVICE, "build": mid})
    node.calm()
    for _ in range(3):
        node.window({"web": 5.0}, BUSY)
    assert node.held("build")[0].milli == 1500 > LEAST_MILLI


def test_one_window_sees_one_action_for_the_whole_node() -> None:
    node = Story({"web": SERVICE, "shop": SERVICE, "build": BATCH, "train": BATCH})
    for _ in range(8):
        node.window({"web": 0.5, "shop": 0.5}, QUIET)
    acted = []
    for _ in range(4):
        node.window({"web": 9.0, "shop": 5.0}, {**BUSY, "train": 500.0})
        acted.append(sum(step in (Step.HELD_BACK, Step.EVICTED) for step, _ in node.steps))
    assert all(after - before <= 1 for before, after in zip([0, *acted], acted, strict=False))


def test_a_workload_that_is_slow_everywhere_is_not_a_neighbours_victim() -> None:
    node = story(replicas={"web": {Signal.RUN_QUEUE_DELAY: [4.8, 5.5, 5.1]}})
    node.calm()
    for _ in range(6):
        node.window({"web": 5.0}, BUSY)
    assert node.steps == [(Step.WORKLOAD, "")]
    assert not node.memory.episodes


@pytest.mark.parametrize(
    ("value", "replicas", "expected"),
    [
        (5.0, [0.5, 0.6, 0.4], Compared.WORSE),  # median .5, MAD .1: 5 > .5 + 3 x 1.4826 x .1
        (0.9, [0.5, 0.6, 0.4], Compared.ALIKE),
        (5.0, [0.5, 0.6], Compared.UNKNOWN),
    ],
)
def test_a_pod_is_compared_with_the_median_of_its_replicas(
    value: float, replicas: list[float], expected: Compared
) -> None:
    assert compared(value, replicas) is expected


def test_a_pod_may_be_slow_and_its_replicas_are_asked_before_it_is_called_so() -> None:
    node = story()
    node.calm()
    assert node.window({"web": 5.0}, BUSY).asks == ["web"]


def test_who_held_the_cpu_counts_most() -> None:
    node = Story({"web": SERVICE, "build": BATCH, "train": BATCH}, direct={"web": {"train": 0.9, "build": 0.05}})
    node.calm()
    for _ in range(3):
        node.window({"web": 5.0}, {**BUSY, "train": 300.0})
    assert node.steps[-1] == (Step.HELD_BACK, "train")


def test_a_pod_whose_own_load_rose_blames_nobody() -> None:
    node = Story({"web": SERVICE, "shop": SERVICE})
    node.calm()
    for _ in range(4):
        node.window({"web": 5.0}, {"web": 1500.0, "shop": 20.0})
    assert node.steps == [(Step.SLOWED, "")], "once"
    assert sentence(node.findings[-1].episode, str, float).endswith("it used more CPU itself meanwhile.")


def test_a_pod_that_changed_for_good_is_not_called_slow_for_ever() -> None:
    node = Story({"web": SERVICE})
    node.calm()
    for _ in range(400):
        node.window({"web": 1.2}, {"web": 300.0})
    assert node.steps[-1] == (Step.OVER, "")


def by_disk_then_cpu(node: Story, web: float, shop: float) -> Outcome:
    """One more window: `web` waits for disks, `shop` for a CPU, and `build` is busy with both."""
    windows = {
        "web": PodWindow({Signal.IO_WAIT: web}),
        "shop": PodWindow({Signal.RUN_QUEUE_DELAY: shop}),
        "build": PodWindow({}, {Dimension.IO: 4e8 if web > 20 else 0.0, Dimension.CPU: 1900.0 if shop > 1 else 10.0}),
    }
    return node.put(windows)


@pytest.mark.parametrize("second", ["shop", "web"])
def test_who_is_held_by_its_disks_is_held_by_cpu_before_it_is_evicted_for_that(second: str) -> None:
    """Whether another service lacks CPU, or the same one does later."""
    node = Story({"web": SERVICE, "shop": SERVICE, "build": replace(BATCH, means=OwnMeans(0, ("8:0",)))})
    for _ in range(8):
        by_disk_then_cpu(node, 10.0, 0.5)
    for _ in range(3):
        by_disk_then_cpu(node, 400.0, 0.5)
    assert [hold.by for hold in node.held("build")] == [HeldBy.DISKS]
    for _ in range(4):
        by_disk_then_cpu(node, 10.0, 0.5)
    assert node.steps[-1] == (Step.OVER, "")
    if second == "shop":
        for _ in range(3):
            by_disk_then_cpu(node, 10.0, 5.0)
    else:
        for number in range(11):
            delay = {Signal.IO_WAIT: 10.0, Signal.RUN_QUEUE_DELAY: 0.5 if number < 8 else 5.0}
            use = {Dimension.IO: 0.0, Dimension.CPU: 10.0 if number < 8 else 1900.0}
            node.put({"web": PodWindow(delay), "shop": PodWindow(), "build": PodWindow({}, use)})
    assert node.steps[-1] == (Step.HELD_BACK, "build")
    assert node.findings[-1].episode.victim == second
    assert HeldBy.CPU in [hold.by for hold in node.held("build")]
    assert Step.EVICTED not in [step for step, _ in node.steps]


def test_who_is_held_by_a_part_of_its_cpu_is_held_by_nearly_all_of_it_before_it_is_evicted() -> None:
    node = Story({"web": SERVICE, "shop": SERVICE, "build": BATCH})

    def window(delay: float, probe: float, build: float) -> None:
        web, shop = PodWindow({Signal.RUN_QUEUE_DELAY: delay}), PodWindow({Signal.PROBE: probe})
        node.put({"web": web, "shop": shop, "build": PodWindow({}, {Dimension.CPU: build})})

    for _ in range(8):
        window(0.5, 3.0, 10.0)
    for _ in range(3):
        window(5.0, 3.0, 600.0)
    for _ in range(7):
        window(0.5, 3.0, 10.0)
    for _ in range(3):
        window(0.5, 9.0, 1900.0)
    assert [(hold.by, hold.milli) for hold in node.held("build")] == [(HeldBy.CPU, 150), (HeldBy.NEARLY_ALL_CPU, 10)]
    assert node.steps[-1] == (Step.HELD_BACK, "build")


def evicted() -> Story:
    """A service whose neighbour has just been asked to go, since it does again what it was held back for."""
    node = story()
    node.calm()
    for _ in range(3):
        node.window({"web": 5.0}, BUSY)
    node.calm(3 + HELD_FOR)
    for _ in range(3):
        node.window({"web": 5.0}, BUSY)
    assert node.steps[-1] == (Step.EVICTED, "build")
    return node


def test_a_victim_is_not_moved_while_its_culprit_is_on_its_way_out() -> None:
    node = evicted()
    node.standings["build"] = replace(BATCH, can_be_evicted=False, is_leaving=True)
    for _ in range(10):
        assert node.window({"web": 5.0}, BUSY).move is None
    del node.standings["build"]
    assert node.window({"web": 0.5}, BUSY).move is None
    assert node.steps[-1] == (Step.BETTER, ""), "it is well since the culprit is gone"


def test_a_culprit_with_notice_is_asked_until_it_goes_and_no_longer_than_its_victim_suffers() -> None:
    node = evicted()
    node.standings["build"] = replace(BATCH, has_notice=True)
    asked = [node.window({"web": 5.0}, BUSY).evict for _ in range(5)]
    assert all(episode is not None for episode in asked), "a notice that is not repeated is withdrawn"
    assert [step for step, _ in node.steps].count(Step.EVICTED) == 1
    assert node.window({"web": 0.5}, BUSY).evict is None


def test_an_eviction_that_was_refused_is_said_to_be_and_is_not_why_the_victim_is_well() -> None:
    node = evicted()
    node.standings["build"] = replace(BATCH, can_be_evicted=False, was_refused=True)
    node.window({"web": 5.0}, BUSY)
    assert node.steps[-2:] == [(Step.REFUSED, "build"), (Step.MOVE_ASKED, "build")]
    text = sentence(node.findings[-1].episode, str, float)
    assert "asked to go at 00:21, which was refused at 00:21, its own move asked for at 00:21, since build may" in text
    node.standings["web"] = replace(SERVICE, was_refused=True)
    node.window({"web": 5.0}, BUSY)
    assert node.steps[-1] == (Step.REFUSED, "build")
    node.calm(4)
    assert node.steps[-1] == (Step.OVER, "")
    assert not any(step is Step.BETTER for step, _ in node.steps[-4:]), "nothing was done that could have helped"


def test_windows_that_tell_nothing_of_a_victim_neither_cure_it_nor_condemn_its_neighbour() -> None:
    """A probe that is refused, for instance: the service may be too slow to answer at all."""
    node = story()
    for _ in range(8):
        node.window({"web": 3.0}, QUIET, Signal.PROBE)
    for _ in range(3):
        node.window({"web": 9.0}, BUSY, Signal.PROBE)
    assert node.steps[-1] == (Step.HELD_BACK, "build")
    busy = {uid: PodWindow({}, {Dimension.CPU: each}) for uid, each in BUSY.items()}
    for _ in range(UNSEEN_FOR - 1):
        node.put(busy)
        assert node.steps[-1] == (Step.HELD_BACK, "build"), "whether it is better is unknown"
        assert node.held("build")
    node.put(busy)
    assert node.steps[-1] == (Step.OVER, "")


def test_a_sentence_names_the_culprit_that_is_no_longer_suspected_once_it_is_held() -> None:
    node = Story({"web": SERVICE, "build": BATCH}, direct={"web": {"build": 0.71}})
    node.calm()
    for _ in range(3):
        node.window({"web": 5.0}, BUSY)
    node.direct = {"web": {}}
    for _ in range(2):
        node.window({"web": 5.0}, {"web": 300.0})
    episode = node.memory.episodes["web"]
    assert "build held the CPU 71% of that time; held back at" in sentence(episode, str, float)


def test_without_a_sample_of_its_own_a_victim_is_judged_by_what_its_neighbours_used() -> None:
    node = Story({"web": SERVICE, "shop": SERVICE, "mid": Standing(True, False, can_be_held=True)}, direct={"shop": {}})
    for _ in range(8):
        node.window({"web": 0.5}, {"web": 300.0})
    for delay in (5.0, 3.5, 6.0):
        node.window({"web": delay}, {"web": 300.0, "mid": 1900.0})
    assert node.steps[-1] == (Step.HELD_BACK, "mid")
    assert "mid used more CPU meanwhile" in sentence(node.findings[-1].episode, str, float)


def test_replicas_are_asked_about_a_service_that_works_slower_before_it_is_called_slow() -> None:
    """Three windows that are slow together: none of them alone is."""
    node = story(replicas={"web": {Signal.PROBE: [4.1, 4.0, 4.2]}})
    for noise in (0.0, 0.3, -0.3, 0.2, -0.2, 0.3, -0.3, 0.1, -0.1):
        node.window({"web": 3.0 + noise}, QUIET, Signal.PROBE)
    asks = [node.window({"web": each}, BUSY, Signal.PROBE).asks for each in (3.7, 3.8)]
    assert asks == [[], ["web"]]
    node.window({"web": 4.0}, BUSY, Signal.PROBE)
    assert node.steps == [(Step.WORKLOAD, "")]
