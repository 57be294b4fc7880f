"""Manifests: files, folders or text that hold Kubernetes objects, read into typed objects.

Each object comes with its plain data, which has the fields that the lean types leave out. Nothing raises: what is
wrong is listed, each fault with file, document, object and field, so that one broken file hides no other fault.
Kinds that koord does not know are counted and passed over, since folders of manifests are full of them; files of
configuration that lie among manifests are kept as plain data, for `koord.api.configuration.config_file` to read.

The types here are lean, so they cannot tell a misspelt field from one that koord does not read: `read` takes a function
that can (`misnamed`). An object with a uid comes from a cluster, which checked it. A field that is unknown there may
be newer than koord: it gets a warning, unless `strict`.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, get_type_hints

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.machinery.codec import describe, encode
from koord.api.machinery.faults import Fault, Invalid, check, join
from koord.api.machinery.struct import Struct
from koord.api.protocol.misspelt_keys import misspelt_keys
from koord.api.text.yaml import YamlError, load_all

STDIN: Final = "-"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_PARTS_KEPT: Final = 1 << 13
_CONFIGURATIONS: Final = ("KubeSchedulerConfiguration", "DeschedulerConfiguration", "DeschedulerPolicy")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the input something stands. Documents are counted from 1; empty ones do not count."""

    source: str
    document: int = 0
    object: str = ""

    def __str__(self) -> str:
        document = f"document {self.document}" if self.document else ""
        return ", ".join(part for part in (self.source, document, self.object) if part)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the input, and where."""

    place: Place
    fault: Fault

    def __str__(self) -> str:
        return f"{self.place}: {self.fault}"


@dataclass(slots=True)
class Manifest:
    """One object: typed, and as plain data."""

    kind: Kind[Any]
    object: Struct
    data: Mapping[str, Any]
    source: str
    document: int

    @classmethod
    def of(cls, kind: Kind[Any], data: Mapping[str, Any], source: str, document: int) -> Manifest:
        """Raises Invalid with every fault of the object."""
        return cls(kind, _typed(kind, data), data, source, document)

    @property
    def place(self) -> Place:
        return Place(self.source, self.document, describe(self.data, ""))

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone."""
        key: str = self.object.metadata.key  # type: ignore[attr-defined]
        return key


@dataclass(frozen=True, slots=True)
class Scaled:
    """An object of a kind that koord does not know, which says in `spec.replicas` how many pods it wants."""

    api_version: str
    kind: str
    key: str
    replicas: int


@dataclass(frozen=True, slots=True)
class Manifests:
    """What was read. An object that was given twice is there as given last, with a warning."""

    items: tuple[Manifest, ...]
    faults: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    unknown: Mapping[str, int]
    "How many objects were passed over, by `apiVersion kind`."
    configurations: tuple[tuple[Place, Mapping[str, Any]], ...] = ()
    unknown_places: tuple[Place, ...] = ()
    "Where those are that were passed over."
    scaled: tuple[Scaled, ...] = ()
    "Those among them that say how many pods they want."

    def of(self, kind: Kind[Any]) -> list[Any]:
        """The typed objects of one kind, in the order of the input."""
        return [item.object for item in self.items if item.kind is kind]

    def with_items(self, items: Iterable[Manifest]) -> Manifests:
        """The same with other objects."""
        return replace(self, items=tuple(items))

    def require_valid(self) -> Manifests:
        """The same, or Invalid with every fault."""
        if self.faults:
            raise Invalid("manifests", [Fault(str(problem.place), str(problem.fault)) for problem in self.faults])
        return self


Misnamed: TypeAlias = Callable[[Mapping[str, Any]], Iterable[Fault]]
"""Fields of an object that its kind does not have."""


def _nothing_misnamed(data: Mapping[str, Any]) -> Iterable[Fault]:
    return ()


def parse(
    text: str,
    source: str,
    *,
    namespace: str = "default",
    misnamed: Misnamed = _nothing_misnamed,
    strict: bool = False,
) -> Manifests:
    """The objects in a YAML or JSON text. `namespace` is that of objects which name none."""
    reader = _Reader(namespace, misnamed, strict)
    reader.text(text, source)
    return reader.result()


def read(
    paths: Iterable[str | Path],
    *,
    namespace: str = "default",
    reading: Callable[[str], None] = lambda file: None,
    misnamed: Misnamed = _nothing_misnamed,
    strict: bool = False,
) -> Manifests:
    """The objects in files, in all YAML and JSON files below folders, and on standard input (`-`).

    `reading` is called with each file before it is read.
    """
    reader = _Reader(namespace, misnamed, strict)
    # Objects pile up and none is garbage, which the collector would find out again and again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        _read(reader, paths, reading)
    finally:
        if collecting:
            gc.enable()
    return reader.result()


