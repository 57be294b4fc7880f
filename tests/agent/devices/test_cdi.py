"""Which names container runtimes know devices by, as specification files on the node say."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from koord.agent.devices.cdi import CdiSpecs, named, names_in
from koord.agent.host.files import Files

NVIDIA = """
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}
- name: GPU-5e
  containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}
"""


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_names_are_those_of_both_directories_as_runtimes_see_them(tmp_path: Path) -> None:
    write(tmp_path, "etc/cdi/nvidia.yaml", NVIDIA)
    write(tmp_path, "etc/cdi/a.json", '{"kind": "x.org/nic", "devices": [{"name": "twice"}, {"name": "again"}]}')
    write(tmp_path, "etc/cdi/b.json", '{"kind": "x.org/nic", "devices": [{"name": "twice"}, {"name": "again"}]}')
    write(tmp_path, "var/run/cdi/c.json", '{"kind": "x.org/nic", "devices": [{"name": "again"}]}')
    specs = CdiSpecs(Files(str(tmp_path)))
    assert specs.names() == ("nvidia.com/gpu=0", "nvidia.com/gpu=GPU-5e", "x.org/nic=again")
    (tmp_path / "etc/cdi/nvidia.yaml").unlink()
    assert specs.names() == ("x.org/nic=again",)
    (tmp_path / "etc/cdi/a.json").unlink()
    assert specs.names() == ("x.org/nic=again", "x.org/nic=twice")


def test_files_that_are_none_are_passed_over_and_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "etc/cdi/good.json", '{"kind": "x.org/nic", "devices": [{"name": "one"}]}')
    for name, text in {"empty": "", "broken": "{", "list": "[]", "kind": '{"kind": "gpu"}', "deep": "[" * 9999}.items():
        write(tmp_path, f"etc/cdi/{name}.json", text)
    write(tmp_path, "etc/cdi/bytes.yaml", "")
    (tmp_path / "etc/cdi/bytes.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "etc/cdi/folder.json").mkdir()
    (tmp_path / "etc/cdi/nowhere.json").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "etc/cdi/pipe.json")
    specs = CdiSpecs(Files(str(tmp_path)))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert specs.names() == ("x.org/nic=one",)
    told = sorted(record.getMessage().split(" ")[0].rpartition("/")[2] for record in caplog.records)
    assert told == ["broken.json", "bytes.yaml", "deep.json", "empty.json", "kind.json", "list.json"]
    with pytest.raises(ValueError, match=r"it must be as in nvidia\.com/gpu"):
        names_in('{"kind": "gpu"}')


def test_a_device_is_found_by_what_nothing_else_is_called() -> None:
    names = ("x.org/net-pci=0000:3b:00.0", "x.org/net-rdma=0000:3b:00.0", "nvidia.com/gpu=GPU-5e")
    assert named(names, "GPU-5e") == "nvidia.com/gpu=GPU-5e"
    assert named(names, "0000:3b:00.0", "rdma") == "x.org/net-rdma=0000:3b:00.0"
    assert named(names, "GPU-5") is None
