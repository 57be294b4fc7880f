"""Where the webhooks' certificates are kept: in a Secret that all replicas share, or in files, for a manager that runs
alone outside of a cluster. Either says which version was read, and refuses to replace another one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import msgspec

from koord.api import kinds
from koord.api.kubernetes.core import Secret
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, Conflict, NotFound
from koord.manager.live.certificates import CA_CERT, CA_KEY, CERTS, KEYS, Material
from koord.manager.live.registration import FIELD_MANAGER


class CertificateStore(Protocol):
    async def held(self) -> tuple[Material, str]:
        """What is kept, and its version; nothing, and no version, where nothing is."""
        ...

    async def keep(self, material: Material, version: str) -> bool:
        """Whether it could be kept; not if someone changed it since `version`."""
        ...


class SecretStore:
    """One Secret. Others may add to it; its names are those that Koordinator uses."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client, self._namespace, self._name = client, namespace, name

    def __str__(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    async def held(self) -> tuple[Material, str]:
        try:
            secret = await self._client.get(kinds.SECRETS, self._name, namespace=self._namespace)
        except NotFound:
            return Material(), ""
        return Material.of(secret.data), secret.metadata.resource_version

    async def keep(self, material: Material, version: str) -> bool:
        try:
            if not version:
                body = {**kinds.SECRETS.manifest(Secret(data=material.data())), "metadata": {"name": self._name}}
                await self._client.create(kinds.SECRETS, body, namespace=self._namespace, field_manager=FIELD_MANAGER)
            else:
                patch = {"metadata": {"resourceVersion": version}, "data": msgspec.to_builtins(material.data())}
                await self._client.patch(
                    kinds.SECRETS, self._name, patch, namespace=self._namespace, field_manager=FIELD_MANAGER
                )
        except (AlreadyExists, Conflict):
            return False
        return True


class FileStore:
    """Files in a directory that only its owner can read, under the same names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    async def held(self) -> tuple[Material, str]:
        self._check_owner()
        present = {name: self._read(name) for name in (CA_CERT, CA_KEY, *CERTS, *KEYS)}
        return Material.of(present), ""

    async def keep(self, material: Material, version: str) -> bool:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_owner()
        for name, text in material.data().items():
            self._write(name, text)
        return True

    def _check_owner(self) -> None:
        """Whoever could put a key here could speak for us."""
        try:
            stat = self._folder.stat()
        except FileNotFoundError:
            return
        if stat.st_uid != os.getuid() or stat.st_mode & 0o022:
            raise PermissionError(f"{self._folder} must belong to this user, and no other user may write to it")

    def _write(self, name: str, text: bytes) -> None:
        """A concurrent reader finds the old file or the new one."""
        new = self._folder / f".{name}.new"
        with open(new, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(text)
        new.replace(self._folder / name)

    def _read(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return b""
