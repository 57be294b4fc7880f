"""The table's log: a reader that asks what changed since a version gets each row, and all reasons."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.scheduler.state.table import Reason, Table

REASONS = [int(reason) for reason in (Reason.REQUESTED, Reason.PODS, Reason.LABELS, Reason.TAINTS, Reason.LOAD)]
STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(REASONS), st.booleans()), max_size=30)


@given(steps=STEPS)
def test_reasons_since_a_version_are_those_of_all_changes_after_it(steps: list[tuple[int, int, bool]]) -> None:
    table = Table()
    for i in range(4):
        table.add_row(f"n{i}")
    heard = {table.read(): 0}
    for row, reason, is_read in steps:
        table.touch(row, reason)
        # Until it is read, a change may go into the one before it.
        heard = {since: reasons | reason for since, reasons in heard.items()}
        if is_read:
            heard[table.read()] = 0
    for since, reasons in heard.items():
        assert table.reasons(since) == reasons
        changes = table.changes(since)
        assert changes is not None
        assert changes.reasons == reasons
