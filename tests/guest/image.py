"""What a guest boots: Debian's kernel, and an initramfs with this Python, the agent and its tests.

Archives that the kernel unpacks one after the other: the interpreter with its libraries, which is kept for the next
run, what else a guest needs, and the project's own files, which are packed again. Modules are packed as bytecode: a
guest's CPU is too slow to compile them.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import py_compile
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

PROJECT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "koord-guest"
OWN_KERNEL = "KOORD_GUEST_KERNEL"
KERNEL_PACKAGE = "linux-image-cloud-amd64"
DOWNLOAD_WITHIN_S = 180.0

PACKAGES = (
    "msgspec", "click", "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "pytest_timeout",
)  # fmt: skip
"""What the agent's tests import, and what those import."""
DISTRIBUTIONS = ("msgspec", "click", "pytest", "pluggy", "pytest-timeout")
"""Of these, versions and entry points are asked for."""
_LEFT_OUT = {
    "test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "distutils", "pydoc_data", "site-packages",
    "__pycache__", "sqlite3", "curses", "dbm", "venv", "wsgiref", "xmlrpc", "config-3.11-x86_64-linux-gnu",
}  # fmt: skip
_LIBRARIES_LEFT_OUT = ("_ssl", "_sqlite3", "_tkinter", "_curses", "_dbm", "_gdbm", "_test", "_xxtest", "xx", "readline")
TOOLS = tuple(PROJECT / "tests" / f"{name}.py" for name in ("crowd", "waiting"))
"""What the agent's tests share with others."""
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
STDLIB = f"usr/lib/{_PYTHON}"
SITE = f"{STDLIB}/site-packages"
INTERPRETER = f"usr/bin/{_PYTHON}"


class NoGuest(Exception):
    """What a guest needs is not to be had here, and why."""


class NoKernel(NoGuest):
    """No kernel to boot."""


class NoOwnKernel(NoKernel):
    """None that was built for it."""


class NoSystemd(NoGuest):
    """No systemd to be its first process."""


class Archive:
    """An initramfs in cpio's newc form, the only one that the kernel reads."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._made: set[str] = set()
        self._number = 0

    def file(self, name: str, content: bytes, mode: int = 0o644) -> None:
        self.directory(str(Path(name).parent))
        if name not in self._made:
            self._made.add(name)
            self._entry(name, stat.S_IFREG | mode, content)

    def link(self, name: str, target: str) -> None:
        self.directory(str(Path(name).parent))
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def device(self, name: str, major: int, minor: int) -> None:
        self.directory(str(Path(name).parent))
        self._entry(name, stat.S_IFCHR | 0o600, b"", (major, minor))

    def directory(self, name: str) -> None:
        if name not in (".", "") and name not in self._made:
            self.directory(str(Path(name).parent))
            self._made.add(name)
            self._entry(name, stat.S_IFDIR | 0o755, b"")

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._made)

    def packed(self) -> bytes:
        return b"".join([*self._parts, _record("TRAILER!!!", 0, 0, b"", (0, 0))])

    def _entry(self, name: str, mode: int, content: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._number += 1
        self._parts.append(_record(name, self._number, mode, content, device))


def _record(name: str, number: int, mode: int, content: bytes, device: tuple[int, int]) -> bytes:
    encoded = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return _padded(head) + _padded(content)


def _padded(text: bytes) -> bytes:
    return text + b"\0" * (-len(text) % 4)


def kernel() -> Path:
    """As $KOORD_GUEST_KERNEL says, or Debian's, which is fetched once."""
    if told := os.environ.get(OWN_KERNEL):
        return Path(told)
    found = sorted(CACHE.glob("vmlinuz-*"))
    if not found:
        _fetch_kernel()
        found = sorted(CACHE.glob("vmlinuz-*"))
    if not found:
        raise NoKernel(f"{KERNEL_PACKAGE} has no kernel in it")
    return found[-1]


def _fetch_kernel() -> None:
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise NoKernel(f"set ${OWN_KERNEL} to a kernel with cgroup v2: there is no {tool} to fetch one")
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        told = _output("apt-cache", "depends", KERNEL_PACKAGE)
        named = re.search(r"Depends: (linux-image-\S+)", told)
        if named is None:
            raise NoKernel(f"apt-get update knows no {KERNEL_PACKAGE}")
        _output("apt-get", "download", named[1])
        (package,) = CACHE.glob(f"{named[1]}_*.deb")
        files = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True, timeout=DOWNLOAD_WITHIN_S
        )
        subprocess.run(
            ["tar", "-x", "--strip-components=2", "-C", CACHE, "--wildcards", "./boot/vmlinuz-*"],
            input=files.stdout, check=True, timeout=DOWNLOAD_WITHIN_S,
        )  # fmt: skip
        package.unlink()
    except subprocess.SubprocessError as error:
        raise NoKernel(f"{KERNEL_PACKAGE} could not be fetched: {error}") from error


