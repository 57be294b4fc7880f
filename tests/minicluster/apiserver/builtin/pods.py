"""Builders of pods, one for each thing that a case is about."""

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.builtin.case import Obj

C = {"name": "c", "image": "nginx"}


def pod(*containers: Obj, meta: Obj | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta or {},
        "spec": {"containers": [{**C, **container} for container in containers or ({},)], **spec},
    }


def with_volume(volume: Obj, **mount: Any) -> Obj:
    mounts = [{"name": "v", "mountPath": "/v", **mount}]
    return pod({"volumeMounts": mounts}, volumes=[{"name": "v", **volume}])


def limits(requests: Obj | None = None, limits: Obj | None = None) -> Obj:
    return {"resources": {k: v for k, v in (("requests", requests), ("limits", limits)) if v}}


def toleration(**each: Any) -> Obj:
    return pod(tolerations=[each])


def spread(**each: Any) -> Obj:
    whole = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **each}
    return pod(topologySpreadConstraints=[whole], meta={"labels": {"app": "a"}})


def node_affinity(**requirement: Any) -> Obj:
    term = {"matchExpressions": [requirement]}
    required = {"nodeSelectorTerms": [term]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


def pod_affinity(**term: Any) -> Obj:
    return pod(
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        meta={"labels": {"app": "a"}},
    )


def probe(**content: Any) -> Obj:
    return pod({"livenessProbe": content})


def env(**variable: Any) -> Obj:
    return pod({"env": [{"name": "A", **variable}]})
