"""The sources that report devices, on composed trees: sysfs for RDMA cards and places, files of vendors' tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.agent.devices import rdma, vendor_files
from koord.agent.devices.pci import Place, place_of
from koord.agent.host.files import Files
from tests.agent.states import cpus

PCI = "sys/bus/pci/devices"


class Host:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = Files(str(root))

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def function(self, bus_id: str, numa: int = 0, kind: str = "0x020000", root: str = "pci0000:3a") -> Path:
        """A PCI function, as sysfs shows it: a directory below its root, and a link to it."""
        real = self.root / f"sys/devices/{root}/{bus_id}"
        real.mkdir(parents=True)
        (real / "class").write_text(f"{kind}\n")
        (real / "numa_node").write_text(f"{numa}\n")
        link = self.root / PCI / bus_id
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(real)
        return real

    def card(self, bus_id: str, name: str, verbs: str, state: str = "4: ACTIVE", **places: Any) -> Path:
        real = self.function(bus_id, **places)
        (real / f"infiniband/{name}/ports/1").mkdir(parents=True)
        (real / f"infiniband/{name}/ports/1/state").write_text(f"{state}\n")
        (real / f"infiniband_verbs/{verbs}").mkdir(parents=True)
        return real


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_cards_are_numbered_by_their_names(host: Host) -> None:
    host.card("0000:3b:00.0", "mlx5_0", "uverbs0")
    host.card("0000:3c:00.0", "mlx5_10", "uverbs1", state="1: DOWN")
    host.function("0000:3d:00.0")
    host.function("0000:3e:00.0", kind="0x030200")
    rdma_cards = rdma.cards(host.files)
    assert [(card.name, card.minor, card.verbs, card.is_active) for card in rdma_cards] == [
        ("mlx5_0", 0, "infiniband/uverbs0", True),
        ("mlx5_10", 10, "infiniband/uverbs1", False),
    ]


def test_a_card_that_was_renamed_gets_a_number_that_nobody_has(host: Host) -> None:
    host.card("0000:3b:00.0", "mlx5_0", "uverbs0")
    host.card("0000:3c:00.0", "roce-left", "uverbs1")
    assert [(card.name, card.minor) for card in rdma.cards(host.files)] == [("mlx5_0", 0), ("roce-left", 1)]


def test_cards_of_two_drivers_with_one_number_are_two(host: Host) -> None:
    host.card("0000:3b:00.0", "mlx5_0", "uverbs0")
    host.card("0000:3c:00.0", "mlx4_0", "uverbs1")
    host.card("0000:3d:00.0", "mlx5_1", "uverbs2")
    host.card("0000:3e:00.0", f"mlx5_{10**12}", "uverbs3")
    assert [(card.name, card.minor) for card in rdma.cards(host.files)] == [
        ("mlx5_0", 0), ("mlx5_1", 1), ("mlx4_0", 2), (f"mlx5_{10**12}", 3)
    ]  # fmt: skip


def test_links_that_lead_nowhere_or_round_and_round_leave_the_card_as_it_is(host: Host) -> None:
    card = host.card("0000:3b:00.0", "mlx5_0", "uverbs0")
    (card / "virtfn0").symlink_to("../0000:3b:00.9")
    (card / "virtfn1").symlink_to("virtfn1")
    (host.root / PCI / "0000:3f:00.0").symlink_to("../../nowhere")
    (rdma_card,) = rdma.cards(host.files)
    assert (rdma_card.name, rdma_card.is_active, rdma_card.functions) == ("mlx5_0", True, {})


def test_virtual_functions_belong_to_their_card(host: Host) -> None:
    card = host.card("0000:3b:00.0", "mlx5_0", "uverbs0")
    virtual = host.card("0000:3b:00.2", "mlx5_1", "uverbs5")
    (virtual / "physfn").symlink_to(card)
    (card / "virtfn0").symlink_to(virtual)
    (rdma_card,) = rdma.cards(host.files)
    assert rdma_card.minor == 0
    assert rdma_card.functions == {"0000:3b:00.2": "infiniband/uverbs5"}


def test_a_machine_without_rdma_has_no_cards(host: Host) -> None:
    assert rdma.cards(host.files) == ()


def test_a_place_is_read_from_sysfs(host: Host) -> None:
    host.function("0000:3b:00.0", numa=1)
    topology = cpus(sockets=2)
    assert place_of(host.files, topology, "0000:3b:00.0") == Place(1, 1, "pci0000:3a")
    assert place_of(host.files, topology, "0000:ff:00.0") == Place(-1, -1, "")


def test_a_machine_with_one_numa_node_need_not_say_so(host: Host) -> None:
    host.function("0000:00:06.0", numa=-1, root="pci0000:00")
    assert place_of(host.files, cpus(), "0000:00:06.0") == Place(0, 0, "pci0000:00")
    assert place_of(host.files, cpus(sockets=2), "0000:00:06.0").node == -1


NPU = {
    "vendor": "huawei",
    "model": "Ascend-910B",
    "uuid": "npu-1",
    "minor": "1",
    "resources": {"gpu-core": "100", "gpu-memory": "64Gi"},
    "topology": {
        "nodeID": "1",
        "pcieID": "pci0000:80",
        "socketID": "1",
        "p2pLinks": [{"peerMinor": "0", "type": "HCCS"}],
    },
    "status": {"healthy": False, "errCode": "E42", "errMessage": "hot"},
}


def test_vendors_files_are_read(host: Host) -> None:
    host.write(f"{vendor_files.DIRECTORY}/npus.json", json.dumps([NPU]))
    (device,) = vendor_files.devices(host.files)
    assert (device.minor, device.node, device.socket, device.pcie) == (1, 1, 1, "pci0000:80")
    assert device.resources == {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "64Gi"}
    assert (device.links, device.is_healthy, device.error, device.message) == ({0: "HCCS"}, False, "E42", "hot")


@pytest.mark.parametrize(
    "text",
    ["{", "[]{}", '{"vendor": 1}', '[{"vendor": "a"}]', json.dumps([{**NPU, "minor": "one"}]), "[" * 50_000, "\x00"],
)
def test_a_file_that_cannot_be_read_keeps_nobody_elses_devices_away(
    host: Host, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    host.write(f"{vendor_files.DIRECTORY}/a-broken.json", text)
    host.write(f"{vendor_files.DIRECTORY}/b-sound.json", json.dumps([NPU]))
    assert [device.uuid for device in vendor_files.devices(host.files)] == ["npu-1"]
    assert "a-broken.json is passed over" in caplog.text


def test_two_devices_with_one_number_are_one(host: Host) -> None:
    host.write(f"{vendor_files.DIRECTORY}/npus.json", json.dumps([NPU, {**NPU, "uuid": "npu-2"}]))
    assert [device.uuid for device in vendor_files.devices(host.files)] == ["npu-1"]
