"""A YARN cluster's ResourceManager: its nodes, what waits in its queues, and new caps, by RPC or by REST.

With high availability the active one is looked for: the last that answered first, then each in turn.
"""

from __future__ import annotations

import getpass
import logging
from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol

import aiohttp

from koord.api.machinery.protobuf import MessageError
from koord.yarn.amount import NOTHING, Amount, of_yarn
from koord.yarn.hadoop import messages
from koord.yarn.hadoop.address import is_address
from koord.yarn.hadoop.configuration import ResourceManagerAddress, YarnCluster
from koord.yarn.hadoop.messages import NodeCap, NodeReport
from koord.yarn.live import rpc
from koord.yarn.live.rpc import YarnError, YarnForbidden, YarnRefused, YarnStandby, YarnUnreachable
from koord.yarn.live.web import ask, decoded

log = logging.getLogger(__name__)

ROOT_QUEUE: Final = "root"
REST_S: Final = 5.0
Way = Literal["rpc", "rest"]


class Transport(Protocol):
    """One way to talk to one ResourceManager."""

    async def is_active(self, at: ResourceManagerAddress) -> bool: ...
    async def nodes(self, at: ResourceManagerAddress) -> list[NodeReport]: ...
    async def pending(self, at: ResourceManagerAddress) -> Amount: ...
    async def update(self, at: ResourceManagerAddress, caps: Sequence[NodeCap]) -> None: ...


class Rpc:
    def __init__(self, user: str) -> None:
        self._user = user

    async def is_active(self, at: ResourceManagerAddress) -> bool:
        answer = await rpc.call(
            at.admin, self._user, messages.HA_SERVICE, "getServiceStatus", messages.service_status_request()
        )
        return messages.is_active(answer)

    async def nodes(self, at: ResourceManagerAddress) -> list[NodeReport]:
        answer = await rpc.call(
            at.rpc, self._user, messages.CLIENT, "getClusterNodes", messages.cluster_nodes_request()
        )
        try:
            return messages.cluster_nodes(answer)
        except MessageError as error:
            raise YarnUnreachable(f"{at.rpc}: its list of nodes cannot be read: {error}") from None

    async def pending(self, at: ResourceManagerAddress) -> Amount:
        answer = await rpc.call(at.rpc, self._user, messages.CLIENT, "getQueueInfo", messages.queue_request(ROOT_QUEUE))
        try:
            return messages.pending(answer)
        except MessageError as error:
            raise YarnUnreachable(f"{at.rpc}: its queue cannot be read: {error}") from None

    async def update(self, at: ResourceManagerAddress, caps: Sequence[NodeCap]) -> None:
        await rpc.call(
            at.admin, self._user, messages.ADMINISTRATION, "updateNodeResource", messages.update_request(caps)
        )


class Rest:
    """The ResourceManager's web services. Hadoop 3.4 itself lets any user change a node's resource there."""

    def __init__(self, user: str) -> None:
        self._user = user

    async def is_active(self, at: ResourceManagerAddress) -> bool:
        answer = await self._ask("GET", at, "/ws/v1/cluster/info")
        return _inside(answer, "clusterInfo").get("haState") == "ACTIVE"

    async def nodes(self, at: ResourceManagerAddress) -> list[NodeReport]:
        answer = await self._ask("GET", at, "/ws/v1/cluster/nodes?states=running,unhealthy,decommissioning")
        listed = _inside(answer, "nodes").get("node", [])
        try:
            return [_rest_node(node) for node in listed if is_address(node["id"])]
        except (TypeError, KeyError, AttributeError):
            raise YarnUnreachable(f"{at.web}: its list of nodes cannot be read") from None

    async def pending(self, at: ResourceManagerAddress) -> Amount:
        metrics = _inside(await self._ask("GET", at, "/ws/v1/cluster/metrics"), "clusterMetrics")
        return of_yarn(_number(metrics.get("pendingVirtualCores")), _number(metrics.get("pendingMB")))

    async def update(self, at: ResourceManagerAddress, caps: Sequence[NodeCap]) -> None:
        for done, cap in enumerate(caps):
            body = {
                "resource": {"memory": cap.cap.mib, "vCores": cap.cap.vcores},
                "overCommitTimeout": cap.overcommit_ms,
            }
            try:
                await self._ask("POST", at, f"/ws/v1/cluster/nodes/{cap.node_id}/resource", body)
            except YarnForbidden as error:
                if done == 0:
                    raise
                raise YarnUnreachable(f"{error}; {done} of {len(caps)} nodes were told before") from None

    async def _ask(self, method: str, at: ResourceManagerAddress, path: str, body: object = None) -> object:
        url = f"http://{at.web}{path}{'&' if '?' in path else '?'}user.name={self._user}"
        try:
            status, data = await ask(method, url, REST_S, body)
        except TimeoutError:
            raise YarnUnreachable(f"{at.web} does not answer within {REST_S:g} s") from None
        except (OSError, aiohttp.ClientError) as error:
            raise YarnUnreachable(f"{at.web} cannot be reached: {error}") from None
        if status in (401, 403):
            raise YarnForbidden(
                f"{at.web} does not let {self._user} {method} {path.partition('?')[0]} ({status}):"
                f" add {self._user} to yarn.admin.acl, or set --user"
            )
        if status in (301, 302, 307):
            raise YarnStandby(f"{at.web} is a standby: it sends callers elsewhere")
        if status >= 500:
            # A proxy in between may say so of a call that happened.
            raise YarnUnreachable(f"{at.web} answered {method} {path.partition('?')[0]} with {status}")
        if status >= 400:
            raise YarnRefused(f"{at.web} answered {method} {path.partition('?')[0]} with {status}")
        content = decoded(data)
        if content is None:
            start = data[:40].decode(errors="replace").strip().splitlines()
            raise YarnUnreachable(
                f"{at.web} does not answer with JSON but {(start or [''])[0]!r}:"
                " is yarn.resourcemanager.webapp.address right, and no proxy in between?"
            )
        return content


