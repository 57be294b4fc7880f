"""Strategic merge patches, each on one of the bases: (name, base, patch)."""

from __future__ import annotations

from typing import Any


def _template(spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"template": {"spec": spec, **more}}


def _web(**change: Any) -> dict[str, Any]:
    return _template({"containers": [{"name": "web", **change}]})


def _deploy(spec: dict[str, Any]) -> dict[str, Any]:
    return {"spec": spec}


CASES: list[tuple[str, str, Any]] = [
    ("empty", "deployment", {}),
    ("label added", "configmap", {"metadata": {"labels": {"new": "x"}}}),
    ("label changed", "configmap", {"metadata": {"labels": {"app": "other"}}}),
    ("label removed", "configmap", {"metadata": {"labels": {"app": None}}}),
    ("label removed that is not there", "configmap", {"metadata": {"labels": {"nope": None}}}),
    ("labels removed", "configmap", {"metadata": {"labels": None}}),
    ("labels replaced", "configmap", {"metadata": {"labels": {"$patch": "replace", "only": "this"}}}),
    ("labels deleted by directive", "configmap", {"metadata": {"labels": {"$patch": "delete"}}}),
    ("labels with an unknown directive", "configmap", {"metadata": {"labels": {"$patch": "wrong", "a": "b"}}}),
    ("data key removed and added", "configmap", {"data": {"a": None, "c": "3"}}),
    ("data retains keys", "configmap", {"data": {"$retainKeys": ["b", "c"], "c": "3"}}),
    ("retainKeys misses a patched key", "configmap", {"data": {"$retainKeys": ["b"], "c": "3"}}),
    ("retainKeys is no list", "configmap", {"data": {"$retainKeys": "b", "c": "3"}}),
    ("immutable set", "configmap", {"immutable": True}),
    ("binary data where there was none", "configmap", {"binaryData": {"x": "AAE=", "y": None}}),
    ("directive where there was nothing", "configmap", {"binaryData": {"$patch": "delete"}}),
    ("replace directive where there was nothing", "configmap", {"binaryData": {"$patch": "replace", "x": "AAE="}}),
    ("replace directive at the root", "configmap", {"$patch": "replace", "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "base", "namespace": "default"}, "data": {"z": "26"}}),
    ("finalizers merged", "podtemplate", {"metadata": {"finalizers": ["example.com/d"]}}),
    ("finalizers merged, one known", "podtemplate", {"metadata": {"finalizers": ["example.com/b", "example.com/d"]}}),
    ("finalizer deleted", "podtemplate", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/b"]}}),
    ("finalizer deleted and added", "podtemplate", {"metadata": {
        "$deleteFromPrimitiveList/finalizers": ["example.com/a"], "finalizers": ["example.com/z"]}}),
    ("finalizers ordered", "podtemplate", {"metadata": {
        "$setElementOrder/finalizers": ["example.com/c", "example.com/a", "example.com/b"]}}),
    ("finalizers ordered and added", "podtemplate", {"metadata": {
        "$setElementOrder/finalizers": ["example.com/n", "example.com/c", "example.com/a"],
        "finalizers": ["example.com/n"]}}),
    ("finalizers nulled", "podtemplate", {"metadata": {"finalizers": None}}),
    ("deleting from a list that is not there", "configmap", {"metadata": {
        "$deleteFromPrimitiveList/finalizers": ["x"]}}),
    ("delete directive without a field", "podtemplate", {"metadata": {"$deleteFromPrimitiveList": ["x"]}}),
    ("finalizers twice the same", "podtemplate", {"metadata": {"finalizers": ["example.com/c", "example.com/c"]}}),
    ("owner added", "podtemplate", {"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "o3", "uid": "u3"}]}}),
    ("owner changed by uid", "podtemplate", {"metadata": {"ownerReferences": [{"uid": "u1", "controller": True}]}}),
    ("owner deleted by uid", "podtemplate", {"metadata": {"ownerReferences": [{"uid": "u1", "$patch": "delete"}]}}),
    ("owner without uid", "podtemplate", {"metadata": {"ownerReferences": [{"name": "o1", "controller": True}]}}),
    ("image changed", "podtemplate", _web(image="web:2")),
    ("container added", "podtemplate", _template({"containers": [{"name": "new", "image": "new:1"}]})),
    ("container added with nulls and directives", "podtemplate", _template({"containers": [
        {"name": "new", "image": "new:1", "env": None, "args": ["x"]}]})),
    ("container deleted", "podtemplate", _template({"containers": [{"name": "side", "$patch": "delete"}]})),
    ("container deleted that is not there", "podtemplate", _template({"containers": [
        {"name": "nope", "$patch": "delete"}]})),
    ("container deleted without key", "podtemplate", _template({"containers": [{"$patch": "delete"}]})),
    ("containers replaced", "podtemplate", _template({"containers": [
        {"$patch": "replace"}, {"name": "only", "image": "only:1"}]})),
    ("containers replaced, one known", "podtemplate", _template({"containers": [
        {"name": "web", "image": "web:9"}, {"$patch": "replace"}]})),
    ("containers with a merge directive", "podtemplate", _template({"containers": [
        {"name": "web", "$patch": "merge"}]})),
    ("containers with an unknown directive", "podtemplate", _template({"containers": [
        {"name": "web", "$patch": "explode"}]})),
    ("container without name", "podtemplate", _template({"containers": [{"image": "x:1"}]})),
    ("containers not a list", "podtemplate", _template({"containers": "web"})),
    ("container not a map", "podtemplate", _template({"containers": ["web"]})),
    ("containers ordered", "podtemplate", _template({
        "$setElementOrder/containers": [{"name": "side"}, {"name": "web"}]})),
    ("containers ordered with a new one between", "podtemplate", _template({
        "$setElementOrder/containers": [{"name": "side"}, {"name": "mid"}, {"name": "web"}],
        "containers": [{"name": "mid", "image": "mid:1"}]})),
    ("container renamed", "podtemplate", _template({
        "$setElementOrder/containers": [{"name": "main"}],
        "containers": [{"name": "main", "image": "main:1"}, {"name": "side", "$patch": "delete"}]})),
    ("first container renamed", "podtemplate", _template({
        "$setElementOrder/containers": [{"name": "main"}],
        "containers": [{"name": "main", "image": "main:1"}, {"name": "web", "$patch": "delete"}]})),
    ("containers ordered, some not named", "podtemplate", _template({
        "$setElementOrder/containers": [{"name": "mid"}, {"name": "web"}],
        "containers": [{"name": "mid", "image": "mid:1"}]})),
    ("order does not name the patched", "podtemplate", _template({
        "$setElementOrder/containers": [{"name": "web"}], "containers": [{"name": "side", "image": "side:2"}]})),
    ("order in the wrong order", "podtemplate", _template({
        "$setElementOrder/containers": [{"name": "web"}, {"name": "side"}],
        "containers": [{"name": "side", "image": "s:2"}, {"name": "web", "image": "w:2"}]})),
    ("order is no list", "podtemplate", _template({"$setElementOrder/containers": {"name": "web"}})),
    ("order without a field", "podtemplate", _template({"$setElementOrder": [{"name": "web"}]})),
    ("order of a field that is not there", "podtemplate", _template({"$setElementOrder/nope": [{"name": "web"}]})),
    ("order without merge key", "podtemplate", _template({"$setElementOrder/containers": [{"image": "web"}],
        "containers": [{"name": "web", "image": "w:2"}]})),
    ("env changed and added", "podtemplate", _web(env=[{"name": "B", "value": "3"}, {"name": "C", "value": "4"}])),
    ("env added before", "podtemplate", _web(env=[{"name": "C", "value": "4"}, {"name": "A", "value": "9"}])),
    ("env deleted", "podtemplate", _web(env=[{"name": "A", "$patch": "delete"}])),
    ("env nulled", "podtemplate", _web(env=None)),
    ("env emptied", "podtemplate", _web(env=[])),
    ("env value to valueFrom", "podtemplate", _web(env=[
        {"name": "A", "value": None, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])),
    ("args replaced", "podtemplate", _web(args=["-z"])),
    ("port added", "podtemplate", _web(ports=[{"containerPort": 8080}])),
    ("port changed by containerPort", "podtemplate", _web(ports=[{"containerPort": 80, "name": "web"}])),
    ("port of another protocol merges by containerPort alone", "podtemplate", _web(ports=[
        {"containerPort": 80, "protocol": "UDP"}])),
    ("port deleted", "podtemplate", _web(ports=[{"containerPort": 80, "$patch": "delete"}])),
    ("resources merged", "podtemplate", _web(resources={"requests": {"cpu": "500m", "memory": None}})),
    ("resources replaced", "podtemplate", _web(resources={"$patch": "replace", "limits": {"cpu": "3"}})),
    ("volume mount by path", "podtemplate", _web(volumeMounts=[{"name": "tmp", "mountPath": "/data"}])),
    ("volume source kept beside", "podtemplate", _template({"volumes": [{"name": "tmp", "hostPath": {"path": "/x"}}]})),
    ("volume source retained", "podtemplate", _template({"volumes": [
        {"name": "tmp", "hostPath": {"path": "/x"}, "$retainKeys": ["name", "hostPath"]}]})),
    ("volume added and ordered", "podtemplate", _template({
        "$setElementOrder/volumes": [{"name": "new"}, {"name": "tmp"}, {"name": "data"}],
        "volumes": [{"name": "new", "emptyDir": {}}]})),
    ("tolerations are replaced", "podtemplate", _template({"tolerations": [{"key": "c", "operator": "Exists"}]})),
    ("host alias by ip", "podtemplate", _template({"hostAliases": [{"ip": "10.0.0.2", "hostnames": ["three"]}]})),
    ("pull secret added", "podtemplate", _template({"imagePullSecrets": [{"name": "s3"}]})),
    ("pull secret deleted", "podtemplate", _template({"imagePullSecrets": [{"name": "s1", "$patch": "delete"}]})),
    ("node selector merged", "podtemplate", _template({"nodeSelector": {"zone": "a"}})),
    ("spread constraint by topology key", "podtemplate", _template({"topologySpreadConstraints": [
        {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}]})),
    ("spread selector merged inside", "podtemplate", _template({"topologySpreadConstraints": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"tier": "x"}}}]})),
    ("affinity where there was none", "podtemplate", _template({"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": []}, "podAffinity": None}})),
    ("security context added", "podtemplate", _template({"securityContext": {"runAsUser": 1000, "fsGroup": None}})),
    ("replicas", "deployment", _deploy({"replicas": 5})),
    ("replicas nulled goes to the default", "deployment", _deploy({"replicas": None})),
    ("strategy with retainKeys", "deployment", _deploy({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}})),
    ("strategy without retainKeys", "deployment", _deploy({"strategy": {"type": "Recreate"}})),
    ("rolling update merged", "deployment", _deploy({"strategy": {"rollingUpdate": {"maxSurge": "50%"}}})),
    ("template label", "deployment", _deploy({"template": {"metadata": {"annotations": {"restarted": "now"}}}})),
    ("deep image", "deployment", _deploy(_web(image="web:7"))),
    ("what kubectl apply sends", "deployment", {"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "web"}, {"name": "side"}],
        "containers": [{"name": "web", "image": "web:3", "$setElementOrder/env": [{"name": "B"}, {"name": "A"}],
            "env": [{"name": "A", "value": "7"}]}]}}}}),
    ("service port by port", "service", {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}),
    ("service port added", "service", {"spec": {"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}}),
    ("service port deleted", "service", {"spec": {"ports": [{"port": 443, "$patch": "delete"}]}}),
    ("service ports ordered", "service", {"spec": {"$setElementOrder/ports": [{"port": 443}, {"port": 80}]}}),
    ("service selector merged", "service", {"spec": {"selector": {"tier": "x"}}}),
    ("service selector replaced", "service", {"spec": {"selector": {"tier": "x", "$patch": "replace"}}}),
    ("secrets by name", "serviceaccount", {"secrets": [{"name": "y"}, {"name": "z"}]}),
    ("pull secrets of an account", "serviceaccount", {"imagePullSecrets": [{"name": "s2"}]}),
    ("selector of a budget is replaced", "pdb", {"spec": {"selector": {"matchLabels": {"app": "x"}}}}),
    ("budget to the other kind", "pdb", {"spec": {"minAvailable": None, "maxUnavailable": "10%"}}),
    ("taints are replaced", "node", {"spec": {"taints": [{"key": "c", "effect": "NoSchedule"}]}}),
    ("taints nulled", "node", {"spec": {"taints": None, "unschedulable": None}}),
    ("condition by type", "node/status", {"status": {"conditions": [
        {"type": "Ready", "status": "False", "reason": "Broken"}, {"type": "PIDPressure", "status": "False"}]}}),
    ("conditions ordered", "node/status", {"status": {
        "$setElementOrder/conditions": [{"type": "DiskPressure"}, {"type": "Ready"}],
        "conditions": [{"type": "Ready", "status": "Unknown"}]}}),
    ("condition deleted", "node/status", {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}),
    ("addresses by type", "node/status", {"status": {"addresses": [
        {"type": "InternalIP", "address": "10.0.0.10"}, {"type": "ExternalIP", "address": "1.2.3.4"}]}}),
    ("capacity merged", "node/status", {"status": {"capacity": {"memory": None, "pods": "110"}}}),
    ("a list", "configmap", [1]),
    ("a text", "configmap", "x"),
    ("null", "configmap", None),
]  # fmt: skip
