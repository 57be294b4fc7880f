"""Workloads with unusual lives: killed before anybody measured them, at zero for weeks, with sidecars, of two kinds."""

from __future__ import annotations

import msgspec
import pytest

from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.crd.recommendation import Recommendation, RecommendationStatus
from koord.api.protocol.recommendation_target import target_of
from koord.manager.recommend.history import HOUR_S, MIB, Amounts, ContainerHistory, ContainerTarget
from koord.manager.recommend.pods import ContainerFacts, Kill, PodFacts, pod_facts
from koord.manager.recommend.reports import usage_report
from koord.manager.recommend.status import count_kills, is_settled, remembered, wanted_status
from tests.manager.recommend import builders

GIB = 1 << 30
T0 = 480_000 * HOUR_S
DAY = 24


def measured(
    hours: int, cpu: int = 400, memory: int = GIB, *, from_h: int = 0, made: ContainerHistory | None = None
) -> ContainerHistory:
    made = made or ContainerHistory.new()
    for hour in range(from_h, from_h + hours):
        made.add(cpu, memory, T0 + hour * HOUR_S)
    return made


def told(made: ContainerHistory) -> ContainerTarget:
    container_target = made.recommended()
    assert container_target is not None
    return container_target


def killed(limit: int, at_s: float, name: str = "web-1") -> PodFacts:
    container = ContainerFacts("main", 1000, GIB, limit)
    return PodFacts(f"ns/{name}", name, "1", "n1", {}, (), "", True, (container,), (Kill("main", at_s),))


def kills(history: ContainerHistory, *pods: PodFacts, now_s: float, node: int = 512 * GIB) -> None:
    count_kills({"main": history}, pods, lambda name: node, now_s)


class TestKills:
    def test_a_container_that_is_killed_each_minute_counts_as_killed_once(self) -> None:
        made = measured(30)
        for minute in range(300):
            made.was_killed(2 * GIB, T0 + 30 * HOUR_S + minute * 60)
        assert told(made).target.memory_bytes < 2 * GIB * 1.2 * 1.15 + 2 * MIB

    def test_a_kill_before_the_first_sample_is_not_forgotten(self) -> None:
        made = ContainerHistory.new()
        made.was_killed(4 * GIB, T0)
        measured(30, memory=GIB, made=made)
        assert told(made).target.memory_bytes >= 4 * GIB * 1.2 * 1.15

    def test_a_kill_before_the_first_sample_survives_a_new_manager(self) -> None:
        made = ContainerHistory.new()
        made.was_killed(4 * GIB, T0)
        again = measured(30, made=ContainerHistory.restored(made.kept()))
        assert told(again).target.memory_bytes >= 4 * GIB * 1.2 * 1.15

    def test_a_node_whose_clock_is_ahead_hides_no_later_kill(self) -> None:
        made, now_s = measured(30), T0 + 30 * HOUR_S
        kills(made, killed(GIB, now_s + 10**9), now_s=now_s)
        kills(made, killed(8 * GIB, now_s + 60, "web-2"), now_s=now_s + 120)
        assert told(made).target.memory_bytes >= 8 * GIB * 1.2 * 1.15

    def test_of_kills_in_the_same_second_the_one_at_the_higher_limit_counts(self) -> None:
        made, now_s = measured(30), T0 + 30 * HOUR_S
        kills(made, killed(8 * GIB, now_s, "a"), killed(GIB, now_s, "b"), killed(2 * GIB, now_s - 5, "c"), now_s=now_s)
        assert told(made).target.memory_bytes >= 8 * GIB * 1.2 * 1.15

    def test_a_limit_above_what_the_node_has_is_not_what_was_used(self) -> None:
        made, now_s = measured(30), T0 + 30 * HOUR_S
        kills(made, killed(4096 * GIB, now_s), now_s=now_s, node=16 * GIB)
        assert 16 * GIB < told(made).target.memory_bytes < 24 * GIB


