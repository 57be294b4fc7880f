"""The page about versions says what the code says."""

from __future__ import annotations

from pathlib import Path

from koord.operate.install.versions import FINE_KUBELET_RIGHTS, KUBELETS_BEHIND, OLDEST_SERVER, SERVER_FEATURES, said

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "versions.md").read_text()


def test_the_page_has_every_feature_with_its_version_and_what_is_done_without_it() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")][1:]
    assert rows == ["| --- | --- | --- |"] + [
        f"| {server_feature.name} | {said(server_feature.since)} | {server_feature.instead} |"
        for server_feature in SERVER_FEATURES
    ]


def test_the_pages_name_the_oldest_version_and_the_skew_of_kubelets() -> None:
    oldest = f"from {said(OLDEST_SERVER)} on"
    assert oldest in PAGE
    assert f"[{oldest}](versions.md)" in (DOCS / "install-on-your-cluster.md").read_text()
    assert f"up to {KUBELETS_BEHIND} minor versions older" in PAGE
    assert f"before {said(FINE_KUBELET_RIGHTS)}" in PAGE
