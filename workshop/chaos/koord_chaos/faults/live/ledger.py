"""The writes of each component: its requests, seen on their way to the API server.

A leader's write counts when it is sent, and another's lease when the API server has answered that it is held. So a
write that is sent after another replica leads is one that the fence should have kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from koord.api.protocol import names
from koord_chaos.invariants.history import HISTORY, Change, History
from koord_chaos.invariants.invariant import violations
from koord_chaos.invariants.manifests import Manifest

LEADERS: Final = {
    "scheduler": (names.LEASE_SCHEDULER, ("/binding", "/pods/", "/reservations/", "/podgroups/", "/elasticquotas/")),
    "manager": (names.LEASE_MANAGER, ("/nodes/", "/nodeslos", "/nodemetrics", "/noderesourcetopologies/")),
    "descheduler": (names.LEASE_DESCHEDULER, ("/eviction", "/podmigrationjobs", "/reservations")),
}
"""By component: its lease, and what only its leader writes."""
LEASES: Final = {f"koord-{family}": f"{names.NAMESPACE_KOORDINATOR}/{lease}" for family, (lease, _) in LEADERS.items()}
EVICTION: Final = re.compile(r"/namespaces/([^/]+)/pods/([^/]+)/eviction$")
JUDGED: Final = tuple(invariant for invariant in HISTORY if invariant.name in ("one-leader", "protected-services"))


def family_of(component: str) -> str:
    """`scheduler-a` is a scheduler."""
    return component.partition("-")[0]


@dataclass
class Ledger:
    pods: dict[str, Manifest] = field(default_factory=dict)
    "All pods, by key, so that evictions can be judged."
    _changes: list[Change] = field(default_factory=list)
    _holders: dict[str, str] = field(default_factory=dict)
    "By lease, the replica that the API server last said holds it."

    def sent(self, component: str, method: str, path: str) -> None:
        family = family_of(component)
        if method in ("GET", "HEAD") or family not in LEADERS:
            return
        author = f"koord-{family}"
        if (match := EVICTION.search(path)) is not None:
            pod = self.pods.get("/".join(match.groups()))
            if pod is not None:
                # Whom the scheduler makes room for is not in the request: any higher priority will do.
                priority = max((_priority(other) for other in self.pods.values() if not _is_bound(other)), default=None)
                self._changes.append(Change("evict", "Pod", pod, author, component, priority))
        if any(part in path for part in LEADERS[family][1]):
            self._changes.append(Change("update", path, {"metadata": {"name": path}}, author, component))

    def answered(self, component: str, method: str, path: str, status: int, body: bytes) -> None:
        """Of leases alone."""
        family = family_of(component)
        if family not in LEADERS or method in ("GET", "HEAD") or "/leases" not in path or status >= 300:
            return
        lease = msgspec.json.decode(body)
        if lease.get("kind") != "Lease" or lease["metadata"]["name"] != LEADERS[family][0]:
            return
        self._hold(LEASES[f"koord-{family}"], component if lease["spec"].get("holderIdentity") else "")

    def _hold(self, lease: str, holder: str) -> None:
        if self._holders.get(lease) != holder:
            self._holders[lease] = holder
            self._changes.append(_lease(lease, holder))

    def violations(self) -> Iterator[str]:
        """Since this was asked last."""
        changes, self._changes = self._changes, [_lease(lease, holder) for lease, holder in self._holders.items()]
        yield from violations(JUDGED, History(changes, leases=LEASES))


def _lease(key: str, holder: str) -> Change:
    namespace, _, name = key.partition("/")
    manifest: dict[str, Any] = {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"holderIdentity": holder},
    }
    return Change("update", "Lease", manifest)


def _priority(pod: Manifest) -> int:
    return int(pod["spec"].get("priority") or 0)


def _is_bound(pod: Manifest) -> bool:
    return bool(pod["spec"].get("nodeName"))
