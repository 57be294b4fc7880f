"""What kube-scheduler said of many random scenes, kept in one file, so that it can be compared with without it.

Scenes are kept as seeds, with a digest that tells when the generator makes another scene of a seed. To record again:

    python -m tests.scheduler.recording 600
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from koord.api.machinery.struct import Struct
from koord.api.text.timestamp import from_seconds
from tests.control_plane import ControlPlane
from tests.scheduler.compare import changes_cluster, differences
from tests.scheduler.generate import random_scene
from tests.scheduler.kube_scheduler import APISERVER_FLAGS, Answer, KubeScheduler

PATH: Final = Path(__file__).parent / "data" / "kube_scheduler.json.gz"


class RecordedScene(Struct):
    seed: int
    digest: str
    answers: tuple[Answer, ...]


class Recording(Struct):
    version: str
    recorded_at: str
    scenes: tuple[RecordedScene, ...]


def read() -> Recording:
    return msgspec.json.decode(gzip.decompress(PATH.read_bytes()), type=Recording)


def write(recording: Recording) -> None:
    PATH.parent.mkdir(exist_ok=True)
    # No time in the head of the file: the same recording is the same bytes.
    PATH.write_bytes(gzip.compress(msgspec.json.encode(recording, order="deterministic"), mtime=0))


def record(scheduler: KubeScheduler, seed: int) -> tuple[RecordedScene, list[str]]:
    """Ask kube-scheduler of one scene; also what the plain reading says otherwise.

    A difference is asked again after a while, in case the scheduler had not received all objects.
    """
    scene = random_scene(seed, stock=True)
    cluster = scene.cluster()
    scheduler.load(scene, f"seed-{seed}")
    answers, found = [], []
    for manifest, pod in zip(scene.pending, scene.pods(), strict=True):
        binds = changes_cluster(pod, cluster)
        answer = scheduler.ask(manifest, scene.profile, changes_cluster=binds)
        if any(differences(pod, cluster, scene.profile, answer)):
            time.sleep(0.5)
            answer = scheduler.ask(manifest, scene.profile, changes_cluster=binds)
        answers.append(answer)
        found += [
            f"seed {seed}, {scene.profile.scheduler_name}, {pod.metadata.name}: {difference}"
            for difference in differences(pod, cluster, scene.profile, answer)
        ]
    return RecordedScene(seed, scene.digest(), tuple(answers)), found


def main(seeds: Iterable[int]) -> None:
    scenes = []
    with ControlPlane(*APISERVER_FLAGS) as plane, KubeScheduler(plane) as scheduler:
        for seed in seeds:
            recorded, found = record(scheduler, seed)
            scenes.append(recorded)
            for difference in found:
                print(difference)
        version = scheduler.version()
    write(Recording(version, from_seconds(time.time()), tuple(scenes)))
    print(json.dumps({"scenes": len(scenes), "pods": sum(len(scene.answers) for scene in scenes), "version": version}))


if __name__ == "__main__":
    main(range(int(sys.argv[1]) if len(sys.argv) > 1 else 600))
