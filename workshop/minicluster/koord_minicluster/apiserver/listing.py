"""Lists: which entries, at which revision, in which pages; and the bytes of the answer.

Entries are kept as the bytes of a GET, so a list is a join of slices: nothing is parsed unless the client wants a table
or metadata only. A page's continue token holds the revision of the first page and the last key, so that all pages
show one moment.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from koord.api.text.field_selector import FieldMatcher, FieldRequirement
from koord.api.text.selector import LabelMatcher
from koord.api.text.whole_number import whole_number
from koord_minicluster.apiserver.bodies import json_text
from koord_minicluster.apiserver.list_options import ListOptions, version_fault
from koord_minicluster.apiserver.request_info import RequestInfo
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.selectors import field_matcher, label_matcher
from koord_minicluster.apiserver.status import Cause, StatusError, bad_request, gone
from koord_minicluster.apiserver.store import Collection, Compacted, Entry, Store

_BASE64 = re.compile("[A-Za-z0-9_-]*")
FRESH_WITHIN_S = 3.0
"How long a list waits for a revision that is not there yet."


@dataclass(frozen=True, slots=True)
class Filter:
    """Label and field selectors of a request, compiled; None where everything matches."""

    labels: LabelMatcher | None = None
    fields: FieldMatcher | None = None

    def matches(self, entry: Entry) -> bool:
        if self.labels is not None and not self.labels.matches(entry.index.labels):
            return False
        return self.fields is None or self.fields.matches(entry.index.fields)

    @property
    def one_name(self) -> bool:
        """Whether at most one object of a namespace can match."""
        requirements = self.fields.requirements if self.fields is not None else ()
        return any(requirement.field == "metadata.name" and requirement.equal for requirement in requirements)

    @property
    def all(self) -> bool:
        return self.labels is None and self.fields is None


@dataclass(frozen=True, slots=True)
class Listed:
    """One page: its entries, the revision it shows, and how to get the rest."""

    entries: list[Entry]
    rev: int
    continue_: str = ""
    remaining: int | None = None


def parse_filter(resource: Resource, info: RequestInfo, query: Mapping[str, str]) -> Filter:
    """What a request selects. One that is about a name never selects more than that name: only it was authorised."""
    labels_text, fields_text = query.get("labelSelector", ""), query.get("fieldSelector", "")
    labels = label_matcher(labels_text) if labels_text else None
    fields: FieldMatcher | None = None
    if fields_text:
        nothing: Obj = {"metadata": {}, "spec": {}, "status": {}}
        selectable = resource.strategy.selectable or resource.strategy.fields(nothing)
        fields = field_matcher(fields_text, selectable, kind=resource.kind, custom=resource.custom)
    if info.name:
        if fields is None or not fields.requirements:
            fields = FieldMatcher((FieldRequirement("metadata.name", info.name),))
        elif fields.exact("metadata.name") != info.name:
            raise bad_request("fieldSelector metadata.name doesn't match requested name")
    return Filter(labels, fields)


async def select(
    store: Store, collection: Collection, resource: Resource, namespace: str, wanted: Filter, options: ListOptions
) -> Listed:
    """One page of a list, as the options ask for it."""
    prefix = f"{namespace}/" if resource.namespaced and namespace else ""
    # Like the real server, ignore the limit for clients that accept any version.
    version, limit = options.version, 0 if options.any_version else options.limit
    start_after = ""
    if options.token:
        rev, start_after = _opened(options.token)
        if version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        rev = rev or store.revision
    elif options.match == "Exact" or (version not in ("", "0") and limit and options.match != "NotOlderThan"):
        rev = _list_revision(version)
        await reach(store, rev)
    else:
        if version not in ("", "0"):
            await reach(store, _list_revision(version))
        rev = store.revision
    # One more than a page tells whether there are more; a selector may need any number to fill one.
    most = limit + 1 if limit and wanted.all else 0
    try:
        entries = await collection.entries_at(rev, prefix, start_after, most)
        if not wanted.all:
            last_key = entries[-1].key if entries else ""
            entries = [entry for entry in entries if wanted.matches(entry)]
            # The search stops at a full page: whether later entries match is not known.
            full = limit and len(entries) >= limit and not wanted.one_name
            if full and entries[limit - 1].key != last_key:
                page = entries[:limit]
                return Listed(page, rev, _sealed(rev, page[-1].key))
        if not limit or len(entries) <= limit:
            return Listed(entries, rev)
        page = entries[:limit]
        remaining = await collection.count_at(rev, prefix, page[-1].key) if wanted.all else None
    except Compacted as error:
        if options.token:
            raise _expired_token(error, start_after, store.revision) from None
        raise gone("The resourceVersion for the provided list is too old.") from None
    return Listed(page, rev, _sealed(rev, page[-1].key), remaining)


def encode_list(resource: Resource, listed: Listed) -> Iterator[bytes]:
    """The answer in pieces. Built-in items leave out kind and apiVersion, as the real server does."""
    meta: dict[str, Any] = {"resourceVersion": str(listed.rev)}
    if listed.continue_ or resource.custom:
        meta["continue"] = listed.continue_
    if listed.remaining is not None:
        meta["remainingItemCount"] = listed.remaining
    head = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": meta}
    yield msgspec.json.encode(head)[:-1] + b',"items":['
    cut = 0 if resource.custom else len(item_head(resource)) - 1
    separator = b""
    for start in range(0, len(listed.entries), 64):
        chunk = [item_value(resource, entry.value) for entry in listed.entries[start : start + 64]]
        if cut:
            chunk = [b"{" + value[cut + 1 :] for value in chunk]
        yield separator + b",".join(chunk)
        separator = b","
    yield b"]}\n"


def item_head(resource: Resource) -> bytes:
    """How every stored value of a resource begins."""
    return msgspec.json.encode({"kind": resource.kind, "apiVersion": resource.api_version})[:-1] + b","


def item_value(resource: Resource, value: bytes) -> bytes:
    """A stored value as this version of the resource shows it."""
    if resource.convert is not None:
        converted = resource.convert(msgspec.json.decode(value), resource.api_version)
        rest = {key: part for key, part in converted.items() if key not in ("kind", "apiVersion")}
        return msgspec.json.encode({"kind": resource.kind, "apiVersion": resource.api_version, **rest})
    stored = resource.storage_version
    if stored and stored != resource.api_version:
        old = msgspec.json.encode({"kind": resource.kind, "apiVersion": stored})[:-1]
        return item_head(resource)[:-1] + value[len(old) :]
    return value


def _list_revision(version: str) -> int:
    if fault := version_fault(version):
        raise bad_request(f"invalid resource version: {fault}")
    return whole_number(version)


async def reach(store: Store, rev: int) -> None:
    if not await store.reached(rev, FRESH_WITHIN_S):
        raise StatusError(
            504,
            "Timeout",
            f"Timeout: Too large resource version: {rev}, current: {store.revision}",
            causes=[Cause("", "ResourceVersionTooLarge", "Too large resource version")],
            retry_after_s=1,
        )


def _sealed(rev: int, last_key: str) -> str:
    token = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": rev, "start": last_key + "\0"})
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _opened(token: str) -> tuple[int, str]:
    """The revision (0: whatever is newest) and the last key of a continue token."""
    invalid = "invalid continue token: continue key is not valid: "
    try:
        opened = json_text.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))[0]
    except binascii.Error:
        good = _BASE64.match(token)
        at = good.end() if good and good.end() < len(token) else len(token) // 4 * 4
        raise bad_request(f"{invalid}illegal base64 data at input byte {at}") from None
    except ValueError as error:
        raise bad_request(f"{invalid}{error}") from None
    if not isinstance(opened, dict) or opened.get("v") != "meta.k8s.io/v1":
        version = opened.get("v", "") if isinstance(opened, dict) else ""
        raise bad_request(f"{invalid}server does not recognize this encoded version {version}")
    rev, start = opened.get("rv"), opened.get("start")
    if not isinstance(rev, int) or not isinstance(start, str) or not start:
        raise bad_request(f"{invalid}{token[:60]}")
    return rev, start.removesuffix("\0")


def _expired_token(error: Compacted, last_key: str, newest: int) -> StatusError:
    """410, with a token that goes on from the same place in a newer list, for clients that take the inconsistency."""
    token = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": 0, "start": last_key + "\0"})
    expired = gone(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        f"without the continue parameter, or use the continue token in this response to retrieve the rest ({error}; "
        f"newest {newest})."
    )
    expired.continue_token = base64.urlsafe_b64encode(token).decode().rstrip("=")
    return expired
