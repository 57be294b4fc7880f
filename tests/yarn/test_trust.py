"""koord takes a server for Hadoop if this machine trusts its certificate."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web

from koord.yarn.live.web import _machines, ask


@pytest.fixture
def hadoops() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(params=["its own", "another's"])
def trusted(
    request: pytest.FixtureRequest, hadoops: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[bool]:
    """Whether this machine's authorities are Hadoop's."""
    authority = hadoops if request.param == "its own" else trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    _machines.cache_clear()
    yield request.param == "its own"
    _machines.cache_clear()


async def test_a_resource_manager_with_a_certificate_is_asked_if_the_machine_trusts_it(
    hadoops: trustme.CA, trusted: bool
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({})

    app = web.Application()
    app.router.add_get("/", answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    hadoops.issue_cert("127.0.0.1").configure_cert(context)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        host, port = runner.addresses[0][:2]
        if trusted:
            assert await ask("GET", f"https://{host}:{port}/", 10.0) == (200, b"{}")
        else:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await ask("GET", f"https://{host}:{port}/", 10.0)
    finally:
        await runner.cleanup()
