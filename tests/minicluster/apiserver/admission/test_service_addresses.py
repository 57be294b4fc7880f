from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord_minicluster.apiserver.admission.service_addresses import service_address
from koord_minicluster.apiserver.admission.webhook_rules import ServiceRef
from koord_minicluster.apiserver.store import Index
from tests.minicluster.apiserver.admission.world import World

HOOK = ServiceRef("shop", "hook", 443)
SLICES = "endpointslices.discovery.k8s.io"


async def put(world: World, collection: str, name: str, obj: dict[str, Any], **labels: str) -> None:
    index = Index({key.replace("_", "/"): value for key, value in labels.items()}, {}, name)
    held = world.collection(collection)
    await held.put(f"shop/{name}", 0, lambda _rev: msgspec.json.encode({"metadata": {"name": name}, **obj}), index)


def slice_of(*endpoints: tuple[str, bool], port: str = "https") -> dict[str, Any]:
    return {
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}} for address, ready in endpoints],
        "ports": [{"name": "metrics", "port": 1}, {"name": port, "port": 9443}],
    }


async def test_a_service_is_reached_at_a_ready_endpoint_by_the_name_of_its_port(world: World) -> None:
    await put(world, "services", "hook", {"spec": {"ports": [{"name": "https", "port": 443}]}})
    piece = slice_of(("10.0.0.1", False), ("10.0.0.2", True))
    await put(world, SLICES, "hook-x", piece, **{"kubernetes.io_service-name": "hook"})
    await put(world, SLICES, "other-x", slice_of(("10.0.0.9", True)), **{"kubernetes.io_service-name": "other"})
    assert service_address(HOOK, world.collection) == ("10.0.0.2", 9443)


async def test_endpoints_do_where_there_are_no_slices(world: World) -> None:
    await put(world, "services", "hook", {"spec": {"ports": [{"port": 443}]}})
    await put(
        world, "endpoints", "hook", {"subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 8443}]}]}
    )
    assert service_address(HOOK, world.collection) == ("127.0.0.1", 8443)


async def test_an_external_name_is_its_own_address(world: World) -> None:
    await put(world, "services", "hook", {"spec": {"type": "ExternalName", "externalName": "hook.example.com"}})
    assert service_address(HOOK, world.collection) == ("hook.example.com", 443)


@pytest.mark.parametrize(
    ("ports", "reason"),
    [
        (None, 'service "hook" not found'),
        ([{"port": 80}], 'no service port 443 found for service "hook"'),
        ([{"port": 443}], 'no endpoints available for service "hook"'),
    ],
)
async def test_what_leads_nowhere_says_why(world: World, ports: list[dict[str, int]] | None, reason: str) -> None:
    if ports is not None:
        await put(world, "services", "hook", {"spec": {"ports": ports}})
    with pytest.raises(LookupError, match=reason):
        service_address(HOOK, world.collection)
