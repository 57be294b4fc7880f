"""`koord node setup`: the configuration files of a node where koord sets up containers before they start."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from koord.cli.groups import Group
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.runtime.node_setup import FileChange, Setup

KEPT = Path("/var/lib/koord/node-setup.json")


@click.group(cls=Group, epilog="Example: koord node setup --runtime containerd --way nri --dry-run")
def node() -> None:
    """Prepare this machine as a node of a cluster."""


@node.command(
    epilog="""\b
Example: koord node setup --way proxy --dry-run
         koord node setup --way nri
         koord node setup --way nri --check
         koord node setup --undo

\b
Nothing is restarted: the commands for that are printed. CRI-O's configuration is written by its documentation and was
not tried on a CRI-O."""
)
@click.option(
    "--runtime",
    type=click.Choice(["containerd", "cri-o"]),
    default="containerd",
    show_default=True,
    help="The container runtime of this node.",
)
@click.option(
    "--way",
    type=click.Choice(["nri", "proxy"]),
    default="nri",
    show_default=True,
    help="A plugin of the runtime (containerd 1.7 or later), or a proxy in front of any.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@click.option("--check", "only_check", is_flag=True, help="Only say what is in place; exit 1 if something is not.")
@click.option("--undo", is_flag=True, help="Put back the files as they were.")
@click.option("--host-root", type=Path, default="/", show_default=True, metavar="DIR", help="Where the host's / is.")
def setup(runtime: str, way: str, dry_run: bool, only_check: bool, undo: bool, host_root: Path) -> int:
    """Write the settings that kubelet and the container runtime need, or show, check or undo them."""
    from koord.runtime.node_setup import READ, Setup, Way, changes, next_steps, runtime_socket

    if sum((dry_run, only_check, undo)) > 1:
        raise click.UsageError("--dry-run, --check and --undo exclude each other")
    if undo:
        return _undo(host_root)
    wanted = Setup(runtime, Way(way))
    files = {path: text for path in READ if (text := _read(host_root, path)) is not None}
    file_changes = changes(wanted, files)
    kept = _kept(host_root / str(KEPT).lstrip("/"))
    socket = runtime_socket(wanted, {**files, **{path: before or "" for path, (before, _) in kept.items()}})
    if only_check:
        return _check(wanted, file_changes, host_root, socket)
    for change in file_changes:
        click.echo(_diff(change), nl=False)
    if not file_changes:
        click.echo("All files are so already.")
    elif not dry_run:
        _keep(host_root, file_changes)
        for change in file_changes:
            _write(host_root / change.path.lstrip("/"), change.after)
        click.echo(f"\n{len(file_changes)} files written; `koord node setup --undo` puts them back as they were.")
    click.echo("\nThen:")
    for step in next_steps(wanted, socket):
        click.echo(f"  {step}")
    return 0


def _read(root: Path, path: str) -> str | None:
    try:
        return (root / path.lstrip("/")).read_text()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise click.ClickException(f"{path} is no text") from None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    new = path.with_name(f".{path.name}.koord")
    new.write_text(text)
    new.chmod(mode)
    new.replace(path)


def _diff(change: FileChange) -> str:
    before = (change.before or "").splitlines(keepends=True)
    after = change.after.splitlines(keepends=True)
    begin = change.path if change.before is not None else "/dev/null"
    return "".join(difflib.unified_diff(before, after, begin, change.path))


def _keep(root: Path, file_changes: list[FileChange]) -> None:
    """Records each file's content from before the first change, which --undo restores."""
    path = root / str(KEPT).lstrip("/")
    kept = _kept(path)
    for change in file_changes:
        before = kept[change.path][0] if change.path in kept else change.before
        kept[change.path] = (before, change.after)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, msgspec.json.encode(kept).decode())


def _kept(path: Path) -> dict[str, tuple[str | None, str]]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, tuple[str | None, str]])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise click.ClickException(f"{path} is damaged: {error}; put the files back by hand") from None


def _undo(root: Path) -> int:
    path = root / str(KEPT).lstrip("/")
    kept = _kept(path)
    if not kept:
        click.echo("Nothing was set up here.")
        return 0
    changed = [path for path, (_, after) in kept.items() if _read(root, path) != after]
    if changed:
        listed = ", ".join(changed)
        raise click.ClickException(f"somebody has changed {listed} since; nothing was put back: do that by hand")
    for place, (before, _) in kept.items():
        file = root / place.lstrip("/")
        if before is None:
            file.unlink()
        else:
            _write(file, before)
        click.echo(f"{place} is {'gone' if before is None else 'as it was'}")
    path.unlink()
    click.echo("\nThen restart kubelet and the container runtime.")
    return 0


def _check(wanted: Setup, file_changes: list[FileChange], root: Path, runtime: str) -> int:
    from koord.kube.unix_sockets import is_answered, trusted
    from koord.runtime.node_setup import Way

    rows = [("WHAT", "IS", "NOTE")]
    missing = {change.path for change in file_changes}
    good = not missing
    rows += [(path, "to be changed", "koord node setup writes it") for path in sorted(missing)]
    if not missing:
        rows.append(("configuration", "in place", ""))
    sockets = {"runtime": runtime, "agent": wanted.agent}
    sockets["proxy" if wanted.way is Way.PROXY else "NRI"] = (
        wanted.listen if wanted.way is Way.PROXY else "/var/run/nri/nri.sock"
    )
    for name, socket in sockets.items():
        path = root / socket.lstrip("/")
        problem = trusted(os.fspath(path)) or ("" if is_answered(path) else "nobody listens")
        good = good and not problem
        rows.append((f"{name} at {socket}", "absent" if problem else "answers", problem))
    click.echo(table(rows))
    return 0 if good else 1
