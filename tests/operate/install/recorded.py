"""What a client asks of an API server, in the words of RBAC; and which of its rights it made no use of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from koord.kube.client import Client
from koord.kube.cluster_config import ClusterConfig
from koord.kube.transport import Call
from koord.operate.install.access import rules_of
from koord.operate.install.live.cluster import Cluster
from koord.operate.install.manifest import Json
from koord.operate.install.rights import READ, Right

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

ELSEWHERE = frozenset(
    {
        # Of metrics endpoints, which tests in tests/kube have.
        "create subjectaccessreviews.authorization.k8s.io",
        "create tokenreviews.authentication.k8s.io",
        "read configmaps",
        # An event that comes again.
        "patch events.events.k8s.io",
    }
)
"""What components may do that a story need not show."""


@dataclass(frozen=True)
class Request:
    verb: str
    group: str
    resource: str
    "With its subresource."
    name: str = ""


def request_of(call: Call) -> Request | None:
    """The request of a call; None if it is not about a resource, as with /version."""
    parts = call.path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, name = rest[0], rest[1] if len(rest) > 1 else ""
    if len(rest) > 2:
        resource = f"{resource}/{rest[2]}"
    query = dict(call.query)
    verb = _VERBS.get(call.method, "")
    if not verb:
        verb = "watch" if query.get("watch") else "get" if name else "list"
    for term in query.get("fieldSelector", "").split(","):
        name = name or (term.removeprefix("metadata.name=") if term.startswith("metadata.name=") else "")
    return Request(verb, group, resource, name)


class Refusals:
    """Counts what a client was answered."""

    def __init__(self) -> None:
        self.codes: Counter[int | None] = Counter()

    def answered(self, method: str, code: int | None, took_s: float) -> None:
        self.codes[code] += 1

    def retried(self, method: str, code: int | None) -> None: ...


@dataclass
class Recorder:
    requests: set[Request] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)

    def listen(self, client: Client) -> None:
        """From here on, to all that this client and its views ask."""
        transport: Any = client._transport
        call, stream = transport.call, transport.stream

        async def heard(asked: Call, *rest: Any, **more: Any) -> Any:
            self._note(asked)
            try:
                return await call(asked, *rest, **more)
            except Exception as error:
                if getattr(error, "code", 0) in (401, 403):
                    self.refused.append(str(error))
                raise

        def heard_stream(asked: Call, *rest: Any, **more: Any) -> Any:
            self._note(asked)
            return stream(asked, *rest, **more)

        transport.call, transport.stream = heard, heard_stream

    def _note(self, call: Call) -> None:
        if (request := request_of(call)) is not None:
            self.requests.add(request)

    def unused(self, rights: Iterable[Right]) -> set[str]:
        """What it may do and did not: each write, and each resource that it did not read."""
        found = set()
        for right in rights:
            reads, writes = ([v for v in right.verbs if (v in READ) is read] for read in (True, False))
            for resource in right.resources:
                parts = [[verb] for verb in writes] + ([reads] if reads else [])
                for verbs in parts:
                    (rule,) = rules_of([replace(right, resources=(resource,), verbs=tuple(verbs))])
                    if not any(allows(rule, request) for request in self.requests):
                        found.add(f"{verbs[0] if verbs != reads else 'read'} {resource}")
        return found


def allows(rule: Json, request: Request) -> bool:
    listed: dict[str, Any] = dict(rule)
    named = listed.get("resourceNames")
    return (
        request.group in listed["apiGroups"]
        and request.resource in listed["resources"]
        and request.verb in listed["verbs"]
        and (not named or request.name in named)
    )


async def client_with(admin: Client, objects: Iterable[Json], account: str) -> Client:
    """A client of a service account that these objects make, with the rights that they give it and no others."""
    cluster = Cluster(admin)
    for object_ in objects:
        await cluster.apply(object_)
    return await as_account(admin, account)


async def as_account(admin: Client, account: str) -> Client:
    """A client with a token of a service account."""
    return Client(await account_config(admin, account))


async def account_config(admin: Client, account: str) -> ClusterConfig:
    """The way to the same server with a token of a service account."""
    path = f"/api/v1/namespaces/koordinator-system/serviceaccounts/{account}/token"
    body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).encode()
    _, _, answer = await admin.raw("POST", path, body=body)
    token = json.loads(answer)["status"]["token"]
    return replace(admin.config, token=token, cert_file="", cert_data=b"", key_file="", key_data=b"")
