"""Hook servers as files register them: one JSON file each, in the form that Koordinator's agents write.

    {"remote-endpoint": "/var/run/koordlet/koordlet.sock", "failure-policy": "Ignore",
     "runtime-hooks": ["PreRunPodSandbox", "PreCreateContainer"]}

`"protocol": "koord"` says that koord's agent listens there itself. Of several for a stage, the first by the file's name
is asked, and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from koord.runtime.stages import Stage


class FailurePolicy(StrEnum):
    FAIL = "Fail"
    "The call fails."
    IGNORE = "Ignore"
    "The call goes on unchanged."
    NONE = "None"
    "Likewise: what Koordinator's files say where nothing was chosen."


class Protocol(StrEnum):
    HOOK_SERVICE = "RuntimeHookService"
    KOORD = "koord"


class HookFile(msgspec.Struct, frozen=True, rename="kebab"):
    remote_endpoint: str
    runtime_hooks: tuple[Stage, ...]
    failure_policy: FailurePolicy = FailurePolicy.IGNORE
    protocol: Protocol = Protocol.HOOK_SERVICE

    @property
    def socket(self) -> str:
        return self.remote_endpoint.removeprefix("unix://")


class HookFileError(ValueError):
    """A file that registers nothing; the message says why."""


def parse(text: bytes) -> HookFile:
    """Raises HookFileError."""
    try:
        hook_file = msgspec.json.decode(text, type=HookFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HookFileError(str(error)) from None
    if not hook_file.socket.startswith("/"):
        raise HookFileError(
            f"remote-endpoint must be the path of a unix socket, not {hook_file.remote_endpoint[:80]!r}"
        )
    return hook_file


def by_stage(files: Mapping[str, HookFile]) -> dict[Stage, HookFile]:
    """Whom to ask; `files` by name."""
    hook_files: dict[Stage, HookFile] = {}
    for name in sorted(files):
        for stage in files[name].runtime_hooks:
            hook_files.setdefault(stage, files[name])
    return hook_files
