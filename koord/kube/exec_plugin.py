"""Credentials from a program (client.authentication.k8s.io): cloud providers' way of logging in.

The program gets the request in $KUBERNETES_EXEC_INFO and prints an `ExecCredential` with a token, a client
certificate, or both. Its answer is kept until it expires or the server refuses it; concurrent callers wait for one run.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from typing import Final

from koord.api.machinery.codec import DecodeError, decode, encode
from koord.api.machinery.struct import Struct
from koord.api.text.timestamp import TimestampError, parse_ns
from koord.kube.auth import Proof, bearer
from koord.kube.clock import Clock
from koord.kube.cluster_config import ClusterConfig, ConfigError, ExecConfig
from koord.kube.tls import ClientCertificate

RUN_TIMEOUT_S: Final = 120.0
"""Long enough for a person to log in; a program that hangs must not hang the caller for ever."""


class _CredentialStatus(Struct):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _Credential(Struct):
    api_version: str = ""
    kind: str = ""
    status: _CredentialStatus | None = None


class ExecPlugin:
    """The `Credentials` that a program gives."""

    def __init__(self, plugin: ExecConfig, config: ClusterConfig, clock: Clock) -> None:
        self._plugin, self._config, self._clock = plugin, config, clock
        self._proof: Proof | None = None
        self._expires_at = float("inf")
        self._one_run = asyncio.Lock()

    async def current(self) -> Proof:
        async with self._one_run:
            if self._proof is None or self._clock.now() >= self._expires_at:
                self._proof, self._expires_at = await self._run()
            return self._proof

    async def refused(self, proof: Proof) -> bool:
        async with self._one_run:
            if proof is self._proof:
                self._proof = None
            return True

    async def _run(self) -> tuple[Proof, float]:
        interactive = self._interactive()
        environment = {**os.environ, **dict(self._plugin.env), "KUBERNETES_EXEC_INFO": self._info(interactive)}
        try:
            process = await asyncio.create_subprocess_exec(
                self._plugin.command,
                *self._plugin.args,
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE if not interactive else None,
            )
        except OSError as error:
            raise self._fault(f"cannot be run: {error.strerror or error}", hint=True) from None
        try:
            async with asyncio.timeout(RUN_TIMEOUT_S):
                output, complaint = await process.communicate()
        except TimeoutError:
            raise self._fault(f"did not finish within {RUN_TIMEOUT_S:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            said = " ".join((complaint or b"")[-500:].decode("utf-8", "replace").split())
            raise self._fault(f"failed with exit code {process.returncode}{f': {said}' if said else ''}", hint=True)
        return self._read(output)

    def _read(self, output: bytes) -> tuple[Proof, float]:
        try:
            answer = decode(_Credential, output)
        except DecodeError as error:
            raise self._fault(f"printed no ExecCredential: {error.path} {error.fault}".replace("  ", " ")) from None
        if answer.kind != "ExecCredential" or answer.api_version != self._plugin.api_version:
            raise self._fault(
                f"printed a {answer.api_version} {answer.kind}, not a {self._plugin.api_version} ExecCredential"
            )
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
            raise self._fault("gave neither a token nor a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._fault("gave only one of clientCertificateData and clientKeyData")
        certificate = None
        if status.client_certificate_data:
            certificate = ClientCertificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        expires_at = float("inf")
        if status.expiration_timestamp:
            try:
                expires_at = parse_ns(status.expiration_timestamp) / 1e9
            except TimestampError as error:
                raise self._fault(f"gave an unreadable expirationTimestamp: {error}") from None
        return Proof(bearer(status.token) if status.token else (), certificate), expires_at

    def _info(self, interactive: bool) -> str:
        spec: dict[str, object] = {"interactive": interactive}
        if self._plugin.provide_cluster_info:
            spec["cluster"] = self._cluster_info()
        return encode({"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}).decode()

    def _cluster_info(self) -> dict[str, object]:
        config = self._config
        ca = config.ca_data
        if not ca and config.ca_file:
            try:
                with open(config.ca_file, "rb") as file:
                    ca = file.read()
            except OSError as error:
                raise ConfigError(
                    f"{config.origin}: certificate authority {config.ca_file}: {error.strerror}"
                ) from None
        info: dict[str, object] = {
            "server": config.server,
            "tls-server-name": config.tls_server_name,
            "insecure-skip-tls-verify": config.insecure_skip_tls_verify,
            "certificate-authority-data": base64.b64encode(ca).decode("ascii"),
            "proxy-url": config.proxy_url,
            "config": config.exec_cluster_config,
        }
        return {key: value for key, value in info.items() if value}

    def _interactive(self) -> bool:
        mode = self._plugin.interactive_mode
        terminal = mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not terminal:
            raise self._fault("wants to ask questions (interactiveMode Always), but there is no terminal")
        return terminal

    def _fault(self, why: str, *, hint: bool = False) -> ConfigError:
        text = f"{self._config.origin or self._config.server}: the credential program {self._plugin.command} {why}"
        if hint and self._plugin.install_hint:
            text = f"{text}\n{self._plugin.install_hint}"
        return ConfigError(text)
