"""Pods for tests of a local node."""

from __future__ import annotations

from typing import Any

from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.codec import convert


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "command": ["/bin/true"], **fields}


def pod(
    *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), restart: str = "Always", **spec: Any
) -> RunnablePod:
    raw = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u-1", "labels": {"app": "web"}},
        "spec": {
            "containers": list(containers or (container(),)),
            "initContainers": list(init),
            "restartPolicy": restart,
            **spec,
        },
    }
    return convert(RunnablePod, raw)
