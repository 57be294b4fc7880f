"""What names, keys and values may look like, in the real server's words.

Each function gives the faults of one text: none for a good one. The sentences are part of the protocol: people search
for them, and clients show them unchanged.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from koord.api.machinery.short_cache import short_cache

Faults = tuple[str, ...]

_CACHED: Final = 8192

DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN: Final = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
DNS_1035_LABEL: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
LABEL_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_VALUE: Final = f"({LABEL_NAME})?"
CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
PERCENT: Final = "[0-9]+%"
HTTP_HEADER: Final = "[-A-Za-z0-9]+"
C_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_UNDERSCORE_LABEL: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_SUBDOMAIN: Final = rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*"

_dns_label = re.compile(DNS_LABEL).fullmatch
_dns_subdomain = re.compile(DNS_SUBDOMAIN).fullmatch
_dns_1035_label = re.compile(DNS_1035_LABEL).fullmatch
_label_name = re.compile(LABEL_NAME).fullmatch
_label_value = re.compile(LABEL_VALUE).fullmatch
_config_key = re.compile(CONFIG_KEY).fullmatch
_percent = re.compile(PERCENT).fullmatch
_http_header = re.compile(HTTP_HEADER).fullmatch
_underscore_subdomain = re.compile(_UNDERSCORE_SUBDOMAIN).fullmatch
_c_identifier = re.compile(C_IDENTIFIER).fullmatch
_port_characters = re.compile("[-a-z0-9]+").fullmatch
_letter = re.compile("[a-z]").search

_LABEL_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)


def pattern_fault(text: str, pattern: str, *examples: str) -> str:
    """A sentence with examples and the expression that was used, as Go's validators write it."""
    shown = "e.g. " + " or ".join(f"'{example}', " for example in examples) if examples else ""
    return f"{text} ({shown}regex used for validation is '{pattern}')"


def range_fault(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


@short_cache(_CACHED)
def dns_label(value: str) -> Faults:
    faults = () if len(value) <= 63 else ("must be no more than 63 characters",)
    if _dns_label(value):
        return faults
    if _dns_subdomain(value):
        return (*faults, "must not contain dots")
    text = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
    )
    return (*faults, pattern_fault(text, DNS_LABEL, "my-name", "123-abc"))


def dns_subdomain(value: str, unit: str = "characters") -> Faults:
    faults = _subdomain_faults(value)
    return faults if len(value) <= 253 else (f"must be no more than 253 {unit}", *faults)


@short_cache(_CACHED)
def _subdomain_faults(value: str) -> Faults:
    """Of its characters."""
    if _dns_subdomain(value):
        return ()
    text = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return (pattern_fault(text, DNS_SUBDOMAIN, "example.com"),)


def dns_search_path(value: str) -> Faults:
    """A DNS subdomain whose labels may hold underscores."""
    faults = () if len(value) <= 253 else ("must be no more than 253 characters",)
    if _underscore_subdomain(value):
        return faults
    text = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return (*faults, pattern_fault(text, _UNDERSCORE_SUBDOMAIN, "example.com"))


@short_cache(_CACHED)
def dns_1035_label(value: str) -> Faults:
    faults = () if len(value) <= 63 else ("must be no more than 63 characters",)
    if _dns_1035_label(value):
        return faults
    text = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character"
    )
    return (*faults, pattern_fault(text, DNS_1035_LABEL, "my-name", "abc-123"))


@short_cache(_CACHED)
def path_segment(value: str) -> Faults:
    """What may stand between two slashes of a URL: names of roles and the like."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{mark}'" for mark in ("/", "%") if mark in value)


@short_cache(_CACHED)
def label_key(value: str) -> Faults:
    """A label key, or any other qualified name: an optional DNS subdomain and `/`, then a name."""
    prefix, slash, name = value.partition("/")
    faults: list[str] = []
    if "/" in name:
        text = pattern_fault(_LABEL_TEXT, LABEL_NAME, "MyName", "my.name", "123-abc")
        return (f"a valid label key {text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    if not slash:
        name = prefix
    elif not prefix:
        faults.append("prefix part must be non-empty")
    else:
        faults += [f"prefix part {fault}" for fault in dns_subdomain(prefix, "bytes")]
    if not name:
        faults.append("name part must be non-empty")
    elif len(name) > 63:
        faults.append("name part must be no more than 63 bytes")
    if not _label_name(name):
        faults.append("name part " + pattern_fault(_LABEL_TEXT, LABEL_NAME, "MyName", "my.name", "123-abc"))
    return tuple(faults)


@short_cache(_CACHED)
def label_value(value: str) -> Faults:
    faults = () if len(value) <= 63 else ("must be no more than 63 bytes",)
    if _label_value(value):
        return faults
    text = f"a valid label must be an empty string or {_LABEL_TEXT.removeprefix('must ')}"
    return (*faults, pattern_fault(text, LABEL_VALUE, "MyValue", "my_value", "12345"))


@short_cache(_CACHED)
def config_key(value: str) -> Faults:
    """A key of a ConfigMap or Secret."""
    faults: list[str] = [] if len(value) <= 253 else ["must be no more than 253 characters"]
    if not _config_key(value):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        faults.append(pattern_fault(text, CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        faults.append(f"must not be '{value}'")
    elif value.startswith(".."):
        faults.append("must not start with '..'")
    return tuple(faults)


@short_cache(_CACHED)
def env_name(value: str) -> Faults:
    if value and all(" " <= character <= "~" and character != "=" for character in value):
        return ()
    if not value:
        return ("environment variable name must be non-empty",)
    return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)


def c_identifier(value: str) -> Faults:
    if _c_identifier(value):
        return ()
    text = (
        "a valid C identifier must start with alphabetic character or '_', "
        "followed by a string of alphanumeric characters or '_'"
    )
    return (pattern_fault(text, C_IDENTIFIER, "my_name", "MY_NAME", "MyName"),)


@short_cache(_CACHED)
def port_name(value: str) -> Faults:
    faults: list[str] = [] if len(value) <= 15 else ["must be no more than 15 characters"]
    if not _port_characters(value):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _letter(value):
        faults.append("must contain at least one letter (a-z)")
    if "--" in value:
        faults.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        faults.append("must not begin or end with a hyphen")
    return tuple(faults)


def port_number(value: int) -> Faults:
    return () if 1 <= value <= 65535 else (range_fault(1, 65535),)


def percent(value: str) -> Faults:
    if _percent(value):
        return ()
    text = "a valid percent string must be a numeric string followed by an ending '%'"
    return (pattern_fault(text, PERCENT, "1%", "93%"),)


def http_header(value: str) -> Faults:
    if _http_header(value):
        return ()
    text = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return (pattern_fault(text, HTTP_HEADER, "X-Header-Name"),)


def ip_address(value: str) -> Faults:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return ("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",)
    return ()


def legacy_ip_address(value: str) -> Faults:
    """As `ip_address`, where leading zeros were allowed once."""
    return ip_address(without_zeros(value))


def without_zeros(value: str) -> str:
    """An IPv4 address in today's form."""
    return re.sub(r"(?<![0-9])0+(?=[0-9])", "", value) if ":" not in value else value


def cidr(value: str) -> Faults:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return ("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",)
    return () if "/" in value else ("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",)
