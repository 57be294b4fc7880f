"""Ownership of fields: updated on every write, and checked by server-side apply.

A writer owns the fields it changes, and other managers lose them (`track`). An applier owns the fields of its
configuration, which is merged into the live object. Fields that it no longer applies are removed unless another
manager owns them. Changing a field that another manager owns is a conflict unless forced (`apply`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from koord.api.machinery.object_schema import Schema
from koord.api.text import go_text
from koord_minicluster.apiserver.patch import fields, managers, merging, new_fields
from koord_minicluster.apiserver.patch.fields import Path, Set
from koord_minicluster.apiserver.patch.managers import Owned, Owner, Owners
from koord_minicluster.apiserver.patch.plan import Plan, Untyped, empty, root_plan
from koord_minicluster.apiserver.patch.reach import Reach, everything
from koord_minicluster.apiserver.resource import Obj
from koord_minicluster.apiserver.status import Cause, StatusError, bad_request

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE_FIRST_APPLY: Final = "before-first-apply"
LARGEST_ANNOTATIONS: Final = 256 * 1024
_NEVER_OWNED: Final[Set] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        "f:name": {},
        "f:namespace": {},
        "f:creationTimestamp": {},
        "f:selfLink": {},
        "f:uid": {},
        "f:clusterName": {},
        "f:generation": {},
        "f:managedFields": {},
        "f:resourceVersion": {},
    },
}


def track(
    live: Obj | None,
    new: Obj,
    *,
    manager: str,
    operation_api_version: str,
    schema: Schema,
    now: str,
    subresource: str = "",
    reach: Reach = everything,
    versions: Mapping[str, Schema] | None = None,
) -> None:
    """Sets `new`'s managedFields after a create, update or patch by `manager`.

    `reach` says which fields this kind of write can change (not the status, or through the status not the spec): the
    others are not owned by it, whatever it sent. `versions` are those in which the kind is served, where there may be
    several: owners in another one are dropped.
    """
    meta = new.get("metadata")
    if not isinstance(meta, dict):
        return
    live_entries = (live.get("metadata") or {}).get("managedFields") if live else None
    # Patches share what they do not change: the live object's metadata may be this one.
    new["metadata"] = meta = dict(meta)
    sent = meta.pop("managedFields", None)
    decoded = _owners_before(live_entries, sent, bool(subresource))
    if live and not decoded:
        # An object whose ownership was given up stays without until someone applies.
        return
    plan = root_plan(schema)
    owners = _current(decoded, plan, schema, versions)
    writer = owner_of(manager, operation_api_version, subresource)
    try:
        if not live and not owners:
            after = _created(plan, schema, new, reach, writer, now)
        else:
            changes = _changes(plan, live if live else empty(schema), new, reach)
            if versions and live:
                _check_versions(owners, writer, versions, live, new)
            after = _updated(owners, changes, writer, now)
    except (Untyped, TypeError, AttributeError, RecursionError):
        # As the real server does: rather no ownership than a wrong one. Whether the object is valid others decide.
        return
    if after is decoded and sent == live_entries and live_entries:
        meta["managedFields"] = live_entries
    elif after:
        meta["managedFields"] = managers.encode(managers.capped(after))


def _check_versions(owners: Owners, writer: Owner, versions: Mapping[str, Schema], old: Obj, new: Obj) -> None:
    """Raises Untyped where an object cannot be shown in the version of an owner: what it owns is not known then."""
    for version in {owned.api_version for owner, owned in owners.items() if owner != writer} - {writer.api_version}:
        for which, obj in (("old", old), ("new", new)):
            try:
                merging.check(root_plan(versions[version]), _without_managed_fields(obj))
            except Untyped as error:
                raise Untyped(f"failed to convert {which} object: {error}") from None


def _check_last(
    last: Owned | None, owners: Owners, applier: Owner, versions: Mapping[str, Schema], merged: Obj
) -> None:
    """Raises Untyped where an applied object cannot be shown in the version in which it was applied last."""
    if last is None or not last.fields:
        return
    others = {owned.api_version for owned in owners.values()} - {last.api_version, applier.api_version}
    last_version = [last.api_version] if last.api_version != applier.api_version else []
    for version in [*last_version, *sorted(others)]:
        try:
            merging.check(root_plan(versions[version]), merged)
        except Untyped as error:
            what = "failed add back owned items: failed to convert merged object at version " + version
            if version == last.api_version:
                what = "failed to convert merged object to last applied version"
            raise Untyped(f"failed to prune fields: {what}: {error}") from None


def owner_of(manager: str, api_version: str, subresource: str) -> Owner:
    return managers.owner_of(manager, "Update", api_version, subresource)


def _owners_before(live_entries: object, sent: object, of_subresource: bool) -> Owners:
    """The owners to start from: those that the writer sent, if it sent any that can be read, else the live ones."""
    if sent is None or of_subresource or sent == live_entries:
        return _readable(live_entries, trusted=True)
    if managers.is_reset(sent):
        return {}
    return _readable(sent) or _readable(live_entries, trusted=True)


def _readable(entries: object, *, trusted: bool = False) -> Owners:
    try:
        return managers.decode(entries, trusted=trusted)
    except (managers.MalformedOwners, fields.MalformedFields):
        return {}


def _current(owners: Owners, plan: Plan, schema: Schema, versions: Mapping[str, Schema] | None) -> Owners:
    """The owners in the light of the present schema and versions; custom kinds change theirs."""
    if versions is not None and not all(owned.api_version in versions for owned in owners.values()):
        owners = {owner: owned for owner, owned in owners.items() if owned.api_version in versions}
    if schema.ref:
        return owners
    result = {}
    for owner, owned in owners.items():
        current = merging.reconciled(plan, owned.fields)
        same = current == owned.fields
        result[owner] = owned if same else Owned(current, owned.api_version, owned.time)
    return owners if result == owners else result


def _changes(plan: Plan, old: Obj, new: Obj, reach: Reach) -> merging.Changes:
    old_meta = old.get("metadata")
    if old_meta and "managedFields" in old_meta:
        old = {**old, "metadata": {key: value for key, value in old_meta.items() if key != "managedFields"}}
    changes = merging.compare(plan, old, new)
    return merging.Changes(*map(reach, changes))


def _created(plan: Plan, schema: Schema, new: Obj, reach: Reach, writer: Owner, now: str) -> Owners:
    # The metadata must be a tree, since not all of them can be owned.
    added = new_fields.added(plan, {"metadata": {}, **empty(schema)}, new)
    own = fields.difference(reach(added), _NEVER_OWNED)
    return {writer: Owned(own, writer.api_version, now)} if own else {}


def _updated(owners: Owners, changes: merging.Changes, writer: Owner, now: str) -> Owners:
    if not any(changes):
        return owners
    written = fields.union(changes.modified, changes.added)
    result = _taken(owners, written, changes.removed)
    own = fields.difference(written, _NEVER_OWNED)
    if own:
        before = result.get(writer)
        if before is not None:
            own = fields.union(own, before.fields)
        result[writer] = Owned(own, writer.api_version, now)
    return result


def _taken(owners: Owners, written: Set, removed: Set, applier: Owner | None = None) -> Owners:
    """The owners after a write: each loses the fields that another manager set or removed."""
    result: Owners = {}
    for owner, owned in owners.items():
        if owner != applier:
            left = fields.difference(owned.fields, written) if written else owned.fields
            left = fields.difference(left, removed) if removed else left
            if not left:
                continue
            if left != owned.fields:
                owned = Owned(left, owned.api_version, owned.time)
        result[owner] = owned
    return result


class _Conflicts(Exception):
    def __init__(self, conflicts: list[tuple[Owner, Path]]) -> None:
        super().__init__()
        self.found = conflicts


def apply(
    live: Obj | None,
    applied: Obj,
    *,
    manager: str,
    force: bool,
    schema: Schema,
    api_version: str,
    now: str,
    subresource: str = "",
    kind: str = "",
    reach: Reach = everything,
    versions: Mapping[str, Schema] | None = None,
) -> Obj:
    """The object after a server-side apply, with its managedFields settled.

    `applied` is the configuration as sent, neither defaulted nor pruned. Raises 409 with a cause for each conflict,
    400 for a configuration that cannot be applied, 500 for one that does not have the kind's shape, as real servers do.
    """
    _check_applied(applied, api_version, kind)
    try:
        return _apply(live, applied, manager, force, schema, api_version, now, subresource, reach, versions)
    except RecursionError:
        raise bad_request(go_text.TOO_DEEP) from None


def _apply(
    live: Obj | None,
    applied: Obj,
    manager: str,
    force: bool,
    schema: Schema,
    api_version: str,
    now: str,
    subresource: str,
    reach: Reach,
    versions: Mapping[str, Schema] | None,
) -> Obj:
    plan = root_plan(schema)
    base = live if live else {"apiVersion": applied.get("apiVersion"), "kind": applied.get("kind"), **empty(schema)}
    entries = (base.get("metadata") or {}).get("managedFields")
    try:
        owners = managers.decode(entries, trusted=True)
    except managers.MalformedOwners as error:
        raise _failed(f"failed to decode managed fields: {error}") from error
    owners = _current(owners, plan, schema, versions)
    base = _without_managed_fields(base)
    applier = managers.owner_of(manager, "Apply", api_version, subresource)
    if not owners and live:
        first = owner_of(BEFORE_FIRST_APPLY, api_version, subresource)
        owners = _updated({}, _changes(plan, empty(schema), base, reach), first, now)
    try:
        merging.check(plan, applied)
    except Untyped as error:
        raise _failed(f"failed to create typed patch object ({_described(applied)}): {error}") from error
    try:
        new, after = _applied(plan, base, applied, owners, applier, api_version, force, reach, versions)
    except _Conflicts as conflicts:
        conflicts_left = conflicts.found
        if manager == "kubectl":
            conflicts_left = _beyond_last_applied(plan, base, conflicts_left, api_version)
        if conflicts_left:
            raise conflict_error(conflicts_left) from None
        new, after = _applied(plan, base, applied, owners, applier, api_version, True, reach, versions)
    except Untyped as error:
        raise _failed(str(error)) from error
    if new is not base and applier in after:
        after[applier] = Owned(after[applier].fields, api_version, now)
    meta = dict(new.get("metadata") or {})
    if manager == "kubectl" and (meta.get("annotations") or {}).get(LAST_APPLIED):
        meta["annotations"] = _with_last_applied(meta["annotations"], applied)
    if after:
        meta["managedFields"] = managers.encode(after)
    result: Obj = {**new, "metadata": meta}
    # In a built-in kind a null stands for nothing. Of a custom one, defaults and validation decide what it is.
    return _without_nulls(plan, result, live or {}) if schema.ref else result


def _without_nulls(plan: Plan, obj: Obj, live: Obj) -> Obj:
    """`obj` without nulls. Parts shared with the live object were cleaned when it was stored."""
    kept = {key for key, part in obj.items() if live.get(key) is part}
    cleaned = merging.without_nulls(plan, {key: part for key, part in obj.items() if key not in kept})
    return {key: obj[key] if key in kept else cleaned[key] for key in obj if key in kept or key in cleaned}


def _check_applied(applied: Obj, api_version: str, kind: str) -> None:
    group, _, version = str(applied.get("apiVersion") or "").rpartition("/")
    said = str(applied.get("kind") or "")
    if applied.get("apiVersion") != api_version or (kind and said != kind):
        raise bad_request(f"invalid object type: {group}/{version}, Kind={said}")
    if (applied.get("metadata") or {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def _described(obj: Obj) -> str:
    meta = obj.get("metadata") or {}
    group, _, version = str(obj.get("apiVersion")).rpartition("/")
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}; {group}/{version}, Kind={obj.get('kind')}"


def _failed(message: str) -> StatusError:
    return StatusError(500, "", message, details=False)


def _applied(
    plan: Plan,
    live: Obj,
    applied: Obj,
    owners: Owners,
    applier: Owner,
    api_version: str,
    force: bool,
    reach: Reach,
    versions: Mapping[str, Schema] | None,
) -> tuple[Obj, Owners]:
    """The merged object (`live` itself if nothing changed) and its owners. Raises _Conflicts."""
    try:
        merged: Obj = merging.merged(plan, live, applied)
    except Untyped as error:
        raise _failed(f"failed to merge config: {error}") from error
    said = reach(merging.field_set(plan, applied))
    last = owners.get(applier)
    after = dict(owners)
    after[applier] = Owned(said, api_version, last.time if last else None)
    if versions:
        _check_last(last, owners, applier, versions, merged)
    if last is not None and fields.difference(last.fields, said):
        merged = _pruned(plan, merged, last.fields, [owned.fields for owned in after.values()])
    if versions:
        _check_versions(owners, applier, versions, live, merged)
    changes = _changes(plan, live, merged, reach)
    written = fields.union(changes.modified, changes.added)
    if written and not force:
        _refuse_conflicts(after, applier, written)
    after = _taken(after, written, changes.removed, applier)
    own = fields.difference(said, _NEVER_OWNED)
    if own:
        after[applier] = Owned(own, api_version, after[applier].time)
    else:
        after.pop(applier, None)
    return (live if merging.equal(plan, merged, live) else merged), after


def _refuse_conflicts(owners: Owners, applier: Owner, written: Set) -> None:
    conflicts = []
    for owner in sorted(owners, key=Owner.identifier):
        if owner != applier:
            conflicts += [(owner, path) for path in fields.paths(fields.intersection(owners[owner].fields, written))]
    if conflicts:
        raise _Conflicts(conflicts)


def _pruned(plan: Plan, merged: Obj, last: Set, owned: list[Set]) -> Obj:
    """Without what the applier said last time and does not say now, unless someone owns it."""
    last = merging.named(plan, last)
    everything = merging.named(plan, merging.field_set(plan, merged))
    cut = merging.removed(plan, merged, last) or {}
    kept = merging.named(plan, merging.field_set(plan, cut))
    for one in owned:
        kept = fields.union(kept, merging.named(plan, one))
    cut = merging.removed(plan, merged, fields.difference(everything, kept)) or {}
    gone = fields.difference(everything, merging.named(plan, merging.field_set(plan, cut)))
    result: Obj = merging.removed(plan, merged, fields.intersection(gone, last)) or {}
    return result


def conflict_error(conflicts: list[tuple[Owner, Path]]) -> StatusError:
    """409, with a cause for each field that another owner has."""
    causes = [
        Cause(fields.show(path), "FieldManagerConflict", f"conflict with {owner.shown()}") for owner, path in conflicts
    ]
    if len(conflicts) == 1:
        ((owner, path),) = conflicts
        message = f"Apply failed with 1 conflict: conflict with {owner.shown()}: {fields.show(path)}"
    else:
        lines: list[str] = []
        said: Owner | None = None
        for owner, path in conflicts:
            if owner != said:
                lines.append(f"conflicts with {owner.shown()}:")
                said = owner
            lines.append(f"- {fields.show(path)}")
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", message, causes=causes)


def _beyond_last_applied(
    plan: Plan, live: Obj, conflicts: list[tuple[Owner, Path]], api_version: str
) -> list[tuple[Owner, Path]]:
    """The conflicts that remain for kubectl: it owns the unchanged fields that its own client-side apply had set."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return conflicts
    try:
        last = msgspec.json.decode(text)
        if not isinstance(last, dict) or last.get("apiVersion") != api_version:
            return conflicts
        merging.check(plan, last)
        said = merging.field_set(plan, last)
        for part in merging.compare(plan, last, live):
            said = fields.difference(said, part)
    except (msgspec.MsgspecError, Untyped):
        return conflicts
    return [(owner, path) for owner, path in conflicts if not fields.contains(said, path)]


