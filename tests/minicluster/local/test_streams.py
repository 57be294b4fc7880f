"""Commands in pods, terminals, and connections to their ports, as clients of any cluster ask for them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from hashlib import md5
from pathlib import Path
from typing import Any

import aiohttp
import kubernetes
import pytest
from kubernetes.stream import portforward, stream

from koord.api.kinds import PODS
from koord.kube.client import Client
from koord.kube.kubeconfig import parse, resolve
from koord_bench.api_load import Target
from koord_minicluster.kubelet.live import streaming
from tests.control_plane import free_port
from tests.minicluster.local.running import event_of, is_running, log_of, pids_of, pod, until_log, until_pod
from tests.waiting import always, eventually

pytestmark = pytest.mark.root

FOREVER = "while :; do sleep 0.1; done"
RBAC = "rbac.authorization.k8s.io/v1"
PATH = "/api/v1/namespaces/default/pods"


@pytest.fixture
def core(server: Path) -> Iterator[kubernetes.client.CoreV1Api]:
    with kubernetes.config.new_client_from_config(str(server)) as api:  # type: ignore[no-untyped-call]
        yield kubernetes.client.CoreV1Api(api)


@pytest.fixture
async def web(client: Client) -> Client:
    """A pod `web` that runs, and the client of its cluster."""
    await client.create(PODS, pod("web", FOREVER, container={"env": [{"name": "COLOUR", "value": "blue"}]}))
    await until_pod(client, "web", is_running)
    return client


class Command:
    """A command in a pod, over a WebSocket of kubectl's kind."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws
        self.output = {1: b"", 2: b"", 3: b""}

    async def type(self, text: bytes) -> None:
        await self.ws.send_bytes(b"\0" + text)

    async def end_input(self) -> None:
        await self.ws.send_bytes(bytes([255, 0]))

    async def resize(self, columns: int, rows: int) -> None:
        await self.ws.send_bytes(b"\4" + b'{"Width":%d,"Height":%d}' % (columns, rows))

    def leave(self) -> None:
        """Without a word, as a client that is killed."""
        self.ws._writer.transport.abort()

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(60):
            while text not in self.output[1]:
                assert await self._take(), f"{text!r} did not come: {self.output}"

    async def result(self) -> tuple[bytes, bytes, bytes]:
        """What came on stdout, stderr and the error channel until the end."""
        async with asyncio.timeout(60):
            while await self._take():
                pass
        return self.output[1], self.output[2], self.output[3]

    async def _take(self) -> bool:
        message = await self.ws.receive()
        if message.type is not aiohttp.WSMsgType.BINARY:
            return False
        self.output[message.data[0]] += message.data[1:]
        return True


