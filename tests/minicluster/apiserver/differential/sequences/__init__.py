"""The request sequences, by subject. A literal list, in the order in which a reader might want them."""

from __future__ import annotations

from tests.minicluster.apiserver.differential.sequences import (
    access,
    applies,
    cluster,
    crud,
    definitions,
    deletion,
    directives,
    discovery,
    every_kind,
    field_changes,
    field_faults,
    grants,
    hostile,
    kind_faults,
    limits,
    lists,
    lives,
    matrices,
    patches,
    pod_faults,
    quotas,
    rules,
    schemas,
    services,
    subresources,
    versions,
    views,
    watches,
    webhooks,
    windows,
    writes,
)

MODULES = (
    crud, writes, patches, applies, subresources, deletion, lists, watches, views, windows,
    definitions, schemas, rules, access, discovery, webhooks, hostile, cluster,
    every_kind, kind_faults, services, directives, versions, lives, pod_faults, field_faults, field_changes,
    limits, quotas, matrices, grants,
)  # fmt: skip
