"""The settings of the descheduler that leads, written on its lease: `koord deschedule --live` looks with the same ones.

They are those that count, with what its command line says instead of the file. A reader believes them only while the
holder that wrote them holds the lease.
"""

from __future__ import annotations

from typing import Final

import msgspec

from koord.api.configuration import config_file, descheduler_config
from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.kubernetes.coordination import Lease
from koord.api.machinery.faults import Invalid
from koord.api.protocol.names import OWN_ANNOTATION_SETTINGS_IN_FORCE
from koord.api.text.timestamp import TimestampError, parse_timestamp

_HEAD: Final = {"apiVersion": descheduler_config.API_VERSION, "kind": descheduler_config.KIND}


class _Written(msgspec.Struct):
    holder: str
    configuration: dict[str, object]


def written(config: DeschedulerConfiguration, holder: str) -> str:
    """The value of the annotation."""
    settings = {**_HEAD, **msgspec.to_builtins(config, enc_hook=str)}
    return msgspec.json.encode(_Written(holder, settings)).decode()


def settings_of(lease: Lease, now_s: float) -> DeschedulerConfiguration | None:
    """The settings of the descheduler that holds a lease; None if none does, or if it wrote none that can be read."""
    spec = lease.spec
    try:
        if now_s - parse_timestamp(spec.renew_time or "") > spec.lease_duration_seconds:
            return None
        text = lease.metadata.annotations.get(OWN_ANNOTATION_SETTINGS_IN_FORCE, "")
        lease_settings = msgspec.json.decode(text, type=_Written)
        config = config_file.convert(lease_settings.configuration, f"lease {lease.metadata.key}")
    except (TimestampError, msgspec.DecodeError, Invalid):
        # Another version of koord may write what this one cannot read.
        return None
    return (
        config
        if isinstance(config, DeschedulerConfiguration) and lease_settings.holder == spec.holder_identity
        else None
    )
