"""Credentials that change while a client runs: token files, exec programs, client certificates."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from koord.api.kinds import NODES
from koord.kube.client import Client
from koord.kube.cluster_config import ClusterConfig, ConfigError, ExecConfig
from koord.kube.errors import Unauthorized, Unavailable
from tests.kube.manual_clock import ManualClock
from tests.kube.raw_server import Answer, RawServer, Request, answer, refusal

NODE = answer({"metadata": {"name": "n"}})
V1 = "client.authentication.k8s.io/v1"


def only_with(header: str, good: str) -> Callable[[Request], Answer]:
    return lambda request: NODE if request.headers.get(header) == good else refusal(401, "Unauthorized")


async def test_a_rotated_token_file_is_read_again_within_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    clock = ManualClock()
    async with (
        RawServer(NODE) as server,
        Client(replace(server.config, token="", token_file=str(file)), clock=clock) as client,
    ):
        await client.get(NODES, "n")
        file.write_text("two\n")
        clock.advance(30)
        await client.get(NODES, "n")
        clock.advance(31)
        await client.get(NODES, "n")
        file.unlink()
        clock.advance(61)
        await client.get(NODES, "n")
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer one", "Bearer one", "Bearer two", "Bearer two"], "a lost file keeps the last token"


async def test_a_token_that_is_refused_is_read_again_at_once_also_for_writes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    async with (
        RawServer(only_with("authorization", "Bearer new")) as server,
        Client(replace(server.config, token="", token_file=str(file)), clock=ManualClock()) as client,
    ):
        with pytest.raises(Unauthorized):
            await client.get(NODES, "n")
        file.write_text("new")
        await client.patch(NODES, "n", {})
    assert [request.method for request in server.requests] == ["GET", "PATCH", "PATCH"]


async def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    config = ClusterConfig(server="https://127.0.0.1:1", token_file=str(tmp_path / "none"), origin="service account")
    async with Client(config) as client:
        with pytest.raises(Unauthorized, match=r"service account: token file .*none"):
            await client.get(NODES, "n")


def program(tmp_path: Path, source: str) -> str:
    file = tmp_path / "login"
    file.write_text(f"#!{sys.executable} -S\nimport json, os, sys, time\nhere = {str(tmp_path)!r}\n{source}\n")
    file.chmod(0o755)
    return str(file)


def with_exec(server: RawServer, command: str, **options: object) -> ClusterConfig:
    plugin = ExecConfig(command, V1, interactive_mode="Never")
    return replace(server.config, token="", origin="context dev", exec=replace(plugin, **options))  # type: ignore[arg-type]


COUNTING = """
runs = len(open(here + "/runs").read()) if os.path.exists(here + "/runs") else 0
open(here + "/runs", "a").write(".")
status = {"token": f"token-{runs}"}
if runs < 1: status["expirationTimestamp"] = "1970-01-12T13:48:00Z"   # 1,000,080 s
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


