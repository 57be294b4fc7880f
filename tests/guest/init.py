# The first process of a guest, or a service of systemd's: makes a machine of it, runs the agent's tests, tells and
# switches off.
# What the tests told goes to the second serial line, as a JUnit document.
import ctypes
import os
import subprocess
import sys
import time
import traceback

MOUNTS = (
    ("devtmpfs", "/dev"),
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("tmpfs", "/tmp"),
    ("tmpfs", "/run"),
)
CGROUPS = "/sys/fs/cgroup"
V1 = ("cpu", "cpuacct", "cpuset", "memory", "blkio", "pids", "net_cls")
RB_AUTOBOOT = 0x01234567
REPORT = "/tmp/report.xml"
IS_FIRST = os.getpid() == 1
STORIES = ("kernel", "watch", "disturbed", "neighbours", "interference", "core_sched", "systemd", "net_class")
TESTS = tuple(f"tests/agent/test_real_{name}.py" for name in STORIES)

libc = ctypes.CDLL(None, use_errno=True)


def option(name: str) -> str:
    with open("/proc/cmdline") as file:
        words = file.read().split()
    return next((word.partition("=")[2] for word in words if word.startswith(f"{name}=")), "")


def mount(kind: str, where: str, options: str = "") -> None:
    if libc.mount(kind.encode(), where.encode(), kind.encode(), 0, options.encode() or None):
        print(f"{where} could not be mounted: {os.strerror(ctypes.get_errno())}")


def main() -> None:
    for kind, where in MOUNTS if IS_FIRST else ():
        mount(kind, where)
    if option("koord.cgroups") == "v1":
        mount("tmpfs", CGROUPS)
        for controller in V1:
            os.mkdir(f"{CGROUPS}/{controller}")
            mount("cgroup", f"{CGROUPS}/{controller}", controller)
    else:
        if IS_FIRST:
            mount("cgroup2", CGROUPS)
        with open(f"{CGROUPS}/cgroup.subtree_control", "w") as file:
            file.write("+cpu +cpuset +memory +pids")
    os.environ.update(
        PATH="/usr/bin:/bin:/usr/sbin",
        KOORD_TEST_HOST_NETWORK="1",
        HOME="/tmp",
        KOORD_KILLS="5",
        KOORD_TEST_ALONE="1",
        KOORD_TEST_CGROUP_DRIVER=option("koord.driver"),
        KOORD_TEST_CGROUPS=option("koord.node") if IS_FIRST else "systemd",
    )
    print(f"koord guest: up after {time.clock_gettime(time.CLOCK_BOOTTIME):.1f} s", flush=True)
    command = [
        sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir=/work", "--noconftest", "-p", "no:cacheprovider",
        "-W", "ignore", "-v", "--color=no", "--tb=short", f"--junitxml={REPORT}",
        "-k", option("koord.tests").replace("+", " or "), *TESTS,
    ]  # fmt: skip
    subprocess.run(command, cwd="/work", check=False)
    with open(REPORT) as report, open("/dev/ttyS1", "w") as results:
        results.write(report.read())


try:
    main()
except Exception:  # noqa: BLE001 - whatever it is, the console is the last place to tell it
    traceback.print_exc(file=sys.stdout)
finally:
    sys.stdout.flush()
    os.sync()
    libc.reboot(RB_AUTOBOOT)
