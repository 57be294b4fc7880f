"""The webhook server beside an API server: stories of pods, and of what goes wrong."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koord.admission.binding import BindingSettings
from koord.admission.hook import WAITS_S
from koord.admission.hooks import hooks
from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.kinds import (
    CLUSTER_COLOCATION_PROFILES,
    CONFIG_MAPS,
    ELASTIC_QUOTA_PROFILES,
    ELASTIC_QUOTAS,
    LEASES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    NODES,
    PODS,
    RESERVATIONS,
    SECRETS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Kind,
)
from koord.api.protocol.names import LEASE_MANAGER, NAMESPACE_KOORDINATOR
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, ApiError, BadRequest, Forbidden, Invalid, NotFound, ServerError
from koord.kube.health import parse_address
from koord.kube.leader import unique_identity
from koord.manager.live import webhook_reviews
from koord.manager.live.certificate_store import FileStore
from koord.manager.live.certificates import Lifetimes, Material, renewed
from koord.manager.live.registration import Endpoint, Registration
from koord.manager.live.webhook_server import WebhookOptions, address_from, options_from
from koord.operate.live import break_glass
from koord_minicluster.up.bootstrap import bootstrap
from tests.control_plane import ControlPlane
from tests.manager.live.webhooks import (
    MUTATING,
    PROFILE,
    SECRET,
    VALIDATING,
    Running,
    ShiftedClock,
    admitting,
    bundle_of,
    caller,
    finalized,
    forget,
    pod,
    prepare,
    review,
    until_answered,
    waiting_to_admit,
)
from tests.scheduler.live.embedded import serving
from tests.waiting import always, eventually

QOS, BATCH_CPU = "koordinator.sh/qosClass", "kubernetes.io/batch-cpu"


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    """Of each kind of server, with koord's kinds and two namespaces."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        async with Client.from_config(str(plane.kubeconfig)) as client:
            await prepare(client, "shop", "jobs")
            yield client
            await forget(client)
    else:
        async with serving(tmp_path) as client:
            await prepare(client, "shop", "jobs")
            yield client


async def created(client: Client, obj: dict[str, Any]) -> dict[str, Any]:
    """The stored pod; it is gone again."""
    made = await client.create(PODS, obj)
    name, namespace = made.metadata.name, made.metadata.namespace
    found = json.loads(await client.get_bytes(PODS, name, namespace=namespace))
    await client.delete(PODS, name, namespace=namespace, grace_s=0)
    assert isinstance(found, dict)
    return found


async def test_a_pod_in_a_labelled_namespace_becomes_a_batch_pod(client: Client) -> None:
    async with admitting(client):
        await client.create(CLUSTER_COLOCATION_PROFILES, PROFILE)
        await client.patch(NAMESPACES, "jobs", {"metadata": {"labels": {"colocation": "on"}}})

        async def is_batch() -> bool:
            return "given" in (await created(client, pod("probe", "jobs")))["metadata"].get("labels", {})

        await until_answered(is_batch)
        stored = await created(client, pod("job", "jobs"))
        assert stored["metadata"]["labels"] == {"given": "yes", QOS: "BE"}
        assert (stored["spec"]["priorityClassName"], stored["spec"]["priority"]) == ("koord-batch", 5000)
        resources = stored["spec"]["containers"][0]["resources"]
        assert resources["requests"] == {BATCH_CPU: "500", "kubernetes.io/batch-memory": "1Gi"}
        assert resources["limits"] == {BATCH_CPU: "1k", "kubernetes.io/batch-memory": "1Gi"}
        spec = json.loads(stored["metadata"]["annotations"]["node.koordinator.sh/extended-resource-spec"])
        assert spec["containers"]["main"]["requests"][BATCH_CPU] == "500"
        assert (await created(client, pod("web", "shop")))["metadata"].get("labels") is None
        await client.patch(NAMESPACES, "jobs", {"metadata": {"labels": {"colocation": None}}})


async def test_a_pod_that_cannot_be_is_refused_with_the_reason(client: Client) -> None:
    async with admitting(client) as running:
        with pytest.raises((BadRequest, Invalid, Forbidden)) as refusal:
            await client.create(PODS, pod("odd", "shop", labels={QOS: "LSR"}, priorityClassName="koord-batch"))
        assert 'admission webhook "vpod.koordinator.sh" denied the request' in refusal.value.message
        assert "spec.priority: must be of class koord-prod for a pod with QoS class LSR" in refusal.value.message
        figures = running.metrics.render().decode()
        assert 'webhook_type="validate"' in figures
        assert 'plugin_name="ClusterColocationProfile",status="rejected",webhook_type="validate"} 1.0' in figures


