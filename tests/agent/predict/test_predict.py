"""Peak prediction on a node: what trains which model, what follows for prod, how errors and files are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from koord.agent.live.predicting import DIRECTORY, Keeper
from koord.agent.pods import AgentPod
from koord.agent.predict import checkpoint
from koord.agent.predict.forecast import Predictor
from koord.agent.predict.misses import HourMisses, judged, last_day
from koord.agent.predict.model import NODE, SYSTEM, Model, PredictionSettings, Used, of_band
from koord.agent.predict.reclaim import Amounts, PodPeak, predict, predicted, with_margin
from koord.agent.predict.training import expired, observed, to_save
from koord.agent.report.node_metric import node_metric_status
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.api.protocol.priority import PriorityClass
from koord.api.protocol.report_policy import ReportPolicy
from koord.api.text.timestamp import from_seconds
from tests.agent.states import GIB, NOW, node, pod

SETTINGS = PredictionSettings()
DAY = 86400.0
AT = 20_000 * DAY
LATER = NOW + SETTINGS.save_every_s
OLD = from_seconds(AT - 2 * DAY)
PROD, NONE = of_band(PriorityClass.PROD), of_band(PriorityClass.NONE)


def created(made: AgentPod, when: str | None = OLD, *, deleted: bool = False) -> AgentPod:
    gone = OLD if deleted else None
    return replace(made, meta=changed(made.meta, creation_timestamp=when, deletion_timestamp=gone))


def trained_at(now_s: float, models: dict[str, Model]) -> None:
    for model in models.values():
        model.updated_s = now_s


def web(name: str = "web", cpu: str = "4", memory: str = "8Gi") -> AgentPod:
    return created(pod(name, "LS", priority=9500, requests={"cpu": cpu, "memory": memory}))


def measured(used: dict[str, tuple[float, float]], seconds: int = 60, now_s: float = NOW) -> Samples:
    """By owner, steady CPU and memory; the node is the owner with no name."""
    samples = Samples()
    for second in range(seconds):
        at_s = now_s - seconds + 1 + second
        for owner, (cpu, memory) in used.items():
            samples.add(names.pod_cpu(owner) if owner else names.NODE_CPU, at_s, cpu)
            samples.add(names.pod_memory(owner) if owner else names.NODE_MEMORY, at_s, memory)
    return samples


def model(cpu: float, memory: float = 0) -> Model:
    made = Model.new(SETTINGS, NOW)
    made.add(Used(cpu, memory), AT)
    return made


class TestProdReclaimable:
    def test_the_worked_example(self) -> None:
        a, b, c = Amounts(4000, 0), Amounts(2000, 0), Amounts(3000, 0)
        pods = [
            PodPeak(a, with_margin(Used(1366, 0), 10)),
            PodPeak(b, with_margin(Used(2100, 0), 10)),
            PodPeak(c, None),
        ]
        assert [pod.peak.cpu_milli for pod in pods if pod.peak] == [1502, 2310]
        bands = with_margin(Used(900 + 3000, 0), 10)
        assert bands.cpu_milli == 4290
        found = predicted(Amounts(32000, 0), pods, bands)
        assert found.reclaimable.cpu_milli == 2498, "the smaller of 2498 by pods and 9000 - 4290 by bands"
        assert found.peak.cpu_milli == 6812, "the larger of 1502 + 2310 + 3000 and 4290"

    def test_no_more_than_the_node_has_is_reclaimed(self) -> None:
        pods = [PodPeak(Amounts(8000, GIB), Amounts(1000, GIB))]
        assert predicted(Amounts(3000, GIB), pods, Amounts(2500, 0)).reclaimable == Amounts(500, 0)

    def test_of_pods_only_prod_and_those_without_a_class_count(self) -> None:
        batch = created(pod("build", "BE", priority=5500, requests={"cpu": "2"}))
        state = node(web(), batch)
        models = {SYSTEM: model(0), PROD: model(1000, GIB), NONE: model(0), "web": model(1000, GIB), "build": model(1)}
        found = predict(state, models, SETTINGS, AT)
        assert found is not None
        peak = models["web"].peak.cpu_milli * 110 // 100
        assert found.reclaimable.cpu_milli == 4000 - peak

    @pytest.mark.parametrize(
        ("when", "why"),
        [
            (from_seconds(AT - DAY), "exactly a day old is still cold"),
            (from_seconds(AT + DAY), "from the future: a clock that was set back"),
            (None, "it does not say"),
            ("yesterday", "it cannot be read"),
        ],
    )
    def test_a_pod_that_may_be_young_lends_nothing_and_may_rise_to_its_request(
        self, when: str | None, why: str
    ) -> None:
        state = node(created(web(), when))
        models = {SYSTEM: model(0), PROD: model(1000), NONE: model(0), "web": model(1000)}
        found = predict(state, models, SETTINGS, AT)
        assert found is not None
        assert (found.reclaimable.cpu_milli, found.peak.cpu_milli) == (0, 4000), why

    def test_a_pod_on_its_way_out_is_ignored(self) -> None:
        state = node(created(web(), deleted=True))
        models = {SYSTEM: model(0), PROD: model(1000), NONE: model(0), "web": model(1000)}
        found = predict(state, models, SETTINGS, AT)
        assert found is not None
        assert found.reclaimable == Amounts(0, 0)
        assert found.peak.cpu_milli == models[PROD].peak.cpu_milli * 110 // 100, "its band remembers what it used"

    def test_a_pod_that_was_never_measured_lends_nothing_of_its_own(self) -> None:
        """By pods, only those with a history lend; the smaller of both predictors counts."""
        models = {SYSTEM: model(0), PROD: model(100), NONE: model(0), "a": model(100)}
        alone, beside = (predict(node(*pods), models, SETTINGS, AT) for pods in ([web("a")], [web("a"), web("new")]))
        assert alone is not None
        assert beside is not None
        assert beside.reclaimable == alone.reclaimable
        assert beside.peak.cpu_milli == alone.peak.cpu_milli + 4000, "it may rise to its request"

    def test_a_pod_without_a_model_counts_with_its_request_in_both_predictors(self) -> None:
        """On purpose: Koordinator leaves it out by bands, although their history may have what it used."""
        state = node(web("a"), web("new"))
        models = {SYSTEM: model(0), PROD: model(3900), NONE: model(0), "a": model(100)}
        found = predict(state, models, SETTINGS, AT)
        assert found is not None
        bands = models[PROD].peak.cpu_milli * 110 // 100
        assert found.reclaimable.cpu_milli == 4000 + 4000 - bands, "by bands; a alone would be 4000 - 4391"
        assert found.peak.cpu_milli == bands

    def test_nothing_is_predicted_before_the_bands_have_a_history(self) -> None:
        assert predict(node(web()), {"web": model(100), SYSTEM: model(1)}, SETTINGS, AT) is None

    def test_the_raw_allocatable_of_an_amplified_node_counts(self) -> None:
        annotation = {"node.koordinator.sh/raw-allocatable": json.dumps({"cpu": "2"})}
        models = {SYSTEM: model(0), PROD: model(1000), NONE: model(0), "web": model(1000)}
        found = predict(node(web(), annotations=annotation), models, SETTINGS, AT)
        assert found is not None
        assert found.reclaimable.cpu_milli == 2000 - models["web"].peak.cpu_milli * 110 // 100

    @pytest.mark.parametrize("cpu", ["900E", "-5"])
    def test_a_raw_allocatable_that_cannot_be_stops_no_prediction(self, cpu: str) -> None:
        annotation = {"node.koordinator.sh/raw-allocatable": json.dumps({"cpu": cpu})}
        models = {SYSTEM: model(0), PROD: model(1000), NONE: model(0), "web": model(1000)}
        found = predict(node(web(), annotations=annotation), models, SETTINGS, AT)
        assert found is not None
        assert 0 <= found.reclaimable.cpu_milli <= 4000


class TestTraining:
    def test_bands_are_sums_of_their_pods_and_the_rest_is_the_systems(self) -> None:
        state = node(web("a"), web("b"), created(pod("build", "BE", priority=5500)))
        seen = observed(
            state, measured({"": (5000, 9 * GIB), "a": (1000, GIB), "b": (500, GIB), "build": (2000, GIB)}), NOW, 60
        )
        assert seen[PROD] == Used(1500, 2 * GIB)
        assert seen[of_band(PriorityClass.BATCH)] == Used(2000, GIB)
        assert seen[of_band(PriorityClass.MID)] == Used(0, 0)
        assert seen[SYSTEM] == Used(1500, 6 * GIB)
        assert seen[NODE] == Used(5000, 9 * GIB)

    def test_a_pod_without_samples_is_left_out_and_an_unmeasured_node_trains_nothing(self) -> None:
        assert "a" not in observed(node(web("a")), measured({"": (100, GIB)}), NOW, 60)
        assert observed(node(web("a")), Samples(), NOW, 60) == {}

    def test_pods_that_use_more_than_the_node_leave_the_system_nothing(self) -> None:
        seen = observed(node(web("a")), measured({"": (100, GIB), "a": (400, 2 * GIB)}), NOW, 60)
        assert seen[SYSTEM] == Used(0, 0)

    def test_models_of_pods_that_are_gone_are_dropped_after_half_an_hour(self) -> None:
        predictor = Predictor()
        predictor.train(node(web("a"), web("b")), measured({"": (100, GIB), "a": (1, 1), "b": (1, 1)}), NOW, AT)

        def later(seconds: float) -> list[str]:
            used = measured({"": (100, GIB), "a": (1, 1)}, now_s=NOW + seconds)
            return predictor.train(node(web("a")), used, NOW + seconds, AT + seconds)

        assert later(1800) == []
        assert later(1801) == ["b"]
        assert "b" not in predictor.models

    @pytest.mark.parametrize("jump_s", [365 * DAY, -365 * DAY])
    def test_a_clock_that_is_set_ahead_or_back_drops_no_model_and_makes_no_sample_older(self, jump_s: float) -> None:
        predictor = Predictor()
        for minute in range(20):
            used = measured({"": (4000, 8 * GIB), "a": (3000, 4 * GIB), "b": (10, GIB)})
            predictor.train(node(web("a"), web("b")), used, NOW, AT + 60 * minute)
        before = predictor.models["a"].peak
        calm = measured({"": (4000, 8 * GIB), "a": (30, GIB)})
        for at_s in (AT + 1200 + jump_s, AT + 1260):
            assert predictor.train(node(web("a"), web("b")), calm, NOW, at_s) == []
        assert predictor.models["a"].peak == before
        assert predictor.models.keys() >= {"a", "b", PROD}

    def test_a_model_that_was_not_trained_for_weeks_is_not_outweighed_by_one_minute(self) -> None:
        """The agent was away, and the pod was not."""
        known = model(3000, 4 * GIB)
        peak = known.peak
        for minute in range(20):
            known.add(Used(3000, 4 * GIB), AT + 60 * minute)
        known.add(Used(10, GIB), AT + 30 * DAY, SETTINGS.expire_s)
        assert known.peak == peak

    def test_at_most_twelve_models_are_saved_at_once_the_oldest_first(self) -> None:
        models = {f"p{i}": model(1) for i in range(30)}
        due_s = NOW + 600
        trained_at(due_s, models)
        first = to_save(models, SETTINGS, due_s)
        assert len(first) == 12
        for name in first:
            models[name].saved_s = due_s
        trained_at(due_s + 60, models)
        second = to_save(models, SETTINGS, due_s + 60)
        assert set(first).isdisjoint(second)
        trained_at(due_s + 599, models)
        assert to_save({name: models[name] for name in first}, SETTINGS, due_s + 599) == []

    def test_pods_that_come_and_go_by_the_thousand_keep_no_other_from_being_saved(self) -> None:
        """A hundred new ones a minute, each for five minutes: no file for any of them, and none for what is gone."""
        models = {name: model(1) for name in (NODE, SYSTEM, PROD, "web")}
        saved: list[str] = []
        for minute in range(1, 41):
            now_s = NOW + 60 * minute
            models |= {f"job-{minute}-{i}": Model.new(SETTINGS, now_s) for i in range(100)}
            for name, each in models.items():
                if not name.startswith("job-") or minute - int(name.split("-")[1]) < 5:
                    each.updated_s = now_s
            for name in to_save(models, SETTINGS, now_s):
                models[name].saved_s = now_s
                saved.append(name)
            for name in expired(models, SETTINGS, now_s):
                del models[name]
        assert sorted(saved) == sorted([NODE, SYSTEM, PROD, "web"] * 4), "every ten minutes"


class TestErrorsOfForecasts:
    def test_they_count_minutes_and_keep_the_worst(self) -> None:
        misses: dict[int, HourMisses] = {}
        for minute, used in enumerate((900.0, 1200.0, 1050.0)):
            misses = judged(misses, Amounts(1000, GIB), Used(used, 0), AT + 60 * minute)
        assert last_day(misses, AT + 180) == HourMisses(minutes=3, cpu_minutes=2, cpu_milli=200)
        assert last_day(misses, AT + 2 * DAY) == HourMisses(), "the agent was away for two days"

    @pytest.mark.parametrize(
        ("later_s", "why"), [(DAY, "a day has passed"), (-30 * DAY, "the clock was a month ahead")]
    )
    def test_hours_of_another_day_do_not_count(self, later_s: float, why: str) -> None:
        misses = judged({}, Amounts(0, 0), Used(5, 5), AT)
        misses = judged(misses, Amounts(9, 9), Used(5, 5), AT + later_s)
        assert last_day(misses, AT + later_s) == HourMisses(minutes=1), why

    def test_a_day_whose_answer_is_known(self) -> None:
        """A steady pod of one core that bursts to three cores for 7 minutes, after a night; then for one at four."""
        predictor, state = Predictor(), node(web(), allocatable={"cpu": "32", "memory": "64Gi"})
        calm = measured({"": (1000, GIB), "web": (1000, GIB)})
        bursts = {600 + i: 3000 for i in range(7)} | {700: 4000}
        forecast = 0
        for minute in range(24 * 60):
            cpu = bursts.get(minute)
            used = calm if cpu is None else measured({"": (cpu, GIB), "web": (cpu, GIB)})
            if cpu == 4000:
                assert predictor.forecast is not None
                forecast = predictor.forecast.prod.peak.cpu_milli
            predictor.train(state, used, NOW, AT + 60 * minute)
        # The pod of one core: the bucket of 1000m ends at 25 * (1.05^23 - 1) / 0.05 = 1035, and 10% more is 1138.
        assert forecast == 1138
        assert predictor.forecast is not None
        assert predictor.forecast.misses == HourMisses(24 * 60 - 1, 8, 4000 - 1138, 0, 0), (
            "the first minute has no forecast"
        )

    def test_the_report_tells_them(self) -> None:
        predictor = Predictor()
        state = node(web())
        predictor.train(state, measured({"": (600, GIB), "web": (500, GIB)}), NOW, AT)
        predictor.train(state, measured({"": (3900, GIB), "web": (3000, GIB)}), NOW, AT + 60)
        assert predictor.forecast is not None
        status = node_metric_status(
            state, measured({"": (600, GIB)}), ReportPolicy(), NOW, "2026-11-15T04:25:02Z", predictor.forecast
        )
        assert status is not None
        assert status.prod_peak_metric is not None
        assert status.prod_peak_metric.misses is not None
        misses = status.prod_peak_metric.misses
        assert misses.minutes == 1
        assert misses.exceeded_minutes == {"cpu": 1, "memory": 0}
        assert misses.exceeded_by["cpu"] not in ("0", 0)


class TestCheckpoints:
    def trained(self) -> Predictor:
        predictor = Predictor()
        used = measured({"": (600, 2 * GIB), "web": (500, GIB)})
        for minute in range(3):
            predictor.train(node(web()), used, NOW, AT + 60 * minute)
        trained_at(LATER, predictor.models)
        return predictor

    def test_a_new_agent_goes_on_where_the_last_one_was_killed(self, tmp_path: Path) -> None:
        before = self.trained()
        Keeper(tmp_path, before).save(LATER)
        after = Predictor()
        Keeper(tmp_path, after).load(frozenset({"web"}), NOW)
        after.look_ahead(node(web()), NOW, AT + 120)
        before.look_ahead(node(web()), NOW, AT + 120)
        assert after.models.keys() == before.models.keys()
        assert after.forecast == before.forecast
        assert after.misses == before.misses

    def test_files_of_nobody_are_removed_and_a_pod_of_the_same_name_starts_anew(self, tmp_path: Path) -> None:
        Keeper(tmp_path, self.trained()).save(LATER)
        (tmp_path / "half.new").write_bytes(b"{")
        after = Predictor()
        Keeper(tmp_path, after).load(frozenset({"web-again"}), NOW)
        assert "web" not in after.models
        assert not [each for each in tmp_path.iterdir() if each.name in ("web.json", "half.new")]

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\0" * 100,
            b"[]",
            b'{"version": 2, "uid": "web"}',
            b'{"version": 1, "uid": "other"}',
            b'{"version": 1, "uid": "\xff\xfe"}',
            b'{"version": 1, "uid": "web", "cpu": {"newest_s": 1, "total": 1, "weights": {"9999": 1}}}',
            b'{"version": 1, "uid": "web", "cpu": {"newest_s": 1, "total": -1, "weights": {"3": 1}}}',
            b'{"version": 1, "uid": "web", "cpu": {"newest_s": 1, "total": 1e308, "weights": {"3": 10000}}}',
            b'{"version": 1, "uid": "web", "cpu": {"newest_s": 1e300, "total": 1, "weights": {"3": 1}}}',
        ],
    )
    def test_a_damaged_file_costs_one_line_and_that_model(
        self, data: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        Keeper(tmp_path, self.trained()).save(LATER)
        (tmp_path / "web.json").write_bytes(data)
        after = Predictor()
        Keeper(tmp_path, after).load(frozenset({"web"}), NOW)
        assert "web" not in after.models
        assert PROD in after.models
        assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == ["web"]

    @pytest.mark.parametrize("hour", [{"minutes": -1}, {"minutes": 5, "cpu_minutes": 6}, {"cpu_milli": -3}])
    def test_impossible_errors_of_forecasts_are_not_told(self, hour: dict[str, int], tmp_path: Path) -> None:
        (tmp_path / "__misses__.json").write_text(json.dumps({"version": 1, "hours": {int(AT // 3600): hour}}))
        after = Predictor()
        Keeper(tmp_path, after).load(frozenset(), NOW)
        assert after.misses == {}

    def test_a_file_that_cannot_be_written_keeps_no_other_from_being_written(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        predictor = self.trained()
        (tmp_path / "__node__.json").mkdir()
        keeper = Keeper(tmp_path, predictor)
        keeper.save(LATER)
        keeper.save(LATER)
        assert {each.stem for each in tmp_path.iterdir()} >= {"web", "__node-prod__", "__misses__"}
        assert not list(tmp_path.glob("*.new"))
        assert len(caplog.records) == 1
        assert "__node__.json cannot be written" in caplog.text

    def test_a_folder_that_cannot_be_made_is_told_once_and_predictions_go_on(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").write_text("")
        predictor = Predictor()
        keeper = Keeper(tmp_path / "file" / "predictions", predictor)
        keeper.load(frozenset(), NOW)
        assert "start again" in caplog.text
        caplog.clear()
        predictor.models |= self.trained().models
        for minute in range(30):
            trained_at(LATER + 60 * minute, predictor.models)
            keeper.save(LATER + 60 * minute)
        assert len(caplog.records) == 1
        (tmp_path / "file").unlink()
        trained_at(LATER + 3600, predictor.models)
        keeper.save(LATER + 3600)
        assert (tmp_path / "file" / "predictions" / "web.json").exists()

    def test_the_form_is_json_with_a_version(self) -> None:
        kept = json.loads(checkpoint.of_model("web", model(1300, GIB)))
        assert kept["version"] == 1
        assert kept["uid"] == "web"
        assert max(kept["cpu"]["weights"].values()) == 10_000

    def test_the_directory_is_below_the_agents_state(self) -> None:
        assert DIRECTORY == "predictions"
