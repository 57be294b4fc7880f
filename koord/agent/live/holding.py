"""One agent per node: a process that changes a node's cgroups locks them, and their record names the node.

There are two locks, because a second agent may keep its record elsewhere: one on a file in the state directory, one on
the directory that is the node's cgroup root. The kernel releases both when the process ends. The file names the process
that holds it, and the roots that the record was made with. A record is never used with the roots of another node: every
directory in it would seem to be gone, and the record would be emptied.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from koord.agent.executor.ledger import Entry, LedgerError, knob_of
from koord.agent.host.cgroups import Cgroups
from koord.agent.live.keeping import LEDGER, whole_ledger
from koord.api.machinery.codec import UNREADABLE
from koord.api.machinery.faults import BadInput

log = logging.getLogger(__name__)

HOLDER: Final = "agent.json"
BOOT: Final = "proc/sys/kernel/random/boot_id"


class HeldError(BadInput):
    """Another process acts on the node."""


class StrayRecordError(BadInput):
    """A record of other cgroups than those that are here."""


class Roots(msgspec.Struct, frozen=True, rename="camel"):
    """Which node it is: where its host and its cgroups are, and what tells them from others."""

    host_root: str
    cgroup_root: str
    cgroup: str
    "The directory itself, by device and inode; empty where there is none."
    boot: str
    "Boot ID of the machine; empty if the host does not provide it."

    def was_restarted(self, here: Roots) -> bool:
        """Whether the machine was restarted since: all cgroups are new."""
        return bool(self.boot and here.boot) and self.boot != here.boot

    def may_be(self, here: Roots) -> bool:
        """The same host has another path inside a container; a cgroup may be removed and made again."""
        is_same_place = (self.host_root, self.cgroup_root) == (here.host_root, here.cgroup_root)
        return is_same_place or self.is_surely(here) or self.was_restarted(here)

    def is_surely(self, here: Roots) -> bool:
        return bool(self.cgroup) and self.cgroup == here.cgroup and self.boot == here.boot

    def __str__(self) -> str:
        return f"--host-root {self.host_root} --cgroup-root {self.cgroup_root or '/'}"


class Holder(msgspec.Struct, frozen=True, rename="camel"):
    pid: int
    since: str
    doing: str
    "As a user started it: `koord agent`, `koord agent restore`."
    roots: Roots | None = None
    "The roots that the record was made with; None if they are unknown."


def roots_of(cgroups: Cgroups) -> Roots:
    files = cgroups.files
    return Roots(
        os.path.abspath(files.root or "/"), cgroups.root, _identity(directory_of(cgroups)), files.text_if_any(BOOT)
    )


def directory_of(cgroups: Cgroups) -> str:
    """The directory that is the node's cgroup root."""
    return cgroups.files.path(cgroups.name("cpu", ""))


def is_there(cgroups: Cgroups) -> bool:
    return os.path.isdir(directory_of(cgroups))


def holder_of(state_dir: Path) -> Holder | None:
    """The last holder of the directory; None if there was none, or if the file cannot be read."""
    try:
        return msgspec.json.decode((state_dir / HOLDER).read_bytes(), type=Holder)
    except (OSError, *UNREADABLE):
        return None