async def test_an_exec_programs_token_is_used_until_it_expires(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    async with (
        RawServer(NODE) as server,
        Client(with_exec(server, program(tmp_path, COUNTING)), clock=clock) as client,
    ):
        await asyncio.gather(*(client.get(NODES, "n") for _ in range(5)))
        clock.advance(79)
        await client.get(NODES, "n")
        clock.advance(2)
        await client.get(NODES, "n")
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer token-0"] * 6 + ["Bearer token-1"], "five concurrent calls share one run"


async def test_an_exec_programs_token_that_is_refused_makes_it_run_again(tmp_path: Path) -> None:
    async with (
        RawServer(only_with("authorization", "Bearer token-1")) as server,
        Client(with_exec(server, program(tmp_path, COUNTING)), clock=ManualClock()) as client,
    ):
        await client.get(NODES, "n")
    assert len(server.requests) == 2


async def test_an_exec_program_gets_its_arguments_environment_and_the_cluster(tmp_path: Path) -> None:
    source = """
json.dump([sys.argv[1:], os.environ["WHO"], json.loads(os.environ["KUBERNETES_EXEC_INFO"])], open(here + "/got", "w"))
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "x"}}))
"""
    async with RawServer(NODE) as server:
        config = with_exec(
            server, program(tmp_path, source), args=("a", "b"), env=(("WHO", "me"),), provide_cluster_info=True
        )
        async with Client(replace(config, exec_cluster_config={"region": "x"})) as client:
            await client.get(NODES, "n")
    args, who, info = json.loads((tmp_path / "got").read_text())
    assert (args, who) == (["a", "b"], "me")
    assert info["kind"] == "ExecCredential"
    assert info["spec"]["interactive"] is False
    assert info["spec"]["cluster"]["server"] == server.config.server
    assert info["spec"]["cluster"]["config"] == {"region": "x"}


CREDENTIAL = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": %s}'


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("sys.exit('not logged in')", r"failed with exit code 1: not logged in\ninstall with apt"),
        ("print('hello')", r"printed no ExecCredential"),
        ("print('{}')", r"not a client.authentication.k8s.io/v1 ExecCredential"),
        (f"print({CREDENTIAL % 'null'!r})", r"neither a token nor a client certificate"),
        (f"print({CREDENTIAL % '{}'!r})", r"neither a token nor a client certificate"),
        (f"print({CREDENTIAL % json.dumps({'clientKeyData': 'x'})!r})", r"only one of clientCertificateData"),
        (
            f"print({CREDENTIAL % json.dumps({'token': 'x', 'expirationTimestamp': 'soon'})!r})",
            r"unreadable expirationTimestamp",
        ),
    ],
)
async def test_an_exec_program_that_fails_is_named_with_what_it_said(tmp_path: Path, source: str, said: str) -> None:
    async with RawServer(NODE) as server:
        config = with_exec(server, program(tmp_path, source), install_hint="install with apt")
        async with Client(config) as client:
            with pytest.raises(Unauthorized, match=rf"get Node n: context dev: .*login.*{said}"):
                await client.get(NODES, "n")
    assert server.requests == []


async def test_a_missing_exec_program_comes_with_the_hint_how_to_get_it(tmp_path: Path) -> None:
    async with (
        RawServer(NODE) as server,
        Client(with_exec(server, str(tmp_path / "absent"), install_hint="install with apt")) as client,
    ):
        with pytest.raises(Unauthorized, match=r"absent cannot be run: .*\ninstall with apt"):
            await client.get(NODES, "n")


async def test_an_exec_program_that_must_ask_needs_a_terminal(tmp_path: Path) -> None:
    async with (
        RawServer(NODE) as server,
        Client(with_exec(server, program(tmp_path, COUNTING), interactive_mode="Always")) as client,
    ):
        with pytest.raises(Unauthorized, match="there is no terminal"):
            await client.get(NODES, "n")


def subject(request: Request) -> str:
    names = dict(pair for part in (request.peer or {}).get("subject", ()) for pair in part)  # type: ignore[attr-defined]
    return str(names.get("commonName", ""))


def issue(ca: trustme.CA, name: str) -> tuple[bytes, bytes]:
    leaf = ca.issue_cert(f"{name}@koord.test", common_name=name)
    return leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes()


async def test_an_exec_program_may_give_a_client_certificate(tmp_path: Path) -> None:
    ca = trustme.CA()
    cert, key = issue(ca, "robot")
    status = {"clientCertificateData": cert.decode(), "clientKeyData": key.decode()}
    async with (
        RawServer(NODE, client_ca=ca) as server,
        Client(with_exec(server, program(tmp_path, f"print({CREDENTIAL % json.dumps(status)!r})"))) as client,
    ):
        await client.get(NODES, "n")
    assert subject(server.requests[0]) == "robot"


async def test_a_client_certificate_from_data_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ca = trustme.CA()
    cert, key = issue(ca, "me")
    async with (
        RawServer(NODE, client_ca=ca) as server,
        Client(replace(server.config, cert_data=cert, key_data=key)) as client,
    ):
        await client.get(NODES, "n")
    assert subject(server.requests[0]) == "me"
    assert os.listdir(tmp_path) == []


