"""URLs, IP addresses and networks, by the identifiers of their overloads; they are read as Go reads them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs

from koord.api.cel.syntax import CelError
from koord.api.cel.values import Cidr, Ip, Url, no_overload
from koord.api.text.go_format import go_quoted
from koord.api.text.whole_number import whole_number

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_MAPPED: Final = ipaddress.ip_network("::ffff:0:0/96")
_LINK_LOCAL_MULTICAST: Final = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_BAD_IN_HOST: Final = re.compile(r"[^A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]")


class _Unreadable(Exception):
    pass


def parse_url(text: str) -> Url:
    """A URL as it stands in a request. Raises _Unreadable with Go's reason."""
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise _Unreadable("net/url: invalid control character in URL")
    if not text:
        raise _Unreadable("empty url")
    scheme, rest = _scheme(text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, query=query, text=text)
        raise _Unreadable("invalid URI for request")
    host = ""
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(authority), slash + path
    if bad := _BAD_ESCAPE.search(rest):
        raise _Unreadable(f"invalid URL escape {go_quoted(bad[0])}")
    return Url(scheme, host, rest, query, text)


def _scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.match(text)
    if match is not None and text[match.end() : match.end() + 1] == ":":
        return match[0].lower(), text[match.end() + 1 :]
    if text.startswith(":"):
        raise _Unreadable("missing protocol scheme")
    return "", text


