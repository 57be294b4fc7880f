"""A console as a process, on an API server with a small cluster in it, and viewers with rights of their own."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from koord.api import kinds
from koord.api.protocol import names
from koord.api.text.timestamp import from_seconds
from koord.console.live.commands import kubeconfig_of
from koord.console.live.viewers import bearer_config
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists
from koord.kube.locate import locate
from koord.operate.install.console import CONSOLE, OPERATOR, VIEWER, objects, roles
from koord.operate.install.kinds import kind_of
from koord.operate.install.manifest import Key, key_of
from koord.operate.install.settings import Settings
from koord_minicluster.up.bootstrap import bootstrap
from tests.waiting import until

T = TypeVar("T")


def _rbac(kind: str) -> kinds.Kind[Any]:
    return kind_of(Key("rbac.authorization.k8s.io/v1", kind, ""))


CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS = _rbac("ClusterRole"), _rbac("ClusterRoleBinding")
ROLE_BINDINGS = _rbac("RoleBinding")
PEOPLE = "people"
POOLS = {"n1": "web", "n2": "web", "n3": "batch"}
GIB = 1 << 30


@dataclass
class Cluster:
    """An API server, asked as its administrator."""

    kubeconfig: Path

    def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        async def go() -> T:
            async with Client(locate(str(self.kubeconfig))) as client:
                return await work(client)

        # In a thread of its own: tests with a browser have a loop already.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(go())).result()

    def token(self, account: str, namespace: str = "") -> str:
        body = json.dumps({"spec": {"expirationSeconds": 3600}}).encode()
        path = f"/api/v1/namespaces/{namespace or PEOPLE}/serviceaccounts/{account}/token"
        answer = self.ask(lambda client: client.raw("POST", path, body=body))
        return str(json.loads(answer[2])["status"]["token"])

    def installed(self, folder: Path) -> Path:
        """A kubeconfig of the console's own service account, as `koord install --console` makes it."""
        config = locate(str(self.kubeconfig))
        token = self.token(CONSOLE.full_name, names.NAMESPACE_KOORDINATOR)
        file = folder / "installed.kubeconfig"
        file.write_bytes(kubeconfig_of(bearer_config(config, token)))
        return file


def node(name: str, pool: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"pool": pool, "kubernetes.io/hostname": name}}}


def node_status() -> dict[str, Any]:
    has = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    lent = {"kubernetes.io/batch-cpu": "6000", "kubernetes.io/batch-memory": str(20 * GIB)}
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": now(), "lastTransitionTime": now()}
    return {"status": {"capacity": {**has, **lent}, "allocatable": {**has, **lent}, "conditions": [condition]}}


def now() -> str:
    return from_seconds(time.time())


def pod(
    name: str, node_name: str, *, batch: bool = False, owner: bool = True, namespace: str = "shop"
) -> dict[str, Any]:
    asks = (
        {"kubernetes.io/batch-cpu": "2000", "kubernetes.io/batch-memory": str(GIB)}
        if batch
        else {"cpu": "2", "memory": "1Gi"}
    )
    owners = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c8f5d", "uid": "rs", "controller": True}
    ]
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": "job" if batch else "web", **({"koordinator.sh/qosClass": "BE"} if batch else {})},
            **({"ownerReferences": owners} if owner else {}),
        },
        "spec": {
            **({"nodeName": node_name} if node_name else {}),
            "schedulerName": "koord-scheduler",
            "priorityClassName": "koord-batch" if batch else "koord-prod",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": asks, "limits": asks}}],
        },
    }


def metric(name: str, *, batch_pod: str = "") -> dict[str, Any]:
    used = [{"namespace": "shop", "name": batch_pod, "podUsage": {"resources": {"cpu": "1500m", "memory": "512Mi"}}}]
    return {
        "status": {
            "updateTime": now(),
            "nodeMetric": {
                "nodeUsage": {"resources": {"cpu": "5", "memory": "8Gi"}},
                "systemUsage": {"resources": {"cpu": "500m", "memory": "1Gi"}},
            },
            "podsMetric": used if batch_pod else [],
        }
    }


