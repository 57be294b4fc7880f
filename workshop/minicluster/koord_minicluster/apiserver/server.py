"""The server put together: the store, what is served, who may, and the listening socket.

`ApiServer` is an async context manager; inside it requests are answered. `serve` runs one until it is cancelled, for
the command line. Everything it keeps is in its data directory: the store, the keys and certificates, the kubeconfig.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from koord.api.kubernetes.access import CONTROLLERS, MASTERS, UserInfo
from koord.kube.background_task import background_task
from koord_minicluster.apiserver import certs, structural
from koord_minicluster.apiserver.access import bootstrap
from koord_minicluster.apiserver.access.authn import Authenticator
from koord_minicluster.apiserver.access.rbac import Authorizer
from koord_minicluster.apiserver.access.reviews import Reviews
from koord_minicluster.apiserver.access.service_accounts import ServiceAccountTokens
from koord_minicluster.apiserver.access.token_request import TokenRequests
from koord_minicluster.apiserver.admission import Admission
from koord_minicluster.apiserver.admission.service_addresses import service_address
from koord_minicluster.apiserver.admission.webhook_rules import ServiceRef
from koord_minicluster.apiserver.builtin.resources import builtin_resources
from koord_minicluster.apiserver.builtin.service_allocation import ServiceAllocator
from koord_minicluster.apiserver.component_statuses import ComponentStatuses
from koord_minicluster.apiserver.custom.serving import Definitions
from koord_minicluster.apiserver.discovery import Discovery
from koord_minicluster.apiserver.http import HttpApi
from koord_minicluster.apiserver.in_flight import InFlight
from koord_minicluster.apiserver.listening import listening
from koord_minicluster.apiserver.metrics_api import MetricsApi
from koord_minicluster.apiserver.objects import Context, Objects
from koord_minicluster.apiserver.openapi import OpenApi
from koord_minicluster.apiserver.paths import Paths, metrics_path
from koord_minicluster.apiserver.registry import Registry
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.revision_log import Durability
from koord_minicluster.apiserver.status import StatusError
from koord_minicluster.apiserver.store import Collection, Store
from koord_minicluster.apiserver.stored import collection_of
from koord_minicluster.apiserver.subresources.binding import Bindings
from koord_minicluster.apiserver.subresources.eviction import Evictions
from koord_minicluster.apiserver.subresources.finalize import NamespaceFinalizers
from koord_minicluster.apiserver.subresources.kubelets import Kubelets
from koord_minicluster.apiserver.subresources.log import NodeLog
from koord_minicluster.apiserver.subresources.scale import Scales
from koord_minicluster.apiserver.subresources.streams import Streams
from koord_minicluster.apiserver.telemetry import Telemetry
from koord_minicluster.apiserver.verbs import Verbs

log = logging.getLogger(__name__)

ADMIN = UserInfo("system:apiserver", groups=(MASTERS,))
"""What the cluster's own controllers are called, as on any cluster: webhooks are not asked about what they clean up."""
CONTROLLERS_KUBECONFIG = "controllers.kubeconfig"
"""Beside the keys."""
MANAGER = "kube-apiserver"
"As whom the server itself writes; clients know this one from every cluster."
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How to serve. `port` 0 takes any free one; `hosts` are further names for the certificate."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    durability: Durability = "full"
    hosts: tuple[str, ...] = ()
    tokens: dict[str, UserInfo] = field(default_factory=dict)
    "Static bearer tokens, beside the one that the administrator gets."
    disabled_admission: frozenset[str] = frozenset()
    "Built-in steps of admission to leave out, by name."


