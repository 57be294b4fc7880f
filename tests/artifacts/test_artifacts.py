"""What users get: a wheel, a list of all that is in it, an image. `make dist` and `make image` make them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

from koord.operate.install.workloads import USER
from tests.docs.test_pages import commands

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
PYTHON = shutil.which("python3") or sys.executable
EXTRAS = ("speed", "runtime", "node", "up", "bench", "chaos")


def uv(*args: str, **environment: str) -> str:
    """From what the development environment has fetched already; what is not there any more is fetched."""
    program = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
    if not Path(program).exists():
        pytest.skip("make .tools/bin/uv")
    for offline in (["--offline"], []):
        done = subprocess.run(
            [program, *args, *offline],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout
    raise AssertionError(done.stderr)


def run(folder: Path, *command: str | Path) -> str:
    """Somewhere else, without a checkout."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def it_works(koord: Path, folder: Path) -> None:
    """A koord that is installed tells its build, and has all of its data with it."""
    told = json.loads(run(folder, koord, "version", "--client", "-o", "json"))["client"]
    (version,) = re.findall(r'__version__ = "(.+)"', (ROOT / "koord" / "__init__.py").read_text())
    assert told["version"] == version
    if (ROOT / ".git").exists():
        assert re.fullmatch(r"[0-9a-f]{40}(-changed)?", told["commit"])
        assert told["date"]
    nodes = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}\n"
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p1}\nspec: {containers: [{name: c, image: c}]}\n"
    (folder / "cluster.yaml").write_text(f"{nodes}---\n{pod}")
    planned = json.loads(run(folder, koord, "plan", "-f", "cluster.yaml", "-o", "json"))
    assert "n1" in json.dumps(planned)
    assert "koord-manager" in run(folder, koord, "install", "--dry-run")
    # The facts about built-in kinds are files.
    read = "from importlib.resources import files;"
    read += "print(len((files('koord')/'api/builtin_schemas/facts.json').read_bytes()))"
    assert int(run(folder, koord.parent / "python", "-c", read)) > 1000


def test_a_wheel_with_all_extras_works_in_a_fresh_environment_outside_of_the_checkout(tmp_path: Path) -> None:
    fresh = tmp_path / "env"
    options = ("--frozen", "--no-dev", "--all-extras", "--no-editable", "--quiet", "--python", sys.executable)
    uv("sync", *options, UV_PROJECT_ENVIRONMENT=str(fresh))
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    it_works(fresh / "bin" / "koord", outside)
    where = run(outside, fresh / "bin" / "python", "-c", "import koord, uvloop, grpc, pynvml; print(koord.__file__)")
    assert where.startswith(str(fresh))


def locked(python: str = "3.11", machine: str = "x86_64") -> dict[str, str]:
    """The versions that an installation with all extras has on Linux, by package."""
    listed = uv("export", "--frozen", "--no-dev", "--all-extras", "--no-emit-workspace", "--no-hashes", "--no-annotate")
    there = {"python_version": python, "python_full_version": f"{python}.0", "platform_machine": machine}
    wanted = [Requirement(line) for line in listed.splitlines() if line and not line.startswith("#")]
    return {
        requirement.name: str(requirement.specifier).removeprefix("==")
        for requirement in wanted
        if requirement.marker is None
        or requirement.marker.evaluate({**there, "sys_platform": "linux", "os_name": "posix"})
    }


def test_every_locked_package_has_a_wheel_for_arm_as_well() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    wheels = {(each["name"], each["version"]): each.get("wheels", ()) for each in lock["package"]}
    for python in PYTHONS:
        packages = locked(python, "aarch64")
        assert {"aiohttp", "numpy", "grpcio", "uvloop"} <= set(packages)
        short = python.replace(".", "")
        lacking = [
            item
            for item in packages.items()
            if not any(_runs(found["url"], short, "aarch64") for found in wheels[item])
        ]
        assert lacking == [], python


def _runs(url: str, python: str, machine: str) -> bool:
    """Whether a wheel can be installed beside glibc 2.28 and that Python."""
    _, _, _, tags = parse_wheel_filename(url.rpartition("/")[2].replace("%2B", "+"))
    return any(_fits(tag, python, machine) for tag in tags)