def _read(reader: _Reader, paths: Iterable[str | Path], reading: Callable[[str], None]) -> None:
    for path in paths:
        if str(path) == STDIN:
            reading("standard input")
            reader.text(sys.stdin.read(), "standard input")
            continue
        files = list(_files(Path(path)))
        if not files:
            nothing = f"has no manifests: none of its files ends in {', '.join(_SUFFIXES)}"
            reader.warnings.append(Problem(Place(str(path)), Fault("", nothing)))
        for file in files:
            reading(str(file))
            try:
                text = file.read_bytes().decode("utf-8-sig")
            except OSError as error:
                reader.fault(Place(str(file)), Fault("", f"cannot be read: {error.strerror or error}"))
            except UnicodeDecodeError as error:
                reader.fault(Place(str(file)), Fault("", f"is not UTF-8 text (byte {error.start})"))
            else:
                reader.text(text, str(file))


def _files(path: Path) -> Iterator[Path]:
    """A file itself; of a folder, the manifests in it and below, but not in hidden folders. In a stable order."""
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        if file.suffix in _SUFFIXES and not hidden and file.is_file():
            yield file


class _Reader:
    def __init__(self, namespace: str, misnamed: Misnamed, strict: bool) -> None:
        self.namespace, self.misnamed, self.strict = namespace, misnamed, strict
        self.items: dict[tuple[Kind[Any], str], Manifest] = {}
        self.faults: list[Problem] = []
        self.warnings: list[Problem] = []
        self.unknown: Counter[str] = Counter()
        self.configurations: list[tuple[Place, Mapping[str, Any]]] = []
        self.unknown_places: list[Place] = []
        self.scaled: list[Scaled] = []

    def result(self) -> Manifests:
        return Manifests(
            tuple(self.items.values()),
            tuple(self.faults),
            tuple(self.warnings),
            dict(self.unknown),
            tuple(self.configurations),
            tuple(self.unknown_places),
            tuple(self.scaled),
        )

    def fault(self, place: Place, fault: Fault) -> None:
        self.faults.append(Problem(place, fault))

    def text(self, text: str, source: str) -> None:
        try:
            documents = load_all(text, source)
        except YamlError as error:
            self.fault(Place(f"{source}:{error.line}:{error.column}"), Fault("", error.problem))
            return
        for number, document in enumerate(documents, 1):
            self.document(document, source, number, "")

    def document(self, data: object, source: str, number: int, path: str) -> None:
        """One object, or a list of them (`path` is where it stands in the document)."""
        if not isinstance(data, dict):
            self.fault(Place(source, number), Fault(path, "must be an object with apiVersion and kind"))
            return
        api_version, name = data.get("apiVersion"), data.get("kind")
        if not (isinstance(api_version, str) and api_version and isinstance(name, str) and name):
            self.fault(Place(source, number, describe(data, "")), _type_fault(data).under(path))
        elif name.endswith("List") and isinstance(data.get("items", []) or [], list):
            # Items of a typed list need not repeat what the list says.
            implied = {} if name == "List" else {"apiVersion": api_version, "kind": name[:-4]}
            for index, item in enumerate(data.get("items") or []):
                whole = {**implied, **item} if implied and isinstance(item, dict) else item
                self.document(whole, source, number, join(path, f"items[{index}]"))
        else:
            kind = kinds.find(api_version, name)
            if kind is None and name in _CONFIGURATIONS:
                self.configurations.append((Place(source, number, describe(data, "")), data))
            elif kind is None:
                place, others = Place(source, number, describe(data, "")), kinds.versions_of(name)
                if others and not self.unknown[f"{api_version} {name}"]:
                    said = f"{api_version} is ignored: koord reads {name} of {' and '.join(others)}"
                    self.warnings.append(Problem(place, Fault("apiVersion", said).under(path)))
                self.unknown[f"{api_version} {name}"] += 1
                self.unknown_places.append(place)
                self.names(data, place, path)
                self.scaled += _scaled(data, self.namespace)
            else:
                self.object(kind, data, source, number, path)

    def names(self, data: dict[str, Any], place: Place, path: str) -> None:
        """What is wrong with the names of an object's fields."""
        metadata = data.get("metadata")
        is_from_cluster = isinstance(metadata, dict) and bool(metadata.get("uid"))
        where = self.warnings if is_from_cluster and not self.strict else self.faults
        where += (Problem(place, fault.under(path)) for fault in self.misnamed(data))
        # Another program may read the key: no reason to refuse the object.
        where = self.faults if self.strict else self.warnings
        where += (Problem(place, fault.under(path)) for fault in _misspelt_keys(data))

    def object(self, kind: Kind[Any], data: dict[str, Any], source: str, number: int, path: str) -> None:
        if kind.namespaced:
            data = _with_namespace(data, self.namespace)
        self.names(data, Place(source, number, describe(data, "")), path)
        try:
            typed = _typed(kind, data)
        except Invalid as error:
            place = Place(source, number, describe(data, ""))
            self.faults += (Problem(place, fault.under(path)) for fault in error.faults)
            return
        manifest = Manifest(kind, typed, data, source, number)
        metadata = typed.metadata
        if not metadata.name:
            if not metadata.generate_name:
                self.fault(manifest.place, Fault("metadata.name", "is required").under(path))
                return
            key = f"{metadata.namespace}/{metadata.generate_name}#{len(self.items)}"
        else:
            key = metadata.key
        earlier = self.items.pop((kind, key), None)
        if earlier is not None:
            self.warnings.append(Problem(manifest.place, Fault(path, f"replaces the same object in {earlier.place}")))
        self.items[kind, key] = manifest


