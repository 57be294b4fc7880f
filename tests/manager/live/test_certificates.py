"""When certificates change, and that no client is ever shown one that it does not trust."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.manager.live.certificates import Lifetimes, Material, renewed

NOW_S = 1_800_000_000.0
NAMES = ("webhook.koordinator-system.svc", "localhost", "127.0.0.1")
DAY_S = 86400.0
SHORT = Lifetimes(
    authority_s=100, certificate_s=40, renew_before_s=10, renew_authority_before_s=30, settle_s=5, keep_s=10
)


def accepts(bundle: bytes, shown: bytes, name: str, now_s: float) -> bool:
    """Whether a caller who trusts a bundle accepts a certificate."""
    store = Store(x509.load_pem_x509_certificates(bundle))
    moment = dt.datetime.fromtimestamp(now_s, dt.UTC).replace(tzinfo=None)
    verifier = PolicyBuilder().store(store).time(moment).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(x509.load_pem_x509_certificate(shown), [])
    except VerificationError:
        return False
    return True


def ends(pem: bytes) -> float:
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()


def test_the_first_certificate_is_for_ten_years_and_every_name() -> None:
    made = renewed(Material(), NAMES, NOW_S)
    assert ends(made.certificate) - NOW_S > 9.9 * 365 * DAY_S
    assert all(accepts(made.bundle, made.certificate, name, NOW_S) for name in NAMES[:2])
    assert renewed(made, NAMES, NOW_S + 1) is made


def test_what_is_kept_can_be_read_again_under_all_its_names() -> None:
    made = renewed(Material(), NAMES, NOW_S)
    data = made.data()
    assert set(data) == {"ca-cert.pem", "ca-key.pem", "cert.pem", "key.pem", "tls.crt", "tls.key"}
    assert Material.of(data) == made
    assert Material.of({name: text for name, text in data.items() if not name.startswith("tls")}) == made


def test_a_certificate_is_replaced_half_a_year_before_its_end_by_the_same_authority() -> None:
    times = Lifetimes(certificate_s=365 * DAY_S)
    made = renewed(Material(), NAMES, NOW_S, times)
    assert renewed(made, NAMES, NOW_S + 182 * DAY_S, times) is made
    later = renewed(made, NAMES, NOW_S + 184 * DAY_S, times)
    assert later.certificate != made.certificate
    assert later.bundle == made.bundle


def test_an_expired_certificate_is_replaced_at_once() -> None:
    made = renewed(Material(), NAMES, NOW_S, SHORT)
    later = renewed(made, NAMES, NOW_S + 200, SHORT)
    assert accepts(later.bundle, later.certificate, NAMES[0], NOW_S + 200)


def test_what_does_not_fit_together_is_replaced() -> None:
    made, other = renewed(Material(), NAMES, NOW_S), renewed(Material(), NAMES, NOW_S)
    for broken in (
        replace(made, key=other.key),
        replace(made, certificate=other.certificate),
        replace(made, certificate=b"nonsense"),
        replace(made, key=b""),
        replace(made, bundle=other.bundle),
        replace(made, bundle=b"", authority_key=b""),
    ):
        mended = renewed(broken, NAMES, NOW_S)
        assert accepts(mended.bundle, mended.certificate, NAMES[0], NOW_S)
        assert renewed(mended, NAMES, NOW_S) is mended


def test_another_name_needs_another_certificate() -> None:
    made = renewed(Material(), NAMES, NOW_S)
    more = renewed(made, (*NAMES, "another.host"), NOW_S)
    assert accepts(more.bundle, more.certificate, "another.host", NOW_S)
    assert more.bundle == made.bundle


def test_a_new_authority_is_trusted_before_it_is_relied_on_and_the_old_one_goes_last() -> None:
    at_s, held = NOW_S, renewed(Material(), NAMES, NOW_S, SHORT)
    # An authority that ends in less than 30 gets a successor: both are trusted, nothing new is shown yet.
    while len(x509.load_pem_x509_certificates(held.bundle)) == 1:
        at_s, before = at_s + 1, held
        held = renewed(held, NAMES, at_s, SHORT)
    assert at_s == NOW_S + 71
    assert held.certificate == before.certificate
    announced_s = at_s
    shown = held.certificate
    assert renewed(held, NAMES, announced_s + 4, SHORT).certificate == shown
    switched = renewed(held, NAMES, announced_s + 5, SHORT)
    assert switched.certificate != shown
    assert len(x509.load_pem_x509_certificates(switched.bundle)) == 2
    assert len(x509.load_pem_x509_certificates(renewed(switched, NAMES, announced_s + 15, SHORT).bundle)) == 1


def test_a_new_authority_is_not_relied_on_while_api_servers_could_not_be_told() -> None:
    due_s = NOW_S + 71
    old = replace(SHORT, certificate_s=100)
    both = renewed(renewed(Material(), NAMES, NOW_S, old), NAMES, due_s, old)
    assert renewed(both, NAMES, due_s + 20, old, told_for_s=0).certificate == both.certificate
    assert renewed(both, NAMES, due_s + 20, old, told_for_s=5).certificate != both.certificate


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.2, 4.0), min_size=30, max_size=120), st.integers(0, 3))
def test_whoever_trusts_what_he_was_told_a_moment_ago_accepts_what_is_shown(steps: list[float], lag: int) -> None:
    """API servers learn of a bundle a few looks late; what is shown is always of an authority that they know."""
    held, now_s = renewed(Material(), NAMES, NOW_S, SHORT), NOW_S
    told = [held.bundle] * 4
    for step in steps:
        # Looks come often enough: within what is left of a certificate when it is renewed, and lag less than settling.
        now_s += min(step, SHORT.settle_s / 4)
        held = renewed(held, NAMES, now_s, SHORT)
        told = [*told[1:], held.bundle]
        assert accepts(told[-1 - lag], held.certificate, NAMES[0], now_s)
