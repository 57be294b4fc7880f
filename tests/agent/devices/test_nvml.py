"""What is made of NVML's answers, by a stand-in for its library: machines that are not here, and drivers that fail.

The real library was asked on a real GPU: `tests/minicluster/local/test_real_gpu.py`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from koord.agent.devices.nvml import NoGpusError, Nvml, Use
from koord.agent.host.files import Files
from koord.agent.live.devices import DeviceLook
from koord.api.configuration.features import AgentGate


class Refused(Exception):
    """As the library's own errors."""


@dataclass
class Card:
    """A GPU of the stand-in; what is None is not supported there."""

    minor: int
    split: int | None = 0
    links: list[str] | None = None
    instances: list[tuple[int, int]] = field(default_factory=list)
    processes: list[tuple[int, int, int, int]] = field(default_factory=list)
    "Process, bytes, GPU instance, compute instance."
    percents: list[tuple[int, int]] | None = None
    is_lost: bool = False
    worn_out: bool = False


class Library(ModuleType):
    """The calls of NVML that koord makes."""

    NVMLError = Refused
    NVML_DEVICE_MIG_ENABLE = 1
    nvmlEventTypeXidCriticalError = 8  # noqa: N815 - the library's own name

    def __init__(self, cards: list[Card]) -> None:
        super().__init__("pynvml")
        self.cards = cards
        self.events: list[tuple[int, int]] = []
        self.heard: list[int] = []
        self.is_broken = self.is_absent = False

    def nvmlInit(self) -> None:
        if self.is_absent:
            raise Refused("Driver Not Loaded")

    def nvmlShutdown(self) -> None:
        return None

    def nvmlSystemGetDriverVersion(self) -> str:
        if self.is_broken:
            raise Refused("GPU is lost")
        return "580"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        return self.cards[index]

    def nvmlEventSetWait_v2(self, events: Any, wait_ms: int) -> Any:
        assert wait_ms == 0, "no process is waited for"
        if not self.events:
            raise Refused("Timeout")
        index, xid = self.events.pop(0)
        return SimpleNamespace(device=self.cards[index], eventData=xid)

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlEventSetCreate": lambda: object(),
            "nvmlDeviceRegisterEvents": lambda card, kind, events: _registered(self, card),
            "nvmlDeviceGetUUID": lambda each: f"GPU-{each.minor}" if isinstance(each, Card) else f"MIG-{each[1]}",
            "nvmlDeviceGetMinorNumber": lambda card: _unless(card.is_lost, card.minor),
            "nvmlDeviceGetName": lambda each: "NVIDIA A100" if isinstance(each, Card) else "NVIDIA A100 MIG 1g.10gb",
            "nvmlDeviceGetMemoryInfo": lambda each: SimpleNamespace(total=80 << 30),
            "nvmlDeviceGetPciInfo": lambda card: SimpleNamespace(busId=f"00000000:{card.minor:02X}:00.0"),
            "nvmlDeviceGetMigMode": lambda card: (_supported(card.split), 0),
            "nvmlDeviceGetMaxMigDeviceCount": lambda card: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": lambda card, i: _supported(dict(enumerate(card.instances)).get(i)),
            "nvmlDeviceGetGpuInstanceId": lambda instance: instance[0],
            "nvmlDeviceGetComputeInstanceId": lambda instance: instance[1],
            "nvmlDeviceGetNvLinkState": lambda card, link: link < len(_supported(card.links)),
            "nvmlDeviceGetNvLinkRemotePciInfo": lambda card, link: SimpleNamespace(busId=card.links[link]),
            "nvmlDeviceGetRemappedRows": lambda card: (0, 0, 0, int(card.worn_out)),
            "nvmlDeviceGetComputeRunningProcesses": lambda card: [
                SimpleNamespace(pid=pid, usedGpuMemory=size, gpuInstanceId=part, computeInstanceId=compute)
                for pid, size, part, compute in card.processes
            ],
            "nvmlDeviceGetProcessUtilization": lambda card, since: [
                SimpleNamespace(pid=pid, smUtil=percent, timeStamp=since + 1)
                for pid, percent in _supported(card.percents)
            ],
        }
        return answers[name]


def _supported(value: Any) -> Any:
    if value is None:
        raise Refused("Not Supported")
    return value


def _unless(is_lost: bool, value: Any) -> Any:
    return _supported(None if is_lost else value)