async def test_an_update_may_not_change_what_the_node_acts_on(client: Client) -> None:
    async with admitting(client):
        await client.create(PODS, pod("web", "shop", labels={QOS: "LS"}))
        with pytest.raises(ApiError, match="must stay LS, not become BE"):
            await client.patch(PODS, "web", {"metadata": {"labels": {QOS: "BE"}}}, namespace="shop")
        await client.patch(PODS, "web", {"metadata": {"labels": {"app": "x"}}}, namespace="shop")
        await client.delete(PODS, "web", namespace="shop", grace_s=0)


async def test_without_a_manager_plain_pods_are_created_as_ever_and_those_of_profiles_wait(client: Client) -> None:
    await client.patch(NAMESPACES, "jobs", {"metadata": {"labels": {"colocation": "on"}}})
    by_label = {"metadata": {"name": "labelled"}, "spec": {"selector": {"matchLabels": {"band": "batch"}}}}
    async with admitting(client) as running:
        for profile in (PROFILE, by_label):
            await client.create(CLUSTER_COLOCATION_PROFILES, profile)
        await until_answered(lambda: _is_registered(client, "batch.mpod-create", "labelled.mpod-create"))
        await created(client, pod("before", "shop"))
        await running.stop()
        once = client.limited(attempts=1)
        for i in range(10):
            began_s = time.monotonic()
            await once.create(PODS, pod(f"plain-{i}", "shop", labels={"app": "web"}))
            assert time.monotonic() - began_s < 2 * WAITS_S, "both webhooks, as if they had to answer"
            await once.patch(PODS, f"plain-{i}", {"metadata": {"labels": {"app": "x"}}}, namespace="shop")
            await client.delete(PODS, f"plain-{i}", namespace="shop", grace_s=0)
        who_waits = (
            pod("job", "jobs"),
            pod("job", "shop", labels={"band": "batch"}),
            pod("job", "shop", labels={QOS: "BE"}),
        )
        for each in who_waits:
            with pytest.raises(ServerError, match="failed calling webhook"):
                await once.create(PODS, each)
        for namespace in ("kube-system", NAMESPACE_KOORDINATOR):
            await created(client, pod("open", namespace))
    # Another manager, at another address, opens it again.
    async with admitting(client):
        stored = await created(client, pod("after", "jobs"))
        assert stored["metadata"]["labels"][QOS] == "BE"
    await client.patch(NAMESPACES, "jobs", {"metadata": {"labels": {"colocation": None}}})


async def test_break_glass_opens_a_cluster_without_a_manager_and_one_that_comes_back_leaves_it(client: Client) -> None:
    async with admitting(client) as running:
        await running.stop()
    once = client.limited(attempts=1)
    batch = pod("job", "shop", labels={QOS: "BE"}, priorityClassName="koord-batch")
    with pytest.raises(ServerError, match="failed calling webhook"):
        await once.create(PODS, batch)
    told = await break_glass.turn(client, "nobody answers")
    assert set(told) == {MUTATING, VALIDATING}
    assert all(said.endswith(": nobody answers") for said in told.values())
    # Who comes second changes neither since when nor why.
    assert await break_glass.turn(client, "again") == told
    stored = await created(client, batch)
    assert stored["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m"
    async with admitting(client) as running:
        assert running.server.check() is None
        assert (await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING)).webhooks == ()
        assert await break_glass.look(client) == told[MUTATING]
        assert b"koord_manager_admission_off 1.0" in running.metrics.render()
        await break_glass.turn(client, None)
        await until_answered(lambda: _is_registered(client, "mpod-create"))
        assert await break_glass.look(client) == ""

        async def is_told() -> bool:
            return b"koord_manager_admission_off 0.0" in running.metrics.render()

        await until_answered(is_told)


