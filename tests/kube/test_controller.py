from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

import pytest

from koord.api.kinds import CONFIG_MAPS, NAMESPACES
from koord.api.kubernetes.core import ConfigMap
from koord.kube.client import Client
from koord.kube.controller import Controller, Requeue
from koord.kube.informer import Informer
from koord.kube.metrics import Metrics, Tracked
from koord.kube.work_queue import Backoff
from tests.control_plane import ControlPlane
from tests.waiting import eventually, forever, turns

QUICK = Backoff(base_s=0.001, cap_s=0.01, rate_per_s=10_000, burst=10_000)
TODO = {"work": "todo"}


class Source:
    """An informer reduced to what a controller sees of it."""

    def __init__(self, *, synced: bool = True) -> None:
        self.is_synced = asyncio.Event()
        if synced:
            self.is_synced.set()
        self.handlers: list[Callable[[str], None]] = []

    def add_handler(self, handler: Callable[[str], None]) -> None:
        self.handlers.append(handler)

    @property
    def has_synced(self) -> bool:
        return self.is_synced.is_set()

    async def synced(self) -> None:
        await self.is_synced.wait()

    def change(self, name: str) -> None:
        for handler in self.handlers:
            handler(name)


async def test_changes_become_keys_and_keys_are_reconciled() -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> None:
        seen.append(key)

    source = Source()
    controller = Controller("test", reconcile, workers=2)
    controller.watch(source, lambda name: [f"shop/{name}", "all"])
    task = asyncio.create_task(controller.run())
    source.change("web")
    await eventually(lambda: len(seen) == 2)
    controller.stop()
    await asyncio.wait_for(task, 60)
    assert sorted(seen) == ["all", "shop/web"]


async def test_nothing_is_reconciled_before_informers_have_synced() -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> None:
        seen.append(key)

    source = Source(synced=False)
    controller = Controller("test", reconcile)
    controller.watch(source, lambda name: [name])
    source.change("web")
    task = asyncio.create_task(controller.run())
    await turns()
    assert not seen
    source.is_synced.set()
    await eventually(lambda: seen == ["web"])
    controller.stop()
    await asyncio.wait_for(task, 60)


async def test_stopping_before_sync_ends_the_run() -> None:
    async def reconcile(key: str) -> None: ...

    controller = Controller("test", reconcile)
    controller.watch(Source(synced=False), lambda name: [str(name)])
    task = asyncio.create_task(controller.run())
    await turns()
    controller.stop()
    await asyncio.wait_for(task, 60)


async def test_one_objects_failure_is_logged_with_its_name_and_leaves_others_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: Counter[str] = Counter()
    attempts: Counter[str] = Counter()

    async def reconcile(key: str) -> None:
        attempts[key] += 1
        if key == "bad" and attempts[key] < 4:
            raise KeyError("spec")
        done[key] += 1

    metrics = Metrics(process=False)
    controller = Controller("test", reconcile, backoff=QUICK, observer=metrics.reconciler("test"))
    task = asyncio.create_task(controller.run())
    controller.add("bad")
    for number in range(10):
        controller.add(f"good-{number}")
    with caplog.at_level(logging.ERROR):
        await eventually(lambda: len(done) == 11)
    controller.stop()
    await asyncio.wait_for(task, 60)
    assert attempts["bad"] == 4
    assert {getattr(record, "object", None) for record in caplog.records} == {"bad"}
    text = metrics.render().decode()
    assert 'controller_runtime_reconcile_errors_total{controller="test"} 3.0' in text
    assert 'controller_runtime_reconcile_total{controller="test",result="success"} 11.0' in text
    assert controller.queue.state.failures("bad") == 0


async def test_a_reconcile_that_hangs_is_given_up_and_retried() -> None:
    attempts: Counter[str] = Counter()

    async def reconcile(key: str) -> None:
        attempts[key] += 1
        if attempts[key] == 1:
            await forever()

    controller = Controller("test", reconcile, timeout_s=0.02, backoff=QUICK)
    task = asyncio.create_task(controller.run())
    controller.add("slow")
    await eventually(lambda: attempts["slow"] == 2)
    controller.stop()
    await asyncio.wait_for(task, 60)


async def test_a_cancellation_from_within_a_reconcile_does_not_end_its_worker() -> None:
    attempts: Counter[str] = Counter()

    async def reconcile(key: str) -> None:
        attempts[key] += 1
        if attempts[key] == 1:
            inner = asyncio.ensure_future(asyncio.sleep(60))
            inner.cancel()
            await inner

    controller = Controller("test", reconcile, backoff=QUICK)
    task = asyncio.create_task(controller.run())
    controller.add("odd")
    await eventually(lambda: attempts["odd"] == 2)
    controller.add("next")
    await eventually(lambda: attempts["next"] == 2)
    controller.stop()
    await asyncio.wait_for(task, 60)


async def test_requeue_asks_for_the_key_again() -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> Requeue | None:
        seen.append(key)
        if len(seen) == 1:
            return Requeue(after_s=0.02)
        return Requeue() if len(seen) == 2 else None

    controller = Controller("test", reconcile, backoff=QUICK)
    task = asyncio.create_task(controller.run())
    controller.add("a")
    await eventually(lambda: len(seen) == 3)
    await eventually(lambda: controller.queue.state.idle)
    assert len(seen) == 3
    controller.stop()
    await asyncio.wait_for(task, 60)


async def test_stop_lets_reconciles_under_way_finish_and_starts_no_more() -> None:
    finished: list[str] = []
    begun, may_finish = asyncio.Event(), asyncio.Event()

    async def reconcile(key: str) -> None:
        begun.set()
        await may_finish.wait()
        finished.append(key)

    controller = Controller("test", reconcile)
    task = asyncio.create_task(controller.run())
    controller.add("first")
    controller.add("second")
    await begun.wait()
    controller.stop()
    await turns()
    assert not task.done()
    may_finish.set()
    await asyncio.wait_for(task, 60)
    assert finished == ["first"]


