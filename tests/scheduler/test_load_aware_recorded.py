"""The plain reading of LoadAwareScheduling agrees with Koordinator's own plugin.

Its Filter and Score were compiled from Koordinator's sources and asked about every pod and node of many random scenes,
with the pods and reports of the scene in its cache and the clock at the scene's time. What it said is in the recording.
"""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from functools import cache
from pathlib import Path

import msgspec
import pytest

from koord.api.machinery.struct import Struct
from tests.scheduler.generate import Scene, random_scene
from tests.scheduler.reference import cycle

PATH = Path(__file__).parent / "data" / "load_aware.json.gz"
CHUNKS = 10
PLUGIN = "LoadAwareScheduling"


class SaidOfPod(Struct):
    """In the order of the scene's nodes. A reason is an index into the recording's reasons."""

    reasons: tuple[int, ...]
    scores: tuple[int, ...]


class SaidOfScene(Struct):
    seed: int
    digest: str
    pods: tuple[SaidOfPod, ...]


class Recording(Struct):
    source: str
    recorded_at: str
    reasons: tuple[str, ...]
    "The first one is none: the node is feasible."
    scenes: tuple[SaidOfScene, ...]


@cache
def recorded() -> Recording:
    return msgspec.json.decode(gzip.decompress(PATH.read_bytes()), type=Recording)


def digest(scene: Scene) -> str:
    args = msgspec.json.encode(scene.load_args, order="deterministic")
    return hashlib.sha256(scene.digest().encode() + args).hexdigest()[:16]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_reference_says_what_koordinator_said(chunk: int) -> None:
    differing = []
    for said in recorded().scenes[chunk::CHUNKS]:
        scene = random_scene(said.seed)
        assert digest(scene) == said.digest, f"seed {said.seed} makes another scene than it did"
        cluster, args = scene.cluster(), scene.load_args
        names = [node.metadata.name for node in cluster.nodes]
        for pod, of_pod in zip(scene.pods(), said.pods, strict=True):
            verdicts = [cycle.filter(PLUGIN, pod, name, cluster, args) for name in names]
            scores = cycle.score(PLUGIN, pod, names, cluster, args)
            ours = [("".join(verdict.reasons), scores[name]) for verdict, name in zip(verdicts, names, strict=True)]
            theirs = [
                (recorded().reasons[reason], score) for reason, score in zip(of_pod.reasons, of_pod.scores, strict=True)
            ]
            if ours != theirs:
                differing.append(f"seed {said.seed}, {pod.metadata.name}: {ours}, Koordinator: {theirs}")
    assert not differing, "\n".join(differing)


def test_the_recording_touches_every_reason_and_score() -> None:
    pods = [of_pod for said in recorded().scenes for of_pod in said.pods]
    reasons = Counter(recorded().reasons[reason] for of_pod in pods for reason in of_pod.reasons)
    assert len(recorded().scenes) >= 300
    assert {reason for reason, nodes in reasons.items() if nodes >= 10} >= {
        "",
        "node(s) nodeMetric expired",
        "node(s) cpu usage exceed threshold",
        "node(s) memory usage exceed threshold",
        "node(s) cpu aggregated usage exceed threshold",
    }
    assert len({score for of_pod in pods for score in of_pod.scores}) > 90
