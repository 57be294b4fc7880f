"""YAML as kubectl reads it, and as it can be read back.

kubectl turns YAML into JSON by rules that are neither YAML 1.1 nor 1.2: `yes`, `on` and `y` are true, `0644` and
`0o644` are 420, `1e3` is 1000, dates and `1:30` are strings, `.inf` is an error, and keys become strings.
Two are stricter here: a key given twice in one map is refused, and aliases may not expand without bound.
"""

from __future__ import annotations

import base64
import copy
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NoReturn

import yaml

from koord.api.machinery.faults import BadInput
from koord.api.machinery.short_cache import short_cache
from koord.api.text import yaml_lines
from koord.api.text.yaml_scalars import as_json, float_key, resolve

MAX_DEPTH: Final = 100
"""How deep maps and lists may be nested."""

MAX_EXPANDED: Final = 400_000
"""How many nodes aliases may stand for in one text, all together."""

_MARKER: Final = re.compile(r"^---[ ]*(?:\n|\Z)", re.MULTILINE)
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")
_TAG: Final = "tag:yaml.org,2002:"
_RESOLVED_TAGS: Final[Mapping[str, tuple[str, type | tuple[type, ...]]]] = {
    _TAG + "int": ("an integer", int),
    _TAG + "float": ("a number", (int, float)),
    _TAG + "bool": ("true or false", bool),
    _TAG + "null": ("null", type(None)),
}


class YamlError(BadInput):
    """Text that is not YAML, or YAML that is not JSON. Says where and what."""

    def __init__(self, source: str, line: int, column: int, problem: str) -> None:
        self.source, self.line, self.column, self.problem = source, line, column, problem
        self.parser_error: yaml.MarkedYAMLError | None = None
        "Where the parser did not understand the text: what it said."
        super().__init__(source, line, column, problem)

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}: {self.problem}"


def load_all(text: str, source: str) -> list[object]:
    """The documents of a YAML or JSON text as plain data; empty ones are left out. `source` names it in errors."""
    if text.lstrip().startswith("{"):
        try:
            return _load_json(text)
        except (ValueError, RecursionError):
            pass  # flow-style YAML, or faulty: the YAML reader says where
    try:
        documents = list(_documents(text, source))
    except YamlError:
        # Who has seen all of the text knows the place.
        documents = list(_Reader(text, source).documents())
    return [document for document in documents if document is not None]


def load(text: str, source: str) -> object:
    """The only document of a text, or None where it is empty."""
    documents = load_all(text, source)
    if len(documents) > 1:
        raise YamlError(source, 1, 1, f"holds {len(documents)} documents where one is expected")
    return documents[0] if documents else None


def load_first(text: str, source: str, repeated: Callable[[int, str], None]) -> object:
    """The first document of a text, or None where it is empty. `repeated` is called with the line and name of each key
    that its map already has; the last one counts."""
    return next(_Reader(text, source, repeated).documents(), None)


def _documents(text: str, source: str) -> Iterator[object]:
    """The documents of a text, each read by its lines where it is plain enough."""
    reader = _Reader("", source)
    # A line that begins with this ends whatever came before, wherever it stands.
    begin = 0
    while begin <= len(text):
        marker = _MARKER.search(text, begin)
        end, next_begin = marker.span() if marker else (len(text), len(text) + 1)
        part, begin = text[begin:end], next_begin
        try:
            yield yaml_lines.read(part, _alone)
        except yaml_lines.NotPlain:
            # One reader for all, so that what aliases stand for is bounded for the whole text.
            reader.text = part
            yield from reader.documents()


def _alone(text: str) -> object:
    """The only document of a text that is part of a document."""
    try:
        documents = list(_Reader(text, "").documents(yaml_lines.MAX_DEPTH))
    except YamlError:
        raise yaml_lines.NotPlain from None
    if len(documents) != 1:
        raise yaml_lines.NotPlain
    return documents[0]


