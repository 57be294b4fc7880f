"""The options of lists and watches, read from the query and judged by the real server's rules.

Numbers that are none are malformed (400); options that contradict each other are invalid (422), all told at once. The
rule to know: a watch that names no version, or version 0, is asked to begin with the present state.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from koord.api.text.whole_number import whole_number
from koord_minicluster.apiserver.status import Cause, StatusError, bad_request, forbidden, not_supported, unprocessable

_LARGEST = (1 << 63) - 1
_MATCHES = ("Exact", "NotOlderThan")


class ListOptions(msgspec.Struct, frozen=True):
    """What a list or watch is asked for, beyond its selectors."""

    version: str = ""
    match: str = ""
    limit: int = 0
    "0: all"
    token: str = ""
    "Where an earlier page ended."
    initial: bool | None = None
    "Of a watch: whether the present state is wanted first, with a bookmark after it."
    bookmarks: bool = False
    timeout_s: int = 0
    "0: as long as the server likes"

    @property
    def any_version(self) -> bool:
        """Whether the client accepts any version of the data."""
        return self.version == "0"


def list_options(query: Mapping[str, str]) -> ListOptions:
    options = _read(query)
    faults: list[Cause] = []
    if options.match:
        faults += _match_faults(options)
    if options.initial is not None:
        faults.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    _refuse(faults)
    return options


def watch_options(query: Mapping[str, str]) -> ListOptions:
    options = _read(query)
    if options.initial is None and not options.match and options.version in ("", "0"):
        return ListOptions(
            options.version, "NotOlderThan", options.limit, options.token, True, options.bookmarks, options.timeout_s
        )
    faults: list[Cause] = []
    if options.initial is not None and options.match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        faults.append(forbidden("resourceVersionMatch", text))
    if options.match:
        if options.initial is None:
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            faults.append(forbidden("resourceVersionMatch", text))
        if options.match != "NotOlderThan":
            faults.append(not_supported("resourceVersionMatch", options.match, ["NotOlderThan"]))
        if options.token:
            faults.append(
                forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
            )
    _refuse(faults)
    return options


def query_number(query: Mapping[str, str], name: str) -> int:
    """An integer parameter, 0 where it is absent; 400 where it is not an integer of 64 bits."""
    text = query.get(name, "")
    if not text:
        return 0
    fault = "invalid syntax"
    digits = text[1:] if text[0] in "+-" else text
    if digits.isascii() and digits.isdigit():
        value = whole_number(text)
        if -_LARGEST - 1 <= value <= _LARGEST:
            return value
        fault = "value out of range"
    raise bad_request(f'strconv.ParseInt: parsing "{text}": {fault}')


def query_flag(query: Mapping[str, str], name: str) -> bool:
    """A parameter that is true unless it is absent, 0 or false."""
    value = query.get(name)
    return value is not None and value != "0" and value.lower() != "false"


def revision_of(version: str) -> int:
    """The revision that a resourceVersion names; 500 where it names none, as the real server has it."""
    text = version_fault(version)
    if text:
        raise StatusError(500, "", text, details=False)
    return whole_number(version or "0")


def version_fault(version: str) -> str:
    """Why a text is no resourceVersion; empty where it is one."""
    if not version or (version.isascii() and version.isdigit() and whole_number(version) < 1 << 64):
        return ""
    fault = "value out of range" if version.isascii() and version.isdigit() else "invalid syntax"
    return f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": {fault}'


def _read(query: Mapping[str, str]) -> ListOptions:
    return ListOptions(
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        limit=max(0, query_number(query, "limit")),
        token=query.get("continue", ""),
        initial=query_flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
        bookmarks=query_flag(query, "allowWatchBookmarks"),
        timeout_s=query_number(query, "timeoutSeconds"),
    )


def _match_faults(options: ListOptions) -> list[Cause]:
    field = "resourceVersionMatch"
    faults = []
    if not options.version:
        faults.append(forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if options.token:
        faults.append(forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
    if options.match not in _MATCHES:
        faults.append(not_supported(field, options.match, [*_MATCHES, ""]))
    if options.match == "Exact" and options.version == "0":
        faults.append(forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    return faults


def _refuse(faults: list[Cause]) -> None:
    if faults:
        raise unprocessable("ListOptions", "meta.k8s.io", "", faults)