async def test_without_memory_files_a_private_one_is_used_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []

    def no_memory_files(name: str) -> int:
        raise OSError

    def watched_unlink(path: str) -> None:
        modes.append(stat.S_IMODE(os.stat(path).st_mode))
        os.remove(path)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.memfd_create", no_memory_files)
    monkeypatch.setattr("os.unlink", watched_unlink)
    ca = trustme.CA()
    cert, key = issue(ca, "me")
    async with (
        RawServer(NODE, client_ca=ca) as server,
        Client(replace(server.config, cert_data=cert, key_data=key)) as client,
    ):
        await client.get(NODES, "n")
    assert set(modes) == {0o600}
    assert os.listdir(tmp_path) == []


async def test_rotated_certificate_files_are_shown_on_new_connections(tmp_path: Path) -> None:
    ca = trustme.CA()
    cert_file, key_file = tmp_path / "tls.crt", tmp_path / "tls.key"
    clock = ManualClock()

    def write(name: str, *, half: bool = False) -> None:
        cert, key = issue(ca, name)
        cert_file.write_bytes(cert)
        if not half:
            key_file.write_bytes(key)

    write("one")
    async with RawServer(NODE, client_ca=ca) as server:
        config = replace(server.config, cert_file=str(cert_file), key_file=str(key_file))
        async with Client(config, clock=clock) as client:
            await client.get(NODES, "n")
            write("two", half=True)
            clock.advance(11)
            await client.get(NODES, "n")
            write("three")
            clock.advance(11)
            await client.get(NODES, "n")
    assert [subject(request) for request in server.requests] == ["one", "one", "three"]


async def test_a_certificate_that_is_refused_is_read_again_at_once(tmp_path: Path) -> None:
    ca = trustme.CA()
    cert_file, key_file = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write(name: str) -> None:
        cert, key = issue(ca, name)
        cert_file.write_bytes(cert)
        key_file.write_bytes(key)

    write("expired")
    script: Callable[[Request], Answer] = lambda request: (  # noqa: E731
        NODE if subject(request) == "fresh" else refusal(401, "Unauthorized")
    )
    async with RawServer(script, client_ca=ca) as server:
        config = replace(server.config, token="", cert_file=str(cert_file), key_file=str(key_file))
        async with Client(config, clock=ManualClock()) as client:
            with pytest.raises(Unauthorized):
                await client.get(NODES, "n")
            write("fresh")
            await client.get(NODES, "n")


async def test_a_server_of_another_authority_is_not_trusted() -> None:
    async with RawServer(NODE) as server:
        stranger = replace(server.config, ca_data=trustme.CA().cert_pem.bytes())
        async with Client(stranger, clock=ManualClock()) as client:
            with pytest.raises(Unavailable, match="certificate verify failed"):
                await client.get(NODES, "n")
        async with Client(replace(server.config, ca_data=b"", insecure_skip_tls_verify=True)) as client:
            await client.get(NODES, "n")
    assert len(server.requests) == 1


async def test_the_servers_name_is_checked_and_may_be_given() -> None:
    async with RawServer(NODE, host="api.koord.test") as server:
        async with Client(server.config, clock=ManualClock()) as client:
            with pytest.raises(Unavailable, match="certificate"):
                await client.get(NODES, "n")
        async with Client(replace(server.config, tls_server_name="api.koord.test")) as client:
            await client.get(NODES, "n")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"ca_data": b"nonsense"}, "the certificate authority is not PEM"),
        ({"ca_file": "/nonexistent/ca.crt"}, "certificate authority /nonexistent/ca.crt: No such file"),
        ({"cert_file": "/nonexistent/c", "key_file": "/nonexistent/k"}, "client certificate /nonexistent/c / /nonex"),
        ({"cert_data": b"x", "key_data": b"y"}, "the client certificate and its key cannot be used"),
    ],
)
async def test_unusable_certificates_are_said_when_the_client_is_opened(fields: dict[str, object], said: str) -> None:
    config = replace(ClusterConfig(server="https://127.0.0.1:1", origin="context dev"), **fields)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"context dev: {said}"):
        async with Client(config):
            pass