async def test_cancelling_the_run_cancels_reconciles_under_way() -> None:
    begun = asyncio.Event()

    async def reconcile(key: str) -> None:
        begun.set()
        await forever()

    controller = Controller("test", reconcile)
    task = asyncio.create_task(controller.run())
    controller.add("a")
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)


async def test_a_resync_asks_for_every_key_each_period() -> None:
    seen: Counter[str] = Counter()

    async def reconcile(key: str) -> None:
        seen[key] += 1

    controller = Controller("test", reconcile, resync=(0.02, lambda: ["a", "b"]))
    task = asyncio.create_task(controller.run())
    await eventually(lambda: min(seen["a"], seen["b"]) >= 3)
    controller.stop()
    await asyncio.wait_for(task, 60)


async def test_a_change_that_cannot_be_mapped_is_reported_and_others_still_are() -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> None:
        seen.append(key)

    def keys(name: str) -> list[str]:
        if name == "broken":
            raise ValueError("no owner")
        return [name]

    source = Source()
    controller = Controller("test", reconcile)
    controller.watch(source, keys)
    task = asyncio.create_task(controller.run())
    source.change("broken")
    source.change("whole")
    await eventually(lambda: seen == ["whole"])
    controller.stop()
    await asyncio.wait_for(task, 60)


async def test_queue_metrics_have_kubernetes_names_and_true_values() -> None:
    async def reconcile(key: str) -> None: ...

    metrics = Metrics(process=False)
    observer = metrics.queue("demo")
    controller = Controller("demo", reconcile, queue_observer=observer)
    observer.follow(controller.queue)
    controller.add("a")
    controller.add("b")
    text = metrics.render().decode()
    assert 'workqueue_depth{name="demo"} 2.0' in text
    assert 'workqueue_adds_total{name="demo"} 2.0' in text
    task = asyncio.create_task(controller.run())
    await eventually(lambda: controller.queue.state.counts.done == 2)
    controller.stop()
    await task
    text = metrics.render().decode()
    assert 'workqueue_depth{name="demo"} 0.0' in text
    assert 'workqueue_queue_duration_seconds_count{name="demo"} 2.0' in text
    assert 'workqueue_work_duration_seconds_count{name="demo"} 2.0' in text
    assert 'workqueue_unfinished_work_seconds{name="demo"} 0.0' in text
    assert 'workqueue_longest_running_processor_seconds{name="demo"} 0.0' in text


def test_children_of_gone_objects_leave_the_scrape() -> None:
    metrics = Metrics(process=False)
    usage = Tracked(metrics.gauge("pod_cpu", "CPU", "pod", "container"))
    usage.of("shop/web", "web", "app").set(1)
    usage.of("shop/web", "web", "sidecar").set(2)
    usage.of("shop/db", "db", "app").set(3)
    usage.forget("shop/web")
    text = metrics.render().decode()
    assert 'pod="web"' not in text
    assert 'pod_cpu{container="app",pod="db"} 3.0' in text
    assert usage.keys() == {"shop/db"}


@pytest.mark.cluster
async def test_a_controller_on_a_real_informer_converges_on_what_the_server_has(control_plane: ControlPlane) -> None:
    """Every labelled ConfigMap gets a copy of its key; one that cannot be handled stops none of the others."""
    namespace = "controller-test"
    async with Client.from_config(str(control_plane.kubeconfig)) as client:
        metrics, host = Metrics(process=False), client.config.server.removeprefix("https://")
        client.observe(metrics.requests(host))
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        informer: Informer[ConfigMap] = Informer(client, CONFIG_MAPS, namespace=namespace, labels="work=todo")
        metrics.follow(informer)

        async def reconcile(key: str) -> None:
            config_map = informer.get(key)
            if config_map is None:
                return
            if config_map.metadata.name == "bad":
                raise ValueError("this one is malformed")
            if config_map.data.get("copied") != key:
                patch = {"data": {"copied": key}}
                await client.patch(CONFIG_MAPS, config_map.metadata.name, patch, namespace=namespace)

        controller = Controller("copier", reconcile, workers=3, backoff=QUICK, observer=metrics.reconciler("copier"))
        controller.watch(informer, lambda delta: [delta.key])
        names = ["bad", *(f"item-{number}" for number in range(10))]
        for name in names[:6]:
            await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": namespace, "labels": TODO}})
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(informer.run())
            running = tasks.create_task(controller.run())
            await asyncio.wait_for(informer.synced(), 60)
            for name in names[6:]:
                await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": namespace, "labels": TODO}})

            def converged() -> bool:
                items = [informer.get(f"{namespace}/{name}") for name in names if name != "bad"]
                return all(item is not None and "copied" in item.data for item in items)

            await eventually(converged)
            controller.stop()
            await asyncio.wait_for(running, 60)
            following.cancel()
        text = metrics.render().decode()
        assert 'controller_runtime_reconcile_errors_total{controller="copier"} 0.0' not in text
        assert 'koord_informer_objects{informer="configmaps[controller-test,work=todo]"} 11.0' in text
        assert 'koord_informer_relists_total{informer="configmaps[controller-test,work=todo]"} 1.0' in text
        assert f'rest_client_requests_total{{code="201",host="{host}",method="POST"}} 12.0' in text
        assert f'rest_client_requests_total{{code="200",host="{host}",method="PATCH"}} 10.0' in text
        assert f'rest_client_request_duration_seconds_count{{host="{host}",verb="PATCH"}} 10.0' in text