class TestPauses:
    def test_a_workload_that_was_at_zero_for_weeks_is_not_judged_by_its_first_minute(self) -> None:
        before = measured(7 * DAY, cpu=4000, memory=8 * GIB)
        amounts = told(before).target
        before.add(30, 50 * MIB, T0 + 60 * DAY * HOUR_S)
        assert told(before).target == amounts

    def test_it_fades_by_hours_that_were_measured(self) -> None:
        made = measured(7 * DAY, cpu=4000, memory=8 * GIB)
        measured(20 * DAY, cpu=400, memory=GIB, from_h=60 * DAY, made=made)
        assert told(made).target.cpu_milli < 600
        assert told(made).target.memory_bytes < 2 * GIB

    def test_a_clock_that_is_a_year_ahead_for_a_minute_costs_no_history(self) -> None:
        made = measured(7 * DAY, cpu=4000, memory=8 * GIB)
        amounts = told(made).target
        made.add(30, MIB, T0 + 365 * DAY * HOUR_S)
        made.add(30, MIB, T0 + 7 * DAY * HOUR_S)
        assert told(made).target == amounts

    def test_a_clock_that_wavers_at_the_full_hour_makes_no_history(self) -> None:
        made = ContainerHistory.new()
        for _ in range(100):
            made.add(100, GIB, T0 + HOUR_S + 1)
            made.add(100, GIB, T0 + HOUR_S - 1)
        assert made.hours <= 1


class TestAmounts:
    def test_who_used_nothing_still_requests_something(self) -> None:
        container_target = told(measured(30, cpu=0, memory=0))
        assert container_target.target == Amounts(29, 6 * MIB), "25 milli-cores and 5 MiB, x 1.15"
        assert container_target.lower <= container_target.target <= container_target.upper

    def test_no_target_is_above_what_the_largest_node_can_give(self) -> None:
        histories = {"main": measured(30, cpu=31_000, memory=60 * GIB)}
        largest = Amounts(31_500, 62 * GIB)
        status = wanted_status(builders.TARGET, [], histories, RecommendationStatus(), T0, largest)
        assert status.pod_status is not None
        (main,) = status.pod_status.container_statuses
        assert main.resources == {"cpu": "31500m", "memory": "62Gi"}
        assert main.upper_bound == main.resources

    def test_a_history_of_impossible_figures_makes_no_impossible_recommendation(self) -> None:
        kept = msgspec.structs.replace(
            measured(30).kept(), hours=1 << 62, hour=1 << 62, peak=1 << 62, judged=-4, under=1 << 62, oom_s=1e300
        )
        made = measured(2, from_h=30, made=ContainerHistory.restored(kept))
        container_target = told(made)
        assert (container_target.confidence, container_target.judged_hours >= container_target.under_hours >= 0) == (
            100,
            True,
        )
        assert container_target.hours < 1 << 31
        kills(made, killed(8 * GIB, T0 + 32 * HOUR_S), now_s=T0 + 32 * HOUR_S)
        assert told(made).target.memory_bytes >= 8 * GIB * 1.2 * 1.15

    def test_hours_without_samples_are_no_history(self) -> None:
        kept = msgspec.structs.replace(measured(30).kept(), memory=None)
        assert ContainerHistory.restored(kept).recommended() is None


