"""What works, what is off and why, what is missing: judged from what was seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as msgspec_replace

from koord.api.configuration.slo_config import SloConfig
from koord.api.configuration.slo_config_types import ColocationConfig
from koord.operate.install.others import SYSTEMS, Neighbour
from koord.operate.install.readiness import ClusterFacts, Finding, LeaseState, NodeFacts, findings, is_ready, kernel
from koord.operate.install.settings import Settings
from koord.operate.install.versions import SERVER_FEATURES, said

SETTINGS = Settings(image="koord:1", version="1")
WELL = ClusterFacts(
    (1, 35),
    "v1.35.0",
    settings=SETTINGS,
    leases={name: LeaseState("a", True) for name in ("koordinator-manager", "koord-scheduler", "koord-descheduler")},
    workloads=dict.fromkeys(("manager", "scheduler", "descheduler", "agent"), ""),
    nodes=[NodeFacts("n1", "6.1.0-18-amd64", lends=True), NodeFacts("n2", "6.1.0-18-amd64", lends=True)],
    config=SloConfig(colocation=ColocationConfig(enable=True)),
)
VOLCANO, OTHER_MANAGER, AUTOSCALER = (
    Neighbour(next(system for system in SYSTEMS if system.what == what), "DaemonSet a/b")
    for what in ("Volcano's node agent", "Koordinator's manager", "Cluster Autoscaler")
)


def of(seen: ClusterFacts, feature: str) -> Finding:
    return next(finding for finding in findings(seen) if finding.feature == feature)


def test_an_installation_that_is_well_is_ready_though_much_is_off() -> None:
    found = findings(WELL)
    assert is_ready(found)
    assert of(WELL, "batch resources").state == "works"
    assert of(WELL, "let throttled services burst").state == "off"


@pytest.mark.parametrize(
    ("seen", "feature", "state", "says"),
    [
        (replace(WELL, server=(1, 24), server_text="v1.24.1"), "API server", "broken", "v1.24.1"),
        (replace(WELL, lacking=["create nodes"]), "your rights to install", "missing", "create nodes"),
        (replace(WELL, settings=None), "koord", "missing", "not installed"),
        (replace(WELL, missing_kinds=["devices"]), "kinds", "broken", "devices"),
        (replace(WELL, missing_kinds=["devices"], settings=None), "kinds", "missing", "devices"),
        (
            replace(WELL, workloads={**WELL.workloads, "manager": "has 0 of 2 pods ready"}),
            "manager",
            "broken",
            "0 of 2",
        ),
        (replace(WELL, leases={}), "scheduler", "broken", "koord-scheduler"),
        (replace(WELL, conflicts=[("a and b decide", "stop one")]), "one scheduler at a time", "broken", "a and b"),
        (replace(WELL, webhook_failure="connection refused"), "webhooks", "broken", "refused"),
        (replace(WELL, silent=["n1"]), "agent", "partly", "n1"),
        (replace(WELL, others=[VOLCANO]), str(VOLCANO), "broken", "each would undo what the other wrote"),
        (replace(WELL, others=[OTHER_MANAGER]), str(OTHER_MANAGER), "broken", "same work"),
        (replace(WELL, config=SloConfig()), "batch resources", "off", "co-location is off"),
        (replace(WELL, config_problems=["colocation-config: bad"]), "configuration", "broken", "bad"),
        (
            replace(WELL, nodes=[NodeFacts("n1", "6.1", True, ("volcano-agent",))]),
            "batch resources",
            "broken",
            "volcano-agent writes kubernetes.io/batch-cpu on 1 node",
        ),
        (
            replace(WELL, nodes=[NodeFacts("new", "6.1", True), NodeFacts("old", "5.4.0-150-generic", True)]),
            "CPU burst by saved quota",
            "partly",
            "old (5.4.0-150-generic)",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_cause(seen: ClusterFacts, feature: str, state: str, says: str) -> None:
    finding = of(seen, feature)
    assert finding.state == state
    assert says in finding.why
    assert finding.how
    assert is_ready(findings(seen)) is (state in ("off", "partly"))


def test_what_an_older_api_server_does_without_is_said_with_the_version_that_has_it() -> None:
    seen = replace(WELL, server=(1, 31), server_text="v1.31.14", settings=msgspec_replace(SETTINGS, old_kubelets=True))
    assert of(seen, "API server").state == "works"
    for feature in SERVER_FEATURES:
        finding = of(seen, feature.name)
        assert (finding.state, f"it needs Kubernetes {said(feature.since)}" in finding.why) == ("off", True)
    assert is_ready(findings(seen))
    assert not any(finding.area == "versions" for finding in findings(WELL))


def test_a_newer_api_server_than_was_tried_is_named_and_not_refused() -> None:
    finding = of(replace(WELL, server=(1, 99), server_text="v1.99.0"), "API server")
    assert (finding.state, finding.why) == ("works", "v1.99.0; the newest that koord is tried with is 1.35")


@pytest.mark.parametrize(
    ("kubelet", "feature", "state"),
    [
        ("v1.35.2", None, None),
        ("v1.32.0+k3s1", "rights of agents", "broken"),
        ("v1.31.4", "kubelets", "partly"),
        ("v1.36.0", "kubelets", "partly"),
        ("", None, None),
    ],
)
def test_kubelets_of_other_versions_are_named(kubelet: str, feature: str | None, state: str | None) -> None:
    seen = replace(WELL, nodes=[NodeFacts("n1", "6.1", True, kubelet=kubelet)])
    found = {finding.feature: finding.state for finding in findings(seen) if finding.area == "versions"}
    assert found.get(feature or "") == state
    assert bool(found) is (feature is not None)


def test_components_that_run_outside_of_the_cluster_are_named_and_what_they_do_works() -> None:
    held = {name: LeaseState("laptop_koord-1", True) for name in ("koordinator-manager", "koord-descheduler")}
    held["koord-schedules-default-scheduler"] = LeaseState("laptop_koord-2", True)
    outside = replace(WELL, settings=None, workloads={}, leases=held, agents=0)
    assert of(outside, "manager") == Finding("components", "manager", "works", "outside of the cluster, on laptop")
    assert of(outside, "scheduler").state == "works"
    assert of(outside, "installation").state == "off"
    assert of(outside, "batch resources") == Finding("features", "batch resources", "works", "lent by 2 of 2 nodes")
    assert of(outside, "gangs, quotas, reservations").state == "works"
    assert of(outside, "moves of pods").state == "works"
    assert "NodeResourceTopologies" in of(outside, "own CPUs and NUMA nodes").why
    assert of(outside, "webhooks").state == "works"
    assert of(outside, "hold best effort back (CPU suppress)") == Finding(
        "features",
        "hold best effort back (CPU suppress)",
        "off",
        "needs the agent",
        "run koord agent too, or koord install",
    )
    assert is_ready(findings(outside))
    with_agent = replace(outside, agents=1)
    assert of(with_agent, "agent").why == "outside of the cluster, for 1 of 2 nodes"
    assert of(with_agent, "hold best effort back (CPU suppress)").why != "needs the agent"
    for holder, fresh in (("laptop_koord-1", False), ("laptop_1", True)):
        gone = replace(outside, leases={name: LeaseState(holder, fresh) for name in held})
        assert of(gone, "koord").state == "missing"
        assert of(gone, "batch resources").state == "off"


def test_a_neighbour_is_named_and_leaves_the_cluster_ready() -> None:
    seen = replace(WELL, others=[AUTOSCALER])
    assert of(seen, "Cluster Autoscaler (DaemonSet a/b)").state == "works"
    assert of(seen, "other co-location systems").why == "none found"
    assert is_ready(findings(seen))


def test_an_agent_of_others_is_no_fault_where_koord_only_schedules() -> None:
    settings = Settings(image="koord:1", version="1", components=("scheduler", "descheduler"))
    assert of(replace(WELL, settings=settings, others=[VOLCANO]), str(VOLCANO)).state == "works"
    assert of(replace(WELL, settings=None, others=[VOLCANO]), str(VOLCANO)).state == "broken"


def test_a_gate_that_is_off_is_named_with_the_command_that_opens_it() -> None:
    finding = of(WELL, "evict best effort for memory")
    assert finding.state == "off"
    assert finding.how == "koord upgrade --feature-gates agent:BEMemoryEvict=true"


@pytest.mark.parametrize(
    ("text", "version"),
    [("6.1.0-18-amd64", (6, 1)), ("5.14.0-427.el9.x86_64", (5, 14)), ("4.19", (4, 19)), ("", None), ("linux", None)],
)
def test_kernels_are_read_by_their_first_two_numbers(text: str, version: tuple[int, int] | None) -> None:
    assert kernel(text) == version
