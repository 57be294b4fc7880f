"""The formats of strings that a custom resource's schema can ask for, checked as the real server checks them."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from email.utils import parseaddr
from typing import Final
from urllib.parse import urlsplit

from koord.api.text import duration

# Letters, digits and all beyond ASCII, told by what is not among them: a class up to U+10FFFF takes 5 ms to compile.
_HOST_LABEL: Final = r"[^\x00-/:-@\[-`{-\x7f]"
_HOST_LABEL_OR_DASH: Final = r"[^\x00-,./:-@\[-`{-\x7f]"
_HOST_END: Final = r"[^\x00-@\[-`{-\x7f]"
_HOSTNAME: Final = re.compile(
    rf"{_HOST_LABEL}(?:-?{_HOST_LABEL}{{0,62}})?"
    rf"|(?:{_HOST_LABEL}(?:{_HOST_LABEL_OR_DASH}{{0,61}}{_HOST_LABEL})?\.)+{_HOST_END}{{2,63}}"
)
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?([0-9a-f])[0-9a-f]{3}-?([0-9a-f])[0-9a-f]{3}-?[0-9a-f]{12}")
_SHORT_NAME: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_CREDIT_CARD: Final = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(?:222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"
    r"|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
    r"|6[27][0-9]{14}"
)
_COLOR_PART: Final = r"(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])"
_RGB: Final = re.compile(rf"rgb\(\s*{_COLOR_PART}\s*,\s*{_COLOR_PART}\s*,\s*{_COLOR_PART}\s*\)")
_MAC: Final = re.compile(r"(?i)(?:[0-9a-f]{2}([:-]))(?:[0-9a-f]{2}\1)*[0-9a-f]{2}|[0-9a-f]{4}(?:\.[0-9a-f]{4})+")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATE_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")
_LOOSE_DURATION: Final = re.compile(r"((?:-?)([0-9]+)\s*([A-Za-zµ]+))")
_DURATION_WORDS: Final = (
    "ns", "nano", "us", "µs", "micro", "ms", "milli", "s", "sec", "m", "min", "h", "hr", "hour", "d", "day", "w",
    "week",
)  # fmt: skip
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


def is_valid(format_: str, text: str) -> bool:
    """Whether a text has a format. Formats that the server does not know are not checked."""
    check = _CHECKS.get(format_.replace("-", ""))
    return check is None or check(text)


def is_known(format_: str) -> bool:
    return format_.replace("-", "") in _CHECKS


def _uri(text: str) -> bool:
    if not text or any(ord(char) <= 0x20 or ord(char) == 0x7F for char in text):
        return False
    if not text.startswith("/") and not _SCHEME.match(text):
        return False
    try:
        urlsplit(text).port  # noqa: B018 # raises for a port that is no number
    except ValueError:
        return False
    return re.search(r"%(?![0-9a-fA-F]{2})", text) is None


def _email(text: str) -> bool:
    _, address = parseaddr(text)
    local, at, domain = address.rpartition("@")
    return bool(local and at and domain) and " " not in address


def _hostname(text: str) -> bool:
    return bool(_HOSTNAME.fullmatch(text)) and len(text) <= 255 and all(len(part) <= 63 for part in text.split("."))


def _ip(text: str) -> bool:
    """An address; leading zeros in IPv4 are accepted, as old parsers did."""
    if re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}", text):
        return all(int(part) <= 255 for part in text.split("."))
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return "%" not in text


def _cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    if not slash or not _ip(address) or not re.fullmatch(r"[0-9]{1,3}", length):
        return False
    return int(length) <= (128 if ":" in address else 32) and (length == "0" or not length.startswith("0"))


def _mac(text: str) -> bool:
    octets = len(re.sub(r"[:.-]", "", text)) // 2
    return bool(_MAC.fullmatch(text)) and octets in (6, 8, 20)


def _uuid(version: str, variants: str) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        match = _UUID.fullmatch(text)
        return match is not None and match[1].lower() in version and match[2].lower() in variants

    return check


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    return sum((i + 1) * (10 if c == "X" else int(c)) for i, c in enumerate(digits)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(c) * (3 if i % 2 else 1) for i, c in enumerate(digits)) % 10 == 0


def _credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CREDIT_CARD.fullmatch(digits):
        return False
    doubled = [int(c) * (2 if i % 2 else 1) for i, c in enumerate(reversed(digits))]
    return sum(n - 9 if n > 9 else n for n in doubled) % 10 == 0


def _byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(text) and len(text) % 4 == 0


def _date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = (int(part) for part in match.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    return 1 <= month <= 12 and 1 <= day <= days[month - 1]


def _date_time(text: str) -> bool:
    date, t, time = text.lower().partition("t")
    match = _DATE_TIME.fullmatch(time.split("t")[0]) if t else None
    return _date(date) and match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _duration(text: str) -> bool:
    try:
        duration.parse_ns(text)
    except duration.DurationError:
        return any(
            unit.lower() in _DURATION_WORDS
            or unit.lower().startswith(("nano", "micro", "milli", "sec", "min", "hour", "hr", "day", "week"))
            for _, _, unit in _LOOSE_DURATION.findall(text)
        )
    return True


_HEX: Final = "0123456789abcdef"
_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": lambda text: re.fullmatch(r"[0-9a-fA-F]{24}", text) is not None,
    "uri": _uri,
    "email": _email,
    "hostname": _hostname,
    "ipv4": lambda text: _ip(text) and "." in text,
    "ipv6": lambda text: _ip(text) and ":" in text,
    "cidr": _cidr,
    "mac": _mac,
    "uuid": _uuid(_HEX, _HEX),
    "uuid3": _uuid("3", _HEX),
    "uuid4": _uuid("4", "89ab"),
    "uuid5": _uuid("5", "89ab"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": lambda text: re.fullmatch(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}", text) is not None,
    "hexcolor": lambda text: re.fullmatch(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})", text) is not None,
    "rgbcolor": lambda text: _RGB.fullmatch(text) is not None,
    "byte": _byte,
    "password": lambda _text: True,
    "date": _date,
    "duration": _duration,
    "datetime": _date_time,
    "k8sshortname": lambda text: len(text) <= 63 and re.fullmatch(_SHORT_NAME, text) is not None,
    "k8slongname": lambda text: (
        len(text) <= 253 and re.fullmatch(rf"{_SHORT_NAME}(?:\.{_SHORT_NAME})*", text) is not None
    ),
}
