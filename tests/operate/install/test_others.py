"""Other systems on the cluster: how they are known, and which of them keep koord's agent away."""

from __future__ import annotations

from typing import Any

import pytest

from koord.operate.install.objects import desired
from koord.operate.install.others import SYSTEMS, Neighbour, neighbour, refusals
from koord.operate.install.settings import Settings

ALL = Settings(image="koord:1", version="1")
SCHEDULING = Settings(image="koord:1", version="1", components=("scheduler", "descheduler"))


def workload(
    kind: str,
    name: str,
    *,
    labels: dict[str, str] | None = None,
    container: str = "main",
    image: str = "example/main:1",
) -> dict[str, Any]:
    spec = {"containers": [{"name": container, "image": image}]}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "theirs"},
        "spec": {"template": {"metadata": {"labels": labels or {}}, "spec": spec}},
    }


VOLCANO = workload("DaemonSet", "volcano-agent", labels={"name": "volcano-agent"}, container="volcano-agent")


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (VOLCANO, "Volcano's node agent"),
        # The names of a chart's objects follow the release's name; labels, containers and images do not.
        (workload("DaemonSet", "mine-agent", labels={"name": "volcano-agent"}), "Volcano's node agent"),
        (workload("DaemonSet", "mine-agent", container="volcano-agent"), "Volcano's node agent"),
        (workload("DaemonSet", "mine", image="mirror.example/a/vc-agent@sha256:00"), "Volcano's node agent"),
        (workload("DaemonSet", "katalyst-agent"), "Katalyst's node agent"),
        (workload("Deployment", "koord-manager"), "Koordinator's manager"),
        (
            workload("Deployment", "mine-aws-cluster-autoscaler", image="mirror.example/cluster-autoscaler:v1.31.0"),
            "Cluster Autoscaler",
        ),
        (workload("Deployment", "mine", labels={"app.kubernetes.io/name": "karpenter"}), "Karpenter"),
        (workload("Deployment", "kueue-controller-manager"), "Kueue"),
        (workload("Deployment", "volcano-scheduler", image="example/vc-scheduler:v1"), None),
        ({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "odd"}, "spec": None}, None),
    ],
)
def test_a_system_is_known_by_the_names_that_it_brings_along(found: dict[str, Any], what: str | None) -> None:
    known = neighbour(found)
    assert (known.system.what if known is not None else None) == what


def of(*workloads: dict[str, Any]) -> list[Neighbour]:
    return [known for workload in workloads if (known := neighbour(workload)) is not None]


def test_volcanos_agent_is_refused_by_its_object_with_the_reason_and_both_ways_out() -> None:
    (reason,) = refusals(of(VOLCANO), ALL, None)
    assert reason.startswith(
        "DaemonSet theirs/volcano-agent is Volcano's node agent: it writes kubernetes.io/batch-cpu"
    )
    assert "take it away first" in reason
    assert "--components scheduler,descheduler" in reason


@pytest.mark.parametrize("only", ["manager", "agent"])
def test_each_component_that_writes_on_nodes_is_refused_beside_it(only: str) -> None:
    assert refusals(of(VOLCANO), Settings(image="koord:1", version="1", components=(only,)), None)
    assert refusals(of(VOLCANO), ALL, SCHEDULING), "components that are added count as new"


def test_what_writes_nothing_on_nodes_and_what_is_installed_already_are_not_held_up() -> None:
    assert refusals(of(VOLCANO), SCHEDULING, None) == []
    assert refusals(of(VOLCANO), ALL, ALL) == []


def test_neighbours_and_koordinators_control_plane_refuse_nothing() -> None:
    others = [Neighbour(system, "x") for system in SYSTEMS if system.relation != "clashes"]
    assert len(others) == 6
    assert refusals(others, ALL, None) == []


def test_koordlet_is_refused_beside_koords_agent_alone_until_it_has_given_way() -> None:
    koordlet = workload("DaemonSet", "koordlet")
    (reason,) = refusals(of(koordlet), ALL, None)
    assert "koord migrate agent takes over" in reason
    assert refusals(of(koordlet), Settings(image="koord:1", version="1", components=("manager",)), None) == []
    koordlet["spec"]["template"]["spec"]["nodeSelector"] = {"install.koord.sh/paused": "true"}
    assert neighbour(koordlet) is None


def test_koords_own_pods_keep_no_node_from_being_drained() -> None:
    """Cluster Autoscaler keeps a node for a pod with local storage, unless the pod says otherwise."""
    deployments: list[Any] = [each for each in desired(ALL) if each["kind"] == "Deployment"]
    assert len(deployments) == 3
    for deployment in deployments:
        noted = deployment["spec"]["template"]["metadata"]["annotations"]
        assert noted == {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}


def test_every_system_says_what_it_means_and_what_to_do() -> None:
    for system in SYSTEMS:
        assert system.why, system.what
        assert system.how, system.what
    names = [name for system in SYSTEMS for name in system.known_by]
    assert len(names) == len(set(names))