def _registered(library: Library, card: Card) -> None:
    _supported(None if card.is_lost else card)
    library.heard.append(card.minor)


def asked(monkeypatch: pytest.MonkeyPatch, *cards: Card) -> Library:
    library = Library(list(cards))
    monkeypatch.setitem(sys.modules, "pynvml", library)
    return library


def test_gpus_are_told_in_the_words_of_sysfs_with_their_links(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, Card(27, links=["00000000:1A:00.0"] * 4), Card(26, split=None))
    first, second = Nvml().inventory().gpus
    assert (first.minor, first.bus_id, first.links, first.is_split) == (26, "0000:1a:00.0", {}, False)
    assert (second.minor, second.links) == (27, {"0000:1a:00.0": 4})


def test_one_gpu_that_does_not_answer_keeps_no_other_from_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, Card(0), Card(1, is_lost=True), Card(2, worn_out=True))
    gpus = Nvml().inventory().gpus
    assert [gpu.minor for gpu in gpus] == [0, 2]
    assert gpus[1].trouble == "a memory row failed and could not be remapped"


def test_beside_a_gpu_that_does_not_answer_errors_and_use_of_all_others_are_heard(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = 0xFFFFFFFF
    lost = Card(0, is_lost=True)
    library = asked(monkeypatch, lost, Card(1), Card(2, processes=[(7, 10, whole, whole)], percents=[(7, 20)]))
    nvml = Nvml()
    for _ in range(3):
        seen = nvml.inventory()
        assert list(nvml.uses(seen)) == [Use(2, 7, 20.0, 10)]
    assert library.heard == [1, 2]
    assert sum("does not answer" in record.message for record in caplog.records) == 1, "told once"
    lost.is_lost = False
    assert [gpu.minor for gpu in nvml.inventory().gpus] == [0, 1, 2]
    assert library.heard == [1, 2, 0]


def test_errors_without_end_hold_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    library = asked(monkeypatch, Card(0))
    library.events = [(0, 13)] * 5_000
    assert len(Nvml().inventory().gpus) == 1
    assert library.events


def test_errors_of_the_gpu_count_until_the_end_and_those_of_programs_never(monkeypatch: pytest.MonkeyPatch) -> None:
    library = asked(monkeypatch, Card(0), Card(1))
    nvml = Nvml()
    library.events = [(0, 31), (1, 79), (0, 13)]
    assert [gpu.trouble for gpu in nvml.inventory().gpus] == ["", "Xid 79"]
    assert [gpu.trouble for gpu in nvml.inventory().gpus] == ["", "Xid 79"]


def test_instances_have_the_numbers_of_their_capabilities(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "proc/driver/nvidia-caps"
    folder.mkdir(parents=True)
    (folder / "mig-minors").write_text("config 1\ngpu0/gi3/access 30\ngpu0/gi3/ci0/access 31\n")
    asked(monkeypatch, Card(0, split=1, instances=[(3, 0), (9, 0)], processes=[(77, 5, 3, 0)]))
    nvml = Nvml(str(tmp_path))
    seen = nvml.inventory()
    (instance,) = seen.gpus[0].instances
    assert (instance.minor, instance.profile) == (1031, "1g.10gb")
    assert instance.nodes == ("nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31")
    assert list(nvml.uses(seen)) == [Use(1031, 77, None, 5)]


def test_use_is_the_mean_since_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = 0xFFFFFFFF
    asked(monkeypatch, Card(0, processes=[(7, 10, whole, whole), (8, 20, whole, whole)], percents=[(7, 20), (7, 40)]))
    nvml = Nvml()
    assert list(nvml.uses(nvml.inventory())) == [Use(0, 7, 30.0, 10), Use(0, 8, 0.0, 20)]


def test_a_machine_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch).is_absent = True
    with pytest.raises(NoGpusError, match="Driver Not Loaded"):
        Nvml()


def test_a_driver_that_breaks_and_comes_back_is_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = asked(monkeypatch, Card(0))
    look = DeviceLook(Files(str(tmp_path)), dict.fromkeys(AgentGate, True))
    assert len(look.look().inventory.gpus) == 1
    library.is_broken = True
    assert look.look().inventory.gpus == ()
    assert look.absence == "NVML: GPU is lost"
    library.is_broken = False
    seen = [len(look.look().inventory.gpus) for _ in range(25)]
    assert seen[0] == 0, "it is given a while"
    assert seen[-1] == 1
    assert look.absence == ""
