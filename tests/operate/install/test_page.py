"""The commands of the page about installing, as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_pages import commands, in_a_shell


@pytest.mark.kubectl
def test_the_page_about_installing(tmp_path: Path) -> None:
    server, *lines = commands("install-on-your-cluster.md")
    assert server == "koord apiserver --data-dir ./data &"
    # Nothing has to survive a crash of the machine.
    quick = server.replace(" &", " --durability fast > out &")
    end = ("kill $(jobs -p)", "wait", "trap - EXIT")
    printed = in_a_shell(["set -ex", "trap 'kill $(jobs -p)' EXIT", quick, *lines, *end], tmp_path)
    assert "koord 0.1.0 is installed in namespace koordinator-system: " in printed
    assert "it is not installed" in printed
    assert (tmp_path / "koord.yaml").read_text().count("\nkind: Deployment\n") == 3
    assert "+kind: Deployment" in (tmp_path / "koord.diff").read_text()
    assert (tmp_path / "chart" / "values.schema.json").exists()
    assert "kept, since its objects are your data" in printed