def _inside(answer: object, key: str) -> dict[str, Any]:
    inner = answer.get(key) if isinstance(answer, dict) else None
    return inner if isinstance(inner, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _whole(value: object) -> int:
    """Raises TypeError: half a node is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _word(value: object) -> str:
    """Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _rest_node(raw: dict[str, Any]) -> NodeReport:
    used, total = raw.get("usedResource"), raw.get("totalResource")
    if isinstance(used, dict) and isinstance(total, dict):
        used_ = of_yarn(_whole(used["vCores"]), _whole(used["memory"]))
        cap = of_yarn(_whole(total["vCores"]), _whole(total["memory"]))
    else:
        used_ = of_yarn(_whole(raw["usedVirtualCores"]), _whole(raw["usedMemoryMB"]))
        cap = used_.plus(of_yarn(_whole(raw["availableVirtualCores"]), _whole(raw["availMemoryMB"])))
    return NodeReport(_word(raw["id"]), _word(raw["state"]), cap, used_, _whole(raw.get("numContainers", 0)))


class ResourceManager:
    """One YARN cluster."""

    def __init__(self, cluster: YarnCluster, *, way: Way = "rpc", user: str = "") -> None:
        self.cluster = cluster
        self.user = user or getpass.getuser()
        self._transport: Transport = Rpc(self.user) if way == "rpc" else Rest(self.user)
        self._active: ResourceManagerAddress | None = None
        self.calls = 0
        "Updates sent, each for any number of nodes."

    @property
    def active(self) -> ResourceManagerAddress | None:
        return self._active

    async def _at(self) -> ResourceManagerAddress:
        """The active one. Raises YarnError where none is."""
        managers = self.cluster.managers
        if len(managers) == 1:
            self._active = managers[0]
            return managers[0]
        said = []
        for manager in sorted(managers, key=lambda candidate: candidate is not self._active):
            try:
                if await self._transport.is_active(manager):
                    self._active = manager
                    return manager
                said.append(f"{manager.name} is not active")
            except YarnError as error:
                said.append(str(error))
        raise YarnUnreachable(
            f"no ResourceManager of {', '.join(manager.name for manager in managers)} is active: {'; '.join(said)}"
        )

    async def look(self) -> tuple[list[NodeReport], Amount]:
        """Its nodes, and what applications wait for. Raises YarnError."""
        at = await self._at()
        reports = await self._transport.nodes(at)
        try:
            waits = await self._transport.pending(at)
        except YarnRefused as error:
            log.warning("what YARN waits for is not known: %s", error)
            waits = NOTHING
        return reports, waits

    async def update(self, caps: Sequence[NodeCap]) -> None:
        """Tells new caps, all in one call. YarnRefused: none was taken. YarnUnreachable: some may be."""
        at = await self._at()
        self.calls += 1
        await self._transport.update(at, caps)
