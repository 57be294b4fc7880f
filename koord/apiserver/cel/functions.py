"""Kubernetes' additions to CEL: lists, regular expressions, URLs, quantities, addresses.

Values of kinds that CEL does not have travel as maps of one key that no object uses, in a form in which equal things
are equal: `quantity("1Gi")` and `quantity("1024Mi")` both as their exact number. What is not here (semver, named
formats, the authorizer) is refused when a rule is compiled.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from koord.api import quantity as quantities

_QUANTITY: Final = "~quantity"
_URL: Final = "~url"
_IP: Final = "~ip"
_CIDR: Final = "~cidr"

_NOT_A_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

Opaque = dict[str, str]


def size(value: Any) -> int:
    """Of a string its characters: the package counts bytes."""
    return len(value)


def is_sorted(items: list[Any]) -> bool:
    return all(before <= after for before, after in pairwise(items))


def index_of(value: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(value, str):
        return value.find(wanted, start)
    return next((i for i, each in enumerate(value) if each == wanted), -1)


def last_index_of(value: Any, wanted: Any, end: int | None = None) -> int:
    if isinstance(value, str):
        return value.rfind(wanted) if end is None else value.rfind(wanted, 0, end + len(wanted))
    return next((i for i in reversed(range(len(value))) if value[i] == wanted), -1)


def find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return found[0] if found else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in _pattern(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


@lru_cache(256)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def is_url(text: str) -> bool:
    try:
        _parse_url(text)
    except ValueError:
        return False
    return True


def url(text: str) -> Opaque:
    _parse_url(text)
    return {_URL: text}


def _parse_url(text: str) -> Any:
    parts = urlsplit(text)
    _ = parts.port
    if not (parts.scheme and parts.netloc) and not text.startswith("/"):
        raise ValueError("URL parse error during conversion from string")
    return parts


def _host(value: Opaque) -> str:
    return str(urlsplit(value[_URL]).netloc.rpartition("@")[2])


def _query(value: Opaque) -> dict[str, list[str]]:
    return parse_qs(urlsplit(value[_URL]).query, keep_blank_values=True)


def is_quantity(text: str) -> bool:
    try:
        quantities.parse(text)
    except quantities.QuantityError:
        return False
    return True


def quantity(text: str) -> Opaque:
    try:
        parsed = quantities.parse(text)
    except quantities.QuantityError as error:
        raise ValueError(_NOT_A_QUANTITY) from error
    return {_QUANTITY: str(Fraction(parsed.mantissa) * Fraction(10) ** parsed.exponent)}


def _number(value: Opaque | int) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(value[_QUANTITY])


def _as_integer(value: Opaque) -> int:
    number = _number(value)
    if number.denominator != 1 or not quantities.INT64_MIN <= number <= quantities.INT64_MAX:
        raise ValueError("cannot convert value to integer")
    return int(number)


def _compare(mine: Opaque, other: Opaque) -> int:
    a, b = _number(mine), _number(other)
    return (a > b) - (a < b)


def is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def ip(value: str | Opaque) -> Opaque:
    """Of a text, the address; of a range (`cidr(...).ip()`), its address."""
    if isinstance(value, dict):
        return {_IP: value[_CIDR].partition("/")[0]}
    return {_IP: str(ipaddress.ip_address(value))}


def is_cidr(text: str) -> bool:
    try:
        cidr(text)
    except ValueError:
        return False
    return True


def cidr(text: str) -> Opaque:
    address, slash, length = text.partition("/")
    if not slash or not length.isdigit():
        raise ValueError("network address parse error during conversion from string")
    network = ipaddress.ip_network(text, strict=False)
    return {_CIDR: f"{ipaddress.ip_address(address)}/{network.prefixlen}"}


def _address(value: Opaque) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(value[_IP])


def _network(value: Opaque) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(value[_CIDR], strict=False)


def _contains_ip(range_: Opaque, value: str | Opaque) -> bool:
    return _address(value if isinstance(value, dict) else ip(value)) in _network(range_)


def _contains_cidr(range_: Opaque, value: str | Opaque) -> bool:
    outer, inner = _network(range_), _network(value if isinstance(value, dict) else cidr(value))
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type] # same version


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "kubernetes_size": size,
    "isSorted": is_sorted,
    "indexOf": index_of,
    "lastIndexOf": last_index_of,
    "find": find,
    "findAll": find_all,
    "isURL": is_url,
    "url": url,
    "getScheme": lambda value: urlsplit(value[_URL]).scheme,
    "getHost": _host,
    "getHostname": lambda value: urlsplit(value[_URL]).hostname or "",
    "getPort": lambda value: _host(value).rpartition(":")[2] if urlsplit(value[_URL]).port is not None else "",
    "getEscapedPath": lambda value: urlsplit(value[_URL]).path,
    "getQuery": _query,
    "isQuantity": is_quantity,
    "quantity": quantity,
    "sign": lambda value: _compare(value, {_QUANTITY: "0"}),
    "isInteger": lambda value: _number(value).denominator == 1 and abs(_number(value)) <= quantities.INT64_MAX,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(_number(value)),
    "add": lambda value, other: {_QUANTITY: str(_number(value) + _number(other))},
    "sub": lambda value, other: {_QUANTITY: str(_number(value) - _number(other))},
    "compareTo": _compare,
    "isLessThan": lambda value, other: _compare(value, other) < 0,
    "isGreaterThan": lambda value, other: _compare(value, other) > 0,
    "isIP": is_ip,
    "ip": ip,
    "ip.isCanonical": lambda text: str(ipaddress.ip_address(text)) == text,
    "family": lambda value: _address(value).version,
    "isUnspecified": lambda value: _address(value).is_unspecified,
    "isLoopback": lambda value: _address(value).is_loopback,
    "isLinkLocalMulticast": lambda value: (
        _address(value) in _network({_CIDR: "224.0.0.0/24"})
        or (_address(value).version == 6 and _address(value).packed[:2] == b"\xff\x02")
    ),
    "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
    "isGlobalUnicast": lambda value: (
        not (
            _address(value).is_unspecified
            or _address(value).is_loopback
            or _address(value).is_multicast
            or _address(value).is_link_local
        )
    ),
    "isCIDR": is_cidr,
    "cidr": cidr,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "masked": lambda value: {_CIDR: str(_network(value))},
    "prefixLength": lambda value: _network(value).prefixlen,
}
