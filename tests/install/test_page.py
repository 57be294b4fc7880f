"""The commands of the page about installing, as they stand."""

from __future__ import annotations

from pathlib import Path

from tests.docs.test_pages import commands, in_a_shell
from tests.minicluster.apiserver.server_process import ServerProcess


def test_the_page_about_installing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data, "--durability", "fast"):
        script = ["set -ex", f"export KUBECONFIG={data}/kubeconfig", *commands("install-on-your-cluster.md")]
        printed = in_a_shell(script, tmp_path)
    assert "koord 0.1.0 is installed in namespace koordinator-system: " in printed
    assert "it is not installed" in printed
    assert (tmp_path / "koord.yaml").read_text().count("\nkind: Deployment\n") == 3
    assert "+kind: Deployment" in (tmp_path / "koord.diff").read_text()
    assert (tmp_path / "chart" / "values.schema.json").exists()
    assert "kept, since its objects are your data" in printed
