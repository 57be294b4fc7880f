"""The log on disk: groups are whole or absent, whatever is cut off; compaction; who may open it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord_minicluster.apiserver.revision_log import SCHEMA_VERSION, DataDirInUse, DataDirUnusable, RevisionLog, Row

WAL_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
FRAME_BYTES = FRAME_HEADER_BYTES + 4096


class Tail(NamedTuple):
    database: bytes
    wal: bytes
    ends: dict[int, int]
    "Where a group ends in the WAL, and its last revision."


def row(rev: int, key: str, prev: int = 0, *, deleted: bool = False, size: int = 20) -> Row:
    return Row(rev, key, prev, deleted, f"{key}@{rev}".encode().ljust(size, b"."))


def append(log: RevisionLog, *rows: Row) -> None:
    log.commit(rows)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RevisionLog]:
    with closing(RevisionLog(tmp_path)) as opened:
        yield opened


def test_a_row_is_live_until_replaced_or_deleted(log: RevisionLog) -> None:
    append(log, row(1, "pods/a"), row(2, "pods/b"), row(3, "pods/c"))
    append(log, row(4, "pods/b", 2), row(5, "pods/c", 3, deleted=True))
    assert [row.rev for row in log.live()] == [1, 4]


def test_the_past_of_a_collection_is_read_with_what_each_row_replaced(log: RevisionLog) -> None:
    append(log, row(1, "pods/a"), row(2, "podsets/a"), row(3, "pods/a", 1), row(4, "pods/a", 3, deleted=True))
    found = [(new.rev, old.rev if old else None) for new, old in log.since(0, 4, "pods")]
    assert found == [(1, None), (3, 1), (4, 3)]
    assert [new.rev for new, _ in log.since(1, 3, "pods")] == [3]
    assert [new.rev for new, _ in log.since(0, 9, "podsets")] == [2]


def test_a_collection_is_read_as_it_was(log: RevisionLog) -> None:
    append(log, row(1, "pods/a"), row(2, "pods/b"), row(3, "pods/a", 1), row(4, "pods/b", 2, deleted=True))
    append(log, row(5, "pods/b"), row(6, "podsets/a"))
    at = {rev: [row.rev for row in log.at(rev, "pods/", "")] for rev in range(7)}
    assert at == {0: [], 1: [1], 2: [1, 2], 3: [3, 2], 4: [3], 5: [3, 5], 6: [3, 5]}
    assert [row.rev for row in log.at(5, "pods/", "pods/a")] == [5]
    assert [row.rev for row in log.at(5, "pods/", "", 1)] == [3]


@pytest.mark.parametrize("size", [2, 64, 65, 200])
def test_a_group_with_a_revision_that_exists_is_refused_whole(log: RevisionLog, size: int) -> None:
    append(log, row(1, "pods/a"))
    others = [row(rev, f"pods/{rev}") for rev in range(2, size + 1)]
    with pytest.raises(sqlite3.IntegrityError):
        append(log, *others, row(1, "pods/c"))
    assert [row.rev for row in log.live()] == [1]
    append(log, *others)
    assert [row.rev for row in log.live()] == [*range(1, size + 1)]


@given(
    writes=st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=40),
    horizons=st.lists(st.integers(0, 40), max_size=4),
)
def test_compaction_forgets_the_past_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, bool]], horizons: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("log")
    newest: dict[str, int] = {}
    rows = []
    for rev, (key, deleted) in enumerate(writes, 1):
        deleted = deleted and key in newest
        rows.append(row(rev, f"pods/{key}", newest.get(key, 0), deleted=deleted))
        if deleted:
            del newest[key]
        else:
            newest[key] = rev
    with closing(RevisionLog(directory, "fast")) as log:
        append(log, *rows)
        for horizon in sorted(min(h, len(rows)) for h in horizons):
            log.compact(horizon)
            for rev in range(horizon, len(rows) + 1):
                then: dict[str, Row] = {}
                for each in rows[:rev]:
                    then[each.key] = each
                expected = sorted(row for row in then.values() if not row.deleted)
                assert sorted(log.at(rev, "pods/", "")) == expected
            events = log.since(horizon, len(rows), "pods")
            assert [new for new, _ in events] == rows[horizon:]
            assert all((old.rev if old else 0) == new.prev for new, old in events)
            kept = log._db.execute("SELECT COUNT(*) FROM revision").fetchone()[0]
            assert kept <= len(log.at(horizon, "pods/", "")) + len(rows) - horizon
    with closing(RevisionLog(directory)) as log:
        assert {row.key[5:]: row.rev for row in log.live()} == newest
        assert log.revision() == len(rows)
    shutil.rmtree(directory)


def test_a_log_that_was_compacted_to_nothing_still_knows_its_newest_revision(tmp_path: Path) -> None:
    with closing(RevisionLog(tmp_path)) as log:
        append(log, row(1, "pods/a"), row(2, "pods/a", 1, deleted=True))
        log.compact(2)
        assert log.compacted() == 2
    with closing(RevisionLog(tmp_path)) as log:
        assert (log.revision(), list(log.live())) == (2, [])


def test_a_compaction_that_fails_forgets_nothing(log: RevisionLog) -> None:
    append(log, row(1, "pods/a"), row(2, "pods/a", 1))
    log._db.execute("CREATE TRIGGER no BEFORE DELETE ON revision BEGIN SELECT RAISE(ABORT, 'no room'); END")
    with pytest.raises(sqlite3.Error, match="no room"):
        log.compact(2)
    assert log.compacted() == 0
    append(log, row(3, "pods/b"))
    assert [row.rev for row in log.at(1, "pods/", "")] == [1]


def test_the_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "data"
    with closing(RevisionLog(directory)) as log:
        append(log, row(1, "secrets/a"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert set(modes.values()) == {0o600}, modes


def test_the_second_to_open_a_directory_is_told_who_has_it(tmp_path: Path) -> None:
    with closing(RevisionLog(tmp_path)), pytest.raises(DataDirInUse, match=f"in use by process {os.getpid()}"):
        RevisionLog(tmp_path)


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    with closing(RevisionLog(tmp_path)) as log:
        log._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = (tmp_path / "store.sqlite").read_bytes()
    with pytest.raises(DataDirUnusable, match=f"newer koord: its format is {SCHEMA_VERSION + 1}"):
        RevisionLog(tmp_path)
    assert (tmp_path / "store.sqlite").read_bytes() == before
    with pytest.raises(DataDirUnusable):
        RevisionLog(tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(DataDirUnusable, match="not a database"):
        RevisionLog(tmp_path)


@pytest.mark.parametrize(
    ("content", "how"),
    [
        (b"", "is damaged: it is empty"),
        (b"SQLite format 3\0" + bytes(84), "is damaged: "),
        (None, "is damaged: it has no tables of koord"),
    ],
    ids=["empty", "cut", "another database"],
)
def test_a_store_that_has_lost_its_tables_is_refused_and_left_alone(
    content: bytes | None, how: str, tmp_path: Path
) -> None:
    path = tmp_path / "store.sqlite"
    if content is None:
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE else_(x)")
    else:
        path.write_bytes(content)
    (tmp_path / "store.sqlite-wal").write_bytes(b"all that is left")
    before = path.read_bytes()
    with pytest.raises(DataDirUnusable, match=f"{how}.*; restore the data directory from a copy, or remove it"):
        RevisionLog(tmp_path)
    assert path.read_bytes() == before
    if content == b"":
        assert (tmp_path / "store.sqlite-wal").read_bytes() == b"all that is left"


def test_a_log_without_its_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite-wal").write_bytes(b"all that is left")
    with pytest.raises(DataDirUnusable, match=r"it is missing, and store\.sqlite-wal is there"):
        RevisionLog(tmp_path)


def test_a_store_whose_making_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / ".store.sqlite.new").write_bytes(b"SQLite")
    (tmp_path / ".store.sqlite.new-wal").write_bytes(b"x")
    with closing(RevisionLog(tmp_path)) as log:
        append(log, row(1, "pods/a"))
    assert {path.name for path in tmp_path.iterdir()} == {"store.sqlite", "lock"}


@pytest.fixture(scope="module")
def tail(tmp_path_factory: pytest.TempPathFactory) -> Tail:
    """A store of a few groups that were committed, and where each of them ends in the WAL."""
    directory = tmp_path_factory.mktemp("tail")
    ends = {}
    rev = 0
    with closing(RevisionLog(directory)) as log:
        wal = directory / "store.sqlite-wal"
        for size in (1, 3, 2, 1, 2):
            append(log, *(row(rev + i, f"pods/{rev + i}", size=3000) for i in range(1, size + 1)))
            rev += size
            ends[_wal_end(wal)] = rev
        return Tail((directory / "store.sqlite").read_bytes(), wal.read_bytes(), ends)


def test_a_store_cut_at_any_byte_of_its_wal_opens_to_whole_groups(tail: Tail, tmp_path: Path) -> None:
    """Cut at every byte of the last frame's header, densely in its page and around every edge of frames before it."""
    last = max(tail.ends)
    dense = last - FRAME_BYTES
    cuts = [c for c in range(WAL_HEADER_BYTES, dense) if (c - WAL_HEADER_BYTES) % FRAME_BYTES in (0, 1, 24, 2000)]
    page = dense + FRAME_HEADER_BYTES
    for cut in [*cuts, *range(dense, page), *range(page, last - 8, 11), *range(last - 8, last + 1)]:
        newest = max((rev for end, rev in tail.ends.items() if end <= cut), default=0)
        assert _reopened(tmp_path, tail.database, tail.wal[:cut]) == list(range(1, newest + 1)), cut


