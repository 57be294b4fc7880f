"""What enemies may write where YARN's operator and copilot read: files, annotations, answers, sockets, pid files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import convert, decode
from koord.api.machinery.protobuf import delimited, integer, message, text
from koord.cli.main import run as command
from koord.yarn.amount import MIB, NOTHING, Amount, of_yarn
from koord.yarn.claims import Claim, Wait
from koord.yarn.containers import YarnContainer, is_container_id, masters
from koord.yarn.hadoop.address import is_address
from koord.yarn.hadoop.configuration import ResourceManagerAddress, YarnCluster
from koord.yarn.hadoop.messages import NodeCap, NodeReport
from koord.yarn.judge import ClusterReport, Verdict, judge, owners
from koord.yarn.live import resource_manager as module
from koord.yarn.live import rpc
from koord.yarn.live.resource_manager import ResourceManager, Way
from koord.yarn.live.rpc import YarnError, YarnRefused, YarnUnreachable
from koord.yarn.live.run import read_clusters
from koord.yarn.nodes import Declared, NodeFacts, claim_patch, node_facts
from koord.yarn.split import Policy


def site(**values: str) -> str:
    inside = "".join(
        f"<property><name>{name.replace('_', '.')}</name><value>{value}</value></property>"
        for name, value in values.items()
    )
    return f"<configuration>{inside}</configuration>"


def bomb() -> str:
    """Ten to the power of ten characters."""
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
    return f'<!DOCTYPE x [<!ENTITY e0 "aaaaaaaaaa">{entities}]>' + site(yarn_resourcemanager_hostname="&e9;")


FILE_OF_OTHERS = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]>' + site(yarn_resourcemanager_hostname="&e;")
INCLUDED = '<configuration xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="/etc/passwd"/></configuration>'
GROWING = {f"p{i}": f"${{p{i + 1}}}" * 20 for i in range(15)}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"yarn-site.xml": bomb()}, "yarn-site.xml is not XML"),
        ({"yarn-site.xml": FILE_OF_OTHERS}, "undefined entity"),
        ({"yarn-site.xml": INCLUDED}, "includes '/etc/passwd', which is not supported: put its properties into"),
        ({"yarn-site.xml": site(yarn_resourcemanager_address="${p0}", **GROWING)}, "has more than 10000 characters"),
        ({"yarn-site.xml": site(yarn_resourcemanager_address="${a}", a="${b}", b="${a}")}, "references never end"),
        ({"yarn-site.xml": site(yarn_resourcemanager_address="rm:99999")}, "must be host:port"),
        ({"yarn-site.xml": site(yarn_resourcemanager_address="rm:٣")}, "must be host:port"),
        ({"yarn-site.xml": site(yarn_resourcemanager_hostname="rm/../x")}, "must be host:port"),
        ({"yarn-site.xml": site(yarn_resourcemanager_ha_enabled="true")}, "set yarn.resourcemanager.ha.rm-ids"),
        (
            {name: site(yarn_resourcemanager_hostname="rm1") for name in ("yarn-site.xml", "blue.yarn-site.xml")},
            "yarn-site.xml and blue.yarn-site.xml name the same ResourceManager rm1:8033: one cluster needs one file",
        ),
        ({"yarn-site.xml": None}, "yarn-site.xml is no file"),
        ({}, "has no yarn-site.xml"),
    ],
    ids=[
        "bomb", "entity", "include", "growing", "endless", "port", "digits", "host", "no ids", "twins", "folder",
        "none",
    ],
)  # fmt: skip
def test_hostile_configuration_is_refused_in_one_line(
    tmp_path: Path, files: dict[str, str | None], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in files.items():
        if content is None:
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_text(content)
    assert command(["yarn", "operator", "--hadoop-conf-dir", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said) < 1000


def test_a_property_without_a_name_is_passed_over(tmp_path: Path) -> None:
    nameless = "<property><value>x</value></property><property/><property><name/><value>y</value></property>"
    named = site(yarn_resourcemanager_hostname="rm1")
    (tmp_path / "yarn-site.xml").write_text(named.replace("<property>", f"{nameless}<property>", 1))
    assert read_clusters(str(tmp_path))[""].managers[0].rpc == "rm1:8032"


@pytest.mark.parametrize(
    ("flag", "given", "says"),
    [
        ("--shrink-timeout", "-1", "the shrink timeout is -1 seconds: it must be from 0 to 86400"),
        ("--shrink-timeout", "inf", "'--shrink-timeout': inf is not a finite number"),
        ("--pace", "nan", "'--pace': nan is not a finite number"),
    ],
)
def test_times_that_are_none_are_refused(
    tmp_path: Path, flag: str, given: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "yarn-site.xml").write_text(site(yarn_resourcemanager_hostname="rm1"))
    assert command(["yarn", "operator", "--hadoop-conf-dir", str(tmp_path), flag, given]) == 2
    assert says in capsys.readouterr().err


# A ResourceManager that answers garbage.


def framed(body: bytes, length: int | None = None) -> bytes:
    return (len(body) if length is None else length).to_bytes(4, "big", signed=(length or 0) < 0) + body


GOOD = delimited(integer(2, 0))
ANSWERS = {
    "2 GB": framed(b"", (1 << 31) - 1),
    "a negative length": framed(b"", -5),
    "cut off": framed(GOOD, 4000),
    "a length and nothing": b"\0\0",
    "nothing": b"",
    "noise": framed(b"\xff" * 64),
    "a header longer than its frame": framed(b"\xff\xff\xff\xff\x7f"),
    "a result longer than its frame": framed(GOOD + b"\xff\xff\xff\xff\x0f"),
    "nodes that are cut off": framed(GOOD + delimited(message(1, b"\x0a\x7f"))),
}


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """Whatever is asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def manager_at(address: str, way: Way = "rpc") -> ResourceManager:
    return ResourceManager(YarnCluster("", (ResourceManagerAddress("", address, address, address),)), way=way, user="u")


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_garbage_over_rpc_is_one_error_and_takes_neither_time_nor_memory(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "ANSWER_S", 5.0)
    async with answering(answer) as address, asyncio.timeout(60):
        with pytest.raises(YarnUnreachable, match=address):
            await manager_at(address).look()