class _Reader:
    """Builds documents from the parser's events, so that nesting and aliases can be bounded."""

    def __init__(self, text: str, source: str, repeated: Callable[[int, str], None] | None = None) -> None:
        self.text = text
        self.source = source
        self.repeated = repeated
        self.events: Iterator[yaml.Event] = iter(())
        self.anchors: dict[str, tuple[object, int] | None] = {}
        self.count = 0
        self.expanded = 0

    def documents(self, depth: int = 0) -> Iterator[object]:
        """All of them, as if they stood so deep in another one."""
        try:
            self.events = yaml.parse(self.text, Loader=_LOADER)
            for event in self.events:
                if isinstance(event, yaml.DocumentStartEvent):
                    self.anchors.clear()
                    yield self.value(next(self.events), depth)
        except yaml.MarkedYAMLError as error:
            raise self.syntax_error(error) from None
        except yaml.reader.ReaderError as error:
            before = self.text.encode()[: error.position].decode(errors="ignore")
            line_start = before.rfind("\n") + 1
            line, column = before.count("\n") + 1, len(before) - line_start + 1
            raise YamlError(self.source, line, column, str(error.reason)) from None
        except UnicodeEncodeError as error:
            raise YamlError(self.source, 1, 1, f"holds text that is not Unicode: {error.reason}") from None
        except RecursionError:
            raise YamlError(self.source, 1, 1, "aliases nest too deeply") from None

    def value(self, event: yaml.Event, depth: int) -> object:
        """The value that begins with `event`, as JSON would have it."""
        node = self.node(event, depth)
        if not isinstance(node, float):
            return node
        if not math.isfinite(node):
            raise self.error(event, f"{node} cannot be said in JSON; write a finite number, or quote it")
        return as_json(node)

    def node(self, event: yaml.Event, depth: int) -> object:
        if depth > MAX_DEPTH:
            raise self.error(event, f"is nested more than {MAX_DEPTH} deep")
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event)
        before = self.count
        self.count += 1
        anchor: str | None = getattr(event, "anchor", None)
        if anchor is not None:
            self.anchors[anchor] = None
        node = self.content(event, depth)
        if anchor is not None:
            self.anchors[anchor] = (node, self.count - before)
        return node

    def content(self, event: yaml.Event, depth: int) -> object:
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event)
        if isinstance(event, yaml.MappingStartEvent):
            return self.mapping(depth)
        items = []
        while not isinstance(item := next(self.events), yaml.SequenceEndEvent):
            items.append(self.value(item, depth + 1))
        return items

    def alias(self, event: yaml.AliasEvent) -> object:
        if event.anchor not in self.anchors:
            raise self.error(event, f"there is no anchor &{event.anchor} before this alias")
        target = self.anchors[event.anchor]
        if target is None:
            raise self.error(event, f"the value of &{event.anchor} contains itself")
        node, size = target
        self.count += size
        self.expanded += size
        if self.expanded > MAX_EXPANDED:
            raise self.error(event, f"aliases stand for more than {MAX_EXPANDED} values")
        return copy.deepcopy(node)

    def mapping(self, depth: int) -> dict[str, object]:
        # As kubectl has it, a merge overrides what stands before it and is overridden by what stands after it.
        mapping: dict[str, object] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if _is_merge(event):
                mapping |= self.merged(next(self.events), depth)
                continue
            key = self.key(event, depth)
            if key in lines and self.repeated is not None:
                self.repeated(_position(event.start_mark)[0], key)
            elif key in lines:
                raise self.error(event, f"the key {key!r} is already set in line {lines[key]}")
            lines[key] = _position(event.start_mark)[0]
            mapping[key] = self.value(next(self.events), depth + 1)
        return mapping

    def key(self, event: yaml.Event, depth: int) -> str:
        node = self.node(event, depth + 1)
        if isinstance(node, str):
            return node
        if isinstance(node, bool):
            return "true" if node else "false"
        if isinstance(node, int) and node < 2**63:
            return str(node)
        if isinstance(node, float):
            return float_key(node)
        raise self.error(event, "a key must be a string, a number, true or false")

    def merged(self, event: yaml.Event, depth: int) -> dict[str, object]:
        node = self.node(event, depth + 1)
        sources = node if isinstance(event, yaml.SequenceStartEvent) and isinstance(node, list) else [node]
        merged: dict[str, object] = {}
        for source in reversed(sources):
            if not isinstance(source, dict):
                raise self.error(event, "<< merges a map or a list of maps, nothing else")
            merged |= source
        return merged

    def scalar(self, event: yaml.ScalarEvent) -> object:
        text: str = event.value
        tag: str | None = event.tag
        if tag is None:
            return resolve(text) if event.implicit[0] else text
        if tag == _TAG + "binary":
            try:
                return base64.b64decode(re.sub(r"[\r\n]", "", text), validate=True).decode()
            except ValueError:
                raise self.error(event, "!!binary is not text in base64") from None
        if tag == _TAG + "timestamp" and not _DATE.fullmatch(text):
            raise self.error(event, f"{text!r} is not a date")
        if tag not in _RESOLVED_TAGS:
            return text
        wanted, types = _RESOLVED_TAGS[tag]
        node = resolve(text)
        if not isinstance(node, types) or (isinstance(node, bool) and tag != _TAG + "bool"):
            raise self.error(event, f"{text!r} is not {wanted}")
        return node

    def error(self, event: yaml.Event, problem: str) -> YamlError:
        return YamlError(self.source, *_position(event.start_mark), problem)

    def syntax_error(self, error: yaml.MarkedYAMLError) -> YamlError:
        line, column = _position(error.problem_mark)
        problem = error.problem or "is not YAML"
        if "cannot start any token" in problem:
            char = self.text.split("\n")[line - 1][column - 1 :][:1]
            problem = "a tab cannot indent; use spaces" if char == "\t" else f"{char!r} cannot begin a value; quote it"
        elif error.context and _position(error.context_mark)[0] != line:
            problem += f" ({error.context} that begins in line {_position(error.context_mark)[0]})"
        error_at = YamlError(self.source, line, column, problem)
        error_at.parser_error = error
        return error_at


