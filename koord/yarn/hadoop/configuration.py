"""Hadoop's configuration: what the files of a HADOOP_CONF_DIR say of ResourceManagers.

core-site.xml, yarn-site.xml, and for each further cluster `<cluster>.yarn-site.xml`. A property may refer to others
(`${yarn.resourcemanager.hostname}`), as in Hadoop. The cluster of yarn-site.xml itself has no name.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from typing import Final

from koord.api.machinery.faults import BadInput
from koord.api.machinery.struct import Struct
from koord.yarn.hadoop.address import is_address

SITE: Final = "yarn-site.xml"
CORE: Final = "core-site.xml"
FURTHER: Final = ".yarn-site.xml"

RPC_PORT: Final = 8032
ADMIN_PORT: Final = 8033
WEB_PORT: Final = 8088
_REFERENCE: Final = re.compile(r"\$\{([^}$\s]+)\}")
_DEEPEST: Final = 20
_LONGEST: Final = 10_000
_INCLUDE: Final = "{http://www.w3.org/2001/XInclude}include"


class HadoopConfigurationError(BadInput):
    """A file that is missing or says nothing usable."""


class ResourceManagerAddress(Struct):
    """Where one ResourceManager listens."""

    name: str
    "Its id with high availability, else empty."
    rpc: str
    "host:port"
    admin: str
    web: str


class YarnCluster(Struct):
    name: str
    "Empty for the cluster of yarn-site.xml."
    managers: tuple[ResourceManagerAddress, ...]
    "Several with high availability; one is active."
    user: str = ""


class NodeManagerSite(Struct):
    """What a NodeManager's configuration says of it."""

    web: str = "127.0.0.1:8042"
    local_dirs: tuple[str, ...] = ()


def properties(text: str, file: str) -> dict[str, str]:
    """The properties of one file. Raises HadoopConfigurationError."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise HadoopConfigurationError(f"{file} is not XML: {error}") from None
    if root.tag != "configuration":
        raise HadoopConfigurationError(f"{file}: the outermost element is <{root.tag}>, it must be <configuration>")
    if (included := next(root.iter(_INCLUDE), None)) is not None:
        raise HadoopConfigurationError(
            f"{file} includes {included.get('href', '')!r}, which is not supported: put its properties into {file}"
        )
    values: dict[str, str] = {}
    for element in root.iter("property"):
        name = (element.findtext("name") or "").strip()
        if name:
            values[name] = (element.findtext("value") or "").strip()
    return values


def resolved(all_: Mapping[str, str], name: str, default: str = "") -> str:
    """A property with its references replaced; an unknown reference stays unchanged, as in Hadoop."""
    value = all_.get(name, default)
    for _ in range(_DEEPEST):
        references = [reference for reference in _REFERENCE.findall(value) if reference in all_]
        if not references:
            return value
        if len(value) + sum(len(all_[reference]) for reference in references) > _LONGEST:
            raise HadoopConfigurationError(f"{name}: with its references it has more than {_LONGEST} characters")
        value = _REFERENCE.sub(lambda match: all_.get(match[1], match[0]), value)
    raise HadoopConfigurationError(f"{name}: its references never end")


def clusters(files: Mapping[str, str], directory: str = "HADOOP_CONF_DIR") -> dict[str, YarnCluster]:
    """By name, from the texts of the files by their names. Raises HadoopConfigurationError."""
    if SITE not in files:
        raise HadoopConfigurationError(f"{directory} has no {SITE}: give the directory of Hadoop's configuration")
    core = properties(files[CORE], CORE) if CORE in files else {}
    by_name = {"": _cluster("", core | properties(files[SITE], SITE), SITE)}
    for name, text in sorted(files.items()):
        if name.endswith(FURTHER) and name != FURTHER:
            cluster = name.removesuffix(FURTHER)
            by_name[cluster] = _cluster(cluster, core | properties(text, name), name)
    _refuse_twins(by_name.values())
    return by_name


def _refuse_twins(all_: Iterable[YarnCluster]) -> None:
    """Two names for one cluster would let two nodes share one NodeManager."""
    owners: dict[str, str] = {}
    for cluster in all_:
        file = f"{cluster.name}{FURTHER}" if cluster.name else SITE
        for manager in cluster.managers:
            if (other := owners.setdefault(manager.admin, file)) != file:
                raise HadoopConfigurationError(
                    f"{other} and {file} name the same ResourceManager {manager.admin}: one cluster needs one file"
                )


def node_manager_site(files: Mapping[str, str], directory: str = "HADOOP_CONF_DIR") -> NodeManagerSite:
    """Raises HadoopConfigurationError."""
    if SITE not in files:
        raise HadoopConfigurationError(f"{directory} has no {SITE}: give the directory of Hadoop's configuration")
    core = properties(files[CORE], CORE) if CORE in files else {}
    all_ = core | properties(files[SITE], SITE)
    web = resolved(all_, "yarn.nodemanager.webapp.address") or NodeManagerSite().web
    host, _, port = web.rpartition(":")
    # On this machine, whatever it listens at.
    host = "127.0.0.1" if host in ("", "0.0.0.0") or "${" in host else host
    if not is_address(f"{host}:{port}"):
        raise HadoopConfigurationError(f"{SITE}: yarn.nodemanager.webapp.address is {web!r}: it must be host:port")
    default = "${hadoop.tmp.dir}/nm-local-dir" if "hadoop.tmp.dir" in all_ else ""
    dirs = resolved(all_, "yarn.nodemanager.local-dirs", default).split(",")
    return NodeManagerSite(
        f"{host}:{port}", tuple(folder.strip().removeprefix("file://") for folder in dirs if folder.strip())
    )


def _cluster(name: str, all_: Mapping[str, str], file: str) -> YarnCluster:
    if resolved(all_, "hadoop.security.authentication", "simple") != "simple":
        raise HadoopConfigurationError(
            f"{file}: hadoop.security.authentication is {all_['hadoop.security.authentication']!r}: only simple"
            " authentication is supported, Kerberos is not"
        )
    if resolved(all_, "yarn.resourcemanager.ha.enabled", "false").lower() != "true":
        return YarnCluster(name, (_manager(all_, "", file),))
    ids = [
        manager_id.strip()
        for manager_id in resolved(all_, "yarn.resourcemanager.ha.rm-ids").split(",")
        if manager_id.strip()
    ]
    if not ids:
        raise HadoopConfigurationError(
            f"{file}: with yarn.resourcemanager.ha.enabled, set yarn.resourcemanager.ha.rm-ids"
        )
    return YarnCluster(name, tuple(_manager(all_, manager_id, file) for manager_id in ids))


def _manager(all_: Mapping[str, str], rm_id: str, file: str) -> ResourceManagerAddress:
    suffix = f".{rm_id}" if rm_id else ""
    host = resolved(all_, f"yarn.resourcemanager.hostname{suffix}") or "0.0.0.0"

    def address(key: str, port: int) -> str:
        name = f"yarn.resourcemanager.{key}{suffix}"
        value = resolved(all_, name) or f"{host}:{port}"
        if not is_address(value):
            raise HadoopConfigurationError(f"{file}: {name} is {value!r}: it must be host:port")
        return value

    return ResourceManagerAddress(
        rm_id, address("address", RPC_PORT), address("admin.address", ADMIN_PORT), address("webapp.address", WEB_PORT)
    )
