"""Builders of small pods for tests: pod(container(cpu="1", memory="1Gi"), init=[container(cpu="2", sidecar=True)])."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert

Resources = Mapping[str, str | int | float]


def container(
    name: str = "app",
    *,
    requests: Resources | None = None,
    limits: Resources | None = None,
    sidecar: bool = False,
) -> dict[str, Any]:
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "resources": resources} | ({"restartPolicy": "Always"} if sidecar else {})


def pod(
    *containers: Mapping[str, Any],
    init: Sequence[Mapping[str, Any]] = (),
    labels: Mapping[str, str] | None = None,
    priority: int | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """The pod shop/web; further fields of its spec by their JSON names."""
    return convert(
        Pod,
        {
            "metadata": {"name": "web", "namespace": "shop", "labels": labels},
            "spec": {"containers": list(containers), "initContainers": list(init), "priority": priority, **spec},
            "status": status,
        },
    )