async def test_whoever_deletes_koords_namespace_finds_admission_off_until_it_is_made_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await prepare(client, "shop")
        root = {"metadata": {"name": "koordinator-root-quota", "namespace": NAMESPACE_KOORDINATOR}}
        batch, once = (
            pod("job", "shop", labels={QOS: "BE"}, priorityClassName="koord-batch"),
            client.limited(attempts=1),
        )
        async with admitting(client) as running:
            await client.create(ELASTIC_QUOTAS, root)
            with pytest.raises(BadRequest, match="belongs to koord and cannot be deleted"):
                await client.delete(ELASTIC_QUOTAS, "koordinator-root-quota", namespace=NAMESPACE_KOORDINATOR)
            await client.delete(NAMESPACES, NAMESPACE_KOORDINATOR)
            # As the namespace's controller does, which is the same user here.
            await until_answered(lambda: _is_deleted(client, ELASTIC_QUOTAS, "koordinator-root-quota"))
            await until_answered(lambda: _is_off(client))
            assert "is being deleted: admission is off" in (running.server.check() or "")
            await created(client, batch)
        with suppress(ApiError):
            await client.delete(SECRETS, SECRET, namespace=NAMESPACE_KOORDINATOR)
        # A manager that starts in the meantime takes out what its predecessor left, and waits.
        entry = {"name": "vpod.koordinator.sh", "failurePolicy": "Fail", **_unanswered()}
        await client.patch(VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING, {"webhooks": [entry]})
        async with waiting_to_admit(client) as running:
            await until_answered(lambda: _is_off(client))
            await created(once, batch)
            assert not running.task.done()
            await finalized(client, NAMESPACE_KOORDINATOR)
            await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE_KOORDINATOR}})
            await until_answered(
                lambda: _is_refused(once, pod("odd", "shop", labels={QOS: "LSR"}, priorityClassName="koord-batch"))
            )
            assert running.server.check() is None


async def test_a_namespace_that_is_made_as_the_manager_starts_is_not_said_to_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    running: list[Running] = []
    stand_down = Registration.stand_down

    async def late(registration: Registration, endpoint: Endpoint) -> None:
        await stand_down(registration, endpoint)
        with suppress(AlreadyExists):
            await server_client.create(NAMESPACES, {"metadata": {"name": NAMESPACE_KOORDINATOR}})

        async def is_known() -> bool:
            return running[0].server._place is not None

        await eventually(is_known)

    monkeypatch.setattr(Registration, "stand_down", late)
    async with serving(tmp_path) as server_client, waiting_to_admit(server_client) as started:
        running.append(started)
        await started.ready
    assert "is being deleted" not in caplog.text


async def test_a_denial_that_was_only_tried_out_is_not_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    odd = pod("odd", "shop", labels={QOS: "LSR"}, priorityClassName="koord-batch")
    async with admitting(client):
        await until_answered(lambda: _is_refused(client, odd))
        assert "denied CREATE" not in caplog.text
        with pytest.raises(ApiError, match="denied the request"):
            await client.create(PODS, odd)
        assert "denied CREATE of pods shop/odd" in caplog.text


async def test_the_registration_belongs_to_the_namespace_of_the_manager(client: Client) -> None:
    async with admitting(client):
        place = await client.get(NAMESPACES, NAMESPACE_KOORDINATOR)
        owner = {"apiVersion": "v1", "kind": "Namespace", "name": NAMESPACE_KOORDINATOR, "uid": place.metadata.uid}
        both: tuple[tuple[Kind[Any], str], ...] = (
            (MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING),
            (VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING),
        )
        for kind, name in both:
            assert json.loads(await client.get_bytes(kind, name))["metadata"]["ownerReferences"] == [owner]


async def _is_refused(client: Client, obj: dict[str, Any]) -> bool:
    try:
        await client.create(PODS, obj, dry_run=True)
    except ApiError as error:
        return "denied the request" in error.message
    return False


async def _is_off(client: Client) -> bool:
    mutating = await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING)
    validating = await client.get(VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING)
    return not mutating.webhooks and not validating.webhooks


async def _is_deleted(client: Client, kind: Kind[Any], name: str) -> bool:
    with suppress(NotFound):
        await client.delete(kind, name, namespace=NAMESPACE_KOORDINATOR)
    return True


