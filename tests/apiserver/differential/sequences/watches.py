"""Watches: from a version, from nothing, through selectors, until the end."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from tests.apiserver.differential.steps import (
    APPS,
    CORE,
    PARTIAL,
    TABLE,
    Step,
    collect,
    config_map,
    delete,
    deployment,
    get,
    patch,
    pod,
    post,
    rv,
    sequence,
    watch,
)

CM = f"{CORE}/configmaps"
PODS = f"{CORE}/pods"
A = f"{CM}/a"
INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


def _life() -> list[Step]:
    return [
        rv(post(CM, config_map("start")), "start"),
        rv(post(CM, config_map("a", {"x": "1"}, labels={"app": "web"})), "first"),
        patch(A, {"data": {"x": "2"}}),
        patch(A, {"metadata": {"labels": {"app": "db"}}}),
        patch(A, {"metadata": {"labels": {"app": "web"}}}),
        rv(delete(A), "last"),
    ]


SEQUENCES = [
    sequence("watch-history", *_life(), watch(f"{CM}?resourceVersion={{{{start}}}}", 5)),
    sequence("watch-from-middle", *_life(), watch(f"{CM}?resourceVersion={{{{first}}}}", 4)),
    sequence("watch-selector", *_life(), watch(f"{CM}?resourceVersion={{{{start}}}}&labelSelector=app%3Dweb", 5)),
    sequence("watch-other-selector", *_life(), watch(f"{CM}?resourceVersion={{{{start}}}}&labelSelector=app%3Ddb", 2)),
    sequence("watch-not-selector", *_life(), watch(f"{CM}?resourceVersion={{{{start}}}}&labelSelector=app%21%3Dweb", 2)),
    sequence("watch-name", *_life(), watch(f"{CM}?resourceVersion={{{{start}}}}&fieldSelector=metadata.name%3Da", 5)),
    sequence("watch-one-object", *_life(), watch(f"{A}?resourceVersion={{{{start}}}}", 5)),
    sequence(
        "watch-fresh",
        post(CM, config_map("a")), post(CM, config_map("b")),
        watch(CM, 2),
        watch(f"{CM}?resourceVersion=0", 2),
        watch(f"{CM}?labelSelector=x", 0),
    ),
    sequence(
        "watch-live",
        rv(post(CM, config_map("a", labels={"app": "web"}))),
        watch(f"{CM}?resourceVersion={{{{rv}}}}&labelSelector=app%3Dweb", 0, background="web"),
        watch(f"{CM}?resourceVersion={{{{rv}}}}", 0, background="all"),
        patch(A, {"data": {"x": "1"}}),
        patch(A, {"metadata": {"labels": {"app": "db"}}}),
        patch(A, {"data": {"x": "2"}}),
        patch(A, {"metadata": {"labels": {"app": "web"}}}),
        delete(A),
        collect("web", 4),
        collect("all", 5),
    ),
    sequence(
        "watch-initial",
        post(CM, config_map("a")), post(CM, config_map("b")),
        watch(f"{CM}?{INITIAL}", 3),
        watch(f"{CM}?{INITIAL}&resourceVersion=0", 3),
        watch(f"{CM}?{INITIAL}&labelSelector=none", 1),
        watch(f"{CM}?{INITIAL}&resourceVersion=1", 3),
        watch(f"{CM}?sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", 0),
        watch(f"{CM}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 3),
        watch(f"{CM}?sendInitialEvents=true", 0),
        watch(f"{CM}?sendInitialEvents=true&resourceVersionMatch=Exact&allowWatchBookmarks=true", 0),
        watch(f"{CM}?resourceVersionMatch=NotOlderThan", 0),
        watch(f"{CM}?resourceVersionMatch=NotOlderThan&resourceVersion=0", 0),
        watch(f"{CM}?{INITIAL}&continue=x", 0),
        watch(f"{CM}?{INITIAL}&limit=1", 3),
        watch(f"{CM}?{INITIAL}", 3, TABLE),
        watch(f"{CM}?{INITIAL}", 3, PARTIAL),
    ),
    sequence(
        "watch-initial-live",
        post(CM, config_map("a")),
        watch(f"{CM}?{INITIAL}", 0, background="w"),
        post(CM, config_map("b")),
        delete(A),
        collect("w", 4),
    ),
    sequence(
        "watch-faults",
        watch(f"{CM}?resourceVersion=abc", 0),
        watch(f"{CM}?resourceVersion=-1", 0),
        watch(f"{CM}?labelSelector=%3D", 0),
        watch(f"{CM}?fieldSelector=data.x%3D1", 0),
        watch(f"{CM}?timeoutSeconds=x", 0),
        get(f"{CM}?watch=maybe", events=0),
        get(f"{CM}?watch=0", only=("kind",)),
        get(f"{CM}?watch=false", only=("kind",)),
        watch(f"{CORE}/nothings", 0),
        watch(CM, 0, "text/plain"),
        watch(CM, 0, user="nobody"),
        watch(f"{CM}/absent", 0),
    ),
    sequence(
        "watch-timeout",
        rv(post(CM, config_map("a"))),
        watch(f"{CM}?resourceVersion={{{{rv}}}}&timeoutSeconds=1", 99),
        watch(f"{CM}?timeoutSeconds=1", 99),
    ),
    sequence(
        "watch-too-old",
        watch(f"{CM}?resourceVersion=1", 1),
        watch(f"{PODS}?resourceVersion=1", 1, TABLE),
        get(f"{CM}?resourceVersion=1&resourceVersionMatch=Exact"),
        watch(f"{CM}?resourceVersion=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", 1),
    ),
    sequence(
        "watch-table",
        rv(post(PODS, pod("p", {"labels": {"a": "b"}}))),
        post(f"{PODS}/p/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}),
        patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}),
        delete(f"{PODS}/p?gracePeriodSeconds=0"),
        watch(f"{PODS}?resourceVersion={{{{rv}}}}", 3, TABLE),
        watch(f"{PODS}?resourceVersion={{{{rv}}}}&includeObject=None", 3, TABLE),
        watch(f"{PODS}?resourceVersion={{{{rv}}}}&includeObject=Object", 3, TABLE),
        watch(f"{PODS}?resourceVersion={{{{rv}}}}", 3, PARTIAL),
        watch(f"{PODS}?resourceVersion={{{{rv}}}}&fieldSelector=spec.nodeName%3Dn", 3),
        watch(f"{PODS}?resourceVersion={{{{rv}}}}&fieldSelector=status.phase%3DPending", 3),
        watch(f"{PODS}?resourceVersion={{{{rv}}}}", 3, "application/json;stream=watch"),
    ),
    sequence(
        "watch-finalizer",
        rv(post(CM, config_map("start"))),
        post(CM, config_map("a", finalizers=["example.com/f"])),
        delete(A),
        patch(A, {"metadata": {"finalizers": None}}),
        watch(f"{CM}?resourceVersion={{{{rv}}}}", 3),
    ),
    sequence(
        "watch-collection-delete",
        rv(post(CM, config_map("a"))),
        post(CM, config_map("b")),
        delete(f"{CM}?dryRun=All"),
        patch(A, {}),
        delete(CM),
        watch(f"{CM}?resourceVersion={{{{rv}}}}", 3),
    ),
    sequence(
        "watch-status-and-scale",
        rv(post(f"{APPS}/deployments", deployment("d"))),
        patch(f"{APPS}/deployments/d/scale", {"spec": {"replicas": 7}}),
        patch(f"{APPS}/deployments/d/status", {"status": {"replicas": 1}}),
        watch(f"{APPS}/deployments?resourceVersion={{{{rv}}}}", 2),
    ),
    sequence(
        "watch-cluster-wide",
        rv(post(CM, config_map("start"))),
        post(CM, config_map("a", labels={"seq": "{{seq}}"})),
        patch(A, {"data": {"x": "1"}}),
        delete(A),
        watch("/api/v1/configmaps?resourceVersion={{rv}}&labelSelector=seq%3D{{seq}}", 3),
        watch("/api/v1/configmaps?resourceVersion={{rv}}&fieldSelector=metadata.namespace%3D{{ns}}", 3),
    ),
]  # fmt: skip