def _output(*command: str) -> str:
    return subprocess.run(
        command, cwd=CACHE, capture_output=True, text=True, check=True, timeout=DOWNLOAD_WITHIN_S
    ).stdout


def initramfs(into: Path, beside: Archive) -> Path:
    """All archives in one file."""
    into.write_bytes(_base().read_bytes() + beside.packed() + of_project().packed())
    return into


def _base() -> Path:
    """The interpreter and packages, kept under a name that changes with their versions."""
    versions = [sys.version, Path(__file__).read_text()]
    versions += [importlib.metadata.version(distribution) for distribution in DISTRIBUTIONS]
    kept = CACHE / f"base-{hashlib.sha256(repr(versions).encode()).hexdigest()[:16]}.cpio"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        for old in CACHE.glob("base-*.cpio"):
            old.unlink()
        new = kept.with_suffix(f".{os.getpid()}")
        new.write_bytes(_interpreter().packed())
        new.replace(kept)
    return kept


def _interpreter() -> Archive:
    archive = Archive()
    for directory in ("proc", "sys", "tmp", "run"):
        archive.directory(directory)
    archive.device("dev/console", 5, 1)
    archive.device("dev/null", 1, 3)
    binary = Path(sys.base_prefix, "bin", _PYTHON).resolve()
    stdlib = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    archive.file(INTERPRETER, binary.read_bytes(), 0o755)
    shared = {binary}
    for name, content in _modules(stdlib):
        archive.file(f"{STDLIB}/{name}", content)
    for library in (stdlib / "lib-dynload").glob("*.so"):
        if not library.name.startswith(_LIBRARIES_LEFT_OUT):
            archive.file(f"{STDLIB}/lib-dynload/{library.name}", library.read_bytes(), 0o755)
            shared.add(library)
    for package in PACKAGES:
        module_spec = importlib.util.find_spec(package)
        assert module_spec is not None, f"{package} is not installed"
        assert module_spec.origin is not None
        origin = Path(module_spec.origin)
        if module_spec.submodule_search_locations is None:
            archive.file(f"{SITE}/{package}.pyc", _compiled(origin))
            continue
        for name, content in _modules(origin.parent):
            archive.file(f"{SITE}/{package}/{name}", content)
        for library in origin.parent.rglob("*.so"):
            archive.file(f"{SITE}/{package}/{library.relative_to(origin.parent)}", library.read_bytes(), 0o755)
            shared.add(library)
    for distribution in map(importlib.metadata.distribution, DISTRIBUTIONS):
        for name in ("METADATA", "entry_points.txt"):
            if text := distribution.read_text(name):
                archive.file(f"{SITE}/{distribution.name}-{distribution.version}.dist-info/{name}", text.encode())
    for library in sorted(needed(shared)):
        archive.file(str(library).lstrip("/"), library.resolve().read_bytes(), 0o755)
    return archive


def add_programs(archive: Archive, names: Iterable[str]) -> None:
    """With the libraries that they need. Raises NoGuest."""
    binaries = [Path(name) for name in names]
    if absent := [str(binary) for binary in binaries if not os.access(binary, os.X_OK)]:
        raise NoGuest(f"there is no {', '.join(absent)}")
    for each in (*binaries, *sorted(needed(set(binaries)))):
        archive.file(str(each).lstrip("/"), each.resolve().read_bytes(), 0o755)


def needed(binaries: Iterable[Path]) -> set[Path]:
    """The shared libraries by the names under which the loader looks for them."""
    told = subprocess.run(
        ["ldd", *sorted(map(str, binaries))], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    return {Path(name) for name in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", told, re.MULTILINE)}


def _modules(package: Path) -> Iterator[tuple[str, bytes]]:
    for path, directories, files in os.walk(package):
        directories[:] = sorted(directory for directory in directories if directory not in _LEFT_OUT)
        for name in sorted(files):
            if name.endswith(".py"):
                module = Path(path, name)
                yield str(module.relative_to(package).with_suffix(".pyc")), _compiled(module)


def _compiled(module: Path) -> bytes:
    kept = Path(importlib.util.cache_from_source(str(module)))
    if kept.exists() and kept.stat().st_mtime >= module.stat().st_mtime:
        return kept.read_bytes()
    with TemporaryDirectory() as directory:
        made = Path(directory, "module.pyc")
        py_compile.compile(str(module), cfile=str(made), doraise=True)
        return made.read_bytes()


def of_project() -> Archive:
    archive = Archive()
    archive.file("init", f"#!/{INTERPRETER}\n".encode() + (PROJECT / "tests/guest/init.py").read_bytes(), 0o755)
    for package in (PROJECT / "koord", PROJECT / "workshop/minicluster/koord_minicluster"):
        for name, content in _modules(package):
            archive.file(f"{SITE}/{package.name}/{name}", content)
    # As source: what a failed assertion tells is taken from it.
    archive.file("work/tests/__init__.py", b"")
    for path in (*TOOLS, *sorted((PROJECT / "tests/agent").glob("*.py"))):
        archive.file(f"work/{path.relative_to(PROJECT)}", path.read_bytes())
    return archive
