"""Label and node selectors: which objects are meant, told by their labels.

Two written forms, the string (`app=web,tier in (a,b),!canary`) and the struct in manifests, compile to one
immutable matcher. All requirements of a selector must hold. The rule to know: an *empty* selector matches everything,
an *absent* one matches nothing or everything depending on the field it is absent from, so callers say which. In a node
selector, one term must match, and an empty term matches no node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal, NoReturn

from msgspec import Meta

from koord.api.machinery.faults import BadInput, Fault
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.text.naming import label_key_fault, label_value_fault


class SelectorError(BadInput):
    """A selector that cannot be understood."""


def _check_key(key: object) -> None:
    fault = label_key_fault(key) if isinstance(key, str) else "must be a label key"
    if fault:
        raise SelectorError(fault)


def _check_value(value: object) -> None:
    fault = label_value_fault(value) if isinstance(value, str) else "must be a label value"
    if fault:
        raise SelectorError(fault)


LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def _check_operator(operator: object) -> None:
    if operator not in LABEL_OPERATORS:
        raise SelectorError(f"must be one of {', '.join(LABEL_OPERATORS)}, not {str(operator)[:60]!r}")


LabelKey = Annotated[str, Meta(extra={"check": _check_key})]
LabelValue = Annotated[str, Meta(extra={"check": _check_value})]
LabelOperator = Annotated[
    str, Meta(extra={"check": _check_operator}, extra_json_schema={"enum": list(LABEL_OPERATORS)})
]
"""Checked where a selector is written or compiled, and not where it is read: an object that is stored with an unknown
operator must not vanish as a whole."""


class LabelSelectorRequirement(Struct):
    """One condition on a label."""

    key: LabelKey
    "The label that the condition is about."
    operator: LabelOperator
    "How the label relates to the values. NotIn and DoesNotExist also hold where the label is absent."
    values: tuple[LabelValue, ...] = ()
    "What In and NotIn compare with, at least one. Exists and DoesNotExist take none."


class LabelSelector(Struct):
    """Chooses objects by their labels. All conditions must hold; without any, every object is chosen."""

    match_labels: Mapping[LabelKey, LabelValue] = EMPTY
    "Labels that must be present with exactly these values."
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    "Conditions on labels."


class NodeSelectorRequirement(Struct):
    """One condition on a node's label or field."""

    key: str
    "The label or field that the condition is about."
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    "How the label relates to the values. NotIn and DoesNotExist also hold where the label is absent."
    values: tuple[str, ...] = ()
    "What the operator compares with: one or more for In and NotIn, one integer for Gt and Lt, none for the others."


class NodeSelectorTerm(Struct):
    """Conditions that must all hold. A term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    "Conditions on the node's labels."
    match_fields: tuple[NodeSelectorRequirement, ...] = ()
    "Conditions on the node's fields: In or NotIn with one value, on metadata.name."


class NodeSelector(Struct):
    """Chooses nodes. One of the terms must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...]
    "The alternatives."


class Operator(StrEnum):
    """What can be said of a label, as the string form writes it."""

    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER = ">"
    LESS = "<"


