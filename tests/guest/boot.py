"""A guest, from its first instruction to its last, under software emulation: another kernel, and no machine for it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from koord.api.kubernetes.cgroup import CgroupDriver
from tests.guest import image, systemd

MEMORY_MIB = 768


@dataclass(frozen=True)
class Guest:
    kind: str
    options: tuple[str, ...]
    tests: tuple[str, ...]
    "By a part of their names, those that make sense on it."
    driver: CgroupDriver = CgroupDriver.CGROUPFS
    is_of_systemd: bool = False
    "Whether systemd is its first process, and makes the cgroups of pods."
    needs: str = ""
    "What its kernel must be built with, that Debian's is not."
    is_of_v1: bool = False
    "Whether it has cgroup v1."

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.driver} layout{', systemd first' if self.is_of_systemd else ''}"


# Its clock counts instructions: what else runs on the machine does not exist for it. That works with one CPU.
BY_INSTRUCTIONS = Guest(
    "time by instructions",
    ("-smp", "1", "-icount", "shift=2,sleep=off"),
    (
        *("gives_way", "saved_up_time", "throttled_service", "whatever_weight", "idle_class"),
        "throttled_by_its_own_limit",
    ),
)
_MACHINE = ("fewer_cpus", "make_room", "memory_is_freed", "a_second_writer_is", "killed_at_any_point")
_WATCHED = ("come_and_go", "watches_of_cgroups")
FOUR_CPUS = Guest("four CPUs", ("-smp", "4"), (*_MACHINE, *_WATCHED))
# Where systemd made the scopes something runs in them, and the kernel takes no CPUs back.
_EMPTY = replace(FOUR_CPUS, tests=(*FOUR_CPUS.tests, "every_file_is_as", "resized_in_place"))
TWO_THREADS_A_CORE = Guest(
    "two threads a core",
    ("-smp", "4,sockets=1,cores=2,threads=2", "-cpu", "max,vendor=GenuineIntel"),
    ("cookies_are_given", "two_groups_never_run"),
    needs="CONFIG_SCHED_CORE",
)
NET_CLASSES = Guest(
    "net_cls",
    ("-smp", "1"),
    ("are_of_their_net_cls",),
    needs="CONFIG_CGROUP_NET_CLASSID, CONFIG_NF_TABLES, CONFIG_NET_SCH_HTB and CONFIG_VETH, none of them as a module",
    is_of_v1=True,
)
BESIDE_SYSTEMD = ("systemd_as_the_second_writer", "systemd_starts_again")
GUESTS = (
    *(replace(guest, driver=driver) for guest in (BY_INSTRUCTIONS, _EMPTY) for driver in CgroupDriver),
    TWO_THREADS_A_CORE,
    NET_CLASSES,
    replace(BY_INSTRUCTIONS, driver=CgroupDriver.SYSTEMD, is_of_systemd=True),
    replace(FOUR_CPUS, driver=CgroupDriver.SYSTEMD, is_of_systemd=True, tests=(*FOUR_CPUS.tests, *BESIDE_SYSTEMD)),
)


@dataclass(frozen=True)
class GuestReport:
    """What the tests in a guest told."""

    passed: tuple[str, ...]
    others: tuple[str, ...]
    "Those that did not pass, with what they said."
    console: str


def run(guest: Guest, directory: Path, within_s: float) -> GuestReport:
    """Raises image.NoGuest, and TimeoutExpired for a guest that does not end."""
    if guest.needs and not os.environ.get(image.OWN_KERNEL):
        raise image.NoOwnKernel(f"set ${image.OWN_KERNEL} to a kernel with {guest.needs}; Debian's has none")
    kernel, results = image.kernel(), directory / "results.xml"
    first = systemd.archive() if guest.is_of_systemd else image.Archive()
    if guest.is_of_v1:
        image.add_programs(first, ("/usr/sbin/ip", "/usr/sbin/tc"))
    initramfs = image.initramfs(directory / "initramfs.cpio", first)
    told = "console=ttyS0 quiet panic=-1 random.trust_cpu=on"
    told += f" koord.driver={guest.driver} koord.tests={'+'.join(guest.tests)}"
    if guest.is_of_v1:
        told += " koord.cgroups=v1 koord.node=machine"
    if guest.is_of_systemd:
        told += f" {systemd.BOOT}"
    command = [
        "qemu-system-x86_64", "-M", "pc", "-accel", "tcg", "-cpu", "max", "-m", str(MEMORY_MIB), *guest.options,
        "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio", "-serial", f"file:{results}",
        "-kernel", str(kernel), "-initrd", str(initramfs), "-append", told,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=within_s,
            check=False, text=True, errors="replace",
        )  # fmt: skip
    finally:
        initramfs.unlink()
    text = results.read_text() if results.exists() else ""
    if not text:
        return GuestReport((), ("the guest told nothing",), done.stdout)
    cases = list(ElementTree.fromstring(text).iter("testcase"))
    passed = tuple(case.get("name", "") for case in cases if not len(case.findall("*")))
    others = tuple(
        f"{case.get('name')}: {element.tag}: {element.get('message')}\n{element.text}"
        for case in cases
        for element in case
        if element.tag in ("failure", "error", "skipped")
    )
    return GuestReport(passed, others, done.stdout)
