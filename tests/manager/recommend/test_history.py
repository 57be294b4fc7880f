"""What a container should request, by its history: formulas, kills, restarts, clocks, and what the object keeps."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.machinery.codec import convert
from koord.api.protocol.crd.recommendation import Recommendation, RecommendationStatus
from koord.api.protocol.recommendation_target import Target, target_of
from koord.manager.recommend.history import HOUR_S, MIB, ContainerHistory, ContainerTarget
from koord.manager.recommend.pods import ContainerFacts, Kill, PodFacts, pod_facts
from koord.manager.recommend.status import (
    HistoryError,
    count_kills,
    forget_gone,
    is_due,
    is_settled,
    remembered,
    wanted_status,
)
from tests.manager.recommend import builders

GIB = 1 << 30
T0 = 480_000 * HOUR_S
AFTER = T0 + 10**9


def measured(
    hours: int, cpu: int = 400, memory: int = GIB, *, from_h: int = 0, made: ContainerHistory | None = None
) -> ContainerHistory:
    """Twelve samples an hour."""
    made = made or ContainerHistory.new()
    for hour in range(from_h, from_h + hours):
        for i in range(12):
            made.add(cpu, memory, T0 + hour * HOUR_S + i * 300)
    return made


def node_of(memory: int) -> Callable[[str], int]:
    """Each node has that much."""
    return lambda name: memory


def told(made: ContainerHistory) -> ContainerTarget:
    container_target = made.recommended()
    assert container_target is not None
    return container_target


class TestTargets:
    def test_cpu_is_p95_and_memory_the_peak_each_with_15_percent_more(self) -> None:
        made = measured(30)
        made.add(400, 3 * GIB, T0 + 31 * HOUR_S)
        container_target = told(made)
        # The end of the bucket of 400m: 25 * (1.05^13 - 1) / 0.05 = 442.8, x 1.15.
        assert container_target.target.cpu_milli == 510
        assert 3 * GIB * 1.15 <= container_target.target.memory_bytes <= 3 * GIB * 1.15 * 1.05 + 6 * MIB
        assert container_target.target.memory_bytes % MIB == 0

    def test_one_sample_in_a_hundred_moves_the_upper_bound_and_not_the_target_of_cpu(self) -> None:
        calm, spiky = measured(48), measured(48)
        spiky.add(8000, GIB, T0 + 47 * HOUR_S + 3599)
        assert told(spiky).target.cpu_milli == told(calm).target.cpu_milli
        assert told(spiky).upper.cpu_milli > 8000

    def test_a_day_of_history_is_needed(self) -> None:
        """24 hours are over when the 25th begins."""
        assert measured(24).recommended() is None
        assert measured(25).recommended() is not None

    def test_holes_are_no_history(self) -> None:
        made = ContainerHistory.new()
        for day in range(20):
            made.add(100, GIB, T0 + day * 24 * HOUR_S)
        assert made.recommended() is None, "20 hours in 20 days"

    def test_bounds_close_in_on_the_target_and_confidence_grows_to_a_week(self) -> None:
        short, long = told(measured(25)), told(measured(24 * 8))
        assert short.upper.cpu_milli > long.upper.cpu_milli
        assert (short.confidence, long.confidence) == (24 * 100 // 168, 100)

    @settings(max_examples=20)
    @given(st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 64 * GIB)), min_size=26, max_size=40))
    def test_lower_target_and_upper_are_in_order(self, used: list[tuple[int, int]]) -> None:
        made = ContainerHistory.new()
        for hour, (cpu, memory) in enumerate(used):
            made.add(cpu, memory, T0 + hour * HOUR_S)
        container_target = told(made)
        for resource in (0, 1):
            assert (
                container_target.lower[resource]
                <= container_target.target[resource]
                <= container_target.upper[resource]
            )
        assert container_target.target.memory_bytes >= max(memory for _, memory in used) * 1.15

    def test_each_hour_is_judged_by_the_target_it_began_with(self) -> None:
        made = measured(30)
        measured(1, cpu=2000, from_h=30, made=made)
        measured(2, from_h=31, made=made)
        container_target = told(made)
        assert container_target.under_hours == 1
        assert container_target.judged_hours == 8, "hours 24 to 31; the one under way is not"

    def test_old_peaks_of_memory_are_forgotten_after_two_weeks(self) -> None:
        made = measured(1, memory=30 * GIB)
        measured(24 * 15, from_h=1, made=made)
        assert told(made).target.memory_bytes < 2 * GIB


class TestKills:
    @pytest.mark.parametrize(
        ("limit", "counts_as"), [(256 * MIB, 356 * MIB), (4 * GIB, 4 * GIB * 120 // 100)], ids=["plus 100Mi", "x 1.2"]
    )
    def test_a_kill_raises_the_next_target_above_the_limit(self, limit: int, counts_as: int) -> None:
        made = measured(30, memory=limit)
        made.was_killed(limit, T0 + 30 * HOUR_S)
        assert told(made).target.memory_bytes >= counts_as * 1.15

    def test_the_same_kill_counts_once(self) -> None:
        made = measured(30)
        for _ in range(5):
            made.was_killed(GIB, T0 + 30 * HOUR_S)
        once = told(made).target
        made.was_killed(GIB, T0 + 29 * HOUR_S)
        assert told(made).target == once

    def test_a_second_kill_at_the_new_limit_raises_it_again(self) -> None:
        made = measured(30)
        made.was_killed(GIB, T0 + 30 * HOUR_S)
        first = told(made).target.memory_bytes
        made.was_killed(first, T0 + 31 * HOUR_S)
        assert told(made).target.memory_bytes > first * 1.3

    def test_a_pod_says_which_container_was_killed_and_when(self) -> None:
        ended = {"terminated": {"reason": "OOMKilled", "finishedAt": "2026-11-15T04:25:02Z", "exitCode": 137}}
        pod = builders.pod("web-1", memory_limit="512Mi")
        pod["status"]["containerStatuses"] = [{"name": "main", "lastState": ended, "state": {"running": {}}}]
        facts = pod_facts(msgspec.json.encode(pod))
        assert [kill.container for kill in facts.kills] == ["main"]
        histories = {"main": measured(30, memory=500 * MIB)}
        count_kills(histories, [facts], node_of(64 * GIB), AFTER)
        assert told(histories["main"]).target.memory_bytes >= int(512 * MIB * 1.2 * 1.15)

    @pytest.mark.parametrize("when", ["", "yesterday", None])
    def test_a_kill_at_no_time_is_none(self, when: str | None) -> None:
        pod = builders.pod("web-1")
        ended = {"terminated": {"reason": "OOMKilled", "finishedAt": when}}
        pod["status"]["containerStatuses"] = [{"name": "main", "lastState": ended}]
        assert pod_facts(msgspec.json.encode(pod)).kills == ()


class TestRestarts:
    def test_what_the_object_keeps_is_what_was_known(self) -> None:
        histories = {"main": measured(40), "sidecar": measured(30, cpu=20, memory=50 * MIB)}
        histories["main"].was_killed(GIB, T0 + 39 * HOUR_S)
        status = wanted_status(builders.TARGET, [], histories, RecommendationStatus(), T0)
        again = remembered(status, builders.TARGET)
        for name, history in histories.items():
            assert told(again[name])._replace(judged_hours=0) == told(history)._replace(judged_hours=0)
            assert again[name].oom_s == history.oom_s

    def test_the_history_of_other_pods_is_not_taken_over(self) -> None:
        status = wanted_status(builders.TARGET, [], {"main": measured(40)}, RecommendationStatus(), T0)
        assert remembered(status, builders.target("Deployment", "api")) == {}

    @pytest.mark.parametrize(
        "text",
        ["{", "[]", '{"version":9,"generation":1,"containers":{}}', '{"version":1}',
         '{"version":1,"generation":1,"containers":{"a":{"cpu":{"newest_s":0,"total":1,"weights":{"-4":1}}}}}'],
    )  # fmt: skip
    def test_a_history_that_nobody_can_read_is_told(self, text: str) -> None:
        with pytest.raises(HistoryError, match=r"status\.history"):
            remembered(RecommendationStatus(history=text), builders.TARGET)

    def test_it_is_small(self) -> None:
        made = ContainerHistory.new()
        for i in range(3000):
            made.add(50 + i * 7 % 3000, GIB + i * 3 % 1000 * MIB, T0 + i * 300)
        status = wanted_status(builders.TARGET, [], {"main": made}, RecommendationStatus(), T0)
        assert len(status.history) < 2500


class TestClocks:
    def test_a_clock_that_is_set_back_makes_no_history(self) -> None:
        made = measured(10)
        for _ in range(20):
            made.add(100, GIB, T0 + 500 * HOUR_S)
            made.add(100, GIB, T0 + 9 * HOUR_S)
        assert made.hours <= 10 + 20
        assert made.cpu.total > 0

    @pytest.mark.parametrize(("cpu", "memory"), [(-1, GIB), (1, -GIB)])
    def test_a_negative_sample_is_none(self, cpu: int, memory: int) -> None:
        made = ContainerHistory.new()
        made.add(cpu, memory, T0)
        assert made.hours == 0


class TestStatus:
    def web(self, name: str = "web-1", revision: str = "a") -> PodFacts:
        return builders.facts(name, revision=revision)

    def problems(self, status: RecommendationStatus) -> list[str]:
        return [condition.type for condition in status.conditions]

    def test_two_templates_side_by_side_are_a_roll_out(self) -> None:
        assert is_settled([self.web("a"), self.web("b")])
        assert not is_settled([self.web("a"), self.web("b", revision="b")])
        assert is_settled([])

    @pytest.mark.parametrize(
        ("hours", "pods", "expected"),
        [
            (0, 1, ["FetchingHistory"]),
            (10, 1, ["FetchingHistory"]),
            (30, 1, ["LowConfidence"]),
            (80, 1, []),
            (80, 0, ["NoObjectsMatched"]),
        ],
    )
    def test_what_is_wrong_is_a_condition(self, hours: int, pods: int, expected: list[str]) -> None:
        histories = {"main": measured(hours)} if hours else {}
        status = wanted_status(builders.TARGET, [self.web()] * pods, histories, RecommendationStatus(), T0)
        assert self.problems(status) == expected
        assert (status.pod_status is not None) is (hours >= 24), "a workload at zero keeps its recommendation"

    def test_a_condition_keeps_the_time_since_when_it_holds(self) -> None:
        first = wanted_status(builders.TARGET, [], {}, RecommendationStatus(), T0)
        second = wanted_status(builders.TARGET, [], {}, first, T0 + 600)
        assert first.conditions == second.conditions

    @pytest.mark.parametrize(
        ("target", "says"),
        [
            ({"type": "workload"}, "spec.target.workload"),
            ({"type": "podSelector"}, "spec.target.podSelector"),
            (
                {"type": "podSelector", "podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
                "spec.target.podSelector",
            ),
        ],
    )
    def test_a_target_that_names_no_pods_is_unsupported(self, target: object, says: str) -> None:
        made = target_of(convert(Recommendation, {"metadata": {"namespace": "ns"}, "spec": {"target": target}}))
        status = wanted_status(made, [], {}, RecommendationStatus(), T0)
        assert self.problems(status) == ["ConfigUnsupported"]
        assert says in status.conditions[0].message

    def test_containers_that_are_gone_are_forgotten_when_the_roll_out_is_done(self) -> None:
        histories = {"main": measured(1), "old": measured(1)}
        forget_gone(histories, [])
        forget_gone(histories, [self.web("a"), self.web("b", revision="b")])
        assert set(histories) == {"main", "old"}
        forget_gone(histories, [self.web("a")])
        assert set(histories) == {"main"}

    def test_little_news_wait_for_the_hour_and_large_ones_ten_minutes(self) -> None:
        made = measured(80)
        before = wanted_status(builders.TARGET, [self.web()], {"main": made}, RecommendationStatus(), T0)
        made.add(410, GIB, T0 + 80 * HOUR_S)
        little = wanted_status(builders.TARGET, [self.web()], {"main": made}, before, T0)
        assert not is_due(before, before, T0 + 99 * HOUR_S, 0.5), "nothing new"
        assert not is_due(before, little, T0 + 3599, 0)
        assert is_due(before, little, T0 + 3600, 0)
        assert not is_due(before, little, T0 + 3700, 1), "others first"
        made.was_killed(GIB, T0 + 80 * HOUR_S)
        large = wanted_status(builders.TARGET, [self.web()], {"main": made}, before, T0)
        assert not is_due(before, large, T0 + 599, 0)
        assert is_due(before, large, T0 + 600, 0)

    def test_a_new_problem_is_told_at_once(self) -> None:
        before = wanted_status(builders.TARGET, [self.web()], {"main": measured(80)}, RecommendationStatus(), T0)
        after = wanted_status(builders.TARGET, [], {"main": measured(80)}, before, T0)
        assert is_due(before, after, T0 + 1, 0)


class TestTargetsOfObjects:
    @pytest.mark.parametrize(
        ("owner", "labels", "kind", "name"),
        [
            (("ReplicaSet", "web-5d4f"), {"pod-template-hash": "5d4f"}, "Deployment", "web"),
            (("ReplicaSet", "web-5d4f"), {"pod-template-hash": "5d4f"}, "ReplicaSet", "web-5d4f"),
            (("StatefulSet", "db"), {}, "StatefulSet", "db"),
            (("Job", "report-29021234"), {}, "CronJob", "report"),
            (("Job", "once"), {}, "Job", "once"),
            (("Rollout", "canary"), {}, "Rollout", "canary"),
        ],
    )
    def test_a_pod_belongs_to_its_owner_and_to_the_owners_owner(
        self, owner: tuple[str, str], labels: dict[str, str], kind: str, name: str
    ) -> None:
        pod = pod_facts(msgspec.json.encode(builders.pod("p", owner=owner, labels=labels)))
        assert pod.is_of(builders.target(kind, name))
        assert not pod.is_of(builders.target(kind, f"{name}-2"))

    def test_a_selector_is_of_its_own_namespace(self) -> None:
        target = {"type": "podSelector", "podSelector": {"matchLabels": {"app": "web"}}}
        made = target_of(convert(Recommendation, {"metadata": {"namespace": "ns"}, "spec": {"target": target}}))
        here = pod_facts(msgspec.json.encode(builders.pod("p", labels={"app": "web"})))
        assert here.is_of(made)
        assert not here.is_of(made._replace(namespace="other"))


def test_kills_of_containers_that_the_pod_does_not_have_are_ignored() -> None:
    pod = PodFacts("ns/p", "u", "1", "n", {}, (), "", True, (ContainerFacts("main", 1, 1, 0),), (Kill("debug", T0),))
    histories: dict[str, ContainerHistory] = {}
    count_kills(histories, [pod], node_of(64 * GIB), AFTER)
    assert histories == {}


def test_the_history_is_plain_json() -> None:
    status = wanted_status(Target("ns", None, None), [], {"main": measured(2)}, RecommendationStatus(), T0)
    assert json.loads(status.history)["version"] == 1
