"""What may be a label key, a label value, an object's name.

Each function answers with what is wrong and what would be right, or None where nothing is wrong.
"""

from __future__ import annotations

import re
from typing import Final

_LABEL_PART: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DNS_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(rf"{_DNS_LABEL.pattern}(?:\.{_DNS_LABEL.pattern})*")

LABEL_MAX: Final = 63
SUBDOMAIN_MAX: Final = 253


def label_key_fault(key: str) -> str | None:
    """Why `key` is no label key: an optional DNS subdomain and `/`, then a name of up to 63 characters."""
    prefix, slash, name = key.rpartition("/")
    if slash:
        if not prefix:
            return "the part before '/' must not be empty"
        fault = dns_subdomain_fault(prefix)
        if fault:
            return f"the part before '/' {fault}"
    where = "the part after '/' " if slash else ""
    if not name:
        return f"{where}must not be empty"
    if len(name) > LABEL_MAX:
        return f"{where}must have at most {LABEL_MAX} characters"
    if not _LABEL_PART.fullmatch(name):
        return f"{where}must be letters, digits, '-', '_' or '.', and start and end with a letter or digit"
    return None


def label_value_fault(value: str) -> str | None:
    """Why `value` is no label value: up to 63 letters, digits, `-`, `_` or `.`, or nothing at all."""
    if len(value) > LABEL_MAX:
        return f"must have at most {LABEL_MAX} characters"
    if value and not _LABEL_PART.fullmatch(value):
        return "must be empty or letters, digits, '-', '_' or '.', and start and end with a letter or digit"
    return None


def dns_label_fault(name: str) -> str | None:
    """Why `name` is no DNS label, as namespaces and containers need it."""
    if len(name) > LABEL_MAX:
        return f"must have at most {LABEL_MAX} characters"
    if not _DNS_LABEL.fullmatch(name):
        return "must be lower-case letters, digits or '-', and start and end with a letter or digit"
    return None


def dns_subdomain_fault(name: str) -> str | None:
    """Why `name` is no DNS subdomain, as most objects need it."""
    if len(name) > SUBDOMAIN_MAX:
        return f"must have at most {SUBDOMAIN_MAX} characters"
    if not _DNS_SUBDOMAIN.fullmatch(name):
        return "must be lower-case letters, digits, '-' or '.', with a letter or digit at each end and beside each '.'"
    return None
