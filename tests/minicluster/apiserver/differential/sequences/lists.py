"""Lists: pages, selectors, and which version of the world they show."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from tests.minicluster.apiserver.differential.steps import (
    APPS,
    CORE,
    Step,
    config_map,
    delete,
    deployment,
    get,
    patch,
    pod,
    post,
    put,
    rv,
    saving,
    sequence,
)

CM = f"{CORE}/configmaps"
PODS = f"{CORE}/pods"
BIND = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
LABELLED = {
    "a": {"app": "web", "tier": "front"},
    "b": {"app": "web", "tier": "back"},
    "c": {"app": "db"},
    "d": {},
    "e": {"app": ""},
}


def _five() -> list[Step]:
    return [post(CM, config_map(name, labels=labels)) for name, labels in LABELLED.items()]


def _page(step: Step) -> Step:
    return saving(rv(step, "list"), next="metadata.continue")


def _names(path: str) -> Step:
    return get(path)  # fmt: skip


SEQUENCES = [
    sequence(
        "pages",
        *_five(),
        _page(get(f"{CM}?limit=2")),
        _page(get(f"{CM}?limit=2&continue={{{{next}}}}")),
        _page(get(f"{CM}?limit=2&continue={{{{next}}}}")),
        get(f"{CM}?limit=5"),
        get(f"{CM}?limit=4"),
        get(f"{CM}?limit=0"),
        get(f"{CM}?limit=-1"),
        get(f"{CM}?limit=many"),
        get(f"{CM}?limit=9999999999999999999999"),
        get(f"{CM}?continue=nonsense"),
        get(f"{CM}?continue=e30"),
        get(f"{CM}?limit=2&continue=e30"),
    ),
    sequence(
        "pages-stable",
        *_five(),
        _page(get(f"{CM}?limit=2")),
        delete(f"{CM}/c"),
        post(CM, config_map("cc")),
        patch(f"{CM}/d", {"data": {"changed": "yes"}}),
        _page(get(f"{CM}?limit=2&continue={{{{next}}}}")),
        get(f"{CM}?limit=2&continue={{{{next}}}}"),
        get(f"{CM}?limit=2"),
    ),
    sequence(
        "pages-selected",
        *_five(),
        _page(get(f"{CM}?limit=1&labelSelector=app")),
        _page(get(f"{CM}?limit=1&labelSelector=app&continue={{{{next}}}}")),
        _page(get(f"{CM}?limit=5&labelSelector=app&continue={{{{next}}}}")),
        get(f"{CM}?limit=1&fieldSelector=metadata.name%3De"),
        _page(get(f"{CM}?limit=2")),
        get(f"{CM}?limit=1&labelSelector=app&continue={{{{next}}}}"),
        get(f"{CM}?limit=2&continue={{{{next}}}}&resourceVersion={{{{list}}}}"),
        get(f"{CM}?limit=2&continue={{{{next}}}}&resourceVersion=0"),
        get(f"{CM}?limit=2&continue={{{{next}}}}&resourceVersion=0&resourceVersionMatch=NotOlderThan"),
        get(f"{PODS}?limit=2&continue={{{{next}}}}"),
    ),
    sequence(
        "label-selectors",
        *_five(),
        *[
            _names(f"{CM}?labelSelector={selector}")
            for selector in (
                "app%3Dweb", "app%3D%3Dweb", "app%21%3Dweb", "app", "%21app", "app%20in%20(web,db)", "app%20notin%20(web)", "app%3Dweb,tier%3Dback",
                "app%3D", "app%20in%20()", "app%20in%20(web", "app%3Dweb,", ",", "%3D", "app%3Dbad%20value%21", "bad%20key%3Dx", "app%3E1", "app%3Ea",
                "n%3C5", "a%26b", "app%20in%20(,web)", "x%2Fy%2Fz%3D1", "app%20exists", "app%3D%3D%3Dweb", "%21app%3Dweb", "app%20in%20web", "((", "app%00",
                "%20app%20%3D%20web%20", "app,app%3Dweb",
            )
        ],
    ),
    sequence(
        "field-selectors",
        *_five(),
        *[
            _names(f"{CM}?fieldSelector={selector}")
            for selector in (
                "metadata.name%3Da", "metadata.name%21%3Da", "metadata.name%3D%3Da", "metadata.namespace%3D{{ns}}", "metadata.namespace%3Dother", "data.x%3D1",
                "metadata.name", "metadata.name%3Da,metadata.name%3Db", "metadata.name%3Da,metadata.namespace%3D{{ns}}", "%3D", "metadata.name%3Da%5C,b", "metadata.uid%3Dx",
                "", ",", "metadata.name%3D", "metadata.name%3Da%3Db", "metadata.labels%3Dx", "metadata.name%3DUPPER%20case",
            )
        ],
        get(f"{CM}/a?fieldSelector=metadata.name%3Db"),
    ),
    sequence(
        "field-selectors-pods",
        post(PODS, pod("p", schedulerName="koord")),
        post(PODS, pod("q", restartPolicy="Never", serviceAccountName="robot")),
        post(f"{PODS}/p/binding", BIND),
        patch(f"{PODS}/p/status", {"status": {"phase": "Running", "podIP": "10.4.4.4", "podIPs": [{"ip": "10.4.4.4"}], "nominatedNodeName": "m"}}),
        *[
            _names(f"{PODS}?fieldSelector={selector}")
            for selector in (
                "spec.nodeName%3Dn", "spec.nodeName%3D", "spec.nodeName%21%3Dn", "status.phase%3DRunning", "status.phase%21%3DRunning,status.phase%21%3DFailed",
                "spec.schedulerName%3Dkoord", "spec.restartPolicy%3DNever", "spec.serviceAccountName%3Drobot", "spec.hostNetwork%3Dfalse", "status.podIP%3D10.4.4.4",
                "status.podIPs%3D10.4.4.4", "status.nominatedNodeName%3Dm", "spec.nodename%3Dn", "spec.containers%3Dx", "status.reason%3Dx",
            )
        ],
        _names("/api/v1/pods?fieldSelector=metadata.namespace%3D{{ns}},metadata.name%3Dp"),
    ),
    sequence(
        "field-selectors-kinds",
        post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{{seq}}"}, "spec": {"unschedulable": True}}),
        _names("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue,metadata.name%3D{{seq}}"),
        _names("/api/v1/nodes?fieldSelector=spec.podCIDR%3Dx"),
        post(f"{CORE}/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "x"}),
        _names(f"{CORE}/secrets?fieldSelector=type%3Dx"),
        _names(f"{CORE}/secrets?fieldSelector=type%3DOpaque"),
        post(f"{CORE}/events", {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"namespace": "{{ns}}", "kind": "Pod", "name": "p", "uid": "u"}, "reason": "R", "type": "Warning", "source": {"component": "c"}}),
        *[_names(f"{CORE}/events?fieldSelector={selector}") for selector in ("involvedObject.name%3Dp", "involvedObject.kind%3DPod,involvedObject.uid%3Du", "reason%3DR", "type%3DNormal", "source%3Dc", "reportingComponent%3Dc", "involvedObject.color%3Dx")],
        post("/apis/batch/v1/namespaces/{{ns}}/jobs", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [{"name": "m", "image": "i"}], "restartPolicy": "Never"}}}}),
        _names("/apis/batch/v1/namespaces/{{ns}}/jobs?fieldSelector=status.successful%3D0"),
        _names("/api/v1/namespaces?fieldSelector=metadata.name%3D{{ns}},status.phase%3DActive"),
        post(f"{APPS}/replicasets", {**deployment("r"), "kind": "ReplicaSet"}),
        _names(f"{APPS}/replicasets?fieldSelector=status.replicas%3D0"),
        _names(f"{APPS}/deployments?fieldSelector=spec.replicas%3D1"),
        _names(f"{CORE}/services?fieldSelector=spec.type%3DClusterIP"),
    ),
    sequence(
        "list-versions",
        rv(post(CM, config_map("a")), "one"),
        rv(post(CM, config_map("b")), "two"),
        rv(post(CM, config_map("c")), "three"),
        delete(f"{CM}/a"),
        get(f"{CM}?resourceVersion={{{{two}}}}&resourceVersionMatch=Exact"),
        get(f"{CM}?resourceVersion={{{{three}}}}&resourceVersionMatch=Exact&limit=1"),
        get(f"{CM}?resourceVersion={{{{two}}}}&resourceVersionMatch=NotOlderThan", until={"items.0.metadata.name": "b"}),
        get(f"{CM}?resourceVersion={{{{two}}}}", until={"items.0.metadata.name": "b"}),
        get(f"{CM}?resourceVersion={{{{two}}}}&limit=1"),
        get(f"{CM}?resourceVersion=0", until={"items.0.metadata.name": "b"}),
        get(f"{CM}?resourceVersion=0&resourceVersionMatch=Exact"),
        get(f"{CM}?resourceVersion=0&resourceVersionMatch=NotOlderThan"),
        get(f"{CM}?resourceVersionMatch=Exact"),
        get(f"{CM}?resourceVersionMatch=NotOlderThan"),
        get(f"{CM}?resourceVersion=5&resourceVersionMatch=Near"),
        get(f"{CM}?resourceVersion=abc"),
        get(f"{CM}?resourceVersion=-1"),
        get(f"{CM}?resourceVersion=abc&resourceVersionMatch=Exact"),
        get(f"{CM}/b?resourceVersion=0"),
        get(f"{CM}/b?resourceVersion={{{{two}}}}"),
        get(f"{CM}/b?resourceVersion=abc"),
        get(f"{CM}?sendInitialEvents=true"),
        get(f"{CM}?allowWatchBookmarks=true"),
        get(f"{CM}?timeoutSeconds=x"),
    ),
    sequence(
        "list-exact-history",
        rv(post(CM, config_map("a", {"v": "1"})), "one"),
        rv(put(f"{CM}/a", config_map("a", {"v": "2"})), "two"),
        rv(post(CM, config_map("b", {"v": "1"})), "three"),
        delete(f"{CM}/b"),
        get(f"{CM}?resourceVersion={{{{one}}}}&resourceVersionMatch=Exact"),
        get(f"{CM}?resourceVersion={{{{two}}}}&resourceVersionMatch=Exact"),
        get(f"{CM}?resourceVersion={{{{three}}}}&resourceVersionMatch=Exact"),
        saving(get(f"{CM}?resourceVersion={{{{three}}}}&resourceVersionMatch=Exact&limit=1"), next="metadata.continue"),
        get(f"{CM}?limit=1&continue={{{{next}}}}"),
    ),
    sequence(
        "list-empty",
        get(CM),
        get(f"{PODS}?limit=5"),
        get(f"{APPS}/deployments"),
        get("/api/v1/namespaces/{{seq}}-absent/pods"),
        get("/api/v1/persistentvolumes?labelSelector=nothing%3Dhere"),
        get(f"{APPS}/deployments?labelSelector=x", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
    ),
    sequence(
        "list-order",
        *[post(CM, config_map(name)) for name in ("b", "a", "a.b", "a-b", "aa", "0", "b0")],
        get(CM, only=tuple(f"items.{n}.metadata.name" for n in range(8))),
        get("/api/v1/configmaps?labelSelector=nothing%3Dhere"),
        get(f"{CM}?limit=3", only=tuple(f"items.{n}.metadata.name" for n in range(3))),
    ),
]  # fmt: skip
