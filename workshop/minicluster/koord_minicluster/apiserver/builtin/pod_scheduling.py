"""What a pod asks of its node and neighbours: affinity, tolerations, topology spread, gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, label_selector
from koord_minicluster.apiserver.remembering import remembering
from koord_minicluster.apiserver.status import duplicate, forbidden, invalid, not_supported, required

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WEIGHT: Final = "must be in the range 1-100"


def validate_scheduling(faults: Faults, spec: Part, path: str) -> None:
    if affinity := spec.get("affinity"):
        _affinity(faults, affinity, f"{path}.affinity")


@remembering
def _affinity(faults: Faults, affinity: Part, path: str) -> None:
    if node := affinity.get("nodeAffinity"):
        if (selector := node.get(_REQUIRED)) is not None:
            node_selector(faults, selector, f"{path}.nodeAffinity.{_REQUIRED}")
        for i, term in enumerate(node.get(_PREFERRED) or ()):
            where = f"{path}.nodeAffinity.{_PREFERRED}[{i}]"
            _weight(faults, term, where)
            _node_term(faults, term.get("preference") or {}, f"{where}.preference", any_value=True)
    for key in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(key) or {}
        for i, term in enumerate(part.get(_REQUIRED) or ()):
            _pod_term(faults, term, f"{path}.{key}.{_REQUIRED}[{i}]")
        for i, weighted in enumerate(part.get(_PREFERRED) or ()):
            where = f"{path}.{key}.{_PREFERRED}[{i}]"
            _weight(faults, weighted, where)
            _pod_term(faults, weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")


def _weight(faults: Faults, term: Part, path: str) -> None:
    weight = term.get("weight", 0)
    if not 1 <= weight <= 100:
        faults.append(invalid(f"{path}.weight", weight, _WEIGHT))


def node_selector(faults: Faults, selector: Part, path: str) -> None:
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        faults.append(required(f"{path}.nodeSelectorTerms", "must have at least one node selector term"))
    for i, term in enumerate(terms):
        _node_term(faults, term, f"{path}.nodeSelectorTerms[{i}]", any_value=False)


def _node_term(faults: Faults, term: Part, path: str, *, any_value: bool) -> None:
    for i, condition in enumerate(term.get("matchExpressions") or ()):
        _node_condition(faults, condition, f"{path}.matchExpressions[{i}]", any_value=any_value)
    for i, condition in enumerate(term.get("matchFields") or ()):
        _field_condition(faults, condition, f"{path}.matchFields[{i}]")


def _node_condition(faults: Faults, condition: Part, path: str, *, any_value: bool) -> None:
    operator, values = condition.get("operator", ""), condition.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            faults.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            faults.append(forbidden(f"{path}.values", text))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            faults.append(required(f"{path}.values", text))
    else:
        faults.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    add_all(faults, f"{path}.key", condition.get("key", ""), formats.label_key(condition.get("key", "")))
    if not any_value:
        for i, value in enumerate(values):
            add_all(faults, f"{path}.values[{i}]", value, formats.label_value(value))


def _field_condition(faults: Faults, condition: Part, path: str) -> None:
    operator, values = condition.get("operator", ""), condition.get("values") or ()
    if operator not in ("In", "NotIn"):
        faults.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        faults.append(required(f"{path}.values", text))
    if condition.get("key") != "metadata.name":
        faults.append(invalid(f"{path}.key", condition.get("key", ""), "not a valid field selector key"))
        return
    for i, value in enumerate(values):
        add_all(faults, f"{path}.values[{i}]", value, formats.dns_subdomain(value))


def _pod_term(faults: Faults, term: Part, path: str) -> None:
    label_selector(faults, term.get("labelSelector"), f"{path}.labelSelector")
    label_selector(faults, term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        add_all(faults, f"{path}.namespace", name, formats.dns_label(name))
    match_keys, mismatch_keys = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    _label_keys(faults, match_keys, mismatch_keys, term.get("labelSelector"), path)
    key = term.get("topologyKey", "")
    if not key:
        faults.append(required(f"{path}.topologyKey", "can not be empty"))
    add_all(faults, f"{path}.topologyKey", key, formats.label_key(key))


def _label_keys(
    faults: Faults, match_keys: Sequence[str], mismatch_keys: Sequence[str], selector: Part | None, path: str
) -> None:
    """Keys whose values a new pod's own labels give."""
    for name, keys in (("matchLabelKeys", match_keys), ("mismatchLabelKeys", mismatch_keys)):
        if keys and selector is None:
            text = "must not be specified when labelSelector is not set"
            faults.append(forbidden(f"{path}.{name}", text))
        elif keys:
            for i, key in enumerate(keys):
                add_all(faults, f"{path}.{name}[{i}]", key, formats.label_key(key))
    if match_keys and selector is not None:
        # The server adds one condition for each key itself; a second one is the author's.
        seen = set(selector.get("matchLabels") or {})
        for condition in selector.get("matchExpressions") or ():
            key = condition.get("key", "")
            if key in match_keys and key in seen:
                text = "exists in both matchLabelKeys and labelSelector"
                faults.append(invalid(f"{path}[{list(match_keys).index(key)}]", key, text))
            seen.add(key)
    for i, key in enumerate(match_keys):
        if key in mismatch_keys:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            faults.append(invalid(f"{path}.matchLabelKeys[{i}]", key, text))


