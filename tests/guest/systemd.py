"""A guest whose first process is systemd: this machine's, with no more units than the tests need.

Nothing of Debian's boot is in it: no udev, no journal, no message bus. `systemctl` talks to the first process itself.
"""

from __future__ import annotations

from tests.guest.image import Archive, NoGuest, NoSystemd, add_programs

FIRST = "lib/systemd/systemd"
TOOLS = ("bin/systemctl", "usr/bin/systemd-run", "bin/sleep")
TARGET = "koord.target"
BOOT = f"rdinit=/{FIRST} systemd.unit={TARGET} systemd.log_target=console systemd.log_level=err systemd.show_status=0"
DEFAULT_DEPENDENCIES = ("sysinit", "basic", "shutdown")
"""Targets that each unit wants to come after, or before, if it says nothing of it: here they stand for nothing."""

_UNITS = {
    TARGET: """
[Unit]
DefaultDependencies=no
Wants=koord-tests.service
""",
    # The agent is a part of its tests, and hence of this service. When it ends, so does the guest.
    "koord-tests.service": """
[Unit]
DefaultDependencies=no
SuccessAction=reboot-immediate
FailureAction=reboot-immediate
[Service]
Type=oneshot
ExecStart=/init
StandardOutput=file:/dev/console
StandardError=inherit
Delegate=yes
""",
    **{f"{name}.target": "[Unit]\nDefaultDependencies=no\n" for name in DEFAULT_DEPENDENCIES},
}


def archive() -> Archive:
    """Raises NoSystemd."""
    made = Archive()
    try:
        add_programs(made, [f"/{name}" for name in (FIRST, *TOOLS)])
    except NoGuest as missing:
        raise NoSystemd(f"apt-get install systemd: {missing}") from missing
    for name, text in _UNITS.items():
        made.file(f"etc/systemd/system/{name}", text.encode())
    # One that is known: otherwise it would be a first boot, with what belongs to that.
    made.file("etc/machine-id", b"0123456789abcdef0123456789abcdef\n")
    return made
