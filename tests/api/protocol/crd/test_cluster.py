"""The definitions on a real API server: accepted, lossless, strict where they should be, readable in kubectl."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.machinery.codec import encode
from koord.api.protocol.crd.definitions import DEFINITIONS, Definition, manifest
from tests.api.protocol.crd import example
from tests.control_plane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]

each_definition = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: d.kind.kind)

RESERVATION = {"template": {"spec": {"containers": []}}, "owners": [{"labelSelector": {"matchLabels": {"app": "a"}}}]}


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The shared control plane, with koord's definitions established."""
    definitions = as_list([manifest(definition) for definition in DEFINITIONS])
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=definitions)
    names = [f"crd/{definition.name}" for definition in DEFINITIONS]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names, timeout_s=90)
    return control_plane


@pytest.fixture(scope="module")
def stored(cluster: ControlPlane) -> dict[str, dict[str, Any]]:
    """Per kind: an object with every field, as the API server gives it back."""
    objects = [example.manifest(definition) for definition in DEFINITIONS]
    cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=as_list(objects))
    cluster.kubectl("create", "-f", "-", stdin=as_list(objects))
    with_status = [obj for obj, d in zip(objects, DEFINITIONS, strict=True) if d.has_status]
    cluster.kubectl("replace", "--subresource=status", "-f", "-", stdin=as_list(with_status))
    got = json.loads(cluster.kubectl("get", "-o", "json", "-f", "-", stdin=as_list(objects)).stdout)
    return {item["kind"]: item for item in got["items"]}


def as_list(objects: list[dict[str, Any]]) -> str:
    return encode({"apiVersion": "v1", "kind": "List", "items": objects}).decode()


def body(kind: Kind[Any], name: str, **fields: Any) -> str:
    metadata = {"name": name, **({"namespace": "default"} if kind.namespaced else {})}
    return encode({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}).decode()


def test_the_api_server_finds_nothing_wrong_with_the_schemas(cluster: ControlPlane) -> None:
    got = json.loads(cluster.kubectl("get", "crd", "-o", "json").stdout)
    ours = {definition.name for definition in DEFINITIONS}
    conditions = {
        item["metadata"]["name"]: {c["type"]: c["status"] for c in item["status"]["conditions"]}
        for item in got["items"]
        if item["metadata"]["name"] in ours
    }
    assert set(conditions) == ours
    for name, condition in conditions.items():
        assert condition["Established"] == "True", name
        assert condition["NamesAccepted"] == "True", name
        assert condition.get("NonStructuralSchema", "False") == "False", name
        assert condition.get("KubernetesAPIApprovalPolicyConformant", "True") == "True", name


@each_definition
def test_every_field_survives_create_and_get(stored: dict[str, dict[str, Any]], definition: Definition) -> None:
    sent, got = example.manifest(definition), stored[definition.kind.kind]
    for part in sent.keys() - {"metadata"}:
        assert got.get(part) == sent[part], part


def test_node_resource_topologies_lose_nothing_between_their_versions(cluster: ControlPlane) -> None:
    definition = next(d for d in DEFINITIONS if d.kind is kinds.NODE_RESOURCE_TOPOLOGIES)
    newer = example.manifest(definition, "v1alpha2")
    newer["metadata"]["name"] = "two-versions"
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=encode(newer).decode())
    older = json.loads(
        cluster.kubectl(
            "get", "noderesourcetopologies.v1alpha1.topology.node.k8s.io", "two-versions", "-o", "json"
        ).stdout
    )
    assert older["apiVersion"] == "topology.node.k8s.io/v1alpha1"
    assert {key: older[key] for key in ("zones", "attributes", "topologyPolicies")} == {
        key: newer[key] for key in ("zones", "attributes", "topologyPolicies")
    }


