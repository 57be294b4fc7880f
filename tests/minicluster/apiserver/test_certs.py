from __future__ import annotations

import datetime as dt
import json
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509 import verification
from cryptography.x509.oid import NameOID

from koord.kube.certificates import making
from koord_minicluster.apiserver.certs import Authority, kubeconfig, signing_key, static_token

NOW = dt.datetime(2026, 11, 15, tzinfo=dt.UTC)
YEAR = dt.timedelta(days=365)


def subject(pem: bytes) -> tuple[str, list[str]]:
    name = x509.load_pem_x509_certificate(pem).subject
    groups = [str(name_attribute.value) for name_attribute in name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return str(name.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value), groups


def test_a_user_is_the_common_name_and_its_groups_the_organisations(tmp_path: Path) -> None:
    made = Authority.open(tmp_path).client("system:node:n1", ["system:nodes", "dev"])
    assert subject(made.certificate) == ("system:node:n1", ["system:nodes", "dev"])


def test_everything_is_kept_while_it_is_good(tmp_path: Path) -> None:
    first = Authority.open(tmp_path, NOW)
    server, client, key = first.server(), first.client("ann"), signing_key(tmp_path)
    before = server[0].read_bytes()
    again = Authority.open(tmp_path, NOW + 200 * YEAR)
    assert again.pem == first.pem
    assert again.server()[0].read_bytes() == before
    assert again.client("ann") == client
    assert signing_key(tmp_path).private_numbers() == key.private_numbers()
    assert static_token(tmp_path, "ann") == static_token(tmp_path, "ann")


def test_certificates_are_good_whatever_the_clock_says(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path, NOW)
    store = verification.Store([x509.load_pem_x509_certificate(authority.pem)])
    server = x509.load_pem_x509_certificate(authority.server()[0].read_bytes())
    client = x509.load_pem_x509_certificate(authority.client("ann").certificate)
    for year in (1971, 2024, 2028, 2100, 9998):
        policy = verification.PolicyBuilder().store(store).time(dt.datetime(year, 2, 3))
        policy.build_server_verifier(x509.DNSName("localhost")).verify(server, [])
        assert client.not_valid_before_utc < dt.datetime(year, 2, 3, tzinfo=dt.UTC) < client.not_valid_after_utc


@pytest.mark.parametrize("from_days", [-365, 30], ids=["ends", "begins later"])
def test_an_authority_that_is_not_good_at_the_time_is_replaced_with_all_it_signed(
    tmp_path: Path, from_days: int
) -> None:
    first = limited_authority(tmp_path, NOW + dt.timedelta(days=from_days))
    before = first.client("ann")
    again = Authority.open(tmp_path, NOW)
    assert again.pem != first.pem
    assert again.client("ann") != before


def test_a_certificate_that_ends_before_its_authority_is_made_anew(tmp_path: Path) -> None:
    authority = limited_authority(tmp_path, NOW, years=10)
    before = authority.client("ann")
    issuer = authority._issuer
    key = making.new_key()
    name = making.name("ann")
    brief = making.certificate(name, key, NOW, YEAR, by=issuer, usage=making.CLIENT)
    (tmp_path / "client-ann.crt").write_bytes(making.pem_of(brief))
    (tmp_path / "client-ann.key").write_bytes(making.key_pem(key))
    after = Authority.open(tmp_path, NOW)
    assert after.pem == authority.pem
    assert after.client("ann") != before
    made = x509.load_pem_x509_certificate(after.client("ann").certificate)
    assert made.not_valid_after_utc == issuer.certificate.not_valid_after_utc


def limited_authority(directory: Path, begins: dt.datetime, years: int = 1) -> Authority:
    """One that is good for some years."""
    key = making.new_key()
    certificate = making.certificate(making.name("koord-ca"), key, begins, years * YEAR)
    (directory / "ca.crt").write_bytes(making.pem_of(certificate))
    (directory / "ca.key").write_bytes(making.key_pem(key))
    return Authority(directory, making.Issuer(certificate, key))


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
def test_a_damaged_file_is_replaced_with_a_warning(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    Authority.open(tmp_path).client("ann")
    (tmp_path / "client-ann.crt").write_bytes(content)
    assert subject(Authority.open(tmp_path).client("ann").certificate)[0] == "ann"
    (tmp_path / "ca.key").write_bytes(content)
    Authority.open(tmp_path).server()
    (tmp_path / "token-ann").write_bytes(content + b"\xff")
    assert static_token(tmp_path, "ann") == static_token(tmp_path, "ann")
    assert caplog.text.count("cannot be read and is replaced") == 3


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