def _unanswered() -> dict[str, Any]:
    """An entry for all pods at an address without a server."""
    return {
        "clientConfig": {"url": "https://127.0.0.1:9/validate-pod"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


async def test_an_entry_for_a_profile_comes_and_goes_with_it(client: Client) -> None:
    async with admitting(client):
        spec = {"selector": {"matchExpressions": [{"key": "band", "operator": "Sometimes"}]}}
        with suppress(ApiError):  # The real server's schema may refuse it.
            await client.create(CLUSTER_COLOCATION_PROFILES, {"metadata": {"name": "odd"}, "spec": spec})
        await client.create(CLUSTER_COLOCATION_PROFILES, PROFILE)
        await until_answered(lambda: _is_registered(client, "batch.mpod-create"))
        # Nobody can have meant that all pods wait for a selector that makes no sense.
        assert not await _is_registered(client, "odd.mpod-create")
        await client.delete(CLUSTER_COLOCATION_PROFILES, "batch")

        async def is_gone() -> bool:
            return not await _is_registered(client, "batch.mpod-create")

        await until_answered(is_gone)


async def test_no_profile_keeps_others_from_being_registered(client: Client) -> None:
    hostile: dict[str, dict[str, Any]] = {
        "a" * 253: {"selector": {"matchLabels": {"band": "long"}}},
        "odd-key": {"selector": {"matchLabels": {"a b": "c"}}},
        "odd-value": {"namespaceSelector": {"matchLabels": {"a": "c d"}}},
    }
    async with admitting(client):
        for name, spec in hostile.items():
            with suppress(ApiError):
                await client.create(CLUSTER_COLOCATION_PROFILES, {"metadata": {"name": name}, "spec": spec})
        await client.create(CLUSTER_COLOCATION_PROFILES, PROFILE)
        await until_answered(lambda: _is_registered(client, "batch.mpod-create"))
        stored = (await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING)).webhooks
        # One with a long name is a profile like any other; invalid labels match no pod.
        assert len([each for each in stored if each.name.endswith(".mpod-create.koordinator.sh")]) == 2


async def _is_registered(client: Client, *names: str) -> bool:
    found = {webhook.name for webhook in (await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING)).webhooks}
    return found >= {f"{name}.koordinator.sh" for name in names}


async def test_whoever_edits_or_deletes_the_registration_finds_it_mended(client: Client) -> None:
    both: tuple[tuple[Kind[Any], str], ...] = (
        (MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING),
        (VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING),
    )

    async def registered() -> list[Any]:
        return [json.loads(await client.get_bytes(kind, name)).get("webhooks") for kind, name in both]

    async with admitting(client):
        wanted = await registered()

        async def mended() -> bool:
            return await registered() == wanted

        first, *rest = wanted[0]
        conditions = [{"name": "never", "expression": "false"}]
        for change in (
            [],
            [{**first, "failurePolicy": "Ignore"}, *rest],
            [{**first, "matchConditions": conditions}, *rest],
        ):
            await client.patch(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING, {"webhooks": change})
            await until_answered(mended)
        await client.delete(VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING)
        await until_answered(mended)
        # What is not koord's stays.
        await client.patch(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING, {"metadata": {"labels": {"mine": "1"}}})
        await client.delete(VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING)
        await until_answered(mended)
        assert (await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING)).metadata.labels == {"mine": "1"}


