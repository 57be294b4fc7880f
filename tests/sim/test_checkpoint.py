"""Checkpoints: a run that goes on from one ends like a run that was never stopped."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from functools import cache

import pytest

from koord.api.text.manifest import parse
from koord.sim.checkpoint import CheckpointError
from koord.sim.policies.registry import POLICIES
from koord.sim.run import run
from tests.sim import small
from tests.sim.small import Fixed

SCENARIO = small.scenario(
    duration="90m",
    restart="20m",
    faults={"nodeFailures": {"every": "2h", "lasting": "20m"}, "reportLag": "1m", "apiDelay": "1m", "lostReports": 0.1},
)
CLUSTER = small.cluster(4, batch=small.tasks(60, cores=3, use=1.2))
QUOTA = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: team, namespace: batch}
spec: {max: {cpu: 1}}
"""
POLICY = Fixed(share=1.0, starves=True)


@cache
def checkpoints(seed: int = 1) -> tuple[bytes, list[bytes]]:
    saved: list[bytes] = []
    outcome = run(SCENARIO, CLUSTER, {"": POLICY}, seed=seed, save=saved.append)
    return json.dumps(outcome.as_json()).encode(), saved


@pytest.mark.parametrize("seed", [1, 2])
def test_a_resumed_run_gives_the_same_bytes_as_an_uninterrupted_one(seed: int) -> None:
    whole = json.dumps(run(SCENARIO, CLUSTER, {"": POLICY}, seed=seed).as_json()).encode()
    saving, saved = checkpoints(seed)
    assert saving == whole
    assert len(saved) == 4
    for data in saved[::2]:
        later: list[bytes] = []
        resumed = run(SCENARIO, CLUSTER, {"": POLICY}, seed=seed, resume=data, save=later.append)
        assert json.dumps(resumed.as_json()).encode() == whole
        # Checkpoints of the resumed run are those of the first one.
        assert later == saved[saved.index(data) + 1 :]


@pytest.mark.parametrize("cut", [0, 10, 1000])
def test_a_damaged_checkpoint_is_refused(cut: int) -> None:
    _, saved = checkpoints()
    with pytest.raises(CheckpointError, match="damaged"):
        run(SCENARIO, CLUSTER, {"": POLICY}, seed=1, resume=saved[0][:cut])


@pytest.mark.parametrize("name", list(POLICIES))
def test_every_policy_resumes(name: str) -> None:
    scenario, saved = small.scenario(duration="30m", restart="15m"), list[bytes]()
    policies = {"": POLICIES[name]}
    whole = run(scenario, CLUSTER, policies, save=saved.append).as_json()
    assert json.dumps(run(scenario, CLUSTER, policies, resume=saved[0]).as_json()) == json.dumps(whole)


def test_a_flipped_byte_is_noticed() -> None:
    _, saved = checkpoints()
    data = bytearray(saved[0])
    data[len(data) // 2] ^= 0xFF
    with pytest.raises(CheckpointError, match="damaged"):
        run(SCENARIO, CLUSTER, {"": POLICY}, seed=1, resume=bytes(data))


def test_a_checkpoint_of_another_version_is_refused() -> None:
    _, saved = checkpoints()
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved[0])) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"checkpoint/v1", b"checkpoint/v9"))
    with pytest.raises(CheckpointError, match="not of the format"):
        run(SCENARIO, CLUSTER, {"": POLICY}, seed=1, resume=target.getvalue())


def test_a_checkpoint_of_another_run_is_refused() -> None:
    _, saved = checkpoints()
    with pytest.raises(CheckpointError, match="another run"):
        run(SCENARIO, CLUSTER, {"": POLICY}, seed=2, resume=saved[0])
    with pytest.raises(CheckpointError, match="another run"):
        run(SCENARIO, CLUSTER, {"": replace(POLICY, name="other")}, seed=1, resume=saved[0])
    with pytest.raises(CheckpointError, match="manifests, policies or seed differ"):
        run(SCENARIO, CLUSTER, {"": POLICY}, seed=1, manifests=parse(QUOTA, "quota.yaml"), resume=saved[0])
