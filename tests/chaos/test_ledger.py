"""The ledger of writes: a replica writes only while it leads, and services are evicted by few."""

from __future__ import annotations

import json

from koord.api.protocol import names
from koord_chaos.faults.live.ledger import Ledger

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{names.NAMESPACE_KOORDINATOR}/leases/{names.LEASE_MANAGER}"
NODE = "/api/v1/nodes/n/status"


def lease(holder: str) -> bytes:
    spec = {"holderIdentity": holder}
    return json.dumps({"kind": "Lease", "metadata": {"name": names.LEASE_MANAGER}, "spec": spec}).encode()


def led(ledger: Ledger, component: str, holder: str = "me") -> None:
    ledger.answered(component, "PUT", LEASE, 200, lease(holder))


def test_a_write_sent_while_another_replica_leads_is_a_violation() -> None:
    ledger = Ledger()
    led(ledger, "manager-a")
    ledger.sent("manager-a", "PATCH", NODE)
    led(ledger, "manager-b")
    ledger.sent("manager-b", "PATCH", NODE)
    assert list(ledger.violations()) == []
    ledger.sent("manager-a", "PATCH", NODE)
    (violation,) = ledger.violations()
    assert violation.startswith("one-leader: manager-a of koord-manager wrote ")
    assert violation.endswith("while manager-b was the leader")
    assert list(ledger.violations()) == []


def test_reads_leases_and_refused_leases_are_no_violations() -> None:
    ledger = Ledger()
    led(ledger, "manager-a")
    ledger.answered("manager-b", "PUT", LEASE, 409, b"{}")
    ledger.sent("manager-b", "GET", NODE)
    ledger.sent("manager-b", "PUT", LEASE)
    ledger.sent("manager-a", "PATCH", NODE)
    assert list(ledger.violations()) == []


def test_a_service_evicted_by_the_scheduler_for_no_pod_of_higher_priority_is_a_violation() -> None:
    ledger = Ledger()
    path = "/api/v1/namespaces/a/pods/web/eviction"
    ledger.pods["a/web"] = {
        "metadata": {"name": "web", "namespace": "a"},
        "spec": {"priority": 9500, "nodeName": "n"},
    }
    ledger.sent("descheduler-a", "POST", path)
    assert list(ledger.violations()) == []
    ledger.sent("scheduler-a", "POST", path)
    assert list(ledger.violations()) == ["protected-services: koord-scheduler evicted a/web, which is a service"]
    ledger.pods["a/urgent"] = {"metadata": {"name": "urgent"}, "spec": {"priority": 9900}}
    ledger.sent("scheduler-a", "POST", path)
    assert list(ledger.violations()) == []
