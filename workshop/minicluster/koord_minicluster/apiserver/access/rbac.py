"""RBAC: may this user do that?

Roles and bindings are kept parsed and indexed by subject as they change, so a question costs a look at the bindings of
the user and their groups, never at all bindings. The rules of an aggregated ClusterRole are those of the roles it
selects, worked out when first asked for. A denial tells which bindings point to roles that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from koord.api.kubernetes.access import MASTERS, Access, UserInfo, service_account_user
from koord.api.text.selector import NOTHING, LabelMatcher, LabelSelector, SelectorError, compile_labels
from koord_minicluster.apiserver.access.rules import RbacRule, missing, parse_rules, quoted
from koord_minicluster.apiserver.status import StatusError, qualified
from koord_minicluster.apiserver.store import Change, Collection

__all__ = ["Access", "Authorizer", "refused"]

GROUP: Final = "rbac.authorization.k8s.io"
RoleKind = Literal["Role", "ClusterRole"]
Key = tuple[str, str]
"""(namespace, name); the namespace of what has none is empty."""


@dataclass(frozen=True, slots=True)
class _Role:
    name: str
    labels: Mapping[str, str]
    rules: tuple[RbacRule, ...]
    aggregates: tuple[LabelMatcher, ...]


@dataclass(frozen=True, slots=True)
class _Binding:
    key: Key
    role_kind: str
    role_name: str
    subjects: tuple[tuple[str, str], ...]
    "(index key, as an explanation shows it)"

    def reason_for(self, subject: str) -> str:
        kind = "RoleBinding" if self.key[0] else "ClusterRoleBinding"
        name = f"{self.key[1]}/{self.key[0]}" if self.key[0] else self.key[1]
        shown = next(shown for index_key, shown in self.subjects if index_key == subject)
        return f'{kind} "{name}" of {self.role_kind} "{self.role_name}" to {shown}'


class Authorizer:
    """Answers whether users may do things. Feed it with `follow`, or `put` and `remove`."""

    def __init__(self) -> None:
        self._roles: dict[tuple[str, Key], _Role] = {}
        self._bindings: dict[Key, _Binding] = {}
        self._by_subject: dict[tuple[str, str], dict[Key, _Binding]] = {}
        "Bindings by (subject, namespace of the binding)."
        self._aggregated: dict[str, tuple[RbacRule, ...]] = {}

    def follow(self, kind: str, collection: Collection) -> None:
        """Take in the objects of a collection (all of one kind of role or binding), now and as they change."""
        for entry in collection.entries():
            self.put(kind, msgspec.json.decode(entry.value))

        def changed(event: Change) -> None:
            obj = msgspec.json.decode(event.entry.value)
            if event.type == "DELETED":
                self.remove(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            else:
                self.put(kind, obj)

        collection.listeners.append(changed)

    def put(self, kind: str, obj: Mapping[str, Any]) -> None:
        meta = obj["metadata"]
        key = (meta.get("namespace") or "", meta["name"])
        if kind in ("Role", "ClusterRole"):
            selectors = tuple(_selectors(obj.get("aggregationRule") or {}))
            self._roles[kind, key] = _Role(key[1], meta.get("labels") or {}, parse_rules(obj.get("rules")), selectors)
            self._aggregated.clear()
            return
        self.remove(kind, *key)
        ref = obj["roleRef"]
        subjects = tuple(_subjects(obj.get("subjects") or (), key[0]))
        self._bindings[key] = binding = _Binding(key, ref["kind"], ref["name"], subjects)
        for subject, _ in subjects:
            self._by_subject.setdefault((subject, key[0]), {})[key] = binding

    def remove(self, kind: str, namespace: str, name: str) -> None:
        key = (namespace, name)
        if kind in ("Role", "ClusterRole"):
            self._roles.pop((kind, key), None)
            self._aggregated.clear()
            return
        binding = self._bindings.pop(key, None)
        for subject, _ in binding.subjects if binding else ():
            held = self._by_subject.get((subject, namespace), {})
            held.pop(key, None)
            if not held:
                self._by_subject.pop((subject, namespace), None)

    def allowed(self, user: UserInfo, access: Access) -> tuple[bool, str]:
        """Whether the user may, and why (or, of a denial, which roles could not be found)."""
        if MASTERS in user.groups:
            return True, ""
        faults: list[str] = []
        for binding, subject in self._bindings_of(user, access.namespace if access.resource else ""):
            rules = self.role_rules(binding.role_kind, binding.role_name, binding.key[0])
            if rules is None:
                faults.append(_role_not_found(binding.role_kind, binding.role_name))
                continue
            for rule in rules:
                if rule.allows(access):
                    return True, f"RBAC: allowed by {binding.reason_for(subject)}"
        return False, f"RBAC: {aggregate(faults)}" if faults else ""

    def rules_for(self, user: UserInfo, namespace: str) -> tuple[list[RbacRule], list[str]]:
        """All rules that apply to a user in a namespace (and cluster-wide), and what could not be resolved."""
        rules: list[RbacRule] = []
        faults: list[str] = []
        for binding, _ in self._bindings_of(user, namespace):
            role = self.role_rules(binding.role_kind, binding.role_name, binding.key[0])
            if role is None:
                faults.append(_role_not_found(binding.role_kind, binding.role_name))
            else:
                rules += role
        return rules, faults

    def role_rules(self, kind: str, name: str, namespace: str) -> tuple[RbacRule, ...] | None:
        """The rules of a role as a binding in `namespace` refers to it; None where there is none."""
        role = self._roles.get((kind, (namespace if kind == "Role" else "", name)))
        if role is None:
            return None
        if not role.aggregates:
            return role.rules
        if name not in self._aggregated:
            self._aggregated[name] = self._aggregate(role)
        return self._aggregated[name]

    def unheld(self, user: UserInfo, namespace: str, wanted: Iterable[RbacRule]) -> str:
        """Why a user may not grant `wanted` in a namespace: what they do not hold themselves. Empty if they may."""
        held, faults = self.rules_for(user, namespace)
        lacking = missing(held, wanted)
        if not lacking:
            return ""
        listed = "\n".join(sorted({str(rule) for rule in lacking}))
        problems = f"; resolution errors: [{' '.join(faults)}]" if faults else ""
        return (
            f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC permissions not currently '
            f"held:\n{listed}{problems}"
        )

    def _bindings_of(self, user: UserInfo, namespace: str) -> Iterator[tuple[_Binding, str]]:
        """The bindings of a user, cluster-wide ones first, each once, with the subject that it was found by."""
        subjects = [f"User:{user.name}", *(f"Group:{group}" for group in user.groups)]
        for scope in ("", namespace) if namespace else ("",):
            seen: set[Key] = set()
            for subject in subjects:
                for key, binding in self._by_subject.get((subject, scope), {}).items():
                    if key not in seen:
                        seen.add(key)
                        yield binding, subject

    def _aggregate(self, role: _Role) -> tuple[RbacRule, ...]:
        rules: dict[RbacRule, None] = {}
        selected, pending = {role.name}, [role]
        while pending:
            for selector in pending.pop().aggregates:
                for (kind, _), other in self._roles.items():
                    if kind == "ClusterRole" and other.name not in selected and selector.matches(other.labels):
                        selected.add(other.name)
                        if other.aggregates:
                            pending.append(other)
                        else:
                            rules.update(dict.fromkeys(other.rules))
        return tuple(rules)


def refused(user: UserInfo, access: Access, why: str = "") -> StatusError:
    """403, in the real server's words."""
    detail = f": {why}" if why else ""
    if not access.resource:
        message = f'forbidden: User "{_plain(user.name)}" cannot {access.verb} path "{_plain(access.path)}"{detail}'
        return StatusError(403, "Forbidden", message)
    what = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    scope = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    named = qualified(access.resource, access.group) + (f' "{access.name}"' if access.name else "")
    cannot = f'User "{user.name}" cannot {access.verb} resource "{what}" in API group "{access.group}" {scope}'
    return StatusError(
        403,
        "Forbidden",
        f"{named} is forbidden: {_plain(cannot)}{detail}",
        name=access.name,
        group=access.group,
        kind=access.resource,
    )


