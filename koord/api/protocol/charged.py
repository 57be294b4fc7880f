"""To whom what a pod uses is charged: its namespace, its quota and its workload, by what its metadata says."""

from __future__ import annotations

from typing import NamedTuple

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.owners import workloads_of
from koord.api.protocol import names


class Charged(NamedTuple):
    namespace: str
    quota: str
    "By its label; empty without."
    workload: str
    "As in deployment/web; pod/NAME for a pod without an owner."


def charged_to(meta: ObjectMeta) -> Charged:
    owners = workloads_of(meta)
    kind, name = (owners[-1].kind.lower(), owners[-1].name) if owners else ("pod", meta.name)
    return Charged(meta.namespace, meta.labels.get(names.LABEL_QUOTA_NAME, ""), f"{kind}/{name}")
