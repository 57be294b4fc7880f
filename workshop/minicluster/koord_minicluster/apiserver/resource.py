"""What is served: a `Resource` is one plural name in one group and version, with its schema and its strategy.

A `Strategy` holds what is particular to a kind: defaults that depend on other fields, validation beyond the schema,
what a create or update may not touch, which fields can be selected, which columns a table has. Everything else about
serving objects is the same for all kinds. Objects here are plain dicts, as decoded from JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from koord.api.machinery.object_schema import Schema
from koord_minicluster.apiserver.status import Cause

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. `cell` gives the value for one object; `now_s` is for ages."""

    name: str
    type: str
    cell: Callable[[Obj, float], object]
    format: str = ""
    priority: int = 0
    description: str = ""


def _nothing(_obj: Obj) -> None: ...


def _nothing_on_update(_new: Obj, _old: Obj) -> None: ...


def _valid(_obj: Obj) -> Sequence[Cause]:
    return ()


def _valid_update(_new: Obj, _old: Obj) -> Sequence[Cause]:
    return ()


def _begun(_new: Obj, _old: Obj | None, _dry_run: bool) -> Sequence[Cause]:
    return ()


def _no_fields(_obj: Obj) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """A subresource that has the form of the whole object and updates one part of it."""

    prepare: Callable[[Obj, Obj], None]
    "Carries over all that a write through it may not change (new, old)."
    validate: Callable[[Obj, Obj], Sequence[Cause]]


@dataclass(frozen=True, slots=True)
class MetadataChecks:
    """When an object's metadata are looked at by the rules of its kind, besides those for all kinds."""

    of_new: bool = True
    of_generated: bool = True
    "Whether the base of a generated name is judged too."
    of_change: bool = True
    "At updates, as a change."
    of_changed: bool = True
    "At updates, as the object that comes of it."
    of_object_first: bool = False
    "Whether the object is judged before the change."
    of_status_change: bool = True
    of_status: bool = False
    "At updates of the status, as the object that comes of it."
    of_finalizers: bool = True
    "Whether finalizers must have a domain, whenever one of these looks."


