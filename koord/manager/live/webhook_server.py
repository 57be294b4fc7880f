"""The webhook server: admission.k8s.io reviews over TLS, answered by `koord.admission`.

    await serve_webhooks(client, facts, gates, "0.0.0.0:9876")

Every replica serves. One loop keeps certificate and registration what they should be: each minute, and whenever the
Secret or a configuration changes. A certificate is changed on the running server; connections stay. A server that is
asked to end is not ready any more, but answers until API servers have had time to notice: an answer then ends its
connection, so that none is cut off while a review is on its way. While a manager of
Koordinator's holds the lease, the registration is that one's, and is left alone.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from koord.admission.binding import BindingSettings
from koord.admission.hooks import hooks, registered
from koord.admission.request import Gates
from koord.admission.scheduler_annotations import Schedulers
from koord.api import kinds
from koord.api.configuration.features import ManagerGate
from koord.api.machinery.codec import DecodeError
from koord.api.protocol import names
from koord.api.protocol.lease_holders import is_anothers
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.errors import ApiError, NotFound
from koord.kube.health import Address, parse_address
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.listening import listening
from koord.kube.metrics import Metrics
from koord.manager.live.certificate_store import CertificateStore, FileStore, SecretStore
from koord.manager.live.certificates import Lifetimes, Material, ends_s, load, renewed
from koord.manager.live.cluster_facts import InformerView, LabelRecord, LiveFacts, label_record, of_labels
from koord.manager.live.quota_counting import QuotaCounting
from koord.manager.live.registration import Endpoint, Registration
from koord.manager.live.webhook_reviews import Reviews

log = logging.getLogger(__name__)

RESYNC_S: Final = 60.0
RETRY_S: Final = 1.0
MOST_RETRY_S: Final = 30.0
KEEP_ALIVE_S: Final = 120.0
"""Longer than API servers keep a connection that they do not use: it is for them to close it."""
SHUTDOWN_S: Final = 5.0
STAND_BY_S: Final = 2.0
"""How often to look whether another system's manager still leads."""
CERTIFICATE_FOLDER: Final = "/tmp/koordinator-webhook-certs"


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """How the webhooks are found, and under which names all of it is kept."""

    host: str = ""
    "Register a URL with this host instead of the service."
    namespace: str = names.NAMESPACE_KOORDINATOR
    service: str = names.SERVICE_WEBHOOKS
    secret: str = names.SECRET_WEBHOOK_CERTIFICATES
    certificate_folder: str = ""
    "Keep certificates in files there instead of in the Secret."
    mutating: str = names.WEBHOOK_MUTATING_CONFIGURATION
    validating: str = names.WEBHOOK_VALIDATING_CONFIGURATION
    lease_namespace: str = ""
    "Of the managers' lease; empty where managers elect no leader."
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    resync_s: float = RESYNC_S
    shutdown_delay_s: float = 0.0
    "How long to answer after being asked to end, until API servers call other replicas."
    seed: int = 0


_ENVIRONMENT: Final = {
    "WEBHOOK_HOST": "host",
    "POD_NAMESPACE": "namespace",
    "SERVICE_NAME": "service",
    "SECRET_NAME": "secret",
    "MUTATING_WEBHOOK_NAME": "mutating",
    "VALIDATING_WEBHOOK_NAME": "validating",
}


def options_from(environment: Mapping[str, str]) -> WebhookOptions:
    """The options from the environment variables of Koordinator's manager."""
    given = {field: environment[name] for name, field in _ENVIRONMENT.items() if environment.get(name)}
    if environment.get("WEBHOOK_CERT_WRITER") == "fs":
        given["certificate_folder"] = environment.get("WEBHOOK_CERT_DIR") or CERTIFICATE_FOLDER
    return WebhookOptions(**given)  # type: ignore[arg-type]  # fields that are strings


def address_from(environment: Mapping[str, str]) -> str:
    """The address from the environment variables of Koordinator's manager; empty if they do not set one."""
    port = environment.get("WEBHOOK_PORT")
    return f"0.0.0.0:{port}" if port else ""