class TestTargets:
    def spec(self, **more: object) -> Recommendation:
        target = {"type": "workload", "workload": {"kind": "Deployment", "name": "web"}}
        return convert(Recommendation, {"metadata": {"namespace": "ns"}, "spec": {"target": target, **more}})

    def test_whoever_lets_new_pods_follow_it_keeps_the_history(self) -> None:
        before, after = target_of(self.spec()), target_of(self.spec(apply="admission"))
        status = wanted_status(before, [], {"main": measured(30)}, RecommendationStatus(), T0)
        assert told(remembered(status, after)["main"]) == told(measured(30))._replace(judged_hours=5)

    @pytest.mark.parametrize("selector", [{"matchLabels": {"a": "b"}}, {"matchLabels": {"a": "c"}}, {}])
    def test_selectors_are_told_apart_by_what_they_say(self, selector: object) -> None:
        def of(said: object) -> str:
            target = {"type": "podSelector", "podSelector": said}
            return target_of(
                convert(Recommendation, {"metadata": {"namespace": "ns"}, "spec": {"target": target}})
            ).identity

        assert (of(selector) == of({"matchLabels": {"a": "b"}})) is (selector == {"matchLabels": {"a": "b"}})

    def test_a_selector_may_name_pods_of_two_workloads(self) -> None:
        def pod(owner: str, hash_: str) -> PodFacts:
            raw = builders.pod(owner, owner=("ReplicaSet", f"{owner}-{hash_}"), labels={"pod-template-hash": hash_})
            return pod_facts(msgspec.json.encode(raw))

        assert is_settled([pod("web", "a"), pod("canary", "b")])
        assert not is_settled([pod("web", "a"), pod("canary", "b"), pod("web", "b")])


class TestContainers:
    def with_sidecar(self) -> PodFacts:
        raw = builders.pod("web-1")
        limits = {"limits": {"memory": "64Mi"}}
        raw["spec"]["initContainers"] = [
            {"name": "migrate"},
            {"name": "mesh", "restartPolicy": "Always", "resources": limits},
        ]
        ended = {"terminated": {"reason": "OOMKilled", "finishedAt": "2026-11-15T04:25:02Z"}}
        raw["status"]["initContainerStatuses"] = [{"name": "mesh", "lastState": ended}]
        return pod_facts(msgspec.json.encode(raw))

    def test_what_a_sidecar_uses_is_not_the_main_containers(self) -> None:
        pod = self.with_sidecar()
        own = {"main": {"cpu": "300m", "memory": "1Gi"}, "mesh": {"cpu": "200m", "memory": "1Gi"}}
        metric = {
            "metadata": {"name": "n1"},
            "status": {
                "podsMetric": [
                    {
                        "namespace": "ns",
                        "name": "web-1",
                        "podUsage": {"resources": {"cpu": "500m", "memory": "2Gi"}},
                        "extensions": {"containers": own},
                    }
                ]
            },
        }
        report = usage_report(convert(NodeMetric, metric), lambda key: pod)
        assert [(container_usage.container, container_usage.used.cpu_milli) for container_usage in report.usage] == [
            ("main", 300),
            ("mesh", 200),
        ]

    def test_a_sidecar_that_was_killed_counts_and_other_init_containers_are_not_containers(self) -> None:
        pod = self.with_sidecar()
        assert [(container.name, container.is_sidecar) for container in pod.containers] == [
            ("main", False),
            ("mesh", True),
        ]
        assert [kill.container for kill in pod.kills] == ["mesh"]

    @pytest.mark.parametrize("band", ["batch", "mid"])
    def test_what_a_pod_of_a_lower_band_requests_is_its_cpu_and_memory(self, band: str) -> None:
        raw = builders.pod("job-1")
        lent = {f"kubernetes.io/{band}-cpu": "1500", f"kubernetes.io/{band}-memory": "2Gi"}
        raw["spec"]["containers"][0]["resources"] = {"requests": lent, "limits": lent}
        (main,) = pod_facts(msgspec.json.encode(raw)).containers
        assert (main.cpu_milli, main.memory_bytes, main.limit_milli, main.limit_bytes) == (1500, 2 * GIB) * 2
        assert main.asks_for == (f"kubernetes.io/{band}-cpu", f"kubernetes.io/{band}-memory")

    def test_a_pod_that_is_not_started_again_says_that_it_was_killed_when_it_has_failed(self) -> None:
        raw = builders.pod("job-1", memory_limit="512Mi")
        ended = {"terminated": {"reason": "OOMKilled", "finishedAt": "2026-11-15T04:25:02Z"}}
        raw["status"] = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": ended}]}
        pod = pod_facts(msgspec.json.encode(raw))
        assert pod.has_failed
        assert [kill.container for kill in pod.kills] == ["main"]
