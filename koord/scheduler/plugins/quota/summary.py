"""One quota as programs read it from a running scheduler, under the keys of the original's services."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from koord.scheduler.plugins.quota.figures import figures
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.revoke import pods_of
from koord.scheduler.plugins.quota.spec import written
from koord.scheduler.plugins.quota.tree import Amounts, Quota, masked


def services_of(quotas: Quotas) -> Mapping[str, Callable[[str], object]]:
    """The summaries by the paths under which programs ask for them."""
    return {
        "quota/:name?includePods=true": lambda name: quota_summary(quotas, name, pods=True),
        "quotas/:name?includePods=true": lambda name: quota_summary(quotas, name, pods=True),
        "quotas?includePods=true": lambda _: quota_summaries(quotas, pods=True),
        "quota/:name": lambda name: quota_summary(quotas, name),
        "quotas/:name": lambda name: quota_summary(quotas, name),
        "quotas": lambda _: quota_summaries(quotas),
    }


def quota_summary(quotas: Quotas, name: str, *, pods: bool = False) -> dict[str, object] | None:
    """None if the quota does not exist. `pods`: with its own pods."""
    quota = quotas.forest.quotas.get(name)
    return None if quota is None else _summary(quotas, quota, pods=pods)


def quota_summaries(quotas: Quotas, *, pods: bool = False) -> dict[str, dict[str, object]]:
    """All quotas by name."""
    return {name: _summary(quotas, quota, pods=pods) for name, quota in sorted(quotas.forest.quotas.items())}


def _summary(quotas: Quotas, quota: Quota, *, pods: bool) -> dict[str, object]:
    own_figures, spec, own = figures(quotas, quota), quotas.forest.specs.get(quota.name), quotas.sums(quota)
    tree = quotas.forest.tree_of(quota.name)
    most = quota.bounds.max
    guaranteed: Amounts = (
        dict(quota.bounds.min) if tree is None else {key: tree.least_of(quota, key) for key in quota.bounds.min}
    )
    parts: dict[str, object] = {
        "name": own_figures.name,
        "parentName": own_figures.parent,
        "isParent": spec is not None and spec.is_parent,
        "tree": own_figures.tree,
        "allowLentResource": own_figures.allow_lent_resource,
        "runtimeVersion": 0 if tree is None else tree.version,
        "max": own_figures.max,
        "min": own_figures.min,
        "autoScaleMin": written(guaranteed),
        "sharedWeight": own_figures.shared_weight,
        "request": own_figures.request,
        "childRequest": own_figures.child_request,
        "used": own_figures.used,
        "runtime": own_figures.runtime,
        "nonPreemptibleRequest": own_figures.non_preemptible_request,
        "nonPreemptibleUsed": own_figures.non_preemptible_used,
        "allocated": own_figures.allocated,
        "guaranteed": own_figures.guaranteed,
        "selfRequest": written(masked(own.request, most)),
        "selfUsed": written(masked(own.used, most)),
        "selfNonPreemptibleRequest": written(masked(own.fixed_request, most)),
        "selfNonPreemptibleUsed": written(masked(own.fixed_used, most)),
        "unusable": own_figures.unusable,
    }
    if pods:
        parts["podCache"] = _pods(quotas, quota)
    return parts


def _pods(quotas: Quotas, quota: Quota) -> dict[str, Mapping[str, object]]:
    on_nodes = {record.key: quotas.counted(record) for record in pods_of(quotas, quota, quotas.cluster)}
    waiting = {key: asked for key, asked in quotas.waiting_in(quota) if key not in on_nodes}
    return {
        key: {"isAssigned": key in on_nodes, "resource": written(amounts)}
        for key, amounts in sorted({**waiting, **on_nodes}.items())
    }