@pytest.mark.parametrize("address", ["no..host:1", f"{'a' * 70}.example:1"])
async def test_a_host_that_is_no_name_cannot_be_reached(address: str) -> None:
    with pytest.raises(YarnUnreachable, match="cannot be reached"):
        await manager_at(address).look()


async def test_nodes_with_names_that_are_none_are_left_out() -> None:
    def node(host: str, port: int) -> bytes:
        amount = integer(1, 1024) + integer(2, 1)
        return message(1, message(1, text(1, host) + integer(2, port)) + message(5, amount) + integer(7, 2))

    nodes = node("n1", 8041) + node("../../apps", 1) + node("n2", 1 << 40) + node("n3", -1) + node("", 1)
    async with answering(framed(GOOD + delimited(nodes))) as address:
        node_reports, _ = await manager_at(address).look()
    assert [node_report.node_id for node_report in node_reports] == ["n1:8041"]


def over_http(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body


def nodes_of(**changed: object) -> bytes:
    amount = {"vCores": 1, "memory": 1}
    node = {"id": "n1:1", "state": "RUNNING", "usedResource": amount, "totalResource": amount, **changed}
    return json.dumps({"nodes": {"node": [node]}}).encode()


@pytest.mark.parametrize(
    "answer",
    [
        over_http(b"[" * 100_000),
        over_http(b'{"nodes": {"node": 7}}'),
        over_http(b'{"nodes": {"node": [7]}}'),
        over_http(nodes_of(id=["n1:1"])),
        over_http(nodes_of(totalResource={"vCores": 0.5, "memory": 1})),
        over_http(nodes_of(totalResource={"vCores": "many", "memory": 1})),
        over_http(nodes_of(totalResource={"vCores": True, "memory": 1})),
        over_http(nodes_of(state=["RUNNING"])),
        over_http(nodes_of(numContainers="many")),
        over_http(b"", 502),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{",
        b"\0\0\0\0",
    ],
    ids=[
        "deep",
        "number",
        "numbers",
        "id",
        "half",
        "text",
        "true",
        "states",
        "containers",
        "bad gateway",
        "cut off",
        "no HTTP",
    ],
)
async def test_garbage_over_rest_is_one_error(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST_S", 5.0)
    async with answering(answer) as address:
        with pytest.raises(YarnError) as caught:
            await manager_at(address, "rest").look()
        assert not isinstance(caught.value, YarnRefused)


async def test_where_some_nodes_were_told_before_a_call_was_forbidden_all_may_have_been() -> None:
    answers = iter((200, 403))

    async def post(request: web.Request) -> web.Response:
        return web.json_response({}, status=next(answers))

    app = web.Application()
    app.router.add_post("/ws/v1/cluster/nodes/{node}/resource", post)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    caps = [NodeCap(f"n{i}:1", of_yarn(1, 1)) for i in (1, 2, 3)]
    try:
        with pytest.raises(YarnUnreachable, match="1 of 3 nodes were told before"):
            await manager_at(f"127.0.0.1:{runner.addresses[0][1]}", "rest").update(caps)
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("said", [(2**31 - 1, 2**63 - 1), (2**62, 2**40), (5, 2**43), (-1, -(2**63))])
def test_a_node_manager_with_more_than_any_machine_has_is_claimed_for_once(said: tuple[int, int]) -> None:
    """What is written must read the same: otherwise the claim is written again and again, or counts as nothing."""
    node: dict[str, Any] = {"metadata": {"name": "n1"}, "status": {"allocatable": {}}}
    facts = node_facts(convert(Node, node))
    patch: Any = claim_patch(facts, of_yarn(*said), ("", "n1:1"))
    node["metadata"]["annotations"] = {key: text for key, text in patch["metadata"]["annotations"].items() if text}
    assert node_facts(convert(Node, node)).claim == of_yarn(*said)


# Annotations.


@pytest.mark.parametrize("node_id", ["n1:²", "n1:٣", f"n1:{'9' * 5000}", "n1:0", "n1/../x:1", "n1 x:1", "a?b:1", ":1"])
def test_a_node_id_that_is_none_is_told_and_asked_of_nobody(node_id: str) -> None:
    assert not is_address(node_id)
    annotations = {"yarn.hadoop.apache.org/node-id": node_id, "node.koordinator.sh/yarn-node": f"x/{node_id}"}
    found = node_facts(decode(Node, json.dumps({"metadata": {"name": "n1", "annotations": annotations}}).encode()))
    assert found.recorded is None or is_address(found.recorded[1])
    assert found.declared is not None
    assert "must be host:port" in found.declared.fault
    assert len(found.declared.fault) < 300


KEY = ("", "nm:8041")
HALF = of_yarn(10, 1024)
WHOLE = Amount(20_000, 2048 * MIB)


def node(name: str, *, claims: bool = False, says: bool = True, fault: str = "") -> NodeFacts:
    declared = Declared("", KEY[1], (name,), f"node {name}") if says else None
    claim = HALF if claims else NOTHING
    recorded = KEY if claims else None
    return NodeFacts(
        name, name, "1", WHOLE, WHOLE.minus(claim), claim, NOTHING, (), recorded, declared, (name,), fault=fault
    )


def verdicts(*nodes: NodeFacts) -> list[Verdict]:
    looks = {"": ClusterReport({KEY[1]: NodeReport(KEY[1], "RUNNING", HALF)})}
    owned = owners([(node, ()) for node in nodes], looks)
    return [judge(node, (), looks, {}, {}, owned, Policy(), 0.0, kubernetes_waits=False) for node in nodes]


def test_of_two_nodes_that_say_they_have_one_node_manager_the_first_or_the_claiming_one_has_it() -> None:
    mine, others = verdicts(node("n1"), node("n2"))
    assert (mine.node_id, others.node_id) == (KEY[1], "")
    assert others.condition is not None
    assert others.condition[1] == "NodeManagerOfAnother"
    assert "nm:8041 is of node n1: set yarn.hadoop.apache.org/node-id on node n2" in others.condition[2]
    others, mine = verdicts(node("n1"), node("n2", claims=True))
    assert (mine.node_id, others.node_id) == (KEY[1], "")


def test_a_claim_for_a_node_manager_of_another_node_is_kept_as_long_as_the_node_says_that_it_has_it() -> None:
    _, both_say = verdicts(node("n1", claims=True), node("n2", claims=True))
    assert isinstance(both_say.step, Wait)
    silent, says = verdicts(node("n1", claims=True, says=False), node("n2", claims=True))
    assert silent.step == Claim(NOTHING, "nm:8041 is of node n2")
    assert says.node_id == KEY[1]


def test_a_pool_that_cannot_be_read_leaves_yarn_what_it_has() -> None:
    (verdict,) = verdicts(node("n1", claims=True, fault="originExtendedAllocatable: is no object"))
    assert isinstance(verdict.step, Wait)
    assert verdict.condition == ("False", "InvalidAnnotation", "originExtendedAllocatable: is no object")


# Containers.


@pytest.mark.parametrize(
    "name",
    ["container_1_1_1_1/../..", "container_1_1_1_\n", "container_1_1_1_٣", f"container_1_1_1_{'9' * 5000}", "", "."],
)
def test_a_name_that_is_no_container_becomes_no_part_of_a_path(name: str) -> None:
    assert not is_container_id(name)
    assert masters([YarnContainer(name)]) == set()