async def serve_webhooks(
    client: Client,
    facts: LiveFacts,
    gates: Gates,
    address: str,
    *,
    options: WebhookOptions | None = None,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serves until cancelled. `on_ready` is called with its URL once it is registered and answers."""
    server = WebhookServer(client, facts, gates, address, options, metrics, clock)
    await server.run(on_ready)


@dataclass(slots=True)
class Webhooks:
    """The webhooks of a manager, to run on every replica beside what only the leader does."""

    gates: Gates
    address: str
    options: WebhookOptions = field(default_factory=WebhookOptions)
    binding: BindingSettings = field(default_factory=BindingSettings)
    scheduler_identities: frozenset[str] = frozenset()
    slo_config: str = names.CONFIGMAP_SLO_CONTROLLER
    config_namespace: str = names.NAMESPACE_KOORDINATOR
    strategy_names_required: bool = False
    on_ready: Callable[[str], None] = lambda url: None
    _server: WebhookServer | None = None

    async def run(self, client: Client, informers: Informers, metrics: Metrics) -> None:
        clock = SystemClock()
        facts = LiveFacts(
            client,
            informers,
            self.gates,
            clock,
            node_labels=self._node_labels(informers),
            binding=self.binding,
            schedulers=Schedulers(self.scheduler_identities, self.options.namespace),
            namespace=self.config_namespace,
            slo_config=self.slo_config,
            strategy_names_required=self.strategy_names_required,
        )
        self._server = WebhookServer(client, facts, self.gates, self.address, self.options, metrics, clock)
        await self._server.run(self.on_ready)

    def check(self) -> str | None:
        """For health endpoints."""
        return self._server.check() if self._server is not None else "the webhooks have not been started"

    def _node_labels(self, informers: Informers) -> Mapping[str, Mapping[str, str]]:
        """Only the rules for configuration look them up."""
        if not self.gates[ManagerGate.CONFIG_MAP_VALIDATING_WEBHOOK]:
            return {}
        nodes = informers.get(kinds.NODES, transform=label_record, identity=of_labels)
        return InformerView(nodes, lambda record: record.labels, lambda record: record.name)


class NoPlace(Exception):
    """The namespace of certificate and Service is not there."""


class WebhookServer:
    """The server, its certificate and its registration. `check` is for health endpoints."""

    def __init__(
        self,
        client: Client,
        facts: LiveFacts,
        gates: Gates,
        address: str,
        options: WebhookOptions | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client, self._facts = client, facts
        own = metrics or Metrics(process=False)
        self._options = options or WebhookOptions()
        self._clock = clock or SystemClock()
        self._address = parse_address(address)
        self._gates = gates
        self._reviews = Reviews(
            facts,
            gates,
            hooks(gates, self._options.namespace),
            own,
            self._options.seed,
            counting=QuotaCounting(
                client,
                facts.now().quotas,
                default=not gates[ManagerGate.DISABLE_DEFAULT_QUOTA],
                overhead=not gates[ManagerGate.ELASTIC_QUOTA_IGNORE_POD_OVERHEAD],
            ),
            quota_admitted=facts.admitted,
        )
        self._store: CertificateStore = SecretStore(client, self._options.namespace, self._options.secret)
        if self._options.certificate_folder:
            self._store = FileStore(Path(self._options.certificate_folder))
        self._registration = Registration(client, self._options.mutating, self._options.validating)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._shown = Material()
        self._told, self._told_at = b"", 0.0
        "The bundle registered as trusted, and since when."
        self._wake = asyncio.Event()
        self._leader_of_others = ""
        "The leader of the other system at the last check."
        self._fault: str | None = "the webhooks are not registered yet"
        self._is_leaving = False
        self.port = self._address.port
        own.gauge(
            "koord_manager_webhook_registered", "1 while certificate and registration of the webhooks are in order"
        ).set_function(lambda: self._fault is None)
        own.gauge(
            "koord_manager_admission_off", "1 while admission is off by hand (koord colocation break-glass on), else 0"
        ).set_function(lambda: self._registration.is_off)
        self._expiry = own.gauge(
            "koord_manager_webhook_certificate_expiry_timestamp_seconds",
            "When the certificate that the webhooks show ends, in seconds since 1970",
        )

    def check(self) -> str | None:
        """The current fault of the certificate or the registration, if any."""
        return "shutting down" if self._is_leaving else self._fault

    async def run(self, on_ready: Callable[[str], None]) -> None:
        await self._facts.synced()
        self._facts.on_change(self._wake.set)
        # Before the first certificate there is nothing to serve with.
        await self._until_done(self._first_certificate)
        server = web.Server(self._handle, access_log=None, keepalive_timeout=KEEP_ALIVE_S)
        runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_S)
        async with listening(runner, self._address.host, self._address.port, self._context) as self.port:
            log.info("serving webhooks", extra={"address": str(Address(self._address.host, self.port))})
            await self._until_done(self._sync)
            on_ready(f"https://{Address(self._own_host, self.port)}")
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._facts.run(), name="webhooks/facts")
                tasks.create_task(self._watch(), name="webhooks/watch")
                tasks.create_task(self._keep(), name="webhooks/registration")
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    await self._leave()
                    raise

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        answer = await self._reviews.handle(request)
        if self._is_leaving:
            answer.force_close()
        return answer

    async def _leave(self) -> None:
        """Answers a while longer, with all that rules look up still followed."""
        self._is_leaving = True
        if delay_s := self._options.shutdown_delay_s:
            log.info("answering for %g s more, until API servers call others", delay_s)
            await self._clock.sleep(delay_s)

    @property
    def _own_host(self) -> str:
        return self._options.host or (self._address.host if self._address.loopback else "127.0.0.1")

    @property
    def _names(self) -> tuple[str, ...]:
        """What the certificate is for: the service as API servers call it, the host, and this machine."""
        service = f"{self._options.service}.{self._options.namespace}.svc"
        return tuple(dict.fromkeys(name for name in (self._options.host, service, "localhost", "127.0.0.1") if name))

    async def _watch(self) -> None:
        """Wakes the loop when something that it keeps has changed."""
        options = self._options
        async with Informers(self._client, clock=self._clock) as informers:
            kept: list[Informer[Any]] = [
                informers.get(kinds.MUTATING_WEBHOOK_CONFIGURATIONS, fields=f"metadata.name={options.mutating}"),
                informers.get(kinds.VALIDATING_WEBHOOK_CONFIGURATIONS, fields=f"metadata.name={options.validating}"),
            ]
            if not options.certificate_folder:
                only = f"metadata.name={options.secret}"
                kept.append(informers.get(kinds.SECRETS, namespace=options.namespace, fields=only))
            for informer in kept:
                informer.add_handler(lambda _: self._wake.set())
            await asyncio.Event().wait()

    async def _keep(self) -> None:
        """Keeps certificate and registration as they should be."""
        mended_in_a_row = 0
        while True:
            self._wake.clear()
            wait_s = self._options.resync_s
            try:
                mended_in_a_row = mended_in_a_row + 1 if await self._sync() else 0
                self._fault = None
                if self._leader_of_others:
                    wait_s = min(STAND_BY_S, wait_s)
            except NoPlace as error:
                if self._fault != str(error):
                    log.warning("%s", error)
                self._fault, wait_s = str(error), min(STAND_BY_S, wait_s)
            except (ApiError, DecodeError, OSError, TimeoutError) as error:
                log.error("cannot keep the webhooks' certificate and registration: %s", error)
                self._fault, wait_s = str(error), RETRY_S
            # Two managers that disagree would otherwise undo each other's work without end.
            if mended_in_a_row > 1:
                await self._clock.sleep(min(RETRY_S * 2 ** (mended_in_a_row - 2), MOST_RETRY_S))
            await self._woken(wait_s)

    async def _woken(self, within_s: float) -> None:
        """Returns when something that is kept has changed, at the latest after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._wake.wait()

    async def _until_done(self, work: Callable[[], Awaitable[object]]) -> None:
        """At the start: an API server that cannot answer yet is asked again."""
        wait_s = RETRY_S
        while True:
            self._wake.clear()
            try:
                await work()
            except NoPlace as error:
                if self._fault != str(error):
                    log.warning("webhooks cannot start yet: %s", error)
                self._fault = str(error)
            except (ApiError, DecodeError, OSError, TimeoutError) as error:
                log.error("webhooks cannot start yet: %s", error)
                self._fault = str(error)
            else:
                return
            await self._woken(wait_s)
            wait_s = min(wait_s * 2, MOST_RETRY_S)

    async def _first_certificate(self) -> None:
        await self._check_place()
        await self._keep_certificate()

    async def _check_place(self) -> None:
        """Raises NoPlace, with admission off, while the namespace of the certificate and the Service does not exist:
        without a certificate, no request must wait for a webhook that cannot answer."""
        name = self._options.namespace
        if self._options.certificate_folder or self._place is not None:
            return
        if not await self._another_leads():
            await self._registration.stand_down(self._endpoint)
        if self._place is not None:
            # It was made in the meantime.
            return
        state = "does not exist" if self._facts.namespace(name) is None else "is being deleted"
        raise NoPlace(f"namespace {name} {state}: admission is off until it is there again")

    @property
    def _place(self) -> LabelRecord | None:
        """The namespace of certificate and Service, if it is there to stay."""
        namespace = self._facts.namespace(self._options.namespace)
        return None if namespace is None or namespace.leaving else namespace

    @property
    def _endpoint(self) -> Endpoint:
        options = self._options
        url = f"https://{Address(options.host, self.port)}" if options.host else ""
        return Endpoint(options.namespace, options.service, url)

    async def _sync(self) -> bool:
        """Whether the registration had to be restored."""
        await self._check_place()
        await self._keep_certificate()
        if await self._another_leads():
            self._fault = None
            return False
        wanted = registered(self._gates, self._options.namespace, self._facts.now().profiles)
        # Certificates in files are for a manager that needs no namespace.
        place = self._place if not self._options.certificate_folder else None
        owner = place.uid if place is not None else ""
        mended = await self._registration.ensure(wanted, self._endpoint, self._shown.bundle, owner)
        if self._shown.bundle != self._told:
            self._told, self._told_at = self._shown.bundle, self._clock.monotonic()
        self._fault = None
        return mended

    async def _another_leads(self) -> bool:
        """Whether the lease is in the hands of a manager of another system, which registers webhooks itself."""
        if not self._options.lease_namespace:
            return False
        holder = ""
        with suppress(NotFound):
            lease = await self._client.get(kinds.LEASES, names.LEASE_MANAGER, namespace=self._options.lease_namespace)
            holder = lease.spec.holder_identity
        leads = holder if is_anothers(holder) else ""
        if leads and not self._leader_of_others:
            log.info("another system's manager leads, and registers the webhooks; waiting", extra={"holder": leads})
        self._leader_of_others = leads
        return bool(leads)

    async def _keep_certificate(self) -> None:
        """Renews what is kept where that is due, and shows what is kept."""
        for _ in range(5):
            held, version = await self._store.held()
            told_for_s = self._clock.monotonic() - self._told_at if held.bundle == self._told else 0.0
            wanted = renewed(held, self._names, self._clock.now(), self._options.lifetimes, told_for_s=told_for_s)
            if wanted is not held:
                if not await self._store.keep(wanted, version):
                    continue
                log.info("renewed the webhooks' certificate", extra={"kept": str(self._store)})
            self._show(wanted)
            return
        raise TimeoutError(f"others keep changing {self._store}")

    def _show(self, material: Material) -> None:
        """New connections are shown this certificate."""
        if (material.certificate, material.key) != (self._shown.certificate, self._shown.key):
            load(self._context, material)
            self._expiry.set(ends_s(material))
        self._shown = material