@contextmanager
def held(
    state_dir: Path, cgroups: Cgroups, doing: str, since: str, *, adds_to_record: bool = True
) -> Iterator[Roots | None]:
    """Keeps other processes off the node until the block ends. Yields the roots that the record was made with so far; a
    process that adds to the record replaces them by its own. Raises HeldError if another process holds the node, and
    StrayRecordError if the record is of another node. A directory that cannot be written is logged, and not locked."""
    here = roots_of(cgroups)
    opened: list[int] = []
    try:
        try:
            state_dir.mkdir(parents=True, exist_ok=True)
            opened.append(os.open(state_dir / HOLDER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        except OSError as error:
            log.warning("%s: a second agent that uses this directory would not be noticed", error)
        if opened and not _is_locked(opened[0]):
            other = holder_of(state_dir)
            who = f"{other.doing}, process {other.pid}, since {other.since}" if other else "another process"
            raise HeldError(f"{state_dir} is in use by {who}: only one agent may act on a node. Stop it first")
        _lock_cgroups(cgroups, opened)
        last = holder_of(state_dir)
        before = last.roots if last is not None else None
        is_other = before is not None and not before.may_be(here) and not (adds_to_record and _is_gone(before, cgroups))
        if is_other and _has_entries(state_dir):
            raise StrayRecordError(_stray(state_dir, before, here))
        if opened:
            _write(opened[0], Holder(os.getpid(), since, doing, here if adds_to_record else before))
        yield before
    finally:
        for fd in opened:
            os.close(fd)


def check_restorable(state_dir: Path, entries: Collection[Entry], before: Roots | None, cgroups: Cgroups) -> None:
    """Raises StrayRecordError for a record that cannot be put back on these cgroups. `before`: the roots that it was
    made with. A missing cgroup and a wrong root are distinguished: entries of ended pods need nothing,
    if this surely is their node."""
    here = roots_of(cgroups)
    if not entries:
        return
    if not here.cgroup:
        raise StrayRecordError(_stray(state_dir, before, here, f"there is no cgroup {directory_of(cgroups)}"))
    if before is not None and (before.is_surely(here) or before.was_restarted(here)):
        return
    inside = [entry for entry in entries if entry.directory]
    if not inside or any(_is_there(entry, cgroups) for entry in inside):
        return
    raise StrayRecordError(
        _stray(state_dir, before, here, f"none of the cgroups that it names is here ({len(inside)})")
    )


def _stray(state_dir: Path, before: Roots | None, here: Roots, why: str = "it is of another node") -> str:
    made = f" It was made with {before}." if before is not None else ""
    return (
        f"{state_dir / LEDGER} cannot be used with {here}: {why}.{made} Nothing was changed. Give the roots that it was"
        " made with; or delete it, if the cgroups that it names are gone for good"
    )


def _is_gone(before: Roots, cgroups: Cgroups) -> bool:
    """Whether the cgroup of a node was removed, as that of a local node is at its end: nothing is left to put back."""
    there = Cgroups(cgroups.files, cgroups.version, before.cgroup_root)
    return before.host_root == roots_of(cgroups).host_root and is_there(cgroups) and not is_there(there)


def _is_there(entry: Entry, cgroups: Cgroups) -> bool:
    knob = knob_of(entry)
    return knob is not None and cgroups.is_there(entry.directory, knob)


def _has_entries(state_dir: Path) -> bool:
    """A damaged record counts as empty: the agent sets it aside when it reads it."""
    with suppress(LedgerError):
        return len(whole_ledger(state_dir)) > 0
    return False


def _lock_cgroups(cgroups: Cgroups, opened: list[int]) -> None:
    path = directory_of(cgroups)
    try:
        opened.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except (FileNotFoundError, NotADirectoryError):
        return
    if not _is_locked(opened[-1]):
        pid = _locked_by(os.fstat(opened[-1]))
        who = f"process {pid}" if pid else "another agent, whose process is not visible here"
        raise HeldError(f"{path} is in use by {who}: only one agent may act on a node. Stop it first")


def _is_locked(fd: int) -> bool:
    """By this process, from now on."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _locked_by(status: os.stat_result) -> int:
    """The process that holds a lock on a file, as the kernel tells; 0 where it does not."""
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if len(words) > 5 and words[1] == "FLOCK" and words[5] == file:
                return max(int(words[4]), 0)
    return 0


def _identity(directory: str) -> str:
    try:
        status = os.stat(directory)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return f"{status.st_dev}:{status.st_ino}"


def _write(fd: int, holder: Holder) -> None:
    """In place: the lock is on this very file. On a full disk the agent goes on without."""
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, msgspec.json.encode(holder), 0)
    except OSError as error:
        log.warning("the holder of the node cannot be written down: %s", error)
