"""What a call of a function can cost at most, and how large its result can be; the figures are cel-go's and
Kubernetes' own, down to their oddities, since which definitions are accepted depends on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from koord.api.cel import signatures
from koord.api.cel.sizes import LARGEST, NOTHING, ONE, UNKNOWN, Range, exactly
from koord.api.cel.syntax import Expr, Literal
from koord.api.cel.types import Type

STRING_FACTOR: Final = 0.1
REGEX_FACTOR: Final = 0.25
_LIST_BASE: Final = exactly(10)
_ADDRESS: Final = Range(4, 16)
_NAMED_FORMAT_PATTERN: Final = 128

CHEAP: Final = frozenset(
    {"serviceAccount", "path", "group", "resource", "subresource", "namespace", "name"}
    | {"allowed", "reason", "error", "errored"}
    | {"masked", "prefixLength", "family", "isUnspecified", "isLoopback"}
    | {"isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "format.named"}
    | {"sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub"}
    | {"major", "minor", "patch"}
    | {"getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery"}
)
"""Functions that cost 1."""
WALKS: Final = frozenset({"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"})
READS: Final = frozenset({"cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"})
COPIES: Final = frozenset({"lowerAscii", "upperAscii", "substring", "trim"})
COMPARES: Final = frozenset(
    {f"{word}_{kind}" for word in ("less", "greater", "less_equals", "greater_equals") for kind in ("string", "bytes")}
    | {"equals", "not_equals"}
)


@dataclass(frozen=True, slots=True)
class Node:
    """An operand of a call. `size`: as far as the expression itself tells it."""

    expr: Expr | None
    type: Type
    path: tuple[str, ...]
    size: Range | None


@dataclass(frozen=True, slots=True)
class Estimate:
    cost: Range
    size: Range | None = None


class Sizes(Protocol):
    def declared_size(self, path: tuple[str, ...]) -> Range | None: ...


def call_estimate(
    sizes: Sizes,
    function: str,
    overload: str,
    target: Node | None,
    args: Sequence[Node],
    arg_costs: Sequence[Range],
) -> Estimate:
    """Of one overload, with what its arguments cost (but not the value that it is called on)."""
    estimator = _Calls(sizes, function, overload, target, args)
    estimate = estimator.list_call() or estimator.library_call()
    if estimate is not None:
        return Estimate(estimate.cost + _total(arg_costs), estimate.size)
    match overload:
        case "logical_and" | "logical_or":
            return Estimate(Range(arg_costs[0].low, (arg_costs[0] + arg_costs[1]).high))
        case "conditional":
            size = _size(args[1]) | _size(args[2])
            return Estimate(arg_costs[0] + (arg_costs[1] | arg_costs[2]), size)
    estimate = estimator.standard_call() or Estimate(ONE)
    return Estimate(estimate.cost + _total(arg_costs), estimate.size)


def _total(costs: Sequence[Range]) -> Range:
    total = NOTHING
    for cost in costs:
        total += cost
    return total


def _size(node: Node) -> Range:
    return UNKNOWN if node.size is None else node.size


def _whole(node: Node, otherwise: int) -> int:
    """The integer that a node is, if it is written down."""
    expr = node.expr
    if isinstance(expr, Literal) and expr.type == "int":
        return max(int(expr.value), 0)
    return otherwise


@dataclass(frozen=True, slots=True)
class _Calls:
    sizes: Sizes
    function: str
    overload: str
    target: Node | None
    args: Sequence[Node]

    def _sized(self, node: Node) -> Range:
        if node.size is not None:
            return node.size
        declared = self.sizes.declared_size(node.path)
        return UNKNOWN if declared is None else declared

    def list_call(self) -> Estimate | None:
        """Of functions that make lists, or compare them as sets."""
        target, args, overload = self.target, self.args, self.overload
        if overload.startswith("list_sets_"):
            factor = 2 if overload == "list_sets_equivalent_list" else 1
            return Estimate((self._sized(args[0]) * self._sized(args[1])).times(factor) + ONE)
        if overload == "lists_range":
            return _allocating(1, exactly(_whole(args[0], LARGEST)))
        if target is None:
            return None
        if overload == "list_slice":
            start, end = _whole(args[0], 0), _whole(args[1], self._sized(target).high)
            return _allocating(1, exactly((end - start) & LARGEST))
        if overload in ("list_flatten", "list_flatten_int"):
            return _allocating(float(_whole(args[0], LARGEST)) if args else 1, self._sized(target))
        if overload == "list_reverse":
            return _allocating(1, self._sized(target))
        if overload == "list_distinct":
            return _allocating(2, self._sized(target) * self._sized(target))
        if overload.endswith(("_sort", "_sortByAssociatedKeys")):
            size = self._sized(args[0] if args else target)
            is_text = overload.startswith(("list_string_", "list_bytes_"))
            return _allocating(2 + STRING_FACTOR if is_text else 2, size * size)
        return None

    def library_call(self) -> Estimate | None:
        """Of Kubernetes' functions."""
        function, target, args = self.function, self.target, self.args
        if function in CHEAP or self.overload == "cidr_ip":
            return Estimate(ONE)
        if function == "check":
            return Estimate(exactly(350_000))
        if function in ("fieldSelector", "labelSelector") and len(args) == 1:
            size = self._sized(args[0])
            return Estimate(_LIST_BASE + size.times(STRING_FACTOR) + size.times(0.5).times(50))
        if function in WALKS and target is not None:
            return self._walk(target)
        if function == "url" and len(args) == 1:
            size = self._sized(args[0])
            return Estimate(size.times(STRING_FACTOR), size)
        if function in COPIES and target is not None:
            size = self._sized(target)
            return Estimate(size.times(STRING_FACTOR), size)
        if (function in READS or function == "ip") and args:
            return Estimate(self._sized(args[0]).times(STRING_FACTOR))
        if function == "ip.isCanonical":
            return Estimate(self._sized(args[0]).times(2 * STRING_FACTOR))
        if function in ("containsIP", "containsCIDR"):
            return self._containment()
        if function == "validate" and args:
            factor = _NAMED_FORMAT_PATTERN * REGEX_FACTOR
            return Estimate(self._sized(args[0]).times(STRING_FACTOR).times(factor))
        if target is not None:
            return self._text_call(target)
        return self._equality() if function == "_==_" else None

    def _text_call(self, target: Node) -> Estimate | None:
        size, args = self._sized(target), self.args
        match self.function:
            case "replace" if len(args) >= 2:
                made = _replaced(size, self._sized(args[0]), self._sized(args[1]))
                return Estimate(size.times(2 * STRING_FACTOR), made)
            case "split":
                most = size.high
                expr = args[1].expr if len(args) > 1 else None
                if isinstance(expr, Literal) and expr.type == "int":
                    most = int(expr.value) & LARGEST
                return Estimate(size.times(2 * STRING_FACTOR), Range(0, most))
            case "join":
                return self._join(target, size)
            case "find" | "findAll" if args:
                cost = (size + ONE).times(STRING_FACTOR) * self._sized(args[0]).times(REGEX_FACTOR)
                return Estimate(cost, Range(0, size.high))
        return None

    def _element(self, target: Node) -> Node | None:
        if not target.type.params:
            return None
        return Node(None, target.type.params[0], (*target.path, "@items") if target.path else (), None)

    def _walk(self, target: Node) -> Estimate:
        size, element = self._sized(target), self._element(target)
        if element is None:
            return Estimate(size.times(STRING_FACTOR))
        cost = ONE
        if element.type.kind in ("string", "bytes"):
            cost += self._sized(element).times(STRING_FACTOR)
        return Estimate(size * cost)

    def _join(self, target: Node, count: Range) -> Estimate:
        element, size = self._element(target), NOTHING
        if element is not None:
            size = count * self._sized(element)
        if self.args:
            between = Range(max(count.low - 1, 0), max(count.high - 1, 0))
            size += self._sized(self.args[0]) * between
        return Estimate(size.times(STRING_FACTOR), size)

    def _containment(self) -> Estimate:
        cost = (_ADDRESS + _ADDRESS).times(STRING_FACTOR)
        if self.function == "containsCIDR":
            cost = cost + _ADDRESS.times(STRING_FACTOR) + ONE
        if self.overload.endswith("_string"):
            cost += self._sized(self.args[0]).times(STRING_FACTOR)
        return Estimate(cost)

    def _equality(self) -> Estimate | None:
        one, other = self.args
        if one.type != other.type:
            return None
        kind = one.type
        if kind in (signatures.IP, signatures.CIDR, signatures.QUANTITY, signatures.SEMVER):
            return Estimate(ONE)
        if kind.name.startswith("kubernetes.authorization."):
            return Estimate(ONE)
        if kind == signatures.FORMAT:
            return Estimate(Range(1, 64).times(STRING_FACTOR))
        if kind == signatures.URL:
            most = 1 if other.size is None else other.size.high
            return Estimate(Range(1, most).times(STRING_FACTOR))
        return None

    def standard_call(self) -> Estimate | None:
        """Of CEL's own functions, where they do not simply cost 1."""
        target, args = self.target, self.args
        match self.overload:
            case "string_format" if target is not None:
                return Estimate(_size(target).times(STRING_FACTOR))
            case "string_to_bytes":
                size = _size(args[0])
                return Estimate(size.times(STRING_FACTOR), Range(size.low, size.high * 4 & LARGEST))
            case "bytes_to_string":
                size = _size(args[0])
                return Estimate(size.times(STRING_FACTOR), Range(size.low // 4, size.high))
            case "strings_quote":
                size = _size(args[0])
                made = Range(size.low + 2 & LARGEST, size.high * 2 + 2 & LARGEST)
                return Estimate(size.times(STRING_FACTOR), made)
            case "starts_with_string" | "ends_with_string":
                return Estimate(_size(args[0]).times(STRING_FACTOR))
            case "in_list":
                return Estimate(_size(args[1]).times(1))
            case "matches_string" if target is not None:
                cost = (_size(target) + ONE).times(STRING_FACTOR) * _size(args[0]).times(REGEX_FACTOR)
                return Estimate(cost)
            case "contains_string" if target is not None:
                return Estimate(_size(target).times(STRING_FACTOR) * _size(args[0]).times(STRING_FACTOR))
            case "add_list":
                return Estimate(ONE, _size(args[0]) + _size(args[1]))
            case "add_string" | "add_bytes":
                size = _size(args[0]) + _size(args[1])
                return Estimate(size.times(STRING_FACTOR), size)
        if self.overload in COMPARES:
            smaller = min(_size(args[0]).high, _size(args[1]).high)
            return Estimate(Range(1 if smaller > 0 else 0, smaller).times(STRING_FACTOR))
        return None


def _allocating(factor: float, size: Range) -> Estimate:
    return Estimate(size.times(factor) + ONE + _LIST_BASE, size)


def _replaced(size: Range, old: Range, new: Range) -> Range:
    """How long a text can be after a replacement."""
    most_count = least_count = most_kept = least_kept = 0
    if old.low == 0:
        # An empty text stands between all characters.
        most_count, most_kept = min(size.high + 1, LARGEST), size.high
    elif new.high <= old.low:
        most_kept = size.high
    else:
        most_count = math.ceil(float(size.high) / float(old.low))
    if old.high == 0:
        least_count, least_kept = min(size.low + 1, LARGEST), size.low
    elif old.high <= new.low:
        least_kept = size.low
    else:
        least_count = math.ceil(float(size.low) / float(old.high))
    return Range(least_count, min(most_count, LARGEST)) * new + Range(least_kept, most_kept)
