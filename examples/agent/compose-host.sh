#!/bin/sh
# Makes a folder that looks like the host of node n1 to `koord agent --host-root`: 8 CPUs, 16 GiB, cgroup v2, and the
# cgroups of the two pods in pods.yaml. Plain files: nothing of this machine is read or written.
set -eu
host=${1:?where to make it}
put() { mkdir -p "$(dirname "$host/$1")"; printf '%s\n' "$2" > "$host/$1"; }

put proc/meminfo "MemTotal: 16777216 kB
MemFree: 4194304 kB
MemAvailable: 4194304 kB"
put proc/stat "cpu 1000 0 0 1000 0 0 0 0 0 0"
put sys/devices/system/cpu/online 0-7
for cpu in 0 1 2 3 4 5 6 7; do
  put "sys/devices/system/cpu/cpu$cpu/topology/physical_package_id" 0
  put "sys/devices/system/cpu/cpu$cpu/topology/core_id" "$cpu"
  mkdir -p "$host/sys/devices/system/cpu/cpu$cpu/node0"
done

put sys/fs/cgroup/cgroup.controllers "cpuset cpu memory"
web=burstable/pod11111111-0000-4000-8000-000000000001
report=besteffort/pod11111111-0000-4000-8000-000000000002
for directory in "" burstable besteffort "$web" "$web/aa01" "$report" "$report/bb02"; do
  at=sys/fs/cgroup/kubepods/$directory
  put "$at/cpu.weight" 100
  put "$at/cpu.max" "max 100000"
  put "$at/cpu.max.burst" 0
  put "$at/cpu.idle" 0
  put "$at/cpu.stat" "usage_usec 0
nr_periods 0
nr_throttled 0
throttled_usec 0"
  put "$at/cpuset.cpus" 0-7
  put "$at/cpuset.cpus.effective" 0-7
  put "$at/memory.current" 1073741824
  put "$at/memory.max" max
  put "$at/memory.min" 0
  put "$at/memory.low" 0
  put "$at/memory.high" max
  put "$at/memory.stat" "inactive_file 0"
  put "$at/cgroup.procs" ""
done
