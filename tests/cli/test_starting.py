"""A process that starts, and Python's collector."""

from __future__ import annotations

import gc

from koord.cli.starting import FIRST_PASS, put_off_collection


def test_nothing_is_collected_until_somebody_asks_and_then_as_usual() -> None:
    usual, known = gc.get_threshold(), list(gc.callbacks)
    put_off_collection()
    assert gc.get_threshold() == (FIRST_PASS, *usual[1:])
    gc.collect()
    assert gc.get_threshold() == usual
    assert gc.callbacks == known
