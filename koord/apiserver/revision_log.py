"""The log of revisions on disk: SQLite in WAL mode, one row per write, the row number being the resourceVersion.

Synchronous on purpose: the store calls it from one thread of its own. `append` returns when its rows are on disk.

    revision(rev INTEGER PRIMARY KEY, key TEXT, prev INTEGER, deleted INTEGER, value BLOB)

`prev` is the revision that a row replaces (0: none), so history can be walked and compacted without a scan.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Durability = Literal["full", "fast"]

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE revision(rev INTEGER PRIMARY KEY, key TEXT NOT NULL, prev INTEGER NOT NULL, deleted INTEGER NOT NULL,
                      value BLOB NOT NULL);
CREATE INDEX revision_key ON revision(key, rev);
CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
_COLUMNS = "rev, key, prev, deleted, value"


class DataDirInUse(RuntimeError):
    """Another process has this data directory open."""


class DataDirUnusable(RuntimeError):
    """The data directory holds something that this version cannot read."""


@dataclass(frozen=True, slots=True)
class Row:
    rev: int
    key: str
    prev: int
    deleted: bool
    value: bytes


class RevisionLog:
    """An open log. Holds a lock on its directory until `close`."""

    def __init__(self, directory: Path, durability: Durability = "full") -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = directory / "store.sqlite"
        self._lock = _locked(directory / "lock")
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._configure(durability)
            self._migrate()
        except sqlite3.DatabaseError as error:
            os.close(self._lock)
            raise DataDirUnusable(f"{self.path}: {error}") from error

    def close(self) -> None:
        self._db.close()
        os.close(self._lock)

    def revision(self) -> int:
        """The newest revision ever given out, whether or not its row is still there."""
        newest = self._db.execute("SELECT MAX(rev) FROM revision").fetchone()[0] or 0
        return max(int(newest), self._meta("revision"))

    def compacted(self) -> int:
        """History up to and including this revision is gone."""
        return self._meta("compacted")

    def append(self, rows: Sequence[Row]) -> None:
        """Write a group of rows in one transaction; on disk when this returns. On an error none of them is."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(
                f"INSERT INTO revision({_COLUMNS}) VALUES (?, ?, ?, ?, ?)",
                ((row.rev, row.key, row.prev, row.deleted, row.value) for row in rows),
            )
            self._db.execute("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself where the disk was full.
            with contextlib.suppress(sqlite3.OperationalError):
                self._db.execute("ROLLBACK")
            raise

    def live(self) -> Iterator[Row]:
        """The newest row of every key that exists, in the order of their revisions."""
        query = f"""SELECT {_COLUMNS} FROM revision WHERE deleted = 0
                    AND rev NOT IN (SELECT prev FROM revision) ORDER BY rev"""
        return (_row(found) for found in self._db.execute(query))

    def since(self, rev: int, until: int, prefix: str) -> list[Row]:
        """The rows of a collection after `rev`, up to and including `until`."""
        query = f"SELECT {_COLUMNS} FROM revision WHERE rev > ? AND rev <= ? AND key >= ? AND key < ? ORDER BY rev"
        return [_row(found) for found in self._db.execute(query, (rev, until, prefix, _after(prefix)))]

    def row(self, rev: int) -> Row | None:
        found = self._db.execute(f"SELECT {_COLUMNS} FROM revision WHERE rev = ?", (rev,)).fetchone()
        return _row(found) if found else None

    def at(self, rev: int, prefix: str, start_after: str, limit: int) -> list[Row]:
        """A collection as it was at `rev`, in key order, beginning after a key; up to `limit` rows (0: all)."""
        query = f"""SELECT {_COLUMNS} FROM revision WHERE rev IN
                      (SELECT MAX(rev) FROM revision WHERE key > ? AND key >= ? AND key < ? AND rev <= ? GROUP BY key)
                    AND deleted = 0 ORDER BY key LIMIT ?"""
        found = self._db.execute(query, (start_after, prefix, _after(prefix), rev, limit or -1))
        return [_row(each) for each in found]

    def compact(self, horizon: int) -> None:
        """Forget what was replaced or deleted at or before `horizon`."""
        done = self.compacted()
        self._db.execute("BEGIN IMMEDIATE")
        self._set_meta("revision", self.revision())
        self._set_meta("compacted", horizon)
        self._db.execute(
            "DELETE FROM revision WHERE rev IN (SELECT prev FROM revision WHERE rev > ? AND rev <= ?)", (done, horizon)
        )
        self._db.execute("DELETE FROM revision WHERE rev > ? AND rev <= ? AND deleted = 1", (done, horizon))
        self._db.execute("COMMIT")

    def _configure(self, durability: Durability) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
        # Without this SQLite rewrites the WAL from its start after each checkpoint, and a long reader lets it grow.
        self._db.execute("PRAGMA journal_size_limit = 67108864")
        self._db.execute("PRAGMA wal_autocheckpoint = 4000")

    def _migrate(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise DataDirUnusable(f"{self.path} was written by a newer koord (format {version} > {SCHEMA_VERSION})")
        if version == 0:
            self._db.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;")

    def _meta(self, name: str) -> int:
        found = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return int(found[0]) if found else 0

    def _set_meta(self, name: str, value: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta(name, value) VALUES (?, ?)", (name, value))


def _row(found: tuple[int, str, int, int, bytes]) -> Row:
    rev, key, prev, deleted, value = found
    return Row(rev, key, prev, bool(deleted), value)


def _after(prefix: str) -> str:
    """The smallest string greater than all that begin with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise DataDirInUse(f"{path.parent} is in use{f' by process {holder}' if holder else ''}") from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
