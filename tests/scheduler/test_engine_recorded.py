"""The engine, with whole profiles, says what kube-scheduler and Koordinator's own plugin said in recordings.

It is asked for everything: which nodes are feasible, what each plugin scores them, why the others are not, and on which
of those preemption might help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from koord.api.configuration.component_config import PluginConfig, PluginRef, PluginSet
from koord.api.configuration.scheduler_config import SchedulerProfile
from koord.api.configuration.scheduler_plugins import Plugins
from koord.api.kubernetes.pod import Pod
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.profiles import AVOIDING, CLOSING
from tests.scheduler.generate import Scene, random_scene
from tests.scheduler.kube_scheduler import Answer, Refusal
from tests.scheduler.profiles import twins
from tests.scheduler.test_kube_scheduler import recorded
from tests.scheduler.test_load_aware_recorded import PLUGIN
from tests.scheduler.test_load_aware_recorded import recorded as recorded_load
from tests.scheduler.world import engine_of, engine_on, judged, score_differences

CHUNKS = 10


def otherwise(engine: Engine, pod: Pod, answer: Answer) -> Iterator[str]:
    """Where the engine differs in feasible nodes or scores."""
    found = judged(engine, pod)
    assert answer.feasible is not None
    if found.feasible != set(answer.feasible):
        yield f"feasible: {sorted(found.feasible)}, kube-scheduler: {sorted(answer.feasible)}"
    elif len(found.feasible) > 1:
        weights = engine.profile.weights
        weighed = {
            plugin: {node: score * weights[plugin] for node, score in by_node.items()}
            for plugin, by_node in found.scores.items()
        }
        yield from score_differences(weighed, answer.scores, "kube-scheduler")
        totals = Counter[str]()
        for by_node in answer.scores.values():
            totals.update(by_node)
        if found.best is None or totals[found.best] != max(totals.values()):
            yield f"takes {found.best}, kube-scheduler's totals: {dict(totals)}"


def refused_otherwise(engine: Engine, pod: Pod, refusal: Refusal) -> Iterator[str]:
    """Where the engine differs in reasons, counted, or in the number of nodes where preemption might help."""
    found = judged(engine, pod)
    reasons = Counter(reason for _, words in found.reasons.values() for reason in words)
    whole = 0 in refusal.reasons.values()
    if whole:
        reasons = Counter(dict.fromkeys(reasons, 0))
    if reasons != refusal.reasons:
        yield f"{engine.profile.name}: {dict(sorted(reasons.items()))}, kube-scheduler: {refusal.reasons}"
    if len(found.preemptible) != refusal.preemptible:
        yield f"{engine.profile.name}: {sorted(found.preemptible)}, kube-scheduler: {refusal.preemptible} preemptible"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_engine_says_what_kube_scheduler_said(chunk: int) -> None:
    found: list[str] = []
    for scene in recorded().scenes[chunk::CHUNKS]:
        again = random_scene(scene.seed, stock=True)
        assert again.digest() == scene.digest, f"seed {scene.seed} makes another scene: record again"
        plain, pods = again.cluster(), again.pods()
        engine = engine_of(plain, again.profile, attached_first=bool(scene.seed % 2))
        refusing = [engine_on(engine.cluster, twin) for twin in twins(again.profile)]
        for pod, answer in zip(pods, scene.answers, strict=True):
            differing = list(otherwise(engine, pod, answer)) if answer.feasible is not None else []
            for twin, refusal in zip(refusing, answer.refusals, strict=True):
                differing += refused_otherwise(twin, pod, refusal)
            found += [f"seed {scene.seed}, {pod.metadata.name}: {difference}" for difference in differing]
    assert not found, "\n".join(found)


def only_load_aware(scene: Scene) -> SchedulerProfile:
    # Koordinator has neither NodeClosing nor InterferenceAvoidance, which come with this plugin unless they are named.
    alone = PluginSet((PluginRef(PLUGIN),), (PluginRef("*"), PluginRef(CLOSING), PluginRef(AVOIDING)))
    nobody = PluginSet(disabled=(PluginRef("*"),))
    plugins = Plugins(filter=alone, pre_filter=nobody, post_filter=nobody, score=alone)
    return SchedulerProfile("load", plugins=plugins, plugin_config=(PluginConfig(PLUGIN, scene.load_args),))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_engine_says_what_koordinator_said_of_load(chunk: int) -> None:
    found: list[str] = []
    reasons = recorded_load().reasons
    for said in recorded_load().scenes[chunk::CHUNKS]:
        scene = random_scene(said.seed)
        plain = scene.cluster()
        engine = engine_of(plain, only_load_aware(scene), attached_first=bool(said.seed % 2))
        assert engine.judging == [PLUGIN]
        rows = [engine.cluster.table.row_of[node.metadata.name] for node in plain.nodes]
        for pod, of_pod in zip(scene.pods(), said.pods, strict=True):
            pod_class = engine.class_of(Ask(pod))
            rejected = pod_class.rejections()
            feasible = set(pod_class.feasible_rows().tolist())
            ours = [
                ("".join(rejected[row][1]) if row in rejected else "", pod_class.scores(row).get(PLUGIN, 0))
                for row in rows
            ]
            theirs = [(reasons[reason], score) for reason, score in zip(of_pod.reasons, of_pod.scores, strict=True)]
            if ours != theirs or feasible != {row for row, (reason, _) in zip(rows, theirs, strict=True) if not reason}:
                found.append(f"seed {said.seed}, {pod.metadata.name}: {ours}, Koordinator: {theirs}")
    assert not found, "\n".join(found)


def test_a_difference_is_noticed() -> None:
    """The comparison is worth something only if it fails when it should."""
    scene = random_scene(0, stock=True)
    engine = engine_of(scene.cluster(), scene.profile)
    pod, found = next((pod, it) for pod in scene.pods() if len((it := judged(engine, pod)).feasible) > 1)
    scores = {plugin: dict(by_node) for plugin, by_node in found.scores.items()}
    right = Answer(
        tuple(found.feasible),
        {p: {n: s * engine.profile.weights[p] for n, s in by_node.items()} for p, by_node in scores.items()},
        (),
    )
    assert list(otherwise(engine, pod, right)) == []
    some = next(iter(found.feasible))
    worse = {**right.scores, "NodeResourcesFit": {**right.scores["NodeResourcesFit"], some: -1}}
    assert list(otherwise(engine, pod, Answer(right.feasible, worse, ())))
    assert list(otherwise(engine, pod, Answer(tuple(found.feasible - {some}), {}, ())))
    assert len(list(refused_otherwise(engine, pod, Refusal({"Too many pods": 99}, 99)))) == 2