async def fill(client: Client) -> None:
    """Three nodes of two pools, services, batch pods, and people with different rights."""
    await bootstrap(client)
    for namespace in ("shop", "bank", PEOPLE):
        await client.create(kinds.NAMESPACES, {"metadata": {"name": namespace}})
    for name, pool in POOLS.items():
        await client.create(kinds.NODES, node(name, pool))
        await client.patch(kinds.NODES, name, node_status(), subresource="status", type="strategic")
        await client.create(kinds.NODE_METRICS, {"metadata": {"name": name}, "spec": {}})
        await client.patch(kinds.NODE_METRICS, name, metric(name), subresource="status")
    for body in (
        pod("web-1", "n1"),
        pod("web-2", "n2"),
        pod("job-1", "n1", batch=True),
        pod("job-2", "n3", batch=True),
        pod("ledger-1", "n3", namespace="bank"),
        pod("waiting-1", "", batch=True),
    ):
        await client.create(kinds.PODS, body)
    for key in ("shop/web-1", "shop/web-2", "shop/job-1", "shop/job-2", "bank/ledger-1"):
        namespace, _, name = key.partition("/")
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(kinds.PODS, name, {"status": running}, namespace=namespace, subresource="status")
    for body in objects(Settings(image="koord:1", version="1")):
        if body["kind"] not in ("Deployment", "Service"):
            await client.create(kind_of(key_of(body)), body)
    for account in ("operator", "half", "viewer", "tenant", "stranger"):
        await client.create(kinds.SERVICE_ACCOUNTS, {"metadata": {"name": account, "namespace": PEOPLE}})
    await bind(client, "operator", OPERATOR)
    await bind(client, "operator", OPERATOR, "koordinator-system")
    await bind(client, "viewer", VIEWER)
    await bind(client, "tenant", VIEWER)
    await role(client, "pods", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}])
    await bind(client, "tenant", "pods", "shop", kind="ClusterRole")
    # May do all but evict.
    named: list[Any] = list(roles())
    rules = next(one["rules"] for one in named if one["kind"] == "ClusterRole" and one["metadata"]["name"] == OPERATOR)
    await role(client, "half", [rule for rule in rules if "pods/eviction" not in rule.get("resources", ())])
    await bind(client, "half", "half")
    await bind(client, "half", OPERATOR, "koordinator-system")


async def role(client: Client, name: str, rules: list[dict[str, Any]]) -> None:
    await client.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules})


async def bind(client: Client, account: str, name: str, namespace: str = "", kind: str = "") -> None:
    kind = kind or ("Role" if namespace else "ClusterRole")
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": PEOPLE}
    body = {"metadata": {"name": f"{account}-{name}"}, "roleRef": ref, "subjects": [subject]}
    if namespace:
        await client.create(ROLE_BINDINGS, body, namespace=namespace)
    else:
        await client.create(CLUSTER_ROLE_BINDINGS, body)


@dataclass
class Reply:
    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


@dataclass
class Caller:
    """One viewer, or a caller without a token."""

    url: str
    token: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Reply:
        parts = urlsplit(self.url)
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        if raw is not None:
            sent.setdefault("Content-Type", "application/json")
        address = parts.hostname or "", parts.port
        connection = (
            http.client.HTTPSConnection(*address, timeout=60, context=ssl._create_unverified_context())
            if parts.scheme == "https"
            else http.client.HTTPConnection(*address, timeout=60)
        )
        try:
            connection.request(method, path, raw, sent)
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.headers.items()), answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Any:
        reply = self.ask("GET", f"/api/v1{path}", **headers)
        assert reply.status == 200, reply.raw
        return reply.body

    def post(self, path: str, body: object, status: int, **headers: str) -> Any:
        reply = self.ask("POST", f"/api/v1{path}", body, **headers)
        assert reply.status == status, (reply.status, reply.raw)
        return reply.body

    def preview(self, act: str, scope: Mapping[str, object] | None = None, status: int = 200, **more: object) -> Any:
        return self.post("/previews", {"act": act, "scope": scope or {}, **more}, status)

    def confirm(self, preview: Mapping[str, Any], status: int = 202, key: str = "", **more: object) -> Any:
        typed = {"typed": preview["typeToConfirm"], **more}
        return self.post("/acts", {"preview": preview["id"], **typed}, status, Idempotency_Key=key or preview["id"])

    def done(self, act: Mapping[str, Any]) -> Any:
        """The act when it has ended."""

        def ended() -> Any:
            latest = self.get(f"/acts/{quote(act['id'])}")
            return latest if latest["state"] != "running" else None

        return until(ended, what=lambda: str(self.get(f"/acts/{quote(act['id'])}")))

    def do(self, act: str, scope: Mapping[str, object] | None = None, **more: Any) -> Any:
        """From the preview to the end."""
        return self.done(self.confirm(self.preview(act, scope, **more)))


@contextmanager
def console(kubeconfig: Path, folder: Path, *args: str) -> Iterator[str]:
    """A console as the user of a kubeconfig. Yields its link, or its address where viewers need tokens."""
    link_file, log = folder / "link", folder / "console.log"
    command = [sys.executable, "-m", "koord", "console", "--kubeconfig", str(kubeconfig)]
    with log.open("wb") as out:
        process = subprocess.Popen([*command, "--link-file", str(link_file), *args], stdout=out, stderr=out)
    try:

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            return b"console: http" in log.read_bytes()

        until(is_ready, what=log.read_text)
        yield link_file.read_text().strip()
    finally:
        process.terminate()
        process.wait(timeout=60)


def filled(kubeconfig: Path) -> Cluster:
    cluster = Cluster(kubeconfig)

    async def work(client: Client) -> None:
        try:
            await fill(client)
        except AlreadyExists as error:
            raise AssertionError(f"the cluster is not empty: {error}") from error

    cluster.ask(work)
    return cluster
