"""The few messages of YARN's protocols that the operator speaks, by their field numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from koord.api.machinery.protobuf import as_bytes, as_int, as_text, fields, integer, message, text
from koord.api.machinery.struct import Struct
from koord.yarn.amount import NOTHING, Amount, of_yarn
from koord.yarn.hadoop.address import is_address

ADMINISTRATION: Final = "org.apache.hadoop.yarn.server.api.ResourceManagerAdministrationProtocolPB"
CLIENT: Final = "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB"
HA_SERVICE: Final = "org.apache.hadoop.ha.HAServiceProtocol"

STATES: Final = (
    "NEW", "RUNNING", "UNHEALTHY", "DECOMMISSIONED", "LOST", "REBOOTED", "DECOMMISSIONING", "SHUTDOWN",
)  # fmt: skip
"""Of a NodeManager; numbered from 1."""
RUNNING: Final = "RUNNING"
_REQUEST_BY_USER: Final = 0
_ACTIVE: Final = 1


class NodeReport(Struct):
    """A NodeManager, as its ResourceManager knows it."""

    node_id: str
    "host:port"
    state: str
    cap: Amount = NOTHING
    used: Amount = NOTHING
    containers: int = 0


class NodeCap(Struct):
    """One node's new cap."""

    node_id: str
    cap: Amount
    overcommit_ms: int = -1
    "After this time containers above the cap are ended; -1 never."


def service_status_request() -> bytes:
    return b""


def is_active(answer: bytes) -> bool:
    """Of GetServiceStatusResponseProto."""
    return any(number == 1 and as_int(value) == _ACTIVE for number, value in fields(answer))


def cluster_nodes_request() -> bytes:
    """All nodes that could run containers; a node that is not named is gone."""
    return b"".join(integer(1, STATES.index(state) + 1) for state in ("RUNNING", "UNHEALTHY", "DECOMMISSIONING"))


def cluster_nodes(answer: bytes) -> list[NodeReport]:
    """Of GetClusterNodesResponseProto. Raises MessageError."""
    reports = (_node(value) for number, value in fields(answer) if number == 1 and isinstance(value, bytes))
    return [report for report in reports if is_address(report.node_id)]


def _node(data: bytes) -> NodeReport:
    node_id, state, cap, used, containers = "", "", NOTHING, NOTHING, 0
    for number, value in fields(data):
        if number == 1:
            node_id = _node_id(as_bytes(value))
        elif number == 4:
            used = resource(as_bytes(value))
        elif number == 5:
            cap = resource(as_bytes(value))
        elif number == 6:
            containers = as_int(value)
        elif number == 7:
            index = as_int(value) - 1
            state = STATES[index] if 0 <= index < len(STATES) else ""
    return NodeReport(node_id, state, cap, used, containers)


def _node_id(data: bytes) -> str:
    host, port = "", 0
    for number, value in fields(data):
        if number == 1:
            host = as_text(value)
        elif number == 2:
            port = as_int(value)
    return f"{host}:{port}"


def resource(data: bytes) -> Amount:
    memory = vcores = 0
    for number, value in fields(data):
        if number == 1:
            memory = as_int(value)
        elif number == 2:
            vcores = as_int(value)
    return of_yarn(vcores, memory)


def update_request(caps: Iterable[NodeCap]) -> bytes:
    """UpdateNodeResourceRequestProto: any number of nodes in one call."""
    return b"".join(message(1, message(1, _id_of(cap.node_id)) + message(2, _option(cap))) for cap in caps)


def _id_of(node_id: str) -> bytes:
    host, _, port = node_id.rpartition(":")
    return text(1, host) + integer(2, int(port))


def _option(cap: NodeCap) -> bytes:
    amount = integer(1, cap.cap.mib) + integer(2, cap.cap.vcores)
    return message(1, amount) + integer(2, cap.overcommit_ms)


def queue_request(name: str) -> bytes:
    """GetQueueInfoRequestProto, with neither applications nor children."""
    return text(1, name)


def pending(answer: bytes) -> Amount:
    """Of GetQueueInfoResponseProto: what applications wait for."""
    memory = vcores = 0
    for outer, info in fields(answer):
        if outer != 1:
            continue
        for number, statistics in fields(as_bytes(info)):
            if number != 10:
                continue
            for field, value in fields(as_bytes(statistics)):
                if field == 10:
                    memory = as_int(value)
                elif field == 14:
                    vcores = as_int(value)
    return of_yarn(vcores, memory)