def aggregate(faults: list[str]) -> str:
    """Several errors in one text, as the real server joins them: each once, in brackets if more than one."""
    unique = list(dict.fromkeys(faults))
    return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"


def _selectors(aggregation: Mapping[str, Any]) -> Iterator[LabelMatcher]:
    for selector in aggregation.get("clusterRoleSelectors") or ():
        try:
            yield compile_labels(msgspec.convert(selector, LabelSelector), absent=NOTHING)
        except (msgspec.ValidationError, SelectorError):
            yield NOTHING  # Validation refuses these; one that slipped through selects no role.


def _subjects(subjects: Iterable[Mapping[str, Any]], namespace: str) -> Iterator[tuple[str, str]]:
    seen = set()
    for subject in subjects:
        kind, name = subject.get("kind"), subject.get("name", "")
        if kind == "ServiceAccount":
            where = subject.get("namespace") or namespace
            key, shown = f"User:{service_account_user(where, name)}", f'ServiceAccount "{name}/{where}"'
        elif kind in ("User", "Group"):
            key, shown = f"{kind}:{name}", f'{kind} "{name}"'
        else:
            continue
        if key not in seen:
            seen.add(key)
            yield key, shown


def _role_not_found(kind: str, name: str) -> str:
    return f'{kind.lower()}.{GROUP} "{name}" not found'


def _plain(text: str) -> str:
    """Nothing that a browser could take for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
