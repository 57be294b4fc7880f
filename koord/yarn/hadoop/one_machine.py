"""Hadoop's configuration for one machine: a ResourceManager and a NodeManager, both on loopback.

A NodeManager registers with little, since it has what its own configuration says until the operator has spoken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from xml.sax.saxutils import escape

from koord.yarn.hadoop.configuration import CORE, SITE

PORTS: Final = ("rpc", "scheduler", "tracker", "admin", "web", "nm", "localizer", "nm-web")
HOST: Final = "127.0.0.1"
MAPRED: Final = "mapred-site.xml"
FIRST_VCORES: Final = 1
FIRST_MIB: Final = 1024
_SCHEDULER: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
_BOTH_COUNT: Final = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"


def site(properties: Mapping[str, str]) -> str:
    """A file of properties, as Hadoop reads it."""
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    return "<configuration>\n" + "\n".join(lines) + "\n</configuration>\n"


def resource_manager_addresses(ports: Mapping[str, int], rm_id: str = "") -> dict[str, str]:
    """`rm_id`: which of several, with high availability."""
    suffix = f".{rm_id}" if rm_id else ""
    return {
        f"yarn.resourcemanager.{key}{suffix}": f"{HOST}:{ports[port]}"
        for key, port in (
            ("address", "rpc"),
            ("scheduler.address", "scheduler"),
            ("resource-tracker.address", "tracker"),
            ("admin.address", "admin"),
            ("webapp.address", "web"),
        )
    }


def yarn_site(ports: Mapping[str, int], directory: str) -> dict[str, str]:
    """`directory` is where containers and their logs lie."""
    return {
        **resource_manager_addresses(ports),
        "yarn.resourcemanager.scheduler.class": _SCHEDULER,
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.nodemanager.address": f"{HOST}:{ports['nm']}",
        "yarn.nodemanager.localizer.address": f"{HOST}:{ports['localizer']}",
        "yarn.nodemanager.webapp.address": f"{HOST}:{ports['nm-web']}",
        "yarn.nodemanager.resource.cpu-vcores": str(FIRST_VCORES),
        "yarn.nodemanager.resource.memory-mb": str(FIRST_MIB),
        "yarn.nodemanager.local-dirs": f"{directory}/local",
        "yarn.nodemanager.log-dirs": f"{directory}/logs",
        # NodeManagers find a restarted ResourceManager within a second, not within 30.
        "yarn.resourcemanager.connect.retry-interval.ms": "1000",
        # The agent looks after memory and disks are not YARN's alone.
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.enable": "false",
    }


def shuffle() -> dict[str, str]:
    """What a NodeManager needs for MapReduce: reducers fetch from it. It picks a port by itself."""
    return {"yarn.nodemanager.aux-services": "mapreduce_shuffle", "mapreduce.shuffle.port": "0"}


def mapred_site(classpath: str, directory: str) -> dict[str, str]:
    """MapReduce with little memory. `classpath` as Java reads it."""
    return {
        "mapreduce.framework.name": "yarn",
        "mapreduce.application.classpath": classpath.replace(":", ","),
        "mapreduce.jvm.add-opens-as-default": "true",
        "yarn.app.mapreduce.am.staging-dir": f"{directory}/staging",
        "yarn.app.mapreduce.am.resource.mb": "512",
        "yarn.app.mapreduce.am.command-opts": "-Xmx384m",
        "mapreduce.map.memory.mb": "384",
        "mapreduce.map.java.opts": "-Xmx256m",
        "mapreduce.reduce.memory.mb": "384",
        "mapreduce.reduce.java.opts": "-Xmx256m",
        "mapreduce.task.io.sort.mb": "32",
        # A small job runs within its master: a small machine has one vcore for YARN, which the master takes.
        "mapreduce.job.ubertask.enable": "true",
        # There is no history server to ask about a job that is over.
        "mapreduce.jobhistory.address": "",
    }


def files(
    ports: Mapping[str, int], directory: str, further: Mapping[str, str] | None = None, mapreduce: str = ""
) -> dict[str, str]:
    """All files of the configuration by name. `further` properties of yarn-site.xml win. `mapreduce`: the class path
    of MapReduce where there is one."""
    services = shuffle() if mapreduce else {}
    texts = {
        CORE: site({"hadoop.tmp.dir": f"{directory}/tmp"}),
        SITE: site({**yarn_site(ports, directory), **services, **(further or {})}),
        "capacity-scheduler.xml": site(
            {
                "yarn.scheduler.capacity.root.queues": "default",
                "yarn.scheduler.capacity.root.default.capacity": "100",
                "yarn.scheduler.capacity.root.default.user-limit-factor": "10",
                "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
                "yarn.scheduler.capacity.resource-calculator": _BOTH_COUNT,
            }
        ),
        "log4j.properties": "log4j.rootLogger=INFO,A\n"
        "log4j.appender.A=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.A.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.A.layout.ConversionPattern=%d %p %c{1}: %m%n\n",
    }
    if mapreduce:
        texts[MAPRED] = site(mapred_site(mapreduce, directory))
    return texts
