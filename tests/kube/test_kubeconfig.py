"""kubeconfig rules as kubectl's documentation and client-go have them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from koord.kube.cluster_config import ClusterConfig, ConfigError, ExecConfig, Impersonation
from koord.kube.kubeconfig import merge, parse, resolve
from koord.kube.locate import in_cluster, locate


def kubeconfig(
    *,
    cluster: dict[str, object] | None = None,
    user: dict[str, object] | None = None,
    context: dict[str, object] | None = None,
    name: str = "dev",
    current: str | None = None,
) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name if current is None else current,
            "clusters": [{"name": "c", "cluster": {"server": "https://one:6443", **(cluster or {})}}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [{"name": name, "context": {"cluster": "c", "user": "u", **(context or {})}}],
            "preferences": {},
        }
    )


def resolved(text: str, context: str | None = None, file: str = "/etc/kube/config") -> ClusterConfig:
    return resolve(parse(text, file), context)


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_context_names_the_server_the_user_and_the_namespace() -> None:
    config = resolved(kubeconfig(user={"token": "secret"}, context={"namespace": "shop"}))
    assert (config.server, config.token, config.namespace) == ("https://one:6443", "secret", "shop")
    assert config.origin == "context dev of /etc/kube/config"
    assert "secret" not in repr(config)


def test_without_a_namespace_it_is_default() -> None:
    assert resolved(kubeconfig()).namespace == "default"


def test_relative_paths_are_relative_to_their_file_and_absolute_ones_stay() -> None:
    config = resolved(
        kubeconfig(
            cluster={"certificate-authority": "pki/ca.crt"},
            user={"client-certificate": "../me.crt", "client-key": "/keys/me.key", "tokenFile": "token"},
        )
    )
    assert config.ca_file == "/etc/kube/pki/ca.crt"
    assert config.cert_file == "/etc/me.crt"
    assert config.key_file == "/keys/me.key"
    assert config.token_file == "/etc/kube/token"


def test_data_fields_are_base64_with_line_breaks_allowed() -> None:
    wrapped = "\n  ".join([b64("certificate")[:8], b64("certificate")[8:]])
    config = resolved(
        kubeconfig(
            cluster={"certificate-authority-data": b64("ca")},
            user={"client-certificate-data": wrapped, "client-key-data": b64("key")},
        )
    )
    assert (config.ca_data, config.cert_data, config.key_data) == (b"ca", b"certificate", b"key")


def test_tls_and_proxy_settings_are_taken_over() -> None:
    config = resolved(
        kubeconfig(cluster={"tls-server-name": "api.test", "insecure-skip-tls-verify": True, "proxy-url": "http://p:1"})
    )
    assert (config.tls_server_name, config.insecure_skip_tls_verify, config.proxy_url) == (
        "api.test",
        True,
        "http://p:1",
    )


def test_impersonation_is_taken_over() -> None:
    user: dict[str, object] = {
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["dev"],
        "as-user-extra": {"scopes": ["a", "b"]},
    }
    assert resolved(kubeconfig(user=user)).impersonation == Impersonation("jane", "7", ("dev",), {"scopes": ("a", "b")})


def test_an_exec_program_with_a_slash_is_a_path_and_a_bare_name_is_not() -> None:
    exec_: dict[str, object] = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/login",
        "args": ["a"],
        "env": [{"name": "E", "value": "1"}],
        "installHint": "get it",
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    config = resolved(kubeconfig(user={"exec": exec_}))
    assert config.exec == ExecConfig(
        "/etc/kube/bin/login",
        "client.authentication.k8s.io/v1",
        ("a",),
        (("E", "1"),),
        "get it",
        True,
        "Never",
    )
    bare = resolved(kubeconfig(user={"exec": {**exec_, "command": "login"}})).exec
    assert bare is not None
    assert bare.command == "login"


V1BETA1 = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login"}


def test_interactive_mode_may_be_left_out_in_v1beta1_only() -> None:
    exec_config = resolved(kubeconfig(user={"exec": V1BETA1})).exec
    assert exec_config is not None
    assert exec_config.interactive_mode == "IfAvailable"
    with pytest.raises(ConfigError, match="interactiveMode: is required"):
        resolved(kubeconfig(user={"exec": {**V1BETA1, "apiVersion": "client.authentication.k8s.io/v1"}}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", r"/etc/kube/config"),
        ("a: {b", r"/etc/kube/config"),
        ("[]", r"/etc/kube/config: must be an object"),
        ("clusters: 5", r"/etc/kube/config: clusters: must be a list, not 5"),
        ("clusters: [{cluster: {}}]", r"clusters\[0\].name: is required"),
        ("users: [{name: a, user: {token: 12}}]", r"users\[0\].user.token: must be a string, not 12"),
        ("clusters: [{name: a, cluster: {}}, {name: a, cluster: {}}]", r"clusters\[1\].name: 'a' is defined twice"),
        (kubeconfig(cluster={"server": ""}), r"clusters\[c\].server: is required"),
        (kubeconfig(cluster={"certificate-authority-data": "%%"}), r"certificate-authority-data: is not base64"),
        (
            kubeconfig(cluster={"certificate-authority": "a", "insecure-skip-tls-verify": True}),
            r"insecure-skip-tls-verify and a certificate-authority exclude each other",
        ),
        (
            kubeconfig(user={"auth-provider": {"name": "gcp"}}),
            r"users\[u\].auth-provider: 'gcp': auth providers are not supported; use an exec",
        ),
        (kubeconfig(user={"token": "a", "username": "b"}), r"users\[u\]: has both a token and a username"),
        (kubeconfig(user={"client-certificate": "a"}), r"users\[u\].client-key: is required"),
        (kubeconfig(user={"as-groups": ["a"]}), r"users\[u\].as: is required"),
        (kubeconfig(user={"exec": {"command": ""}}), r"users\[u\].exec.command: is required"),
        (kubeconfig(user={"exec": {"command": "a", "apiVersion": "v1"}}), r"exec.apiVersion: must be one of client"),
        (kubeconfig(context={"user": "who"}), r"context 'dev': user 'who' does not exist; there are u"),
        (kubeconfig(context={"cluster": ""}), r"context 'dev': names no cluster"),
        (kubeconfig(current=""), r"no context is chosen: .* dev"),
        (kubeconfig(current="prod"), r"context 'prod' does not exist; there are dev"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_field(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        resolved(text)


@pytest.mark.parametrize(
    ("server", "extra", "url"),
    [
        ("https://h:1/p", {}, "https://h:1/p"),
        ("h:8080", {}, "http://h:8080"),
        ("h:8080", {"insecure-skip-tls-verify": True}, "https://h:8080"),
    ],
)
def test_a_server_without_scheme_is_secure_if_tls_is_configured(
    server: str, extra: dict[str, object], url: str
) -> None:
    assert resolved(kubeconfig(cluster={"server": server, **extra})).server == url


def test_of_several_files_the_first_to_define_something_wins_whole() -> None:
    first = kubeconfig(cluster={"server": "https://first"}, name="a", current="")
    second = kubeconfig(
        cluster={"server": "https://second", "tls-server-name": "second"}, user={"token": "second"}, name="b"
    )
    merged = merge([parse(first, "/1"), parse(second, "/2")])
    assert merged.current_context == "b"
    chosen = resolve(merged)
    assert chosen.server == "https://first"
    assert chosen.tls_server_name == "", "an entry is not patched with fields of a later one of the same name"
    assert chosen.token == "", "the first file defines user u, without a token"
    assert set(merged.contexts) == {"a", "b"}


def test_paths_stay_relative_to_the_file_that_defines_them_after_a_merge() -> None:
    first = kubeconfig(cluster={"certificate-authority": "ca.crt"})
    second = json.dumps({"users": [{"name": "other", "user": {"tokenFile": "t"}}]})
    context = json.dumps({"contexts": [{"name": "x", "context": {"cluster": "c", "user": "other"}}]})
    merged = merge([parse(first, "/one/config"), parse(second, "/two/config"), parse(context, "/three/config")])
    chosen = resolve(merged, "x")
    assert (chosen.ca_file, chosen.token_file) == ("/one/ca.crt", "/two/t")


def test_the_file_asked_for_wins_and_must_exist(tmp_path: Path) -> None:
    asked, other = tmp_path / "asked", tmp_path / "other"
    asked.write_text(kubeconfig(cluster={"server": "https://asked"}))
    other.write_text(kubeconfig(cluster={"server": "https://other"}))
    assert locate(str(asked), environ={"KUBECONFIG": str(other)}).server == "https://asked"
    with pytest.raises(ConfigError, match=r"absent: the file does not exist"):
        locate(str(tmp_path / "absent"), environ={"KUBECONFIG": str(other)})


def test_the_variable_lists_files_of_which_missing_ones_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "two").write_text(kubeconfig())
    environ = {"KUBECONFIG": f"{tmp_path}/one::{tmp_path}/two", "HOME": "/nonexistent"}
    assert locate(environ=environ).server == "https://one:6443"


def test_the_home_file_is_read_without_a_variable(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(kubeconfig())
    assert locate(environ={"HOME": str(tmp_path)}).server == "https://one:6443"


def service_account(folder: Path, *, namespace: str = "") -> dict[str, str]:
    (folder / "token").write_text("t")
    (folder / "ca.crt").write_text("ca")
    if namespace:
        (folder / "namespace").write_text(namespace + "\n")
    return {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "HOME": "/nonexistent"}


def test_in_a_pod_the_service_account_is_used_where_no_file_says_otherwise(tmp_path: Path) -> None:
    environ = service_account(tmp_path, namespace="shop")
    cluster_config = locate(environ=environ, service_account=str(tmp_path))
    assert cluster_config.server == "https://10.0.0.1:443"
    assert cluster_config.token_file == f"{tmp_path}/token"
    assert cluster_config.ca_file == f"{tmp_path}/ca.crt"
    assert cluster_config.namespace == "shop"
    (tmp_path / "config").write_text(kubeconfig())
    with_file = locate(environ={**environ, "KUBECONFIG": f"{tmp_path}/config"}, service_account=str(tmp_path))
    assert with_file.server == "https://one:6443"


def test_in_a_pod_with_an_ipv6_service_the_host_is_bracketed(tmp_path: Path) -> None:
    cluster_config = in_cluster({**service_account(tmp_path), "KUBERNETES_SERVICE_HOST": "fd00::1"}, str(tmp_path))
    assert cluster_config is not None
    assert cluster_config.server == "https://[fd00::1]:443"
    assert cluster_config.namespace == "default"


def test_where_nothing_is_configured_the_error_says_what_was_looked_at() -> None:
    with pytest.raises(ConfigError, match=r"/nonexistent/.kube/config.*--kubeconfig"):
        locate(environ={"HOME": "/nonexistent"}, service_account="/nonexistent")
    with pytest.raises(ConfigError, match=r"\$KUBECONFIG \(/nowhere\)"):
        locate(environ={"KUBECONFIG": "/nowhere"}, service_account="/nonexistent")


def test_an_unreadable_file_is_an_error_and_not_skipped(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="bad: is not UTF-8"):
        locate(environ={"KUBECONFIG": f"{tmp_path}/bad"})
    with pytest.raises(ConfigError, match="directory"):
        locate(environ={"KUBECONFIG": str(tmp_path)})