class ApiServer:
    """A running server. `url` and `kubeconfig` are set once it is entered. An error in one of its background tasks ends
    the block that it runs in, with that error."""

    def __init__(self, options: ServeOptions) -> None:
        self.options = options
        self.url = ""
        self.kubeconfig = options.data_dir / "kubeconfig"
        self.registry = Registry(builtin_resources())
        self._allocator = ServiceAllocator()
        services = self.registry.find("", "v1", "services")
        assert services is not None
        self.registry.add(self._allocator.at_work(services))
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> ApiServer:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def _start(self) -> None:
        options = self.options
        self.store = await Store.open(options.data_dir, options.durability)
        self._stack.callback(self.store.close)
        await self._stack.enter_async_context(background_task(self.store.run(), name="store writer"))

        pki = options.data_dir / "pki"
        authority = certs.Authority.open(pki)
        certificate, key = authority.server(options.hosts)
        admin_token = certs.static_token(pki, "admin")
        tokens = ServiceAccountTokens(certs.signing_key(pki), "https://kubernetes.default.svc", self._uid_of, time.time)
        static = {admin_token: UserInfo("admin", groups=(MASTERS,)), **options.tokens}
        authenticator = Authenticator(static, tokens)
        authorizer = Authorizer()
        admission = Admission(
            self.collection,
            self.registry,
            authorizer,
            _default,
            self._resolve,
            disabled=options.disabled_admission,
        )
        self._stack.push_async_callback(admission.close)
        self.objects = Objects(self.store, admission, time.time)
        self._stack.callback(self.objects.large_object_worker.close)
        admission.quotas.charge = self._charge
        for plural, role_kind in (
            ("roles", "Role"), ("clusterroles", "ClusterRole"),
            ("rolebindings", "RoleBinding"), ("clusterrolebindings", "ClusterRoleBinding"),
        ):  # fmt: skip
            authorizer.follow(role_kind, self.collection(f"{plural}.rbac.authorization.k8s.io"))

        self._allocator.follow(self.collection("services"))
        kubelets = Kubelets(self.collection("pods"), self.collection("nodes"), _kubelet_client(authority, pki))
        node_log, streams = NodeLog(kubelets), Streams(kubelets, authorizer)
        self._stack.push_async_callback(node_log.close)
        bindings = Bindings(self.objects, self.registry)
        token_requests = TokenRequests(tokens, self.collection, self.objects.now)
        verbs = Verbs(
            self.objects,
            {
                ("pods", "binding"): bindings.bind,
                ("bindings", ""): bindings.bind_named,
                ("pods", "eviction"): Evictions(self.objects, self.registry).evict,
                ("pods", "log"): node_log.handle,
                ("pods", "exec"): streams.exec,
                ("pods", "attach"): streams.attach,
                ("pods", "portforward"): streams.port_forward,
                ("namespaces", "finalize"): NamespaceFinalizers(self.objects).finalize,
                ("*", "scale"): Scales(self.objects).scale,
                **Reviews(authenticator, authorizer, self.objects.now).handlers(),
                **MetricsApi(self.find_collection).handlers(),
                ("serviceaccounts", "token"): token_requests.create,
                ("componentstatuses", ""): ComponentStatuses(self._store_fault).handle,
            },
        )
        in_flight = InFlight()
        self.store.requests = lambda: in_flight.entered
        telemetry = Telemetry(self.store, in_flight)
        checks = {"ping": lambda: None, "store": self._store_fault}
        paths = Paths(Discovery(self.registry), OpenApi(self.registry), tokens, checks, self._address)
        api = HttpApi(
            self.registry,
            authenticator,
            authorizer,
            verbs.handle,
            {**paths.handlers(), "/metrics": metrics_path(telemetry)},
            paths.group_document,
            telemetry,
            in_flight,
        )
        await self._bootstrap()
        await self._publish_authority(authority.pem.decode())
        definitions = Definitions(self.objects, self.registry)
        definitions.load()
        await self._stack.enter_async_context(background_task(definitions.run(), name="definitions"))
        context = certs.server_context(certificate, key, pki / "ca.crt")
        host, port = await self._stack.enter_async_context(
            listening(api.handle, context, options.host, options.port, self.store.end_watches)
        )
        self.url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        await self._ensure_service(port)
        own = authority.client(CONTROLLERS, [MASTERS])
        certs.kubeconfig(pki / CONTROLLERS_KUBECONFIG, self.url, authority.pem, CONTROLLERS, credential=own)
        certs.kubeconfig(
            self.kubeconfig, self.url, authority.pem, "admin", credential=authority.client("admin", [MASTERS])
        )

    def collection(self, name: str) -> Collection:
        collection = self.find_collection(name)
        assert collection is not None, name
        return collection

    def find_collection(self, name: str) -> Collection | None:
        """The collection of that name, if something is served from it."""
        resource = next((resource for resource in self.registry if resource.collection == name), None)
        return collection_of(self.store, resource) if resource is not None else None

    async def _bootstrap(self) -> None:
        """What every cluster has from the start, created where it is missing."""
        wanted = [
            *({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}} for name in NAMESPACES),
            *bootstrap.roles_and_bindings(),
            *bootstrap.priority_classes(),
        ]
        namespaces = [obj for obj in wanted if obj["kind"] == "Namespace"]
        others = [obj for obj in wanted if obj["kind"] != "Namespace"]
        for group in (namespaces, others):
            await asyncio.gather(*(self._ensure(obj) for obj in group))

    async def _publish_authority(self, pem: str) -> None:
        """Whom this server takes client certificates of, for others who are to take the same: nodes, schedulers."""
        resource = self.registry.find("", "v1", "configmaps")
        assert resource is not None
        meta = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
        data = {"client-ca-file": pem}
        await self._ensure({"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": data})

        def published(config_map: Obj) -> Obj:
            return {**config_map, "data": {**(config_map.get("data") or {}), **data}}

        context = Context(ADMIN, MANAGER)
        await self.objects.update(resource, meta["namespace"], meta["name"], published, context)

    async def _ensure(self, obj: Obj) -> None:
        group, _, version = obj["apiVersion"].rpartition("/")
        resource = self.registry.find_kind(group, version, obj["kind"])
        assert resource is not None, obj["kind"]
        namespace = obj["metadata"].get("namespace", "")
        if self.objects.collection(resource).get(resource.key(namespace, obj["metadata"]["name"])) is not None:
            return
        try:
            await self.objects.create(resource, namespace, obj, Context(ADMIN, MANAGER))
        except StatusError as error:
            log.error("could not create what every cluster has", extra={"error": str(error)})

    def _uid_of(self, collection: str, namespace: str, name: str) -> str | None:
        entry = self.collection(collection).get(f"{namespace}/{name}" if namespace else name)
        return entry.index.uid if entry is not None else None

    async def _charge(self, namespace: str, name: str, used: Mapping[str, str]) -> None:
        """Store the usage of a quota. A quota that was deleted since then no longer limits anything."""
        resource = self.registry.find("", "v1", "resourcequotas")
        assert resource is not None

        def charged(quota: Obj) -> Obj:
            return {**quota, "status": {**(quota.get("status") or {}), "used": dict(used)}}

        context = Context(ADMIN, MANAGER)
        with contextlib.suppress(StatusError):
            await self.objects.update(resource, namespace, name, charged, context, subresource="status")

    def _resolve(self, service: ServiceRef) -> tuple[str, int]:
        return service_address(service, self.collection)

    async def _ensure_service(self, port: int) -> None:
        """Creates or updates the service through which pods reach the API, as in any cluster."""
        resource = self.registry.find("", "v1", "services")
        assert resource is not None
        ports = [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}]

        def pointed(service: Obj) -> Obj:
            service["spec"]["ports"] = ports
            return service

        labels = {"component": "apiserver", "provider": "kubernetes"}
        service = {
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
            "spec": {"type": "ClusterIP", "ports": ports},
        }
        context = Context(ADMIN, MANAGER)
        await self.objects.update(resource, "default", "kubernetes", pointed, context, create_missing=lambda: service)

    def _store_fault(self) -> str | None:
        return f"the disk refused the last write: {self.store.fault}" if self.store.fault else None

    def _address(self) -> str:
        return self.url.removeprefix("https://")


def _default(resource: Resource, obj: Obj) -> None:
    structural.default(resource.schema, obj)
    resource.strategy.default(obj)


def _kubelet_client(authority: certs.Authority, pki: Path) -> ssl.SSLContext:
    """How the server shows itself to nodes. It does not check theirs, as a real server does not by default."""
    credential = authority.client("system:apiserver-kubelet-client", [MASTERS])
    certificate, key = pki / "kubelet-client.crt", pki / "kubelet-client.key"
    certs.write_private(certificate, credential.certificate)
    certs.write_private(key, credential.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(certificate, key)
    return context


async def serve(options: ServeOptions) -> None:
    """Serve until cancelled."""
    async with ApiServer(options) as server:
        log.info("serving", extra={"url": server.url, "kubeconfig": str(server.kubeconfig)})
        await asyncio.Event().wait()