OPERATORS: Final[Mapping[str, Operator]] = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER,
    "Lt": Operator.LESS,
}
"""Operators as manifests write them."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on the label `key`; `fault` says whether it is valid."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        label = labels.get(self.key)
        match self.operator:
            case Operator.EQUALS | Operator.DOUBLE_EQUALS | Operator.IN:
                return label is not None and label in self.values
            case Operator.NOT_EQUALS | Operator.NOT_IN:
                return label is None or label not in self.values
            case Operator.EXISTS:
                return label is not None
            case Operator.DOES_NOT_EXIST:
                return label is None
            case Operator.GREATER | Operator.LESS:
                number = None if label is None else _int64(label)
                bound = _int64(self.values[0])
                if number is None or bound is None:
                    return False
                return number > bound if self.operator is Operator.GREATER else number < bound

    def faults(self) -> Iterator[Fault]:
        """What is wrong with this requirement, by Kubernetes' rules."""
        wrong_key = label_key_fault(self.key)
        if wrong_key:
            yield Fault("key", f"{self.key!r}: {wrong_key}")
        match self.operator:
            case Operator.IN | Operator.NOT_IN:
                if not self.values:
                    yield Fault("values", f"{self.operator} needs at least one value")
            case Operator.EXISTS | Operator.DOES_NOT_EXIST:
                if self.values:
                    yield Fault("values", "must be empty where the label's mere presence is asked for")
            case Operator.GREATER | Operator.LESS:
                if len(self.values) != 1 or _int64(self.values[0]) is None:
                    yield Fault("values", f"{self.operator} needs exactly one value, an integer")
            case _:
                if len(self.values) != 1:
                    yield Fault("values", f"{self.operator} needs exactly one value")
        for i, value in enumerate(self.values):
            wrong_value = label_value_fault(value)
            if wrong_value:
                yield Fault(f"values[{i}]", f"{value!r}: {wrong_value}")

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case _:
                return f"{self.key}{self.operator}{','.join(self.values)}"


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """A compiled label selector. Its string parses to an equal one."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        for requirement in self.requirements:  # noqa: SIM110 - twice as fast as all(), and asked for every object
            if not requirement.matches(labels):
                return False
        return True

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


class _Nothing(LabelMatcher):
    __slots__ = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return False


EVERYTHING: Final = LabelMatcher()
NOTHING: Final[LabelMatcher] = _Nothing()
"""Matches no object. No string says so, hence it prints as an empty one."""


def compile_labels(selector: LabelSelector | None, *, absent: LabelMatcher) -> LabelMatcher:
    """The matcher for a selector in a manifest. `absent` is for no selector at all: NOTHING or EVERYTHING."""
    if selector is None:
        return absent
    _refuse(selector_faults(selector))
    return _matcher(requirement for _, requirement in _requirements(selector))


def selector_faults(selector: LabelSelector) -> list[Fault]:
    """All that is wrong with a selector, by path below it."""
    faults = [fault.under(path) for path, requirement in _requirements(selector) for fault in requirement.faults()]
    for i, expression in enumerate(selector.match_expressions):
        try:
            _check_operator(expression.operator)
        except SelectorError as error:
            faults.append(Fault(f"matchExpressions[{i}].operator", str(error)))
    return faults


def match_labels(labels: Mapping[str, str]) -> LabelMatcher:
    """The matcher for a plain map of labels: a Service's selector, a pod's nodeSelector. Unchecked."""
    return _matcher(Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items())


@dataclass(frozen=True, slots=True)
class _NodeTerm:
    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        return all(r.matches(labels) for r in self.labels) and all(r.matches(fields) for r in self.fields)


@dataclass(frozen=True, slots=True)
class NodeMatcher:
    """A compiled node selector."""

    terms: tuple[_NodeTerm, ...]

    def matches(self, labels: Mapping[str, str], name: str = "") -> bool:
        """Whether a node with these labels and this name is chosen."""
        fields = {"metadata.name": name}
        return any(term.matches(labels, fields) for term in self.terms)


def compile_nodes(selector: NodeSelector | NodeSelectorTerm) -> NodeMatcher:
    """The matcher for a node selector or one term of it."""
    terms = selector.node_selector_terms if isinstance(selector, NodeSelector) else (selector,)
    _refuse(node_selector_faults(selector))
    return NodeMatcher(
        tuple(
            _NodeTerm(
                tuple(map(_node_requirement, term.match_expressions)),
                tuple(map(_node_requirement, term.match_fields)),
            )
            for term in terms
            if term.match_expressions or term.match_fields
        )
    )


def node_selector_faults(selector: NodeSelector | NodeSelectorTerm) -> list[Fault]:
    """All that is wrong with a node selector, by path below it."""
    if isinstance(selector, NodeSelector):
        terms = enumerate(selector.node_selector_terms)
        return [fault.under(f"nodeSelectorTerms[{i}]") for i, term in terms for fault in node_selector_faults(term)]
    faults: list[Fault] = []
    for i, expression in enumerate(selector.match_expressions):
        faults += (fault.under(f"matchExpressions[{i}]") for fault in _node_requirement(expression).faults())
    for i, field in enumerate(selector.match_fields):
        at = f"matchFields[{i}]"
        if field.key != "metadata.name":
            faults.append(Fault(f"{at}.key", f"must be metadata.name, not {field.key!r}"))
        if field.operator not in ("In", "NotIn"):
            faults.append(Fault(f"{at}.operator", f"must be In or NotIn, not {field.operator}"))
        if len(field.values) != 1:
            faults.append(Fault(f"{at}.values", "must have exactly one element"))
    return faults


def parse_labels(text: str) -> LabelMatcher:
    """The matcher for a selector in string form. Empty text matches everything."""
    return _matcher(_Parser(text).requirements())


class _Parser:
    """Reads the string form. What is valid at each point goes into the error."""

    _TOKEN: Final = re.compile(r"==|!=|[=!<>(),]|[^=!<>(), \t\r\n]+")
    _SYMBOLS: Final = frozenset(("==", "!=", "=", "!", "<", ">", "(", ")", ","))
    _BINARY: Final = {str(op): op for op in Operator if op not in (Operator.EXISTS, Operator.DOES_NOT_EXIST)}

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = [*self._TOKEN.findall(text), ""]
        self.position = 0

    def requirements(self) -> Iterator[Requirement]:
        while self.peek() or self.position:  # after a comma, the end is a fault
            requirement = self.requirement()
            fault = next(requirement.faults(), None)
            if fault:
                raise SelectorError(f"label selector {self.text!r}: {fault.message}")
            yield requirement
            if not self.peek():
                return
            self.expect(",")

    def requirement(self) -> Requirement:
        if self.peek() == "!":
            self.take()
            return Requirement(self.word("a label key"), Operator.DOES_NOT_EXIST)
        key = self.word("a label key" if self.position else "'!' or a label key")
        if self.peek() in ("", ","):
            return Requirement(key, Operator.EXISTS)
        operator = self._BINARY.get(self.peek())
        if operator is None:
            self.fail("',' or an operator (" + " ".join(self._BINARY) + ")")
        self.take()
        if operator in (Operator.IN, Operator.NOT_IN):
            return Requirement(key, operator, self.value_set())
        return Requirement(key, operator, ("" if self.peek() in ("", ",") else self.word("a value"),))

    def value_set(self) -> tuple[str, ...]:
        """`(a,b)`. Between two commas, or a comma and a parenthesis, there is the empty value."""
        self.expect("(")
        values = set()
        while True:
            values.add("" if self.peek() in (",", ")") else self.word("a value"))
            if self.peek() == ")":
                self.take()
                return tuple(sorted(values))
            self.expect(",", "',' or ')'")

    def peek(self) -> str:
        return self.tokens[self.position]

    def take(self) -> str:
        self.position += 1
        return self.tokens[self.position - 1]

    def word(self, wanted: str) -> str:
        if not self.peek() or self.peek() in self._SYMBOLS:
            self.fail(wanted)
        return self.take()

    def expect(self, symbol: str, wanted: str = "") -> None:
        if self.peek() != symbol:
            self.fail(wanted or f"'{symbol}'")
        self.take()

    def fail(self, wanted: str) -> NoReturn:
        actual = f"{self.peek()!r}" if self.peek() else "the end"
        raise SelectorError(f"label selector {self.text!r}: found {actual}, expected {wanted}")


def _requirements(selector: LabelSelector) -> Iterator[tuple[str, Requirement]]:
    """A selector's requirements, each with its path. Those with an operator that is not known are left out."""
    for key, value in selector.match_labels.items():
        yield f"matchLabels[{key}]", Requirement(key, Operator.EQUALS, (value,))
    for i, expression in enumerate(selector.match_expressions):
        if expression.operator in LABEL_OPERATORS:
            operator = OPERATORS[expression.operator]
            yield f"matchExpressions[{i}]", Requirement(expression.key, operator, tuple(expression.values))


def _node_requirement(requirement: NodeSelectorRequirement) -> Requirement:
    return Requirement(requirement.key, OPERATORS[requirement.operator], tuple(requirement.values))


def _matcher(requirements: Iterable[Requirement]) -> LabelMatcher:
    """Sorted by key, so that the same requirements print the same."""
    return LabelMatcher(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise SelectorError("; ".join(map(str, faults)))


_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def _int64(text: str) -> int | None:
    """A label value as a number, if it is one."""
    if len(text) > 40 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
