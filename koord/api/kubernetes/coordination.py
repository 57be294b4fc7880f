"""Leases: how the candidates for one job agree who does it."""

from __future__ import annotations

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import Struct


class LeaseSpec(Struct):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
