"""All resources that admission reviews. A new resource is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from koord.admission import agents, config_maps, elastic_quotas, nodes, pods, reservations
from koord.admission.resource import AdmissionResource, Lookup
from koord.admission.rule import Mutating, Validating

RESOURCES: Final[tuple[AdmissionResource, ...]] = (
    pods.RESOURCE,
    nodes.RESOURCE,
    reservations.RESOURCE,
    elastic_quotas.RESOURCE,
    config_maps.RESOURCE,
    agents.RESOURCE,
)

BY_NAME: Final[Mapping[str, AdmissionResource]] = {resource.name: resource for resource in RESOURCES}
MUTATING: Final[tuple[Mutating, ...]] = tuple(rule for resource in RESOURCES for rule in resource.mutating)
VALIDATING: Final[tuple[Validating, ...]] = tuple(rule for resource in RESOURCES for rule in resource.validating)
LOOKUPS: Final[tuple[Lookup, ...]] = tuple(lookup for resource in RESOURCES for lookup in resource.lookups)
