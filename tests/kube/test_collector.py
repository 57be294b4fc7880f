"""When Python's collector looks."""

from __future__ import annotations

import gc

from koord.kube import collector


def test_a_process_that_starts_collects_nothing_until_it_is_asked_or_is_large() -> None:
    usual = gc.get_threshold()
    collector.put_off()
    assert gc.get_threshold() == (collector.FIRST_PASS, *usual[1:])
    before = list(gc.callbacks)
    gc.collect()
    assert gc.get_threshold() == usual
    assert len(gc.callbacks) == len(before) - 1