async def test_webhooks_stay_koordinators_while_its_manager_leads_and_are_kept_when_koord_takes_over(
    client: Client,
) -> None:
    theirs = {
        "name": "mpod-create.koordinator.sh",
        "clientConfig": {"service": {"namespace": "elsewhere", "name": "webhooks", "path": "/mutate-pod"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    await client.create(MUTATING_WEBHOOK_CONFIGURATIONS, {"metadata": {"name": MUTATING}, "webhooks": [theirs]})
    meta = {"name": LEASE_MANAGER, "namespace": NAMESPACE_KOORDINATOR}
    await client.create(LEASES, {"metadata": meta, "spec": {"holderIdentity": "koord-manager-7d_0b1c"}})

    async def configuration() -> Any:
        return json.loads(await client.get_bytes(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING))

    before = await configuration()
    options = WebhookOptions(host="127.0.0.1", lease_namespace=NAMESPACE_KOORDINATOR, resync_s=0.05)
    async with admitting(client, options=options) as running:
        assert running.server.check() is None
        assert await configuration() == before
        holder = {"spec": {"holderIdentity": unique_identity()}}
        await client.patch(LEASES, LEASE_MANAGER, holder, namespace=NAMESPACE_KOORDINATOR)

        async def taken_over() -> bool:
            return bool(await configuration() != before)

        await until_answered(taken_over)
        found = await configuration()
        assert json.loads(found["metadata"]["annotations"]["install.koord.sh/webhooks-before"]) == before["webhooks"]
        assert "elsewhere" not in json.dumps(found["webhooks"])
    await client.delete(LEASES, LEASE_MANAGER, namespace=NAMESPACE_KOORDINATOR)


async def test_an_expired_certificate_heals_by_itself(client: Client) -> None:
    names, long_ago_s = ("127.0.0.1", "localhost"), ShiftedClock().now() - 1000
    brief = Lifetimes(authority_s=500, certificate_s=500, renew_before_s=1, renew_authority_before_s=1)
    data = msgspec.to_builtins(renewed(Material(), names, long_ago_s, brief).data())
    await client.create(SECRETS, {"metadata": {"name": SECRET}, "data": data}, namespace=NAMESPACE_KOORDINATOR)
    async with admitting(client):
        await created(client, pod("web", "shop"))


async def test_a_secret_that_is_deleted_or_spoilt_heals_and_pods_go_on(client: Client) -> None:
    async with admitting(client):
        before = await bundle_of(client)
        await client.delete(SECRETS, SECRET, namespace=NAMESPACE_KOORDINATOR)

        async def is_other() -> bool:
            return await bundle_of(client) != before

        await until_answered(is_other)
        await _until_admitted(client)
        spoilt = {"data": {"ca-cert.pem": base64.b64encode(b"nonsense").decode()}}
        await client.patch(SECRETS, SECRET, spoilt, namespace=NAMESPACE_KOORDINATOR)
        before = await bundle_of(client)
        await until_answered(is_other)
        await _until_admitted(client)


async def _until_admitted(client: Client) -> None:
    """API servers follow their configurations a moment later."""
    once = client.limited(attempts=1)

    async def admitted() -> bool:
        await created(once, pod("web", "shop"))
        return True

    await until_answered(admitted)


async def test_certificates_rotate_under_load_without_a_failed_request(client: Client) -> None:
    times = Lifetimes(
        authority_s=20_000,
        certificate_s=20_000,
        renew_before_s=1000,
        renew_authority_before_s=5000,
        settle_s=4,
        keep_s=2,
    )
    options = WebhookOptions(host="127.0.0.1", lifetimes=times, resync_s=0.2)
    clock = ShiftedClock()
    clock.ahead_s = -15_001
    async with admitting(client, options=options, clock=clock) as running:
        once = client.limited(attempts=1)
        done = asyncio.Event()
        count = 0

        async def load(worker: int) -> None:
            nonlocal count
            while not done.is_set():
                await once.create(PODS, pod(f"web-{worker}-{count}", "shop"), dry_run=True)
                count += 1
                # All four together ask every 10 ms, at every moment of a rotation; more would only heat the machine.
                await asyncio.sleep(0.04)

        bundles = {await bundle_of(client)}
        shown = {(await client.get(SECRETS, SECRET, namespace=NAMESPACE_KOORDINATOR)).data["cert.pem"]}
        async with asyncio.TaskGroup() as tasks:
            for worker in range(4):
                tasks.create_task(load(worker))
            # The authority is due: its successor is announced, relied on 4 s later, and alone 2 s after that.
            clock.ahead_s = 0.0

            async def has_rotated() -> bool:
                bundles.add(await bundle_of(client))
                secret = await client.get(SECRETS, SECRET, namespace=NAMESPACE_KOORDINATOR)
                shown.add(secret.data["cert.pem"])
                return len(bundles) >= 3 and len(shown) >= 2

            await eventually(has_rotated)
            rotated = count
            await eventually(lambda: count > rotated + 50)
            done.set()
        assert running.server.check() is None
        assert len(bundles) == 3, "the old one, both, the new one"


async def test_reviews_of_both_versions_are_answered(client: Client) -> None:
    await client.create(CLUSTER_COLOCATION_PROFILES, {**PROFILE, "spec": {"labels": {"given": "yes"}}})
    async with admitting(client) as running, caller(await bundle_of(client)) as session:
        for version in ("v1", "v1beta1"):
            asked = review(pod("web", "shop"), version=version, namespace="shop", name="web")
            async with session.post(f"{running.url}/mutate-pod?timeout=5s", json=asked) as answer:
                found = await answer.json()
            assert (found["apiVersion"], found["kind"]) == (f"admission.k8s.io/{version}", "AdmissionReview")
            response = found["response"]
            assert (response["uid"], response["allowed"], response["patchType"]) == ("705ab4f5", True, "JSONPatch")
            assert json.loads(base64.b64decode(response["patch"])) == [
                {"op": "add", "path": "/metadata/labels/given", "value": "yes"}
            ]
            async with session.post(f"{running.url}/validate-pod", json=asked) as answer:
                response = (await answer.json())["response"]
            assert response == {"uid": "705ab4f5", "allowed": True}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/mutate-pod", b"{", 400),
        ("/mutate-pod", b"{}", 400),
        ("/mutate-pod", b'{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview","request":{}}', 400),
        ("/mutate-nothing", b"{}", 404),
        ("/mutate-node-status", b"{}", 404),  # its gate is off
    ],
)
async def test_what_is_no_review_is_refused(tmp_path: Path, path: str, body: bytes, status: int) -> None:
    async with serving(tmp_path) as client:
        await prepare(client)
        async with admitting(client) as running, caller(await bundle_of(client)) as session:
            async with session.post(running.url + path, data=body) as answer:
                assert answer.status == status
            async with session.get(f"{running.url}/healthz") as answer:
                assert (answer.status, await answer.text()) == (200, "ok")


async def test_a_review_that_does_not_arrive_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_reviews, "BODY_WITHIN_S", 0.1)
    async with serving(tmp_path) as client:
        await prepare(client)
        async with admitting(client) as running:
            host, _, port = running.url.removeprefix("https://").rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port), ssl=ssl._create_unverified_context())
            writer.write(b"POST /mutate-pod HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            async with asyncio.timeout(60):
                assert await reader.readline() == b"HTTP/1.1 408 Request Timeout\r\n"
            writer.close()


async def test_a_configuration_that_cannot_hold_is_refused_by_default(client: Client) -> None:
    broken = {"data": {"colocation-config": "{"}}

    async def is_refused(*, dry_run: bool = True) -> bool:
        try:
            await client.patch(
                CONFIG_MAPS, "slo-controller-config", broken, namespace=NAMESPACE_KOORDINATOR, dry_run=dry_run
            )
        except ApiError as error:
            return "ParseConfigFail" in str(error)
        return False

    async with admitting(client) as running:
        # A real server learns of webhooks a moment after they are stored.
        await until_answered(is_refused)
        assert await is_refused(dry_run=False)
        # Others' are none of its business.
        await client.create(CONFIG_MAPS, {"metadata": {"name": "x", "namespace": NAMESPACE_KOORDINATOR}, **broken})
        await running.stop()
        # While no manager answers, configuration can be written: co-location must be turned off without one.
        on = {"data": {"colocation-config": '{"enable":false}'}}
        await client.patch(CONFIG_MAPS, "slo-controller-config", on, namespace=NAMESPACE_KOORDINATOR)


async def test_profiles_are_followed_when_their_kind_comes_late(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE_KOORDINATOR}})
        async with admitting(client):
            assert "given" not in (await created(client, pod("early", "default")))["metadata"].get("labels", {})
            await bootstrap(client)
            await client.create(CLUSTER_COLOCATION_PROFILES, {**PROFILE, "spec": {"labels": {"given": "yes"}}})

            async def given() -> bool:
                return "given" in (await created(client, pod("late", "default")))["metadata"].get("labels", {})

            await until_answered(given)


