"""Files that are read again and again, and the descriptors that this takes."""

from pathlib import Path

import pytest

from koord.agent.host.files import Files


def test_what_does_not_fit_is_read_all_the_same(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / str(number)).write_text(str(number))
    files = Files(str(tmp_path), most_kept=4)
    for _ in range(2):
        assert [files.text(str(number)) for number in range(6)] == [str(number) for number in range(6)]
        assert files.kept == 4
    with pytest.raises(FileNotFoundError):
        files.read("6")
    files.close()


def test_what_changes_is_read_anew(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    files = Files(str(tmp_path))
    assert files.text("a") == "one"
    (tmp_path / "a").write_text("two")
    assert files.text("a") == "two"
    files.close()


def test_a_file_of_any_length_is_read_whole(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    for size in (0, 1, 65_535, 65_536, 65_537, 200_000):
        (tmp_path / str(size)).write_bytes(b"x" * size)
        assert len(files.read(str(size))) == len(files.once(str(size))) == size
    files.close()


def test_emptying_a_file_writes_an_empty_line(tmp_path: Path) -> None:
    """Nothing at all would not reach a kernel's file."""
    (tmp_path / "cpuset.cpus").write_text("0-3")
    Files(str(tmp_path)).write("cpuset.cpus", "")
    assert (tmp_path / "cpuset.cpus").read_text() == "\n"