def test_the_api_server_fills_in_what_the_protocol_defaults(cluster: ControlPlane) -> None:
    cluster.kubectl("delete", "--ignore-not-found", "reservation", "defaults")
    created = cluster.kubectl(
        "create", "-o", "json", "-f", "-", stdin=body(kinds.RESERVATIONS, "defaults", spec=RESERVATION)
    )
    spec = json.loads(created.stdout)["spec"]
    assert (spec["ttl"], spec["allocateOnce"]) == ("24h", True)


def test_unset_thresholds_stay_unset_but_network_shares_get_their_defaults(cluster: ControlPlane) -> None:
    cluster.kubectl("delete", "--ignore-not-found", "nodeslo", "defaults")
    strategy: dict[str, Any] = {
        "resourceUsedThresholdWithBE": {},
        "resourceQOSStrategy": {"beClass": {"networkQOS": {}}},
    }
    created = cluster.kubectl("create", "-o", "json", "-f", "-", stdin=body(kinds.NODE_SLOS, "defaults", spec=strategy))
    spec = json.loads(created.stdout)["spec"]
    assert spec["resourceUsedThresholdWithBE"] == {}
    assert spec["resourceQOSStrategy"]["beClass"]["networkQOS"] == {
        "ingressRequest": 0,
        "ingressLimit": 100,
        "egressRequest": 0,
        "egressLimit": 100,
    }


def refused(cluster: ControlPlane, manifest: str) -> str:
    done: subprocess.CompletedProcess[str] = cluster.kubectl(
        "create", "--dry-run=server", "-f", "-", stdin=manifest, check=False
    )
    assert done.returncode != 0, f"was accepted: {manifest}"
    return done.stderr


