"""The log of revisions on disk: SQLite in WAL mode, one row per write, the row number being the resourceVersion.

Synchronous on purpose. Of the writer's calls `commit`, `checkpoint` and `compact` wait for the disk; the store makes
them from a thread where they may take long, and reads history (`since`, `at`) from another, over a second connection.

    revision(rev INTEGER PRIMARY KEY, key TEXT, prev INTEGER, deleted INTEGER, value BLOB)

`prev` is the revision that a row replaces (0: none), so history can be walked and compacted without a scan. The file
is created with its tables: a file without them was damaged, and is refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from koord.api.machinery.faults import BadInput

log = logging.getLogger(__name__)

Durability = Literal["full", "fast"]

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE revision(rev INTEGER PRIMARY KEY, key TEXT NOT NULL, prev INTEGER NOT NULL, deleted INTEGER NOT NULL,
                      value BLOB NOT NULL);
CREATE INDEX revision_key ON revision(key, rev);
CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
_COLUMNS = "rev, key, prev, deleted, value"
_MOST_AT_ONCE = 64
"Rows of one statement. SQLite's module keeps those that were read, of each length."
_BYTES_BEFORE_CHECKPOINT = 16 << 20
_BYTES_PER_ROW = 12 << 10
"Of pages that a row touches, beside those of its value."
_WAL_KEPT_BYTES = 64 << 20


_WAY_OUT = "restore the data directory from a copy, or remove it to begin with an empty cluster"


class DataDirInUse(BadInput):
    """Another process has this data directory open."""


class DataDirUnusable(BadInput):
    """The data directory holds something that this version cannot read."""


class Damaged(DataDirUnusable):
    """The store cannot be read. Says how it is damaged, and what to do."""

    def __init__(self, path: Path, how: str) -> None:
        super().__init__(f"{path} is damaged: {how}; {_WAY_OUT}")


class Row(NamedTuple):
    """One write. `key` begins with the name of its collection and a slash."""

    rev: int
    key: str
    prev: int
    deleted: bool
    value: bytes


class RevisionLog:
    """An open log. Holds a lock on its directory until `close`."""

    def __init__(self, directory: Path, durability: Durability = "full") -> None:
        _make_directory(directory)
        self.path = directory / "store.sqlite"
        self._logged_bytes = 0
        self._lock = _locked(directory / "lock")
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, self._lock)
            try:
                if not self.path.exists():
                    _make_store(self.path)
                elif not self.path.stat().st_size:
                    # Before SQLite sees it, which would drop the WAL of an empty file.
                    raise Damaged(self.path, "it is empty")
                self._db = undo.enter_context(contextlib.closing(self._connect()))
                self._check_version()
                self._configure(durability)
                self._reader = self._connect()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise DataDirUnusable(f"{self.path} cannot be opened: {error}") from error
                raise Damaged(self.path, str(error)) from error
            except OSError as error:
                raise DataDirUnusable(f"{self.path} cannot be opened: {error.strerror}") from error
            undo.pop_all()

    def close(self) -> None:
        self._reader.close()
        self._db.close()
        os.close(self._lock)

    def revision(self) -> int:
        """The newest revision that was ever committed, whether or not its row is still there."""
        newest = self._db.execute("SELECT MAX(rev) FROM revision").fetchone()[0] or 0
        return max(int(newest), self._meta("revision"))

    def compacted(self) -> int:
        """History up to and including this revision is gone."""
        return self._meta("compacted")

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether the WAL has grown enough to be carried over into the database."""
        return self._logged_bytes > _BYTES_BEFORE_CHECKPOINT

    def checkpoint(self) -> None:
        """Carry the WAL over into the database, as far as readers let it. Takes long; the WAL has all of it before."""
        self._logged_bytes = 0
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def commit(self, rows: Sequence[Row]) -> None:
        """Put a group of rows on disk: all of it is there when this returns, none of it if it raises."""
        self._logged_bytes += sum([len(row.value) + _BYTES_PER_ROW for row in rows])
        if 0 < len(rows) <= _MOST_AT_ONCE:
            # Which is a transaction by itself.
            self._insert(rows)
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for at in range(0, len(rows), _MOST_AT_ONCE):
                self._insert(rows[at : at + _MOST_AT_ONCE])
            self._db.execute("COMMIT")
        except (sqlite3.Error, ValueError):
            self._roll_back()
            raise

    def _insert(self, rows: Sequence[Row]) -> None:
        """In one statement: a thread takes its turn at the interpreter once then, not once for every row."""
        self._db.execute(_insertion(len(rows)), [value for row in rows for value in row])

    def _roll_back(self) -> None:
        # Where the disk was full, SQLite has rolled back by itself.
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def probe(self) -> None:
        """Write something that changes nothing, all the way to the disk. Raises where that cannot be."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._set_meta("revision", self.revision())
            self._db.execute("COMMIT")
        except sqlite3.Error:
            self._roll_back()
            raise

    def live(self) -> Iterator[Row]:
        """The newest row of every key that exists, in the order of their revisions."""
        query = f"""SELECT {_COLUMNS} FROM revision WHERE deleted = 0
                    AND rev NOT IN (SELECT prev FROM revision) ORDER BY rev"""
        return (_row(row) for row in self._db.execute(query))

    def since(self, rev: int, until: int, collection: str) -> list[tuple[Row, Row | None]]:
        """The rows of a collection after `rev`, up to and including `until`, each with the row that it replaced."""
        # The unary plus keeps SQLite from walking the whole collection by its keys.
        query = """SELECT new.rev, new.key, new.prev, new.deleted, new.value,
                          old.rev, old.key, old.prev, old.deleted, old.value
                   FROM revision AS new LEFT JOIN revision AS old ON old.rev = new.prev
                   WHERE new.rev > ? AND new.rev <= ? AND +new.key >= ? AND +new.key < ? ORDER BY new.rev"""
        rows = self._reader.execute(query, (rev, until, f"{collection}/", _after(f"{collection}/")))
        return [(_row(row[:5]), _row(row[5:]) if row[5] is not None else None) for row in rows]

    def at(self, rev: int, prefix: str, start_after: str, limit: int = 0) -> list[Row]:
        """The rows that were live at `rev`, in key order, beginning after a key; up to `limit` rows (0: all)."""
        query = f"""SELECT {_COLUMNS} FROM revision WHERE rev IN
                      (SELECT MAX(rev) FROM revision WHERE key > ? AND key >= ? AND key < ? AND rev <= ? GROUP BY key)
                    AND deleted = 0 ORDER BY key LIMIT ?"""
        rows = self._reader.execute(query, (start_after, prefix, _after(prefix), rev, limit or -1))
        return [_row(row) for row in rows]

    def compact(self, horizon: int) -> None:
        """Forget what was replaced or deleted at or before `horizon`. On an error nothing is forgotten."""
        done = self.compacted()
        self._logged_bytes += (horizon - done) * _BYTES_PER_ROW
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._set_meta("revision", self.revision())
            self._set_meta("compacted", horizon)
            self._db.execute(
                "DELETE FROM revision WHERE rev IN (SELECT prev FROM revision WHERE rev > ? AND rev <= ?)",
                (done, horizon),
            )
            self._db.execute("DELETE FROM revision WHERE rev > ? AND rev <= ? AND deleted = 1", (done, horizon))
            self._db.execute("COMMIT")
        except sqlite3.Error:
            self._roll_back()
            raise

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)

    def _configure(self, durability: Durability) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
        # SQLite writes the WAL from its start again after a checkpoint, but never shrinks it unasked.
        self._db.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
        self._db.execute("PRAGMA wal_autocheckpoint = 0")

    def _check_version(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise DataDirUnusable(
                f"{self.path} was written by a newer koord: its format is {version}, this one knows up to "
                f"{SCHEMA_VERSION}"
            )
        if version < SCHEMA_VERSION:
            raise Damaged(self.path, "it has no tables of koord")

    def _meta(self, name: str) -> int:
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else 0

    def _set_meta(self, name: str, value: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta(name, value) VALUES (?, ?)", (name, value))


@cache
def _insertion(rows: int) -> str:
    return f"INSERT INTO revision({_COLUMNS}) VALUES {', '.join(['(?, ?, ?, ?, ?)'] * rows)}"


def _row(row: tuple[int, str, int, int, bytes]) -> Row:
    rev, key, prev, deleted, value = row
    return Row(rev, key, prev, bool(deleted), value)


def _after(prefix: str) -> str:
    """The smallest string greater than all that begin with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _make_directory(directory: Path) -> None:
    """Make it, for its owner alone, and its entry durable: SQLite sees to the files within."""
    if directory.is_dir():
        return
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    _sync_directory(directory.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_store(path: Path) -> None:
    """An empty store, made beside and put in place whole: whatever ends this leaves no file without tables."""
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists() and wal.stat().st_size:
        raise Damaged(path, f"it is missing, and {wal.name} is there")
    log.info("beginning with an empty store", extra={"path": str(path)})
    fresh = path.with_name(f".{path.name}.new")
    for left in path.parent.glob(f"{fresh.name}*"):
        left.unlink()
    # The file holds secrets; SQLite gives the WAL the same mode.
    os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;")
    fresh.replace(path)
    _sync_directory(path.parent)


def _locked(path: Path) -> int:
    """A descriptor that holds the lock; the kernel drops it with the process, however that ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise DataDirInUse(f"{path.parent} is in use{f' by process {holder}' if holder else ''}") from None
    # The note is for the next one's error message; a full disk must not keep the server from serving.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
