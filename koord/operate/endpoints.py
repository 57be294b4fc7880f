"""What a running `koord up` says about itself in `endpoints.json`: process IDs, addresses and logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from koord.api.machinery.faults import BadInput


class Running(msgspec.Struct, frozen=True, omit_defaults=True):
    """One component as `endpoints.json` has it."""

    pid: int
    state: str
    log: str
    endpoints: Mapping[str, str] = {}
    restarts: int = 0


class Endpoints(msgspec.Struct, frozen=True):
    """All that runs on one data directory."""

    pid: int
    version: str
    started: str
    kubeconfig: str
    components: Mapping[str, Running] = {}


def read_endpoints(path: Path) -> Endpoints | None:
    """What runs on a data directory, or None where nothing does."""
    try:
        return msgspec.json.decode((path / "endpoints.json").read_bytes(), type=Endpoints)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.DecodeError as error:
        raise BadInput(f"{path / 'endpoints.json'} is not what koord up writes: {error}") from None