class User:
    """A client of the API server, by default the administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        config = resolve(parse(kubeconfig.read_text(), str(kubeconfig)))
        self._url, self._tls = config.server, Target(config).tls

    @asynccontextmanager
    async def command(
        self, name: str, *words: str, kind: str = "exec", protocol: str = "v5.channel.k8s.io", user: str = "",
        stdin: bool = False, tty: bool = False,
    ) -> AsyncIterator[Command]:  # fmt: skip
        query: list[tuple[str, str]] = [("command", word) for word in words]
        query += [("stdin", str(stdin).lower()), ("stdout", "true"), ("stderr", str(not tty).lower())]
        query += [("tty", str(tty).lower())]
        headers = {"Impersonate-User": user} if user else {}
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(
                f"{self._url}{PATH}/{name}/{kind}", params=query, headers=headers, protocols=[protocol], ssl=self._tls
            ) as ws,
        ):
            assert ws.protocol == protocol
            yield Command(ws)

    async def run(self, name: str, *words: str, **how: Any) -> tuple[bytes, bytes, bytes]:
        async with self.command(name, *words, **how) as command:
            return await command.result()


@pytest.fixture
def user(server: Path) -> User:
    return User(server)


async def test_a_command_runs_as_those_of_its_container_do(web: Client, user: User) -> None:
    where = "cat /proc/self/cgroup; echo colour=$COLOUR; echo wrong >&2; exit 7"
    output, errors, status = await user.run("web", "/bin/sh", "-c", where)
    (cgroups,) = {cgroups_of(pid) for pid in await pids_of(web, "web")}
    assert output.decode() == cgroups + "colour=blue\n"
    assert errors == b"wrong\n"
    assert b'"NonZeroExitCode"' in status
    assert b'"message":"7"' in status


async def test_a_client_of_another_make_is_served(web: Client, core: kubernetes.client.CoreV1Api) -> None:
    def run() -> tuple[str, str, int | None]:
        command = ["/bin/sh", "-c", "read line; echo got $line; echo wrong >&2; exit 3"]
        ws = stream(
            core.connect_get_namespaced_pod_exec, "web", "default", command=command,
            stdin=True, stdout=True, stderr=True, tty=False, _preload_content=False,
        )  # fmt: skip
        ws.write_stdin("hello\n")
        ws.run_forever(timeout=60)
        return ws.read_stdout(), ws.read_stderr(), ws.returncode

    assert await asyncio.to_thread(run) == ("got hello\n", "wrong\n", 3)


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_both_protocols_carry_a_command(web: Client, user: User, protocol: str) -> None:
    async with user.command("web", "/bin/sh", "-c", "read x; echo $x", protocol=protocol, stdin=True) as command:
        await command.type(b"hello\n")
        assert await command.result() == (b"hello\n", b"", b'{"metadata":{},"status":"Success"}')


async def test_an_input_that_ends_reaches_its_end(web: Client, user: User) -> None:
    piece = os.urandom(64 << 10)
    async with user.command("web", "/usr/bin/md5sum", stdin=True) as command:
        for _ in range(16):
            await command.type(piece)
        await command.end_input()
        output, _, _ = await command.result()
    assert output.split()[0].decode() == md5(piece * 16, usedforsecurity=False).hexdigest()


async def test_a_terminal_has_the_clients_size_and_hears_its_keys(web: Client, user: User) -> None:
    script = "tty; stty size; trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.1; done"
    async with user.command("web", "/bin/sh", "-c", script, stdin=True, tty=True) as command:
        await command.resize(91, 33)
        await command.until(b"ready\r\n")
        assert command.output[1].startswith(b"/dev/pts/")
        assert b"33 91\r\n" in command.output[1]
        await command.resize(70, 20)
        await command.until(b"20 70\r\n")
        _, _, status = await command.result()
    assert b'"message":"5"' in status
    async with user.command("web", "/bin/cat", stdin=True, tty=True) as command:
        await command.type(b"\x03")
        _, _, status = await command.result()
    assert b'"message":"130"' in status


async def test_what_a_command_leaves_in_the_background_does_not_hold_the_stream(web: Client, user: User) -> None:
    output, _, status = await user.run("web", "/bin/sh", "-c", "sleep 300 & echo $!; yes | head -c 500000 >&2")
    assert b'"Success"' in status
    assert int(output) in await pids_of(web, "web")


@pytest.mark.parametrize("tty", [False, True])
async def test_a_client_that_goes_away_hangs_up(
    web: Client, user: User, tty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "PING_S", 0.2)
    async with user.command("web", "/bin/sh", "-c", "echo $$ ready; exec sleep 300", stdin=True, tty=tty) as command:
        await command.until(b"ready")
        # More than all buffers on the way hold, since the command does not read.
        if not tty:
            with suppress(TimeoutError):
                async with asyncio.timeout(2):
                    for _ in range(256):
                        await command.type(b"x" * (256 << 10))
        pid = int(command.output[1].split()[0])
        assert pid in await pids_of(web, "web")
        command.leave()

    async def is_gone() -> bool:
        return pid not in await pids_of(web, "web")

    await eventually(is_gone)


async def test_a_command_ignores_no_signal_though_the_node_runs_under_nohup(web: Client, user: User) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        output, _, _ = await user.run("web", "/bin/grep", "SigIgn", "/proc/self/status")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert int(output.split()[1], 16) >> (signal.SIGHUP - 1) & 1 == 0


async def test_one_that_ignores_the_hang_up_goes_on_with_its_container(web: Client, user: User) -> None:
    async with user.command("web", "/bin/sh", "-c", "trap '' HUP; echo $$; exec sleep 300") as command:
        await command.until(b"\n")
        pid = int(command.output[1])

    async def goes_on() -> bool:
        return pid in await pids_of(web, "web")

    await always(goes_on, 0.5)
    await web.delete(PODS, "web", namespace="default", grace_s=0)
    await eventually(lambda: not runs(pid))


async def test_a_client_that_stops_reading_stops_the_command_and_misses_nothing(web: Client, user: User) -> None:
    async with user.command("web", "/bin/sh", "-c", "head -c 30000000 /dev/zero; echo end >&2") as command:
        await always(lambda: not command.output[2], 2.0)
        output, errors, _ = await command.result()
    assert (len(output), errors) == (30_000_000, b"end\n")


async def test_many_commands_at_once(web: Client, user: User) -> None:
    async def one(number: int) -> bytes:
        async with user.command("web", "/bin/sh", "-c", f"read x; echo {number} $x", stdin=True) as command:
            await command.type(b"again\n")
            output, _, _ = await command.result()
        return output

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(50)]
    assert [task.result() for task in tasks] == [b"%d again\n" % number for number in range(50)]


async def test_a_container_that_ends_ends_its_commands(web: Client, user: User) -> None:
    async with user.command("web", "/bin/sh", "-c", "echo ready; sleep 300") as command:
        await command.until(b"ready")
        await web.delete(PODS, "web", namespace="default", grace_s=0)
        _, _, status = await command.result()
    assert b'"message":"137"' in status


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["missing-command"], b"error executing command in container: missing-command: "),
        (["/etc"], b"Permission denied"),
    ],
)
async def test_a_command_that_cannot_run_says_why(web: Client, user: User, words: list[str], why: bytes) -> None:
    _, _, status = await user.run("web", *words)
    assert b'"Failure"' in status
    assert why in status


async def refusal(client: User, name: str, *words: str, **how: Any) -> int:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with client.command(name, *words, **how):
            pass
    return refused.value.status


async def test_what_cannot_be_joined_is_refused(web: Client, user: User) -> None:
    await web.create(PODS, pod("over", "exit 0"))
    await event_of(web, "over", "Started")
    assert await refusal(user, "nobody", "ls") == 404
    assert await refusal(user, "web") == 400
    assert await refusal(user, "web", "ls", protocol="v1.channel.k8s.io") == 400
    assert await refusal(user, "web", kind="attach", stdin=True) == 400
    await until_pod(web, "over", lambda pod: pod.is_finished)
    assert await refusal(user, "over", "ls") == 404


async def test_the_right_to_get_is_not_enough(web: Client, user: User) -> None:
    async def granted(name: str, *verbs: str) -> None:
        rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": list(verbs)}
        role = {"kind": "Role", "apiVersion": RBAC, "metadata": {"name": name}, "rules": [rule]}
        await web.raw("POST", f"/apis/{RBAC}/namespaces/default/roles", body=json.dumps(role).encode())
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
        binding = {"kind": "RoleBinding", "apiVersion": RBAC, "metadata": {"name": name}}
        body = json.dumps(binding | {"roleRef": reference, "subjects": [subject]}).encode()
        await web.raw("POST", f"/apis/{RBAC}/namespaces/default/rolebindings", body=body)

    await granted("reader", "get")
    await granted("creator", "create")
    await granted("both", "create", "get")
    assert await refusal(user, "web", "true", user="stranger") == 403
    assert await refusal(user, "web", "true", user="reader") == 403
    # A WebSocket is a GET.
    assert await refusal(user, "web", "true", user="creator") == 403
    _, _, status = await user.run("web", "true", user="both")
    assert b'"Success"' in status
    assert await refusal(user, "web", kind="attach", user="both") == 403


async def test_attach_shows_what_is_written_from_now_on(client: Client, user: User) -> None:
    await client.create(PODS, pod("talks", "echo before; n=0; while :; do n=$((n+1)); echo tick $n; sleep 0.1; done"))

    async def has_begun() -> bool:
        return "tick" in await log_of(client, "talks")

    await eventually(has_begun)
    async with user.command("talks", kind="attach") as command:
        await command.until(b"tick")
        assert b"before" not in command.output[1]


async def test_attach_types_into_a_container_that_takes_input(client: Client, user: User) -> None:
    takes = {"command": ["/bin/cat"], "stdin": True, "stdinOnce": True}
    await client.create(PODS, pod("cat", "", container=takes))
    await until_pod(client, "cat", is_running)
    async with user.command("cat", kind="attach", stdin=True) as command:
        await command.type(b"hello\n")
        await command.until(b"hello\n")
        await command.end_input()
        _, _, status = await command.result()
    assert b'"Success"' in status
    await until_pod(client, "cat", lambda pod: pod.is_finished)
    await until_log(client, "cat", "hello\n")


async def test_attach_to_a_shell_in_a_terminal(client: Client, user: User) -> None:
    await client.create(PODS, pod("shell", "", container={"command": ["/bin/sh"], "stdin": True, "tty": True}))
    await until_pod(client, "shell", is_running)
    for columns in (80, 81):
        # A second client finds the same shell.
        async with user.command("shell", kind="attach", stdin=True, tty=True) as command:
            await command.resize(columns, 24)
            await command.type(b"x=${x:-0}1; echo $x $(stty size)\n")
            await command.until(b" 24 %d\r\n" % columns)
            # The prompt comes before or after the echo of what is typed.
            said = b"01" if columns == 80 else b"011"
            assert any(start + said + b" 24" in command.output[1] for start in (b"\n", b"# "))
    async with user.command("shell", kind="attach", stdin=True, tty=True) as command:
        await command.type(b"exit 4\n")
        await command.result()
    over = await until_pod(client, "shell", lambda pod: pod.is_finished)
    assert over.status.container_statuses[0].state.terminated is not None
    assert over.status.container_statuses[0].state.terminated.exit_code == 4


def server_pod(name: str, port: int) -> dict[str, Any]:
    serves = f"mkdir -p /tmp/{name} && cd /tmp/{name} && exec python3 -m http.server {port} --bind 127.0.0.1"
    ready = {"readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1}}
    return pod(name, serves, container=ready | {"resources": {}})


async def test_a_port_of_a_pod_is_reached_and_no_other(web: Client, core: kubernetes.client.CoreV1Api) -> None:
    port, other = free_port(), free_port()
    await web.create(PODS, server_pod("site", port))
    await until_pod(web, "site", is_running)

    def ask(name: str, port: int) -> tuple[bytes, str]:
        forwarded = portforward(core.connect_get_namespaced_pod_portforward, name, "default", ports=str(port))
        connection = forwarded.socket(port)
        connection.settimeout(30)
        answer = b""
        with suppress(OSError):
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            while piece := connection.recv(65536):
                answer += piece
        connection.close()
        return answer, forwarded.error(port) or ""

    answer, error = await asyncio.to_thread(ask, "site", port)
    assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert not error
    # The pod shares the machine's network, yet the port is not its own.
    for name, number in (("web", port), ("site", other)):
        answer, error = await asyncio.to_thread(ask, name, number)
        assert not answer
        assert f"no process of the pod listens on port {number}" in error


def cgroups_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_a_log_warns_that_its_lines_have_no_times(web: Client, core: kubernetes.client.CoreV1Api) -> None:
    def warning(**options: Any) -> str | None:
        answer = core.read_namespaced_pod_log_with_http_info("web", "default", **options)
        text: str | None = answer[2].get("Warning")
        return text

    for options in ({"timestamps": True}, {"since_seconds": 1}):
        assert "does not keep when lines were written" in str(await asyncio.to_thread(warning, **options))
    assert await asyncio.to_thread(warning) is None
