"""Workloads of kinds that koord does not know: their scale says how many replicas they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from koord.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.descheduler.live.scales import KNOWN_FOR_S, Scales
from koord.kube.client import Client
from koord.kube.errors import ApiError
from tests.kube.manual_clock import ManualClock
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually


def definition(kind: str, *, scale: bool) -> dict[str, Any]:
    plural = kind.lower() + "s"
    scaled = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{plural}.apps.test"},
        "spec": {
            "group": "apps.test",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{**version, **({"subresources": {"scale": scaled}} if scale else {})}],
        },
    }


def owned(kind: str) -> Pod:
    owner = {"apiVersion": "apps.test/v1", "kind": kind, "name": "web", "uid": f"uid-{kind}", "controller": True}
    return convert(Pod, {"metadata": {"name": kind, "namespace": "default", "ownerReferences": [owner]}, "spec": {}})


async def make(client: Client, kind: str, *, scale: bool) -> Any:
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(kind, scale=scale))

    async def made() -> bool:
        api_resource = (await client.resources()).find("apps.test", kind)
        if api_resource is None:
            return False
        body = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 4}}
        try:
            await client.create(api_resource.as_kind(), body)
        except ApiError:
            return False
        return True

    await eventually(made)
    api_resource = (await client.resources()).find("apps.test", kind)
    assert api_resource is not None
    return api_resource.as_kind()


async def test_the_scale_of_any_kind_is_asked_for_and_kept_a_while(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        clone_set = await make(client, "CloneSet", scale=True)
        await make(client, "Unscaled", scale=False)
        clock = ManualClock()
        scales = Scales(client, clock)
        pods = [owned("CloneSet"), owned("Unscaled"), owned("Unknown")]
        assert await scales.of(pods) == {"uid-CloneSet": 4}
        await client.patch(clone_set, "web", {"spec": {"replicas": 7}}, namespace="default")
        assert await scales.of(pods) == {"uid-CloneSet": 4}
        clock.advance(KNOWN_FOR_S)
        assert await scales.of(pods) == {"uid-CloneSet": 7}
