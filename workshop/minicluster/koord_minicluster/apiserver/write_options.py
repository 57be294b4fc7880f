"""The options of creates, updates and patches, read from the query and judged by the real server's rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from koord_minicluster.apiserver.list_options import query_flag
from koord_minicluster.apiserver.status import (
    Cause,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    unprocessable,
)

LONGEST_MANAGER: Final = 128
_KINDS: Final = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")


class WriteOptions(msgspec.Struct, frozen=True):
    """How a write is meant: in whose name, whether for real, and what becomes of fields that are not known."""

    manager: str
    dry_run: bool
    validation: str = "Warn"
    force: bool = False
    shown: Mapping[str, Any] | None = None
    "As admission webhooks see them."


def write_options(
    verb: str, query: Mapping[str, str], dry_run: list[str], user_agent: str, *, is_apply: bool = False
) -> WriteOptions:
    """The options; 422 where they are not valid for the verb."""
    manager, validation = query.get("fieldManager", ""), query.get("fieldValidation", "")
    force = query_flag(query, "force") if "force" in query else None
    return _options(verb, manager, validation, force, tuple(dry_run), user_agent, is_apply)


@lru_cache(128)
def _options(
    verb: str,
    manager: str,
    validation: str,
    force: bool | None,
    dry_run: tuple[str, ...],
    user_agent: str,
    is_apply: bool,
) -> WriteOptions:
    """A client asks for the same again and again."""
    faults: list[Cause] = []
    if is_apply and not manager:
        faults.append(required("fieldManager", "is required for apply patch"))
    if verb == "patch" and not is_apply and force is not None:
        faults.append(forbidden("force", "may not be specified for non-apply patch"))
    faults += _manager_faults(manager)
    if any(value != "All" for value in dry_run):
        faults.append(not_supported("dryRun", [*dry_run], ["All"]))
    if validation not in _VALIDATIONS:
        faults.append(not_supported("fieldValidation", validation, _VALIDATIONS))
    if faults and verb in _KINDS:
        raise unprocessable(_KINDS[verb], "meta.k8s.io", "", faults)
    shown: dict[str, Any] = {"dryRun": [*dry_run]} if dry_run else {}
    shown |= {key: text for key, text in (("fieldManager", manager), ("fieldValidation", validation)) if text}
    return WriteOptions(
        manager or default_manager(user_agent), bool(dry_run), validation or "Warn", is_apply and bool(force), shown
    )


def default_manager(user_agent: str) -> str:
    """The owner of fields where a client does not name one: the first word of its user agent."""
    return user_agent.partition("/")[0][:LONGEST_MANAGER] or "unknown"


def _manager_faults(manager: str) -> list[Cause]:
    if manager.isprintable() and len(manager) * 4 <= LONGEST_MANAGER:
        return []
    faults = []
    if len(manager.encode()) > LONGEST_MANAGER:
        faults.append(too_long("fieldManager", LONGEST_MANAGER))
    at = 0
    for character in manager:
        if not (character.isprintable() or character == " "):
            text = f"invalid character U+{ord(character):04X} (at position {at})"
            faults.append(invalid("fieldManager", manager, text))
        at += len(character.encode())
    return faults