def _with_last_applied(annotations: Mapping[str, str], applied: Obj) -> dict[str, str]:
    """Annotations with the record of client-side apply brought up to date, so that it can be gone back to."""
    config = applied
    meta = applied.get("metadata") or {}
    if LAST_APPLIED in (meta.get("annotations") or {}):
        kept = {key: value for key, value in meta["annotations"].items() if key != LAST_APPLIED}
        config = {**applied, "metadata": {**meta, "annotations": kept}}
    text = msgspec.json.encode(config, order="sorted").decode()
    for character, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(character, escape)
    result = {**annotations, LAST_APPLIED: text + "\n"}
    if sum(len(key.encode()) + len(value.encode()) for key, value in result.items()) > LARGEST_ANNOTATIONS:
        del result[LAST_APPLIED]
    return result


def _without_managed_fields(obj: Obj) -> Obj:
    meta = obj.get("metadata")
    if not meta or "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {key: value for key, value in meta.items() if key != "managedFields"}}


def paths_changed(schema: Schema, old: Obj, new: Obj) -> list[str]:
    """The fields that differ between two versions of an object, as messages name them."""
    changes = _changes(root_plan(schema), old, _without_managed_fields(new), everything)
    every = fields.union(fields.union(changes.removed, changes.modified), changes.added)
    return [fields.show(path) for path in fields.paths(fields.leaves(every))]
