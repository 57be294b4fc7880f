"""Discovery documents, versions and health: what clients read before they ask for anything."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from tests.minicluster.apiserver.differential.steps import PARTIAL, PARTIAL_LIST, TABLE, delete, get, post, sequence

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
GROUPS = (
    "apps", "batch", "policy", "coordination.k8s.io", "events.k8s.io", "rbac.authorization.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
    "apiextensions.k8s.io", "admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
)  # fmt: skip

C = "/api/v1/componentstatuses"
ETCD = "?fieldSelector=metadata.name%3Detcd-0"

SEQUENCES = [
    sequence("discovery-core", get("/api"), get("/api", AGGREGATED)),
    sequence("discovery-core-v1", get("/api/v1")),
    *[
        sequence(f"discovery-{group.partition('.')[0]}", get(f"/apis/{group}"), get(f"/apis/{group}/v1"), get(f"/apis/{group}/v9"))
        for group in GROUPS
    ],
    sequence("discovery-groups", get("/apis", only=("kind", "apiVersion")), get("/apis/", only=("kind",)), get("/apis", AGGREGATED, only=("kind", "apiVersion"))),
    sequence("version", get("/version", shape=True), get("/version", only=("major", "minor"))),
    sequence("health", get("/healthz"), get("/livez"), get("/readyz"), get("/livez/ping"), get("/healthz/ping"), get("/readyz/nothing"), post("/healthz", {})),
    sequence("openapi", get("/openapi/v3", only=("kind",)), get("/openapi/v3/apis/apps/v1", only=("openapi",)), get("/openapi/v3/apis/nothing/v1")),
    sequence("component-statuses",get(C+ETCD),get(C+ETCD,TABLE),get(C+"/etcd-0"),get(C+"/scheduler"),get(C+"/controller-manager"),get(C+"/nope"),get(C+"/etcd-0",TABLE),get(C+"/etcd-0",PARTIAL),get(C+"?watch=true"),get(C+"?labelSelector=a%3Db"),post(C,{}),delete(C),delete(C+"/etcd-0"),get(C+"/etcd-0/status"),get(C+ETCD,PARTIAL_LIST), get("/api/v1/namespaces/{{ns}}/componentstatuses"),get(C,only=("kind","apiVersion","metadata"))),
]  # fmt: skip
