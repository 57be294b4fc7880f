"""All cases, by the file in which a real server's answers to them are kept."""

from __future__ import annotations

from tests.minicluster.apiserver.builtin import cases_cluster, cases_core, cases_pod, cases_workloads
from tests.minicluster.apiserver.builtin.case import Case

TABLES: dict[str, list[Case]] = {
    "pod": cases_pod.CASES,
    "core": cases_core.CASES,
    "services": cases_cluster.CORE,
    "groups": cases_cluster.GROUPS,
    "apps": cases_workloads.APPS,
    "batch": cases_workloads.BATCH,
    "others": cases_workloads.OTHERS,
}
