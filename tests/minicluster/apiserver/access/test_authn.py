from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web

from koord.api.kubernetes.access import UserInfo
from koord_minicluster.apiserver import certs
from koord_minicluster.apiserver.access.authn import Authenticator, bearer_token
from koord_minicluster.apiserver.status import StatusError


class Server:
    """Answers every request with the user that it was authenticated as."""

    def __init__(self, directory: Path) -> None:
        self.authority = certs.Authority.open(directory)
        self.directory = directory
        self.authenticator = Authenticator({"s3cret": UserInfo("robot", "r1", ("robots",))})
        self.url = ""

    async def answer(self, request: web.BaseRequest) -> web.Response:
        try:
            user = self.authenticator.authenticate(request.headers, request.transport)
        except StatusError as error:
            return web.json_response(error.body(), status=error.code)
        return web.json_response(None if user is None else user.as_json())

    async def ask(self, credential: certs.Credential | None = None, token: str = "") -> tuple[int, Any]:
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        if credential is not None:
            certificate, key = self.directory / "tmp.crt", self.directory / "tmp.key"
            certificate.write_bytes(credential.certificate)
            key.write_bytes(credential.key)
            context.load_cert_chain(certificate, key)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with aiohttp.ClientSession() as session, session.get(self.url, ssl=context, headers=headers) as answer:
            return answer.status, await answer.json()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server(tmp_path)
    context = certs.server_context(*made.authority.server(), tmp_path / "ca.crt")
    runner = web.ServerRunner(web.Server(made.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    made.url = f"https://127.0.0.1:{runner.addresses[0][1]}/"
    yield made
    await runner.cleanup()


async def test_a_client_certificate_names_user_and_groups(server: Server) -> None:
    code, user = await server.ask(server.authority.client("ann", ["dev", "ops"]))
    assert code == 200
    assert (user["username"], user["groups"]) == ("ann", ["dev", "ops", "system:authenticated"])
    assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


async def test_each_certificate_is_its_own_user_on_its_own_connection(server: Server) -> None:
    credentials = [server.authority.client(name) for name in ("ann", "bob")]
    for _ in range(2):
        for credential, name in zip(credentials, ("ann", "bob"), strict=True):
            assert (await server.ask(credential))[1]["username"] == name


async def test_a_token_is_known_by_its_text_and_a_wrong_one_is_refused(server: Server) -> None:
    assert (await server.ask(token="s3cret"))[1] == {
        "username": "robot",
        "uid": "r1",
        "groups": ["robots", "system:authenticated"],
    }
    assert (await server.ask(token="wrong"))[0] == 401


async def test_no_credential_is_no_user(server: Server) -> None:
    assert await server.ask() == (200, None)


async def test_a_good_certificate_counts_even_with_a_wrong_token(server: Server) -> None:
    assert (await server.ask(server.authority.client("ann"), token="wrong"))[1]["username"] == "ann"


async def test_a_certificate_of_another_authority_gets_no_connection(server: Server) -> None:
    other = trustme.CA().issue_cert("ann@example.com", common_name="ann", organization_name="system:masters")
    credential = certs.Credential(other.cert_chain_pems[0].bytes(), other.private_key_pem.bytes())
    with pytest.raises(aiohttp.ClientError):
        await server.ask(credential)


async def test_the_servers_own_certificate_is_no_credential(server: Server) -> None:
    certificate, key = server.authority.server()
    with pytest.raises(aiohttp.ClientError):
        await server.ask(certs.Credential(certificate.read_bytes(), key.read_bytes()))


async def test_a_certificate_that_ends_on_an_open_connection_is_refused(tmp_path: Path) -> None:
    now = 1_800_000_000.0
    authenticator = Authenticator({}, now_s=lambda: now)

    class Transport(asyncio.BaseTransport):
        def get_extra_info(self, name: str, default: Any = None) -> Any:
            subject = ((("organizationName", "dev"),), (("commonName", "ann"),))
            ends = "Jan 15 08:00:05 2027 GMT"
            return {"serialNumber": "1F", "subject": subject, "notAfter": ends} if name == "peercert" else None

    transport = Transport()
    user = authenticator.authenticate({}, transport)
    assert user is not None
    assert user.groups == ("dev", "system:authenticated")
    now += 10
    with pytest.raises(StatusError) as refused:
        authenticator.authenticate({}, transport)
    assert refused.value.code == 401


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("Basic abc", None), ("Bearer", None), ("", None)],
)
def test_bearer_tokens_are_read_from_their_header(header: str, token: str | None) -> None:
    assert bearer_token({"Authorization": header}) == token