@pytest.mark.parametrize(
    ("kind", "fields", "field"),
    [
        (kinds.RESERVATIONS, {"spec": {**RESERVATION, "allocatePolicy": "Greedy"}}, "spec.allocatePolicy"),
        (kinds.RESERVATIONS, {"spec": {**RESERVATION, "ttl": "1 day"}}, "spec.ttl"),
        (kinds.RESERVATIONS, {"spec": {**RESERVATION, "owners": []}}, "spec.owners"),
        (kinds.RESERVATIONS, {"spec": {**RESERVATION, "owners": [{}]}}, "spec.owners[0]"),
        (kinds.RESERVATIONS, {"spec": {**RESERVATION, "expires": "tomorrow"}}, "spec.expires"),
        (kinds.RESERVATIONS, {"spec": {"owners": RESERVATION["owners"]}}, "spec.template"),
        (kinds.CLUSTER_COLOCATION_PROFILES, {"spec": {"qosClass": "BEST"}}, "spec.qosClass"),
        (kinds.CLUSTER_COLOCATION_PROFILES, {"spec": {"koordinatorPriority": 2**31}}, "spec.koordinatorPriority"),
        (
            kinds.NODE_SLOS,
            {"spec": {"resourceUsedThresholdWithBE": {"cpuSuppressThresholdPercent": 101}}},
            "spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent",
        ),
        (
            kinds.NODE_SLOS,
            {"spec": {"resourceQOSStrategy": {"beClass": {"cpuQOS": {"groupIdentity": -2}}}}},
            "spec.resourceQOSStrategy.beClass.cpuQOS.groupIdentity",
        ),
        (kinds.NODE_SLOS, {"spec": {"cpuBurstStrategy": {"policy": "always"}}}, "spec.cpuBurstStrategy.policy"),
        (kinds.ELASTIC_QUOTAS, {"spec": {"min": {"cpu": "4 cores"}}}, "spec.min.cpu"),
        (kinds.RECOMMENDATIONS, {"spec": {"target": {"type": "node"}}}, "spec.target.type"),
        (kinds.POD_MIGRATION_JOBS, {"spec": {"mode": "Quick", "podRef": {"name": "p"}}}, "spec.mode"),
        (kinds.NODE_RESOURCE_TOPOLOGIES, {}, "zones"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_bad_values_are_refused_and_the_field_is_named(
    cluster: ControlPlane, kind: Kind[Any], fields: dict[str, Any], field: str
) -> None:
    assert field in refused(cluster, body(kind, "bad", **fields))


def test_explain_describes_every_field_of_a_reservation(cluster: ControlPlane) -> None:
    brief = cluster.kubectl("explain", "reservation.spec", "--recursive").stdout
    for field in (
        "allocateOnce",
        "ttl",
        "owners",
        "labelSelector",
        "matchExpressions",
        "preAllocationPolicy",
        "taints",
    ):
        assert field in brief
    assert "Whether the reservation is over once one owner has used it" in " ".join(
        cluster.kubectl("explain", "reservation.spec.allocateOnce").stdout.split()
    )
    assert "enum" in cluster.kubectl("explain", "reservation.spec.allocatePolicy").stdout.lower()


@each_definition
def test_columns_show_what_the_object_says(
    cluster: ControlPlane, stored: dict[str, dict[str, Any]], definition: Definition
) -> None:
    kind = definition.kind
    table = cluster.kubectl("get", kind.resource, example.NAME, "-n", "default", "-o", "wide").stdout
    header, row = table.splitlines()[:2]
    assert header.split() == ["NAME", *(column.name.upper() for column in definition.columns)]
    assert row.startswith(example.NAME)


def columns(cluster: ControlPlane, kind: Kind[Any], name: str) -> dict[str, str]:
    """The cells that `kubectl get` prints for an object, by header."""
    header, row = cluster.kubectl("get", kind.resource, name).stdout.splitlines()[:2]
    starts = [header.index(word) for word in header.split()]
    ends = [*starts[1:], len(row) + 1]
    return {header[a:b].strip(): row[a:b].strip() for a, b in zip(starts, ends, strict=True)}


def test_a_reservation_that_cannot_be_placed_says_why_in_its_columns(cluster: ControlPlane) -> None:
    cluster.kubectl("delete", "--ignore-not-found", "reservation", "unplaced")
    cluster.kubectl("create", "-f", "-", stdin=body(kinds.RESERVATIONS, "unplaced", spec=RESERVATION))
    assert columns(cluster, kinds.RESERVATIONS, "unplaced")["REASON"] == ""
    status = {
        "phase": "Pending",
        "conditions": [{"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"}],
    }
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", "reservation", "unplaced", "--subresource=status", "--type=merge", "-p", patch)
    cells = columns(cluster, kinds.RESERVATIONS, "unplaced")
    assert (cells["PHASE"], cells["REASON"], cells["TTL"]) == ("Pending", "Unschedulable", "24h")


def test_a_device_that_fails_shows_in_the_columns_of_its_node(cluster: ControlPlane) -> None:
    devices = [
        {"type": "gpu", "minor": 0, "health": True},
        {
            "type": "gpu",
            "minor": 3,
            "health": False,
            "conditions": [{"type": "Healthy", "status": "False", "reason": "Xid", "message": "fell off the bus"}],
        },
    ]
    cluster.kubectl("delete", "--ignore-not-found", "device", "gpu-node")
    cluster.kubectl("create", "-f", "-", stdin=body(kinds.DEVICES, "gpu-node", spec={"devices": devices}))
    cells = columns(cluster, kinds.DEVICES, "gpu-node")
    assert (cells["TYPE"], cells["UNHEALTHY"], cells["REASON"]) == ("gpu", "3", "fell off the bus")


def test_one_word_lists_the_objects_of_all_kinds(cluster: ControlPlane, stored: dict[str, dict[str, Any]]) -> None:
    names = cluster.kubectl("get", "koord", "-o", "name", "-n", "default").stdout.split()
    assert {name.partition("/")[0].partition(".")[0] for name in names} >= {
        definition.kind.kind.lower() for definition in DEFINITIONS
    }
