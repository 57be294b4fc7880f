"""The file `endpoints.json` of a running `koord up`: process IDs, addresses and logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from koord.api.machinery.faults import BadInput


class Running(msgspec.Struct, frozen=True, omit_defaults=True):
    """One component in `endpoints.json`."""

    pid: int
    state: str
    log: str
    endpoints: Mapping[str, str] = {}
    restarts: int = 0


class Endpoints(msgspec.Struct, frozen=True):
    """All components that run on one data directory."""

    pid: int
    version: str
    started: str
    kubeconfig: str
    components: Mapping[str, Running] = {}
    monitor: str = ""
    "The service account that may read metrics, as NAMESPACE/NAME."


def read_endpoints(path: Path) -> Endpoints | None:
    """The components that run on a data directory, or None if there are none."""
    try:
        return msgspec.json.decode((path / "endpoints.json").read_bytes(), type=Endpoints)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.DecodeError as error:
        raise BadInput(f"{path / 'endpoints.json'} is not what koord up writes: {error}") from None