@dataclass(frozen=True, slots=True)
class Strategy:
    """What is particular to a kind. Every function does nothing by default; `default` and `prepare_*` change objects in
    place."""

    default: Callable[[Obj], None] = _nothing
    "Fills in defaults that the schema cannot say."
    begin: Callable[[Obj, Obj | None, bool], Sequence[Cause]] = _begun
    "Allots what the server has to give, before all checks; what it finds is told alone (new, old, if a rehearsal)."
    end: Callable[[str], None] | None = None
    "Takes back what was allotted to a write that was not stored; follows every `begin` (the object's uid)."
    prepare_create: Callable[[Obj], None] = _nothing
    "Drops what a creator may not set (status, for most)."
    prepare_update: Callable[[Obj, Obj], None] = _nothing_on_update
    "Carries over what an update of the main resource may not change (new, old)."
    prepare_status: Callable[[Obj, Obj], None] = _nothing_on_update
    "Carries over what an update of the status may not change, beyond spec and metadata (new, old)."
    validate: Callable[[Obj], Sequence[Cause]] = _valid
    "What must hold of an object always: asked at creation and at updates of the main resource."
    validate_metadata: Callable[[Obj], Sequence[Cause]] | None = None
    "What of `validate` looks at metadata: enough where an update changes nothing else. None: all of it may."
    validate_create: Callable[[Obj], Sequence[Cause]] = _valid
    "What must hold of a new object besides."
    validate_update: Callable[[Obj, Obj], Sequence[Cause]] = _valid_update
    validate_status: Callable[[Obj, Obj], Sequence[Cause]] = _valid_update
    metadata_checks: MetadataChecks = field(default_factory=MetadataChecks)
    judges_twice: bool = False
    "Whether the real server calls its checks of a changed object twice, and so tells its faults."
    judges_change_first: bool = False
    "Whether `validate_update` speaks before `validate`."
    when_read: Callable[[Obj], bool] | None = None
    "Fills in what an object has only once it was stored and read again; whether there was anything."
    partial_updates: Mapping[str, PartialUpdate] = field(default_factory=dict)
    "Subresources besides status that have the form of the whole object, by name."
    fields: Callable[[Obj], Mapping[str, str]] = _no_fields
    "Selectable fields beyond metadata.name and metadata.namespace, with their values."
    selectable: frozenset[str] | None = None
    "Those of the fields that may be asked for, where not all: versions of a kind share an index, not the names."
    columns: tuple[Column, ...] = ()
    warnings: Callable[[Obj], Sequence[str]] = field(default=lambda _obj: ())
    warns_again: Callable[[Obj, Obj], bool] = field(default=lambda _new, _old: True)
    "Whether an update is worth the warnings too (new, old)."
    name_fault: Callable[[str], str | None] | None = None
    "Why a name is not valid for this kind; a DNS subdomain where None."
    has_status: bool = True
    "Whether status is a subresource, so that the main resource ignores it."
    has_generation: bool = True
    "Whether metadata.generation counts changes of the spec."
    allow_create_on_update: bool = False
    unconditional_update: bool = True
    "Whether an update without resourceVersion is taken."
    awaits: Callable[[Obj], bool] = field(default=lambda _obj: False)
    "Whether the deletion of an object waits for more than its finalizers (a namespace: for its content)."
    on_deletion: Callable[[Obj], None] = _nothing
    "Changes an object that begins to be deleted (a namespace: its phase)."
    has_dependents: bool = True
    "Whether other objects may go with one of this kind; if not, what a delete says of them is ignored."
    checks_preconditions_first: bool = False
    "Whether a delete that is meant for another object is refused in the words of the store."
    orphans_by_default: bool = False
    "Whether a delete that does not say leaves the object's dependents alone."
    orphaning_warning: str = ""
    "Warns of that, where the kind does."
    blank: Callable[[Obj], None] = _nothing
    "Completes the object without content that a bookmark shows."
    returns_deleted: bool = False
    "Whether a delete answers with the object that is gone rather than with a Status."
    graceful: Callable[[Obj, int | None], int] | None = None
    "The grace period of a delete: seconds left to the object, 0 to remove it at once (obj, asked for)."


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    schema: Schema
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = (
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    )  # fmt: skip
    subresources: frozenset[str] = frozenset()
    "status, scale, binding, eviction, log, finalize, token, approval, ephemeralcontainers, resize, ..."
    strategy: Strategy = field(default_factory=Strategy)
    storage: str = ""
    "The collection its objects are kept in; versions of a kind share one."
    storage_version: str = ""
    "The apiVersion in which objects are kept; `version` where empty."
    custom: bool = False
    "Defined by a CustomResourceDefinition: lists name each item's kind, unknown fields are pruned."
    convert: Callable[[Obj, str], Obj] | None = None
    "An object as another apiVersion of the same kind; None where versions differ in name only."
    versions: Mapping[str, Schema] | None = None
    "Of a kind that a definition may serve in several versions: each apiVersion's schema."
    scale_paths: Mapping[str, str] = field(default_factory=dict)
    "Of the scale subresource: specReplicas, statusReplicas, labelSelector, as JSON paths."
    deprecation: str = ""
    "Warns of every use of this version, where it is deprecated."

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def kind_group(self) -> str:
        """The group that the kind belongs to: that of the version in which objects are kept."""
        return (self.storage_version or self.api_version).rpartition("/")[0]

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def collection(self) -> str:
        return self.storage or (f"{self.plural}.{self.group}" if self.group else self.plural)

    def key(self, namespace: str, name: str) -> str:
        """The object's key in its collection. Sorts as the real server lists: by namespace, then name."""
        return f"{namespace}/{name}" if self.namespaced else name