def _position(mark: yaml.Mark | yaml._yaml.Mark | None) -> tuple[int, int]:
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


def _is_merge(event: yaml.Event) -> bool:
    if not isinstance(event, yaml.ScalarEvent) or event.value != "<<":
        return False
    return event.tag == _TAG + "merge" if event.tag else bool(event.implicit[0])


def _load_json(text: str) -> list[object]:
    """JSON values one after the other. A key given twice is left to the YAML reader, which knows lines."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(mapping := dict(pairs)) < len(pairs):
            raise ValueError
        return mapping

    def no_constant(name: str) -> NoReturn:
        raise ValueError(name)

    decoder = json.JSONDecoder(object_pairs_hook=unique, parse_constant=no_constant)
    documents = []
    rest = text.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        documents.append(document)
        rest = rest[end:].lstrip()
    return documents


_PLAIN: Final = re.compile(r"(?!---|\.\.\.|- )[A-Za-z0-9_./$(^+\\~<=;-](?:[ -~]*[!-~])?")
_SYNTAX: Final = re.compile(r": | #|:$")
_NUMBERLIKE: Final = re.compile(r"[-+.]?[0-9][0-9a-fA-FxXoO_:.,+\-tTzZ ]*|-|=|<<")
_LONGEST_PLAIN_KEY: Final = 1000


def dump(obj: object) -> str:
    """JSON data as YAML in block style, which kubectl reads back as the same data."""
    return "\n".join(_block(obj)) + "\n"


def _block(obj: object) -> list[str]:
    """The lines of a value that stands by itself."""
    lines: list[str] = []
    match obj:
        case Mapping() if obj:
            for key, item in obj.items():
                if not isinstance(key, str):
                    raise TypeError(f"a key must be a string, not {key!r}")
                name = _string(key)
                if len(name) > _LONGEST_PLAIN_KEY:
                    lines.append(f"? {name}")
                    name = ""
                lines += _entry(f"{name}:", item)
        case list() | tuple() if obj:
            for item in obj:
                lines += _entry("-", item)
        case _:
            lines.append(_scalar(obj))
    return lines


def _entry(head: str, item: object) -> list[str]:
    """The lines of a value behind its key or its dash."""
    match item:
        case Mapping() | list() | tuple() if item:
            block = _block(item)
            if head == "-":
                return [f"- {block[0]}", *_indented(block[1:])]
            # Like kubectl, a list is not indented below its key.
            return [head, *(_indented(block) if isinstance(item, Mapping) else block)]
        case str() if "\n" in item and _may_be_literal(item):
            keep = "+" if item.endswith("\n\n") else "" if item.endswith("\n") else "-"
            indent = "2" if item[0].isspace() else ""
            return [f"{head} |{indent}{keep}", *_indented(item.removesuffix("\n").split("\n"))]
        case _:
            return [f"{head} {_scalar(item)}"]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]


def _may_be_literal(text: str) -> bool:
    return not text.isspace() and all(char in "\n\t" or char.isprintable() for char in text)


def _scalar(obj: object) -> str:
    match obj:
        case None:
            return "null"
        case bool():
            return "true" if obj else "false"
        case str():
            return _string(obj)
        case int():
            return str(obj)
        case float() if math.isfinite(obj):
            return repr(obj)
        case float():
            raise ValueError(f"{obj} cannot be said in JSON")
        case Mapping():
            return "{}"
        case list() | tuple():
            return "[]"
        case _:
            raise TypeError(f"{type(obj).__name__} cannot be said in JSON")


@short_cache(1 << 14)
def _string(text: str) -> str:
    """A string, in quotes where it could be taken for anything else, by kubectl or by readers of YAML 1.1."""
    if (
        _PLAIN.fullmatch(text)
        and not _SYNTAX.search(text)
        and not _NUMBERLIKE.fullmatch(text)
        and resolve(text) is text
    ):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    if quoted.isprintable():
        return quoted
    return "".join(char if char.isprintable() else _escaped(char) for char in quoted)


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