async def test_two_managers_share_certificate_and_registration(client: Client) -> None:
    async with admitting(client) as one:
        port = one.server.port
        secret = await client.get(SECRETS, SECRET, namespace=NAMESPACE_KOORDINATOR)
        registered = await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING)
        await one.stop()
        async with admitting(client, address=f"127.0.0.1:{port}"):
            again = await client.get(SECRETS, SECRET, namespace=NAMESPACE_KOORDINATOR)
            assert again.metadata.resource_version == secret.metadata.resource_version
            same = await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING)
            assert same.metadata.resource_version == registered.metadata.resource_version
            await created(client, pod("web", "shop"))


async def test_certificates_can_be_kept_in_files(tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    options = WebhookOptions(host="127.0.0.1", certificate_folder=str(folder))
    async with serving(tmp_path / "server") as client:
        await prepare(client, "shop")
        async with admitting(client, options=options):
            await created(client, pod("web", "shop"))
            assert SECRET not in [
                secret.metadata.name for secret in await client.list(SECRETS, namespace=NAMESPACE_KOORDINATOR)
            ]
        first = (folder / "cert.pem").read_bytes()
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert folder.stat().st_mode & 0o777 == 0o700
        async with admitting(client, options=options):
            await created(client, pod("web", "shop"))
        assert (folder / "cert.pem").read_bytes() == first


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    store = FileStore(tmp_path)
    for call in (store.held(), store.keep(Material(), "")):
        with pytest.raises(PermissionError, match="no other user may write to it"):
            asyncio.run(call)


def test_the_environment_names_things_as_koordinator_does() -> None:
    environment = {
        "WEBHOOK_HOST": "10.0.0.1",
        "POD_NAMESPACE": "mine",
        "SERVICE_NAME": "service",
        "SECRET_NAME": "secret",
        "MUTATING_WEBHOOK_NAME": "m",
        "VALIDATING_WEBHOOK_NAME": "v",
        "WEBHOOK_PORT": "9999",
    }
    options = options_from(environment)
    assert options == replace(
        WebhookOptions(),
        host="10.0.0.1",
        namespace="mine",
        service="service",
        secret="secret",
        mutating="m",
        validating="v",
    )
    assert parse_address(address_from(environment)).port == 9999
    assert options_from({"WEBHOOK_CERT_WRITER": "fs", "WEBHOOK_CERT_DIR": "/x"}).certificate_folder == "/x"
    assert options_from({"WEBHOOK_CERT_WRITER": "fs"}).certificate_folder == "/tmp/koordinator-webhook-certs"
    assert (options_from({}), address_from({})) == (WebhookOptions(), "")


def test_webhooks_can_be_switched_off_by_their_gates() -> None:
    def paths(text: str) -> set[str]:
        return {hook.path for hook in hooks(parse_gates(ManagerGate, text))}

    assert paths("WebhookFramework=false") == set()
    quotas = {f"/{verb}-scheduling-sigs-k8s-io-v1alpha1-elasticquota" for verb in ("mutate", "validate")}
    always = {"/mutate-pod", "/validate-pod", "/validate-pod-binding", "/validate-agent", *quotas}
    assert paths("") == {*always, "/validate-configmap"}
    changed = "PodValidatingWebhook=false,ConfigMapValidatingWebhook=false,NodeMutatingWebhook=true"
    assert paths(changed) == {"/mutate-pod", "/mutate-node-status", "/validate-agent", *quotas}


@pytest.mark.cluster
@pytest.mark.kubectl
async def test_a_person_labels_a_namespace_and_creates_a_pod(control_plane: ControlPlane) -> None:
    def kubectl(*words: str, stdin: str | None = None, check: bool = True) -> str:
        done = control_plane.kubectl(*words, stdin=stdin, check=check)
        return done.stdout + done.stderr

    async with Client.from_config(str(control_plane.kubeconfig)) as client:
        await prepare(client, "people")
        await client.create(CLUSTER_COLOCATION_PROFILES, PROFILE)
        async with admitting(client):
            await asyncio.to_thread(kubectl, "label", "namespace", "people", "colocation=on")
            manifest = json.dumps({"apiVersion": "v1", "kind": "Pod", **pod("job", "people")})
            await asyncio.to_thread(kubectl, "create", "-f", "-", stdin=manifest)
            path = "-ojsonpath={.metadata.labels} {.spec.priority} {.spec.containers[0].resources.requests}"
            shown = await asyncio.to_thread(kubectl, "get", "pod", "job", "-n", "people", path)
            assert shown == (
                f'{{"given":"yes","{QOS}":"BE"}} 5000 {{"{BATCH_CPU}":"500","kubernetes.io/batch-memory":"1Gi"}}'
            )
            odd = json.dumps(
                {"apiVersion": "v1", "kind": "Pod", **pod("odd", "default", labels={QOS: "BE"}, priority=0)}
            )
            told = await asyncio.to_thread(kubectl, "create", "-f", "-", stdin=odd, check=False)
            assert 'admission webhook "vpod.koordinator.sh" denied the request: spec.priority: must be of class' in told
            await asyncio.to_thread(kubectl, "delete", "namespace", "people", "--wait=false")
        await forget(client)


async def test_managers_that_disagree_do_not_race(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await prepare(client)
        async with admitting(client), admitting(client, "NodeMutatingWebhook=true"):
            first = int((await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING)).metadata.generation)
            await asyncio.sleep(4)
            last = int((await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING)).metadata.generation)
            assert last - first < 12


