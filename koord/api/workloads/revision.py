"""A revision: one template that a StatefulSet or DaemonSet has had, with a name made from its content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.workloads import PodTemplate
from koord.api.workloads.template_hash import template_hash

POD_LABEL: Final = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class Revision:
    """One template with its name, which may be yet to be created."""

    name: str
    hash: str
    template: PodTemplate
    number: int


def new_revision(meta: ObjectMeta, template: PodTemplate, number: int = 1, collisions: int | None = None) -> Revision:
    hash_ = template_hash(data_of(template), collisions)
    return Revision(f"{meta.name[:200]}-{hash_}", hash_, template, number)


def data_of(template: PodTemplate) -> dict[str, Any]:
    return {"spec": {"template": {**template, "$patch": "replace"}}}
