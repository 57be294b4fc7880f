from __future__ import annotations

import datetime as dt
import json
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from koord.minicluster.apiserver.certs import Authority, kubeconfig, signing_key, static_token

NOW = dt.datetime(2026, 11, 15, tzinfo=dt.UTC)
YEAR = dt.timedelta(days=365)


def subject(pem: bytes) -> tuple[str, list[str]]:
    name = x509.load_pem_x509_certificate(pem).subject
    groups = [str(each.value) for each in name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return str(name.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value), groups


def test_a_user_is_the_common_name_and_its_groups_the_organisations(tmp_path: Path) -> None:
    made = Authority.open(tmp_path).client("system:node:n1", ["system:nodes", "dev"])
    assert subject(made.certificate) == ("system:node:n1", ["system:nodes", "dev"])


def test_everything_is_kept_while_it_is_good(tmp_path: Path) -> None:
    first = Authority.open(tmp_path, NOW)
    server, client, key = first.server(now=NOW), first.client("ann", now=NOW), signing_key(tmp_path)
    before = server[0].read_bytes()
    later = NOW + dt.timedelta(days=200)
    again = Authority.open(tmp_path, later)
    assert again.pem == first.pem
    assert again.server(now=later)[0].read_bytes() == before
    assert again.client("ann", now=later) == client
    assert signing_key(tmp_path).private_numbers() == key.private_numbers()
    assert static_token(tmp_path, "ann") == static_token(tmp_path, "ann")


def test_what_nears_its_end_is_made_anew_under_the_same_authority(tmp_path: Path) -> None:
    first = Authority.open(tmp_path, NOW)
    before = first.client("ann", now=NOW)
    later = NOW + dt.timedelta(days=330)
    again = Authority.open(tmp_path, later)
    assert again.pem == first.pem
    after = again.client("ann", now=later)
    assert after != before
    assert x509.load_pem_x509_certificate(after.certificate).not_valid_after_utc > later + dt.timedelta(days=300)


def test_an_authority_near_its_end_is_replaced_with_all_it_signed(tmp_path: Path) -> None:
    first = Authority.open(tmp_path, NOW)
    before = first.client("ann", now=NOW)
    later = NOW + 10 * YEAR
    again = Authority.open(tmp_path, later)
    assert again.pem != first.pem
    assert again.client("ann", now=later) != before


def test_a_new_host_or_other_groups_make_a_new_certificate(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path)
    before = authority.server()[0].read_bytes()
    assert authority.server(["10.1.2.3", "api.example.com"])[0].read_bytes() != before
    names = x509.load_pem_x509_certificate(authority.server(["api.example.com"])[0].read_bytes())
    found = names.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "kubernetes.default.svc", "api.example.com"} <= set(found.get_values_for_type(x509.DNSName))
    assert {"127.0.0.1", "::1"} <= {str(each) for each in found.get_values_for_type(x509.IPAddress)}
    assert authority.client("ann", ["a"]) != authority.client("ann", ["b"])


@pytest.mark.parametrize(
    "content", [b"", b"not a certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_damaged_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    Authority.open(tmp_path).client("ann")
    (tmp_path / "client-ann.crt").write_bytes(content)
    assert subject(Authority.open(tmp_path).client("ann").certificate)[0] == "ann"
    (tmp_path / "ca.key").write_bytes(content)
    Authority.open(tmp_path).server()


def test_only_the_owner_can_read_any_of_it(tmp_path: Path) -> None:
    directory = tmp_path / "pki"
    authority = Authority.open(directory)
    authority.server()
    signing_key(directory)
    static_token(directory, "ann")
    kubeconfig(directory / "config", "https://127.0.0.1:1", authority.pem, "ann", credential=authority.client("ann"))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_a_kubeconfig_has_one_cluster_one_user_and_one_way_in(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "https://h:1", b"CA", "ann", token="t", namespace="shop")
    made = json.loads(path.read_text())
    assert made["users"] == [{"name": "ann", "user": {"token": "t"}}]
    assert made["contexts"][0]["context"] == {"cluster": "koord", "user": "ann", "namespace": "shop"}
    assert made["clusters"][0]["cluster"] == {"server": "https://h:1", "certificate-authority-data": "Q0E="}
    with pytest.raises(ValueError, match="either a client certificate or a token"):
        kubeconfig(tmp_path / "x", "https://h:1", b"CA", "ann")
