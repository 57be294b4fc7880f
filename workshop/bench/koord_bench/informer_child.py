"""The measured side of the informer benchmark: one case in a fresh process, its figures as one line of JSON.

A process of its own, so that peak memory belongs to this case, and caches are as cold as after a restart. CPU seconds
are those of the process, from when its modules are loaded.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from koord.kube.cluster_config import ClusterConfig
from koord.kube.informer import Informer
from koord.kube.pages import typed_page
from koord_bench import pod_rows
from koord_bench.children import status_kb
from koord_bench.harness import Figures
from koord_bench.pods import pod_list_json

PAGE = 500


def decode_koord(pods: int) -> Figures:
    """Pages to typed pods."""
    return _decoded(pods, lambda body: typed_page(PODS, body).items)


def decode_official(pods: int) -> Figures:
    """Pages to the official client's models, as its list calls do it."""
    kubernetes = importlib.import_module("kubernetes")
    client = kubernetes.client.ApiClient()

    def read(body: bytes) -> list[Any]:
        items: list[Any] = client.deserialize(body.decode(), "V1PodList", "application/json").items
        return items

    return _decoded(pods, read)


def _decoded(pods: int, read: Callable[[bytes], list[Any]]) -> Figures:
    pages = [pod_list_json(start, min(start + PAGE, pods)) for start in range(0, pods, PAGE)]
    read(pod_list_json(0, 1))
    gc.collect()
    before_kb = status_kb("VmRSS")
    kept: list[Any] = []
    started = time.process_time()
    for page in pages:
        kept += read(page)
    cpu_s = time.process_time() - started
    gc.collect()
    return {"pods": len(kept), "cpu_s": cpu_s, "kb_a_pod": (status_kb("VmRSS") - before_kb) / len(kept)}


def by_node(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


async def sync_objects(client: Client, *, watch_list: bool = False) -> Figures:
    return await _sync(Informer(client, PODS, indexes={"node": by_node}, watch_list=watch_list))


async def sync_rows(client: Client) -> Figures:
    rows: Informer[pod_rows.PodRow] = Informer(
        client,
        PODS,
        transform=pod_rows.pod_row,
        identity=pod_rows.identity,
        indexes={"node": pod_rows.by_node},
        watch_list=False,
    )
    return await _sync(rows)


async def _sync(informer: Informer[Any]) -> Figures:
    gc.collect()
    before_kb, started, wall = status_kb("VmRSS"), time.process_time(), time.monotonic()
    task = asyncio.create_task(informer.run())
    await _synced(informer)
    cpu_s, wall_s = time.process_time() - started, time.monotonic() - wall
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    gc.collect()
    return {
        "pods": len(informer),
        "cpu_s": cpu_s,
        "wall_s": wall_s,
        "kb_a_pod": (status_kb("VmRSS") - before_kb) / max(1, len(informer)),
        "peak_mb": status_kb("VmHWM") / 1024,
    }


async def _synced(informer: Informer[Any]) -> None:
    """Wait until the informer has synced. Raises its first error, which it would retry outside of a benchmark."""
    while not informer.has_synced:
        if informer.last_error is not None:
            raise informer.last_error
        try:
            await asyncio.wait_for(informer.synced(), 0.5)
        except TimeoutError:
            continue


async def follow(client: Client, pods: int, events: int) -> Figures:
    informer: Informer[Pod] = Informer(client, PODS, indexes={"node": by_node}, watch_list=False)
    done = asyncio.Event()
    changes = -pods

    def count(_: object) -> None:
        nonlocal changes
        changes += 1
        if changes == events:
            done.set()

    informer.add_handler(count)
    task = asyncio.create_task(informer.run())
    await _synced(informer)
    started, wall = time.process_time(), time.monotonic()
    await done.wait()
    cpu_s, wall_s = time.process_time() - started, time.monotonic() - wall
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return {"events": changes, "cpu_s": cpu_s, "wall_s": wall_s}


async def _with_client(case: str, options: dict[str, Any]) -> Figures:
    config = ClusterConfig(server=f"https://127.0.0.1:{options['port']}", ca_data=options["certificate"].encode())
    async with Client(config) as client:
        match case:
            case "sync":
                return await sync_objects(client)
            case "sync-watch-list":
                return await sync_objects(client, watch_list=True)
            case "rows":
                return await sync_rows(client)
            case _:
                return await follow(client, options["pods"], options["events"])


def main() -> None:
    case, options = sys.argv[1], json.loads(sys.argv[2])
    match case:
        case "decode-koord":
            figures = decode_koord(options["pods"])
        case "decode-official":
            figures = decode_official(options["pods"])
        case _:
            figures = asyncio.run(_with_client(case, options))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
