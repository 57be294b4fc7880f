"""How often others go for one pod in vain."""

from __future__ import annotations

from koord.scheduler.core.patience import MOST, REST_S, Patience


def test_after_some_times_nobody_has_to_go_for_a_while() -> None:
    patience = Patience()
    for number in range(MOST):
        assert not patience.is_over("p", float(number))
        patience.room_was_made("p", float(number))
    last_s = float(MOST - 1)
    assert patience.is_over("p", last_s)
    assert patience.is_over("p", last_s + REST_S - 1)
    assert not patience.is_over("other", last_s)
    assert not patience.is_over("p", last_s + REST_S)
    assert not patience.is_over("p", last_s + REST_S + 1), "and then as often again"


def test_who_got_a_place_begins_anew() -> None:
    patience = Patience()
    for _ in range(MOST):
        patience.room_was_made("p", 0.0)
    patience.forget("p")
    assert not patience.is_over("p", 0.0)
