"""Every value of every option: of lists, of deletes, of evictions, of scales, of watches; and every form of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.minicluster.apiserver.differential.kinds import KINDS
from tests.minicluster.apiserver.differential.steps import (
    CORE,
    JSON_PATCH,
    PARTIAL,
    POLICY,
    STRATEGIC,
    TABLE,
    Sequence,
    Step,
    apply,
    config_map,
    delete,
    get,
    patch,
    post,
    put,
    rv,
    saving,
    sequence,
    watch,
)

CM, PDB = f"{CORE}/configmaps", f"{POLICY}/poddisruptionbudgets"
SC = "/apis/storage.k8s.io/v1/storageclasses"
DEPLOYMENTS, PODS = KINDS["deployments"], KINDS["pods"]
SEQUENCES: list[Sequence] = []


def _query(options: Mapping[str, object]) -> str:
    return "?" + "&".join(f"{name}={value}" for name, value in options.items())


def _evict(name: str, **parts: Any) -> Step:
    return post(
        f"{PODS.path}/{name}/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **parts},
    )


SEQUENCES.append(
    sequence(
        "list-matrix",
        *[post(CM, config_map(n, {"a": n}, labels={"l": n})) for n in "abcd"],
        rv(get(CM + "/d"), "rv"),
        rv(get(CM + "/b"), "old"),
        *[
            get(CM + _query(o))
            for o in (
                {"limit": 2},
                {"limit": 2, "resourceVersion": "{{rv}}"},
                {"limit": 2, "resourceVersion": "{{rv}}", "resourceVersionMatch": "Exact"},
                {"resourceVersion": "{{old}}", "resourceVersionMatch": "Exact"},
                {"limit": 1, "resourceVersion": "{{old}}", "resourceVersionMatch": "NotOlderThan"},
                {"resourceVersionMatch": "Exact"},
                {"resourceVersionMatch": "Odd", "resourceVersion": "1"},
                {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
                {"resourceVersion": "0", "limit": 1},
                {"resourceVersion": "x"},
                {"limit": -1},
                {"limit": "x"},
                {"limit": 0},
                {"continue": "x"},
                {"continue": "{{nothing}}", "resourceVersionMatch": "Exact"},
                {"timeoutSeconds": 1},
                {"timeoutSeconds": "x"},
                {"sendInitialEvents": "true"},
                {
                    "sendInitialEvents": "false",
                    "watch": "true",
                    "resourceVersionMatch": "NotOlderThan",
                    "timeoutSeconds": 1,
                },
                {"allowWatchBookmarks": "x"},
                {"fieldSelector": "metadata.name!=a"},
                {"fieldSelector": "metadata.name=a,metadata.name=b"},
                {"labelSelector": "l+in+(a,b)"},
                {"labelSelector": "l+notin+(a)"},
                {"labelSelector": "!l"},
                {"labelSelector": "l"},
                {"labelSelector": "l=a,l=b"},
                {"labelSelector": "l>1"},
                {"labelSelector": "l+in+()"},
                {"labelSelector": "a b"},
                {"labelSelector": "=a"},
                {"fieldSelector": "metadata.name"},
                {"fieldSelector": "a==b=c"},
                {"pretty": "true"},
                {"pretty": "1", "limit": 1},
                {"watch": "1", "timeoutSeconds": 1, "resourceVersion": "999999999"},
                {"labelSelector": "l=a", "limit": 1},
                {"fieldSelector": "metadata.name!=a", "limit": 1},
            )
        ],
        saving(get(CM + "?limit=2"), c="metadata.continue"),
        get(CM + "?limit=2&continue={{c}}"),
        get(CM + "?continue={{c}}"),
        get(CM + "?continue={{c}}&resourceVersion={{rv}}"),
        get(CM + "?continue={{c}}&resourceVersionMatch=Exact"),
        delete(CM + "/d"),
        get(CM + "?continue={{c}}"),
        get(CM + "?limit=2&continue={{c}}", TABLE),
        get("/api/v1/configmaps?continue={{c}}", only=("kind", "code", "message")),
    )
)
SEQUENCES.append(
    sequence(
        "accepts",
        post(CM, config_map("a", {"x": "y"})),
        *[
            get(p, accept=a)
            for p in (CM + "/a", CM + "?fieldSelector=metadata.name%3Da")
            for a in (
                "*/*",
                "application/*",
                "text/html",
                "text/html,*/*;q=0.1",
                "application/json;q=0.5,application/yaml",
                "application/yaml",
                "application/json;as=Table",
                "application/json;as=Table;v=v1",
                "application/json;as=Table;v=v2;g=meta.k8s.io",
                "application/json;as=Table;v=v1;g=x",
                "application/json;as=Odd;v=v1;g=meta.k8s.io",
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                "application/json;as=Odd;v=v1;g=meta.k8s.io,application/json",
                "application/json;pretty=1",
                "application/json;charset=utf-8",
                "application/json;stream=watch",
                "application/json; as=PartialObjectMetadata; v=v1beta1; g=meta.k8s.io",
                ";;",
                "application/cbor",
                "application/json-seq",
            )
        ],
    )
)
SEQUENCES.append(
    sequence(
        "content-types-all",
        *[
            Step("POST", CM, b, content_type=c)
            for b in (
                '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}',
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n",
            )
            for c in (
                "application/json",
                "application/yaml",
                "application/json; charset=utf-8",
                "application/json;charset=latin1",
                "text/plain",
                "application/xml",
                "application/x-yaml",
                "",
                "application/merge-patch+json",
                "*/*",
                "application/vnd.kubernetes.protobuf",
                "application/cbor",
            )
        ],
    )
)
SEQUENCES.append(
    sequence(
        "delete-options-all",
        *[
            s
            for i, o in enumerate(
                (
                    {"propagationPolicy": "Orphan"},
                    {"propagationPolicy": "Background"},
                    {"orphanDependents": True},
                    {"orphanDependents": False},
                    {"propagationPolicy": "Orphan", "orphanDependents": True},
                    {"gracePeriodSeconds": -1},
                    {"gracePeriodSeconds": 5},
                    {"gracePeriodSeconds": "x"},
                    {"preconditions": {"resourceVersion": "1"}},
                    {"preconditions": {"uid": ""}},
                    {"dryRun": ["All"]},
                    {"dryRun": ["Odd"]},
                    {"kind": "DeleteOptions", "apiVersion": "v1"},
                    {"kind": "Odd", "apiVersion": "v1"},
                    {"kind": "DeleteOptions", "apiVersion": "apps/v1"},
                    {"kind": "DeleteOptions", "apiVersion": "policy/v1"},
                    {"odd": 1},
                    {"ignoreStoreReadErrorWithClusterBreakingPotential": True},
                    [],
                    "x",
                )
            )
            for s in (
                DEPLOYMENTS.create(metadata={"name": f"d{i}"}),
                delete(f"{DEPLOYMENTS.path}/d{i}", o),
                get(f"{DEPLOYMENTS.path}/d{i}"),
            )
        ],
        *[
            s
            for i, o in enumerate(
                (
                    "propagationPolicy=Orphan",
                    "propagationPolicy=Odd",
                    "orphanDependents=true",
                    "orphanDependents=x",
                    "gracePeriodSeconds=x",
                    "gracePeriodSeconds=3",
                    "dryRun=All",
                    "dryRun=x",
                    "odd=1",
                )
            )
            for s in (post(CM, config_map(f"c{i}")), delete(f"{CM}/c{i}?{o}"), get(f"{CM}/c{i}"))
        ],
    )
)
SEQUENCES.append(
    sequence(
        "delete-collections-all",
        *[post(CM, config_map(n, labels={"l": n})) for n in "abcde"],
        delete(CM + "?labelSelector=l%3Da"),
        delete(CM + "?fieldSelector=metadata.name%3Db&dryRun=All"),
        delete(CM + "?fieldSelector=metadata.name%3Db", {"propagationPolicy": "Orphan"}),
        get(CM),
        patch(CM + "/b", {"metadata": {"finalizers": None}}),
        delete(CM + "?limit=1"),
        delete(CM, {"preconditions": {"uid": "x"}}),
        delete(CM + "?labelSelector=l+in+("),
        delete(CM + "?resourceVersion=1"),
        delete(CM),
        get(CM),
    )
)
SEQUENCES.append(
    sequence(
        "pod-deletes",
        *[
            s
            for i, (spec, o) in enumerate(
                (
                    ({}, {}),
                    ({}, {"gracePeriodSeconds": 0}),
                    ({}, {"gracePeriodSeconds": -1}),
                    ({"nodeName": "n"}, {}),
                    ({"nodeName": "n"}, {"gracePeriodSeconds": 5}),
                    ({"nodeName": "n", "terminationGracePeriodSeconds": 0}, {}),
                    ({"nodeName": "n"}, {"gracePeriodSeconds": 0}),
                    ({"nodeName": "n"}, {"gracePeriodSeconds": 1}),
                )
            )
            for s in (
                PODS.create(metadata={"name": f"p{i}"}, spec=spec),
                delete(f"{PODS.path}/p{i}", o),
                get(f"{PODS.path}/p{i}"),
                delete(f"{PODS.path}/p{i}", {"gracePeriodSeconds": 2}),
                delete(f"{PODS.path}/p{i}", {"gracePeriodSeconds": 50}),
                delete(f"{PODS.path}/p{i}", {"gracePeriodSeconds": 0}),
                get(f"{PODS.path}/p{i}"),
            )
        ],
    )
)
SEQUENCES.append(
    sequence(
        "eviction-matrix",
        PODS.create(metadata={"name": "a", "labels": {"x": "y"}}),
        _evict("a", deleteOptions={"dryRun": ["All"]}),
        _evict("a", deleteOptions={"preconditions": {"uid": "x"}}),
        _evict("b"),
        post(f"{PODS.path}/a/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}}),
        post(
            f"{PODS.path}/a/eviction", {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "a"}}
        ),
        post(f"{PODS.path}/a/eviction", {}),
        post(
            f"{PODS.path}/a/eviction?dryRun=All",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}},
        ),
        get(f"{PODS.path}/a/eviction"),
        post(
            PDB,
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "p"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"x": "y"}}},
            },
        ),
        get(PDB + "?resourceVersion=0", until={"items.0.metadata.name": "p"}, only=("kind",)),
        patch(
            f"{PODS.path}/a/status",
            {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
        ),
        _evict("a"),
        patch(
            PDB + "/p/status",
            {
                "status": {
                    "observedGeneration": 1,
                    "disruptionsAllowed": 1,
                    "currentHealthy": 2,
                    "desiredHealthy": 1,
                    "expectedPods": 2,
                }
            },
        ),
        get(PDB + "?resourceVersion=0", until={"items.0.status.disruptionsAllowed": 1}, only=("kind",)),
        _evict("a", deleteOptions={"gracePeriodSeconds": 0}),
        get(PDB + "/p"),
        PODS.create(metadata={"name": "c", "labels": {"x": "y"}}),
        _evict("c"),
        patch(f"{PODS.path}/c/status", {"status": {"phase": "Succeeded"}}),
        _evict("c"),
    )
)
for k in (KINDS[n] for n in ("deployments", "replicasets", "statefulsets", "replicationcontrollers")):
    n = k.path.rpartition("/")[2]
    S_ = f"{k.one}/scale"
    SEQUENCES.append(
        sequence(
            "scale-matrix-" + n,
            k.create(spec={"replicas": 2}),
            get(S_),
            rv(get(S_)),
            put(
                S_,
                {
                    "apiVersion": "autoscaling/v1",
                    "kind": "Scale",
                    "metadata": {"name": "a", "resourceVersion": "{{rv}}"},
                    "spec": {"replicas": 3},
                },
            ),
            put(
                S_,
                {
                    "apiVersion": "autoscaling/v1",
                    "kind": "Scale",
                    "metadata": {"name": "a", "resourceVersion": "{{rv}}"},
                    "spec": {"replicas": 4},
                },
            ),
            put(
                S_,
                {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": -1}},
            ),
            put(
                S_,
                {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "b"}, "spec": {"replicas": 1}},
            ),
            put(S_, {"apiVersion": "apps/v1", "kind": "Deployment"}),
            put(S_, {"kind": "Scale", "apiVersion": "autoscaling/v1"}),
            patch(S_, {"spec": {"replicas": 5}}),
            patch(S_, [{"op": "replace", "path": "/spec/replicas", "value": 6}], JSON_PATCH),
            patch(S_, {"spec": {"replicas": 7}}, STRATEGIC),
            patch(S_, {"spec": {"replicas": None}}),
            patch(S_, {"spec": {"replicas": "x"}}),
            patch(S_ + "?dryRun=All", {"spec": {"replicas": 9}}),
            patch(S_, {"metadata": {"labels": {"a": "b"}}}),
            apply(
                S_,
                {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 8}},
                "s",
            ),
            apply(k.one, {**k.made(spec={"replicas": 1})}, "o"),
            get(k.one),
            delete(S_),
            post(S_, {}),
            get(S_, TABLE),
        )
    )
SEQUENCES.append(
    sequence(
        "default-class",
        post(
            SC,
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "{{seq}}-a"},
                "provisioner": "p",
            },
        ),
        KINDS["persistentvolumeclaims"].create(),
        get(KINDS["persistentvolumeclaims"].one),
    )
)
SEQUENCES.append(
    sequence(
        "generated-names",
        *[post(CM, config_map("", generateName=g)) for g in ("a-", "o" * 62, "o" * 70, "A-", "a.", "-", "a..", "1")],
        post(CM, config_map("n", generateName="g-")),
        post(CM, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
        put(CM + "/n", config_map("n")),
        get(CM + "/n"),
        post(CM + "?dryRun=All", config_map("", generateName="d-")),
    )
)
SEQUENCES.append(
    sequence(
        "watch-transitions",
        rv(post(CM, config_map("a", {"x": "1"}, labels={"l": "in"})), "start"),
        patch(CM + "/a", {"metadata": {"labels": {"l": "out"}}}),
        patch(CM + "/a", {"data": {"x": "2"}}),
        patch(CM + "/a", {"metadata": {"labels": {"l": "in"}}}),
        patch(CM + "/a", {"data": {"x": "3"}}),
        post(CM, config_map("b", labels={"l": "in"})),
        delete(CM + "/b"),
        patch(CM + "/a", {"metadata": {"labels": {"l": "out"}}}),
        delete(CM + "/a"),
        *[
            watch(CM + f"?resourceVersion={{{{start}}}}&timeoutSeconds=1{s}", 99, accept=a)
            for s in (
                "",
                "&labelSelector=l%3Din",
                "&labelSelector=l%21%3Din",
                "&labelSelector=l",
                "&labelSelector=%21l",
                "&fieldSelector=metadata.name%3Da",
                "&fieldSelector=metadata.name%21%3Da",
                "&fieldSelector=metadata.name%3Da&labelSelector=l%3Din",
            )
            for a in ("", TABLE, PARTIAL)
        ],
        watch(CM + "?timeoutSeconds=1&allowWatchBookmarks=true", 99),
        watch(CM + "?timeoutSeconds=1&resourceVersion=0&labelSelector=l%3Din", 99),
    )
)