def taint_effect(faults: Faults, effect: str, path: str) -> None:
    if effect not in _EFFECTS:
        faults.append(not_supported(path, effect, _EFFECTS))


@remembering
def validate_tolerations(faults: Faults, tolerations: Sequence[Part], path: str) -> None:
    for i, toleration in enumerate(tolerations):
        where = f"{path}[{i}]"
        key, value, effect = toleration.get("key", ""), toleration.get("value", ""), toleration.get("effect", "")
        operator = toleration.get("operator", "")
        if key:
            add_all(faults, f"{where}.key", key, formats.label_key(key))
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            faults.append(invalid(f"{where}.operator", operator, text))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            faults.append(invalid(f"{where}.effect", effect, text))
        if operator in ("Equal", ""):
            if texts := formats.label_value(value):
                faults.append(invalid(f"{where}.operator", value, ";".join(texts)))
        elif operator == "Exists":
            if value:
                faults.append(invalid(f"{where}.operator", value, "value must be empty when `operator` is 'Exists'"))
        else:
            listed = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
            faults.append(not_supported(f"{where}.operator", operator, listed))
        if effect:
            taint_effect(faults, effect, f"{where}.effect")


def validate_spread(faults: Faults, constraints: Sequence[Part], path: str) -> None:
    for i, constraint in enumerate(constraints):
        where = f"{path}[{i}]"
        skew, action = constraint.get("maxSkew", 0), constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            faults.append(invalid(f"{where}.maxSkew", skew, "must be greater than zero"))
        if not constraint.get("topologyKey"):
            faults.append(required(f"{where}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            faults.append(not_supported(f"{where}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
        pair = (constraint.get("topologyKey", ""), action)
        if any(
            (later.get("topologyKey", ""), later.get("whenUnsatisfiable", "")) == pair for later in constraints[i + 1 :]
        ):
            faults.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}"))
        if (domains := constraint.get("minDomains")) is not None:
            if domains <= 0:
                faults.append(invalid(f"{where}.minDomains", domains, "must be greater than zero"))
            if action != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                faults.append(invalid(f"{where}.minDomains", domains, text))
        for key in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(key)
            if policy is not None and policy not in ("Honor", "Ignore"):
                faults.append(not_supported(f"{where}.{key}", policy, ("Honor", "Ignore")))
        _label_keys(faults, constraint.get("matchLabelKeys") or (), (), constraint.get("labelSelector"), where)
        label_selector(faults, constraint.get("labelSelector"), f"{where}.labelSelector")


def validate_gates(faults: Faults, gates: Sequence[Part], path: str) -> None:
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = gate.get("name", "")
        add_all(faults, f"{path}[{i}]", name, formats.label_key(name))
        if name in seen:
            faults.append(duplicate(f"{path}[{i}]", name))
        seen.add(name)


def apply_label_keys(spec: Part, labels: Mapping[str, str]) -> None:
    """Write what matchLabelKeys stand for into the selectors of a new pod, in place."""
    affinity = spec.get("affinity") or {}
    for key in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(key) or {}
        terms = [weighted.get("podAffinityTerm") or {} for weighted in part.get(_PREFERRED) or ()]
        for term in (*terms, *(part.get(_REQUIRED) or ())):
            _add_conditions(term, "matchLabelKeys", "In", labels)
            _add_conditions(term, "mismatchLabelKeys", "NotIn", labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _add_conditions(constraint, "matchLabelKeys", "In", labels)


def _add_conditions(term: Part, keys: str, operator: str, labels: Mapping[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    for key in term.get(keys) or ():
        if key in labels:
            conditions = selector.setdefault("matchExpressions", [])
            conditions.append({"key": key, "operator": operator, "values": [labels[key]]})
