from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.text.naming import dns_label_fault, dns_subdomain_fault, label_key_fault, label_value_fault

RECORDED = json.loads(Path(__file__).with_name("data").joinpath("names.json").read_text())["names"]


@pytest.mark.parametrize(("name", "label_key", "label_value", "dns_label", "dns_subdomain"), RECORDED)
def test_a_name_is_valid_where_kubernetes_says_so(
    name: str, label_key: bool, label_value: bool, dns_label: bool, dns_subdomain: bool
) -> None:
    assert (label_key_fault(name) is None) is label_key
    assert (label_value_fault(name) is None) is label_value
    assert (dns_label_fault(name) is None) is dns_label
    assert (dns_subdomain_fault(name) is None) is dns_subdomain


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("", "must not be empty"),
        ("/a", "the part before '/' must not be empty"),
        ("a/", "the part after '/' must not be empty"),
        ("Example.com/a", "the part before '/' must be lower-case"),
        ("example.com/" + "k" * 64, "the part after '/' must have at most 63 characters"),
        ("a b", "must be letters, digits"),
    ],
)
def test_a_fault_says_what_would_be_right(key: str, fault: str) -> None:
    assert (label_key_fault(key) or "").startswith(fault)


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True))
def test_a_dns_label_is_also_a_subdomain_a_label_key_and_a_label_value(name: str) -> None:
    faults = (dns_label_fault, dns_subdomain_fault, label_key_fault, label_value_fault)
    assert [fault(name) for fault in faults] == [None] * 4
