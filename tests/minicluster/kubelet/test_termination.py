"""When pods must end, worked out for both kinds of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.text.timestamp import from_seconds
from koord_minicluster.kubelet.termination import (
    Farewell,
    deadline_s,
    deletion_asked_s,
    farewell,
    grace_left_s,
    grace_s,
    started_at,
)

NOW_S = 1_700_000_000.0


def pod(grace_s: int | None = None, *, phase: str = "Running", finalizers: tuple[str, ...] = (), **spec: Any) -> Pod:
    """With a grace: its deletion was asked for at NOW_S."""
    deleted: dict[str, Any] = {}
    if grace_s is not None:
        deleted = {"deletionTimestamp": from_seconds(NOW_S + grace_s), "deletionGracePeriodSeconds": grace_s}
    meta = {"name": "p", "namespace": "ns", "uid": "u", "finalizers": list(finalizers), **deleted}
    return convert(Pod, {"metadata": meta, "spec": spec, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("subject", "grace"),
    [
        (pod(), 30.0),
        (pod(terminationGracePeriodSeconds=5), 5.0),
        (pod(2, terminationGracePeriodSeconds=5), 2.0),
        (pod(0, terminationGracePeriodSeconds=5), 0.0),
    ],
    ids=["default", "of the pod", "of the deletion", "none"],
)
def test_the_grace_is_the_deletions_then_the_pods_then_half_a_minute(subject: Pod, grace: float) -> None:
    assert grace_s(subject) == grace


@pytest.mark.parametrize(
    ("grace", "after_s", "left_s"),
    [
        (30, 0.0, 30.0),
        # The timestamp has whole seconds: up to one of them is not counted.
        (5, 0.9, 5.0),
        (30, 11.0, 20.0),
        # Whoever is ended is asked first.
        (30, 500.0, 2.0),
        (0, 0.0, 2.0),
    ],
)
def test_a_node_that_was_away_leaves_what_is_left_of_the_grace(grace: int, after_s: float, left_s: float) -> None:
    assert grace_left_s(pod(grace), NOW_S + after_s) == pytest.approx(left_s)


def test_a_pod_that_nobody_deletes_has_all_its_grace_at_any_time() -> None:
    assert deletion_asked_s(pod()) is None
    assert deletion_asked_s(pod(7)) == NOW_S
    assert grace_left_s(pod(terminationGracePeriodSeconds=5), NOW_S) == 5.0


@pytest.mark.parametrize(
    ("subject", "last"),
    [
        (pod(30), Farewell(tell=False, remove=True)),
        (pod(30, restartPolicy="Never"), Farewell(tell=True, remove=True)),
        (pod(30, finalizers=("batch.kubernetes.io/job-tracking",)), Farewell(tell=True, remove=True)),
        (pod(30, restartPolicy="Never", phase="Succeeded"), Farewell(tell=False, remove=True)),
        # The API server itself takes away what is deleted by force, once its finalizers are gone.
        (pod(0, finalizers=("batch.kubernetes.io/job-tracking",)), Farewell(tell=True, remove=False)),
        # One that nothing holds was left over by a server that ended in between.
        (pod(0, restartPolicy="Never"), Farewell(tell=True, remove=True)),
    ],
    ids=["service", "job", "finalizer", "finished", "force", "left"],
)
def test_a_pod_tells_how_it_ended_where_somebody_counts_and_is_removed_once(subject: Pod, last: Farewell) -> None:
    assert farewell(subject) == last


def test_the_deadline_counts_from_when_the_node_took_the_pod_on() -> None:
    assert deadline_s(pod(), NOW_S) is None
    assert deadline_s(pod(activeDeadlineSeconds=5), NOW_S) == NOW_S + 5
    assert started_at(pod(), NOW_S + 0.7) == NOW_S