def test_a_store_with_a_damaged_byte_in_its_wal_opens_to_the_groups_before_it(tail: Tail, tmp_path: Path) -> None:
    last = max(tail.ends)
    headers = [frame + byte for frame in range(WAL_HEADER_BYTES, last, FRAME_BYTES) for byte in (0, 7, 8, 15, 16, 23)]
    for damaged in [*headers, *range(WAL_HEADER_BYTES, last, 509)]:
        wal = bytearray(tail.wal)
        wal[damaged] ^= 0xFF
        newest = max((rev for end, rev in tail.ends.items() if end <= damaged), default=0)
        assert _reopened(tmp_path, tail.database, bytes(wal)) == list(range(1, newest + 1)), damaged


def _reopened(directory: Path, database: bytes, wal: bytes) -> list[int]:
    """The revisions that are live in a store with these files."""
    for stale in directory.iterdir():
        stale.unlink()
    (directory / "store.sqlite").write_bytes(database)
    (directory / "store.sqlite-wal").write_bytes(wal)
    with closing(RevisionLog(directory, "fast")) as log:
        found = [row.rev for row in log.live()]
        assert log.revision() == (found[-1] if found else 0)
        return found


def _wal_end(wal: Path) -> int:
    """Where the last valid frame ends: the file may be longer, by frames of before the last checkpoint."""
    content = wal.read_bytes()
    salt = content[16:24]
    end = WAL_HEADER_BYTES
    while content[end + 8 : end + 16] == salt:
        end += FRAME_BYTES
    return end