def _fits(tag: Tag, python: str, machine: str) -> bool:
    glibc = re.fullmatch(rf"manylinux_2_(\d+)_{machine}", tag.platform)
    known = tag.platform == "any" or tag.platform == f"manylinux2014_{machine}" or (glibc and int(glibc[1]) <= 28)
    stable = tag.abi == "abi3" and tag.interpreter.startswith("cp3") and int(tag.interpreter[2:]) <= int(python)
    pure = tag.abi == "none" and tag.interpreter in ("py3", "py2.py3", "py2")
    return bool(known) and (pure or stable or (tag.interpreter, tag.abi) == (f"cp{python}", f"cp{python}"))


def test_the_sbom_names_every_locked_package_once_with_its_digests(tmp_path: Path) -> None:
    path = tmp_path / "koord.cdx.json"
    form = ("--preview-features", "sbom-export", "--format", "cyclonedx1.5", "-o", str(path), "--quiet")
    uv("export", "--frozen", "--no-dev", "--all-extras", *form)
    is_a_bill_of_materials(json.loads(path.read_text()))


def is_a_bill_of_materials(bill: dict[str, Any]) -> None:
    """By what CycloneDX requires, and by the lock file."""
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    assert bill["metadata"]["component"]["name"] == "koord"
    refs = [component["bom-ref"] for component in bill["components"]] + [bill["metadata"]["component"]["bom-ref"]]
    assert len(refs) == len(set(refs))
    for component in bill["components"]:
        assert component["type"] == "library"
        if component["name"].startswith("koord-"):
            # A package of this repository, which no index has.
            continue
        assert component["purl"].startswith(f"pkg:pypi/{component['name']}@{component['version']}")
        assert all(
            hashes["alg"] == "SHA-256" for found in component["externalReferences"] for hashes in found["hashes"]
        )
    found = {(component["name"], component["version"]) for component in bill["components"]}
    assert set(locked().items()) <= found
    assert {
        ref for dependency in bill["dependencies"] for ref in (dependency["ref"], *dependency.get("dependsOn", ()))
    } <= set(refs)


def test_the_image_is_as_its_workloads_expect_it_and_names_no_registry() -> None:
    """Pods run `koord` by its name, as this user, and write nowhere."""
    text = (ROOT / "Containerfile").read_text()
    steps = [line.split(maxsplit=1) for line in text.replace("\\\n", " ").splitlines() if line and line[0] not in "# "]
    by_word = dict(steps)
    assert by_word["USER"] == f"{USER}:{USER}"
    assert by_word["ENTRYPOINT"] == '["koord"]'
    assert "PATH=/opt/koord/bin:" in by_word["ENV"]
    bases = [rest.split()[0] for word, rest in steps if word == "FROM"]
    assert bases == ["${BASE}", "python", "python"]
    assert "." not in re.findall(r"ARG BASE=(\S+)", text)[0], "an image without a registry's host"


MADE = ROOT / "dist"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_page_installs_the_wheel_that_was_made_without_an_index(tmp_path: Path) -> None:
    assert list(MADE.glob("koord-*.whl")), "make dist"
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    run(outside, PYTHON, "-m", "venv", tmp_path / "env")
    (outside / "dist").symlink_to(MADE)
    made, *typed = commands("build-it.md")
    assert made == "make dist"
    path = f"PATH={tmp_path}/env/bin:$PATH"
    said = run(outside, "sh", "-c", "\n".join(["set -e", path, *typed]))
    assert "koord   " in said
    assert "(commit " in said
    it_works(tmp_path / "env" / "bin" / "koord", outside)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_pipx_installs_the_wheel_that_was_made_with_all_extras(tmp_path: Path) -> None:
    pipx = shutil.which("pipx")
    if pipx is None:
        pytest.skip("apt-get install pipx")
    arguments = f"--pip-args=--no-index --find-links {MADE / 'wheels'}"
    run(tmp_path, pipx, "install", "--python", PYTHON, arguments, f"koord[{','.join(EXTRAS)}]")
    (found,) = {each.resolve() for each in tmp_path.rglob("bin/koord")}
    it_works(found, tmp_path)


@pytest.mark.long
def test_the_sbom_that_was_made_is_of_this_lock_file() -> None:
    is_a_bill_of_materials(json.loads((MADE / "koord.cdx.json").read_text()))