def _misspelt_keys(data: Mapping[str, Any]) -> Iterator[Fault]:
    """Of an object and of its pod template."""
    spec = data.get("spec")
    template = spec.get("template") if isinstance(spec, Mapping) else None
    for path, owner in (("metadata", data), ("spec.template.metadata", template)):
        meta = owner.get("metadata") if isinstance(owner, Mapping) else None
        if isinstance(meta, Mapping):
            yield from misspelt_keys(meta, path)


def _type_fault(data: Mapping[str, Any]) -> Fault:
    """What is wrong with an apiVersion or kind."""
    field = "kind" if isinstance(data.get("apiVersion"), str) and data["apiVersion"] else "apiVersion"
    if field not in data:
        return Fault(field, "is required")
    return Fault(field, f"must be a string, not {str(data[field])[:60]!r}")


def _with_namespace(data: dict[str, Any], namespace: str) -> dict[str, Any]:
    metadata = data.get("metadata")
    if metadata is None or (isinstance(metadata, dict) and not metadata.get("namespace")):
        return {**data, "metadata": {**(metadata or {}), "namespace": namespace}}
    return data


def _scaled(data: Mapping[str, Any], namespace: str) -> list[Scaled]:
    meta, spec = data.get("metadata"), data.get("spec")
    replicas = spec.get("replicas", 1) if isinstance(spec, dict) and "template" in spec else None
    if not isinstance(meta, dict) or not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        return []
    key = f"{meta.get('namespace') or namespace}/{meta.get('name', '')}"
    return [Scaled(data["apiVersion"], data["kind"], key, replicas)]


def _typed(kind: Kind[Any], data: Mapping[str, Any]) -> Any:
    """The typed object, or Invalid with every fault."""
    return _Parts.of(kind.type).typed(data) or check(kind.type, data, kind.kind, allow_unknown=True)


class _Parts:
    """A type whose objects are made part by part: those of one template have equal specs, which are looked at once."""

    _of_type: ClassVar[dict[type, _Parts]] = {}

    def __init__(self, type_: type[Struct]) -> None:
        hints = get_type_hints(type_, include_extras=True)
        names = zip(type_.__struct_fields__, type_.__struct_encode_fields__, strict=True)
        self._type = type_
        self._fields = {encoded: (name, hints[name]) for name, encoded in names}
        self._known: dict[tuple[str, bytes], Any] = {}

    @classmethod
    def of(cls, type_: type[Struct]) -> _Parts:
        parts = cls._of_type.get(type_)
        if parts is None:
            parts = cls._of_type[type_] = cls(type_)
        return parts

    def typed(self, data: Mapping[str, Any]) -> Struct | None:
        """The typed object; None where something is wrong with it."""
        parts = {}
        try:
            for encoded, value in data.items():
                field = self._fields.get(encoded)
                if field is not None and value is not None:
                    name, type_ = field
                    parts[name] = self._part(encoded, type_, value)
            return self._type(**parts)
        except (Invalid, TypeError, ValueError, ArithmeticError, RecursionError):
            return None

    def _part(self, encoded: str, type_: Any, value: object) -> Any:
        if encoded == "metadata":
            return check(type_, value, encoded, allow_unknown=True)
        name = encoded, encode(value)
        part = self._known.get(name)
        if part is None:
            if len(self._known) >= _PARTS_KEPT:
                self._known.clear()
            part = self._known[name] = check(type_, value, encoded, allow_unknown=True)
        return part
