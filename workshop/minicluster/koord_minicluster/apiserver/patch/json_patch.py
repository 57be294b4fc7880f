"""JSON patch (RFC 6902): a list of operations, each on the result of the one before.

What a real server makes of the standard's corners is kept: `replace` of an absent key adds it, negative indices count
from the end, and a patch that does not apply is refused with a text that does not say why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from koord.api.text import go_text
from koord.api.text.whole_number import INT64_MOST, whole_number
from koord_minicluster.apiserver.status import StatusError, bad_request

MOST_OPERATIONS: Final = 10_000
MOST_COPIED_BYTES: Final = 3 << 20
"What all `copy` operations of a patch may add together, as JSON: as much as a body may have."
MOST_STEPS: Final = 1 << 20
"What all paths of a patch may have together, and all values that its tests compare."
_INDEX: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class DoesNotApply(Exception):
    """An operation failed; the text says why, for logs: clients get a general refusal."""


def apply(doc: Mapping[str, Any], ops: object) -> dict[str, Any]:
    """The document after all operations; the input is not changed."""
    operations = _operations(ops)
    try:
        return _Patching(doc).applied(operations)
    except RecursionError:
        raise bad_request(go_text.TOO_DEEP) from None
    except DoesNotApply as error:
        raise StatusError(422, "Invalid", "the server rejected our request due to an error in our request") from error


def _operations(ops: object) -> list[dict[str, Any]]:
    if ops is None:
        return []
    if not isinstance(ops, list):
        raise _malformed(ops, "Go value of type []handlers.jsonPatchOp")
    for operation in ops:
        if not isinstance(operation, dict):
            raise _malformed(operation, "Go value of type handlers.jsonPatchOp")
        for field in ("op", "path", "from"):
            value = operation.get(field)
            if value is not None and not isinstance(value, str):
                raise _malformed(value, f"Go struct field jsonPatchOp.{field} of type string")
    if len(ops) > MOST_OPERATIONS:
        detail = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(ops)}"
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {detail}", details=False)
    return ops


def _malformed(value: object, into: str) -> StatusError:
    return bad_request(f"error decoding patch: {go_text.not_into(value, into)}")


class _Patching:
    """A document while it is patched. Each of its containers is copied when it is first written to, and only then."""

    def __init__(self, doc: Mapping[str, Any]) -> None:
        self._root: dict[str, Any] = dict(doc)
        self._own: dict[int, object] = {id(self._root): self._root}
        "Containers that this patch made, by identity: they may be written to."
        self._copied_bytes = 0
        self._steps = 0

    def applied(self, operations: list[dict[str, Any]]) -> dict[str, Any]:
        for operation in operations:
            self._apply(operation)
        return self._root

    def _apply(self, operation: Mapping[str, Any]) -> None:
        kind, path = operation.get("op") or "unknown", operation.get("path")
        if kind not in ("add", "remove", "replace", "move", "copy", "test"):
            raise DoesNotApply(f"Unexpected kind: {kind}")
        if kind in ("move", "copy"):
            source = operation.get("from")
            if source is None:
                raise DoesNotApply(f"{kind} operation failed to decode from: missing value")
            value = _value_at(self._root, self._parts(source, kind), source, kind)
            if kind == "copy":
                value = self._copied(value)
            else:
                self._change(source, "remove", None)
            self._change(_required(path, kind), "add", value)
            return
        path = _required(path, kind)
        if kind == "test":
            self._test(path, operation)
        elif path == "" and kind == "replace":
            value = operation.get("value")
            if not isinstance(value, dict):
                raise DoesNotApply("replace operation value must be object or array")
            self._root = self._made(dict(value))
        else:
            self._change(path, kind, operation.get("value"))

    def _copied(self, value: Any) -> Any:
        """A value of its own. What copies of copies add up to is bounded, as on the real server."""
        if not isinstance(value, dict | list):
            self._copied_bytes += len(value) if isinstance(value, str) else 8
            text = b""
        else:
            text = msgspec.json.encode(value)
            self._copied_bytes += len(text)
        if self._copied_bytes > MOST_COPIED_BYTES:
            raise DoesNotApply(
                f"Unable to complete the copy, the accumulated size increase of copy is over {MOST_COPIED_BYTES}"
            )
        return msgspec.json.decode(text) if text else value

    def _change(self, path: str, kind: str, value: Any) -> None:
        """Change one place."""
        *way, last = self._parts(path, kind)
        container: Any = self._root
        for part in way:
            key = _key_of(container, part)
            child = container.get(key) if isinstance(container, dict) else container[key]
            if not isinstance(child, dict | list):
                raise DoesNotApply(f'{kind} operation does not apply: doc is missing path: "{path}": missing value')
            if id(child) not in self._own:
                child = container[key] = self._made(child.copy())
            container = child
        if isinstance(container, dict):
            _change_map(container, last, kind, value)
        else:
            _change_list(container, last, kind, value)

    def _made(self, container: Any) -> Any:
        self._own[id(container)] = container
        return container

    def _test(self, path: str, operation: Mapping[str, Any]) -> None:
        wanted = operation.get("value")
        value = self._root if path == "" else _value_at(self._root, self._parts(path, "test"), path, "test")
        if not same(value, wanted):
            raise DoesNotApply(f"testing value {path} failed: test failed")

    def _parts(self, path: str, kind: str) -> list[str]:
        parts = path.split("/")
        if len(parts) < 2:
            raise DoesNotApply(f'{kind} operation does not apply: doc is missing path: "{path}": missing value')
        self._steps += len(parts)
        if self._steps > MOST_STEPS:
            raise _too_large(f"its paths have more than {MOST_STEPS} steps")
        return [part.replace("~1", "/").replace("~0", "~") for part in parts[1:]]


def _too_large(why: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: the JSON patch: {why}", details=False)


def _required(path: str | None, kind: str) -> str:
    if path is None:
        raise DoesNotApply(f"{kind} operation failed to decode path: missing value")
    return path


def _change_map(container: dict[str, Any], key: str, kind: str, value: Any) -> None:
    if kind != "remove":
        container[key] = value
    elif key in container:
        del container[key]
    else:
        raise DoesNotApply(f"Unable to remove nonexistent key: {key}: missing value")


def _change_list(container: list[Any], key: str, kind: str, value: Any) -> None:
    if kind == "add":
        if key == "-":
            container.append(value)
        else:
            container.insert(_index(key, len(container) + 1), value)
    elif kind == "remove":
        del container[_index(key, len(container))]
    else:
        container[_index(key, len(container))] = value


def _key_of(container: Any, part: str) -> Any:
    return part if isinstance(container, dict) else _index(part, len(container))


def _index(text: str, length: int) -> int:
    if not _INDEX.fullmatch(text):
        raise DoesNotApply(f'strconv.Atoi: parsing "{text}": invalid syntax')
    index = whole_number(text)
    if not -INT64_MOST - 1 <= index <= INT64_MOST:
        raise DoesNotApply(f'strconv.Atoi: parsing "{text}": value out of range')
    if not -length <= index < length:
        raise DoesNotApply(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index


def _value_at(root: dict[str, Any], parts: list[str], path: str, kind: str) -> Any:
    """What stands at a path. An absent key of an object counts as null, as on the real server."""
    *way, last = parts
    container: Any = root
    for part in way:
        container = container.get(part) if isinstance(container, dict) else container[_index(part, len(container))]
        if not isinstance(container, dict | list):
            raise DoesNotApply(f"{kind} operation does not apply: doc is missing path: {path}: missing value")
    return container.get(last) if isinstance(container, dict) else container[_index(last, len(container))]


def same(one: object, other: object) -> bool:
    """Whether two values are the same JSON: true is not 1, and 1.0 is not 1."""
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(value, other[key]) for key, value in one.items())
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other