async def test_only_the_new_scheduler_binds_while_one_takes_over(client: Client) -> None:
    settings = BindingSettings(user_names=("koord-scheduler",), namespaces=("shop",))
    async with admitting(client, "BindingAdmissionWebhook=true", binding=settings) as running:
        await client.create(PODS, pod("web", "shop"))
        with pytest.raises(Forbidden, match="may not bind pods in namespace shop"):
            await client.bind("shop", "web", "n1")
        await client.patch(
            PODS, "web", {"metadata": {"labels": {"koordinator.sh/binding-admission-bypass": ""}}}, namespace="shop"
        )
        await client.bind("shop", "web", "n1")
        figures = running.metrics.render().decode()
        assert 'koord_manager_webhook_binding_admission_decisions_total{decision="denied"} 1.0' in figures
        assert 'koord_manager_webhook_binding_admission_decisions_total{decision="bypass_label"} 1.0' in figures
        await client.delete(PODS, "web", namespace="shop", grace_s=0)


async def test_what_a_kubelet_reports_is_amplified(client: Client) -> None:
    async with admitting(client, "NodeMutatingWebhook=true,NodeValidatingWebhook=true"):
        ratio = {"node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.94}'}
        await client.create(NODES, {"metadata": {"name": "n1", "annotations": ratio}})
        reported = {"status": {"allocatable": {"cpu": "64"}, "capacity": {"cpu": "64"}}}

        async def is_amplified() -> bool:
            found = await client.patch(NODES, "n1", reported, subresource="status")
            return found.status.allocatable["cpu"] == "124160m"

        await until_answered(is_amplified)
        node = await client.get(NODES, "n1")
        assert node.metadata.annotations["node.koordinator.sh/raw-allocatable"] == '{"cpu":"64"}'
        assert node.status.capacity["cpu"] == "64"
        # Others write the status too, and leave cpu unchanged.
        await client.patch(NODES, "n1", {"status": {"allocatable": {BATCH_CPU: "5"}}}, subresource="status")
        node = await client.get(NODES, "n1")
        assert (node.status.allocatable["cpu"], node.status.allocatable[BATCH_CPU]) == ("124160m", "5")
        await client.delete(NODES, "n1")


async def test_reservations_get_profiles_too(client: Client) -> None:
    await client.create(
        CLUSTER_COLOCATION_PROFILES, {"metadata": {"name": "p"}, "spec": {"schedulerName": "koord-scheduler"}}
    )
    spec = {"template": {"spec": {"containers": []}}, "owners": [{"labelSelector": {"matchLabels": {"a": "b"}}}]}
    async with admitting(client, "ReservationMutatingWebhook=true"):
        made = await client.create(RESERVATIONS, {"metadata": {"name": "r"}, "spec": {**spec, "ttl": "1h"}})
        await client.delete(RESERVATIONS, "r")
    template = msgspec.to_builtins(made.spec.template)
    assert template["spec"]["schedulerName"] == "koord-scheduler"


async def test_rules_for_labels_are_followed_and_broken_ones_change_nothing(tmp_path: Path) -> None:
    name, where = "pod-enhanced-validator-config", NAMESPACE_KOORDINATOR
    async with serving(tmp_path) as client:
        await prepare(client, "shop")

        async def refused() -> bool:
            try:
                await client.create(PODS, pod("web", "shop"), dry_run=True)
            except ApiError as error:
                return "metadata.labels[team]: is required by the rule teams" in error.message
            return False

        async def accepted() -> bool:
            return not await refused()

        async with admitting(client, "EnablePodEnhancedValidator=true"):
            assert await accepted()
            rules = {"enable": "true", "rules": '[{"name":"teams","requiredLabels":["team"]}]'}
            await client.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": rules}, namespace=where)
            await until_answered(refused)
            await client.patch(CONFIG_MAPS, name, {"data": {"rules": "["}}, namespace=where)
            await always(refused, 0.5)
            await client.delete(CONFIG_MAPS, name, namespace=where)
            await until_answered(accepted)


async def test_quota_trees_are_followed(tmp_path: Path) -> None:
    tree = {"quota.scheduling.koordinator.sh/tree-id": "t"}
    async with serving(tmp_path) as client:
        await prepare(client, "shop")
        async with admitting(client, "MultiQuotaTree=true"):
            await client.create(ELASTIC_QUOTAS, {"metadata": {"name": "shop", "namespace": "shop", "labels": tree}})
            selector = {"quotaName": "root", "nodeSelector": {"matchLabels": {"pool": "a"}}}
            profile = {"metadata": {"name": "q", "namespace": "kube-system", "labels": tree}, "spec": selector}
            await client.create(ELASTIC_QUOTA_PROFILES, profile)

            async def is_bound_to_its_nodes() -> bool:
                found = await created(client, pod("web", "shop"))
                return '"key": "pool"' in json.dumps(found["spec"].get("affinity"))

            await until_answered(is_bound_to_its_nodes)


async def test_a_namespace_that_was_made_a_moment_ago_is_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await prepare(client)
        await client.create(CLUSTER_COLOCATION_PROFILES, PROFILE)
        async with admitting(client) as running, caller(await bundle_of(client)) as session:
            for number in range(20):
                name = f"new-{number}"
                await client.create(NAMESPACES, {"metadata": {"name": name, "labels": {"colocation": "on"}}})
                asked = review(pod("web", name), namespace=name, name="web")
                async with session.post(f"{running.url}/mutate-pod", json=asked) as answer:
                    response = (await answer.json())["response"]
                assert "patch" in response
                assert "warnings" not in response