def _host(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and not re.fullmatch(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", user):
        raise _Unreadable("net/url: invalid userinfo")
    if host.startswith("["):
        inside, bracket, port = host[1:].rpartition("]")
        if not bracket:
            raise _Unreadable("missing ']' in host")
        colon, port = port[:1], port[1:]
    else:
        inside, colon, port = host.rpartition(":")
        inside = inside if colon else host
    if colon and (colon != ":" or (port and not port.isdigit())):
        raise _Unreadable(f"invalid port {go_quoted(':' + port)} after host")
    if bad := _BAD_ESCAPE.search(inside):
        raise _Unreadable(f"invalid URL escape {go_quoted(bad[0])}")
    if bad := _BAD_IN_HOST.search(inside):
        raise _Unreadable(f"invalid character {go_quoted(bad[0])} in host name")
    return host


def url_fault(text: str) -> str:
    """Why a text is no URL; empty if it is one."""
    try:
        parse_url(text)
    except _Unreadable as fault:
        return f"parse {go_quoted(text)}: {fault}"
    return ""


def _url(text: str) -> Url:
    if fault := url_fault(text):
        raise CelError(f"URL parse error during conversion from string: {fault}")
    whole = parse_url(text)
    path, _, _ = whole.path.partition("#")
    query, _, _ = whole.query.partition("#")
    return Url(whole.scheme, whole.host, path, query, text)


def _hostname(value: Url) -> str:
    host = value.host
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _port(value: Url) -> str:
    rest = value.host.rpartition("]")[2]
    return rest.rpartition(":")[2] if ":" in rest else ""


def _parse_address(text: str) -> Address:
    """Raises _Unreadable."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise _Unreadable(f"ParseAddr({go_quoted(text)}): {_address_fault(text)}") from None


def _address_fault(text: str) -> str:
    first = next((char for char in text if char in ".:%"), "")
    if first == "%":
        return "missing IPv6 address"
    if first != ".":
        return "unable to parse IP" if not first else _v6_fault(text)
    fields = text.split(".")
    for i, field in enumerate(fields):
        if bad := re.search(r"[^0-9]", field):
            return f"unexpected character (at {go_quoted('.'.join([field[bad.start() :], *fields[i + 1 :]]))})"
        if not field:
            return f"IPv4 field must have at least one digit (at {go_quoted('.'.join(['', *fields[i + 1 :]]))})"
        if len(field) > 1 and field[0] == "0":
            return "IPv4 field has octet with leading zero"
        if whole_number(field) > 255:
            return "IPv4 field has value >255"
    return "IPv4 address too short" if len(fields) < 4 else "IPv4 address too long"


def _v6_fault(text: str) -> str:
    if text.count("::") > 1:
        return "multiple :: in address"
    if "::" not in text and text.count(":") < 7:
        return "address string too short"
    if any(len(group) > 4 for group in text.split(":")):
        return f"each group must have 4 or less digits (at {go_quoted(text)})"
    return "each colon-separated field must have at least one digit"


def _read_ip(text: str) -> Address:
    """Raises CelError."""
    bare = text.partition("%")[0]
    try:
        address = _parse_address(text)
    except _Unreadable as fault:
        raise CelError(f"IP Address {go_quoted(text)} parse error during conversion from string: {fault}") from None
    if bare != text:
        raise CelError(f"IP address {go_quoted(text)} with zone value is not allowed")
    if address in _MAPPED:
        raise CelError(f"IPv4-mapped IPv6 address {go_quoted(text)} is not allowed")
    return address


def _read_cidr(text: str) -> Cidr:
    """Raises CelError."""
    prefix = "network address parse error during conversion from string"
    failure = f"{prefix}: {prefix}: netip.ParsePrefix({go_quoted(text)})"
    address, slash, bits = text.rpartition("/")
    if not slash:
        raise CelError(f"{failure}: no '/'")
    try:
        parsed = _parse_address(address)
    except _Unreadable as fault:
        raise CelError(f"{failure}: {fault}") from None
    if "%" in address:
        raise CelError(f"{failure}: IPv6 zones cannot be present in a prefix")
    if not re.fullmatch(r"0|[1-9][0-9]*", bits):
        raise CelError(f"{failure}: bad bits after slash: {go_quoted(bits)}")
    if (length := whole_number(bits)) > parsed.max_prefixlen:
        raise CelError(f"{failure}: prefix length out of range")
    if parsed in _MAPPED:
        raise CelError(f"{prefix}: IPv4-mapped IPv6 address {go_quoted(text)} is not allowed")
    return Cidr(parsed, length)


def _is(read: Callable[[str], object]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        try:
            read(text)
        except CelError:
            return False
        return True

    return test


def _network(value: Cidr) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(f"{value.address}/{value.bits}", strict=False)


def _holds_ip(value: Cidr, text: str) -> bool:
    try:
        address = _read_ip(text)
    except CelError:
        raise no_overload() from None
    return address in _network(value)


def _holds(outer: Cidr, inner: Cidr) -> bool:
    return outer.bits <= inner.bits and inner.address in _network(outer)


def _is_global(address: Address) -> bool:
    broadcast = address == ipaddress.ip_address("255.255.255.255")
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and not broadcast


OVERLOADS: Final[dict[str, Callable[..., Any]]] = {
    "string_to_url": _url,
    "is_url_string": lambda text: not url_fault(text),
    "url_get_scheme": lambda value: value.scheme,
    "url_get_host": lambda value: value.host,
    "url_get_hostname": _hostname,
    "url_get_port": _port,
    "url_get_escaped_path": lambda value: value.path,
    "url_get_query": lambda value: parse_qs(value.query, keep_blank_values=True),
    "string_to_ip": lambda text: Ip(_read_ip(text)),
    "cidr_ip": lambda value: Ip(value.address),
    "is_ip": _is(_read_ip),
    "ip_is_canonical": lambda text: str(_read_ip(text)) == text,
    "ip_family": lambda value: value.address.version,
    "ip_is_unspecified": lambda value: value.address.is_unspecified,
    "ip_is_loopback": lambda value: value.address.is_loopback,
    "ip_is_link_local_multicast": lambda value: any(value.address in network for network in _LINK_LOCAL_MULTICAST),
    "ip_is_link_local_unicast": lambda value: value.address.is_link_local,
    "ip_is_global_unicast": lambda value: _is_global(value.address),
    "ip_to_string": lambda value: str(value.address),
    "string_to_cidr": _read_cidr,
    "is_cidr": _is(_read_cidr),
    "cidr_contains_ip_string": _holds_ip,
    "cidr_contains_ip_ip": lambda value, other: other.address in _network(value),
    "cidr_contains_cidr_string": lambda value, text: _holds(value, _read_cidr(text)),
    "cidr_contains_cidr": _holds,
    "cidr_prefix_length": lambda value: value.bits,
    "cidr_masked": lambda value: Cidr(_network(value).network_address, value.bits),
    "cidr_to_string": lambda value: f"{value.address}/{value.bits}",
}
