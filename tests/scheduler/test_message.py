"""What users read of a pod that fits nowhere."""

from __future__ import annotations

from koord.scheduler.framework.engine import Placement
from koord.scheduler.message import MOST_OF_AN_EVENT, fits_nowhere, for_an_event


def test_reasons_are_counted_and_in_order() -> None:
    placement = Placement("p", None, rejections={"node(s) had untolerated taint(s)": 3, "Insufficient cpu": 2})
    assert fits_nowhere(placement, 5) == (
        "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s)."
    )


def test_what_preemption_says_comes_before_what_would_help() -> None:
    placement = Placement("p", None, rejections={"Insufficient cpu": 1})
    told = fits_nowhere(placement, 1, "preemption: not eligible.", "It would fit on n1 with 1 more cpu there.")
    assert told == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible. "
        "It would fit on n1 with 1 more cpu there."
    )


def test_a_refusal_is_the_only_reason() -> None:
    placement = Placement("p", None, rejections={"x": 2}, refusal='persistentvolumeclaim "c" not found')
    assert fits_nowhere(placement, 2) == '0/2 nodes are available: persistentvolumeclaim "c" not found.'


def test_a_cluster_without_nodes_has_no_reasons() -> None:
    assert fits_nowhere(Placement("p", None), 0) == "no nodes available to schedule pods"


def test_events_hold_only_so_much() -> None:
    assert for_an_event("a" * 10) == "a" * 10
    cut = for_an_event("a" * 2000)
    assert len(cut) == MOST_OF_AN_EVENT
    assert cut.endswith(" ...")
