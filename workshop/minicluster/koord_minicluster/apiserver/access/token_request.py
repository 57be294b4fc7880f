"""serviceaccounts/NAME/token: a fresh token for a service account, perhaps bound to a pod, node or secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from koord.api import builtin_schemas as schemas
from koord.api.text.timestamp import from_seconds
from koord_minicluster.apiserver.access.service_accounts import Bound, ServiceAccountTokens
from koord_minicluster.apiserver.bodies import decoding
from koord_minicluster.apiserver.http import Request, json_answer
from koord_minicluster.apiserver.patch import managed_fields
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import bad_request, conflict, invalid, object_not_found, unprocessable
from koord_minicluster.apiserver.store import Collection
from koord_minicluster.apiserver.verbs import context_of
from koord_minicluster.apiserver.wire.answers import Answer

GROUP: Final = "authentication.k8s.io"
LIFETIME_S: Final = 3600
SHORTEST_S: Final = 10 * 60
LONGEST_S: Final = 1 << 32
_BINDABLE: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


class TokenRequests:
    """The handler. `collection` gives the store's collection by name."""

    def __init__(
        self, tokens: ServiceAccountTokens, collection: Callable[[str], Collection], now: Callable[[], str]
    ) -> None:
        self._tokens, self._collection, self._now = tokens, collection, now

    async def create(self, request: Request, _resource: Resource) -> Answer:
        namespace, name = request.info.namespace, request.info.name
        wanted, _ = decoding.decode_kind(GROUP, "v1", "TokenRequest", await request.body(), request.content_type)
        meta = dict(wanted.get("metadata") or {})
        if meta.get("namespace") not in (None, "", namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        spec: dict[str, Any] = {"expirationSeconds": LIFETIME_S, "boundObjectRef": None}
        spec |= {key: value for key, value in (wanted.get("spec") or {}).items() if value is not None}
        wanted = {"kind": "TokenRequest", "apiVersion": f"{GROUP}/v1", "metadata": meta, "spec": spec}
        managed_fields.track(
            None,
            wanted,
            manager=context_of(request).manager,
            operation_api_version=f"{GROUP}/v1",
            schema=schemas.schema_for(GROUP, "v1", "TokenRequest"),
            now=self._now(),
            subresource="token",
        )
        account = self._object("serviceaccounts", namespace, name)
        if meta.get("name") not in (None, "", name):
            cause = invalid("metadata.name", meta["name"], "must match the service account name if specified")
            raise unprocessable("TokenRequest", GROUP, name, [cause])
        _check_lifetime(spec["expirationSeconds"])
        bound = self._bound(namespace, name, spec["boundObjectRef"]) if spec["boundObjectRef"] else []
        spec["audiences"] = spec.get("audiences") or [self._tokens.issuer]
        uid = account["metadata"]["uid"]
        token, expires_s = self._tokens.issue(namespace, name, uid, spec["audiences"], spec["expirationSeconds"], bound)
        now = {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": self._now()}
        status = {"token": token, "expirationTimestamp": from_seconds(expires_s)}
        return json_answer({**wanted, "metadata": {**wanted["metadata"], **now}, "status": status}, status=201)

    def _bound(self, namespace: str, account: str, ref: Mapping[str, Any]) -> list[Bound]:
        """What the token lives with; a pod's token also tells the pod's node."""
        kind, name = ref.get("kind", ""), ref.get("name", "")
        if kind not in _BINDABLE or ref.get("apiVersion", "v1") != "v1":
            group, _, version = ref.get("apiVersion", "").rpartition("/")
            raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        live = self._object(_BINDABLE[kind], "" if kind == "Node" else namespace, name)
        uid = live["metadata"]["uid"]
        bound = [Bound(kind.lower(), name, uid)]
        if kind == "Pod":
            spec = live.get("spec") or {}
            if spec.get("serviceAccountName") != account:
                detail = "to pod running with different serviceaccount name."
                raise bad_request(f'cannot bind token for serviceaccount "{account}" {detail}')
            node = self._collection("nodes").get(spec.get("nodeName") or "")
            if node is not None:
                bound.append(Bound("node", spec["nodeName"], node.index.uid))
        if ref.get("uid") and ref["uid"] != uid:
            detail = (
                f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise conflict(kind, "", name, detail)
        return bound

    def _object(self, collection: str, namespace: str, name: str) -> Obj:
        entry = self._collection(collection).get(f"{namespace}/{name}" if namespace else name)
        if entry is None:
            raise object_not_found(collection, "", name)
        obj: Obj = msgspec.json.decode(entry.value)
        return obj


def _check_lifetime(lifetime_s: int) -> None:
    detail = ""
    if lifetime_s < SHORTEST_S:
        detail = "may not specify a duration less than 10 minutes"
    elif lifetime_s > LONGEST_S:
        detail = "may not specify a duration larger than 2^32 seconds"
    if detail:
        cause = invalid("spec.expirationSeconds", lifetime_s, detail)
        raise unprocessable("TokenRequest", GROUP, "", [cause])
