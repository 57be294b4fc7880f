"""Security contexts of pods and containers: ids in range, profiles that say which, settings that do not contradict."""

from __future__ import annotations

import re
from typing import Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, choice, descending_path
from koord_minicluster.apiserver.status import duplicate, forbidden, invalid, not_supported, required

_GROUP_CHANGES: Final = ("Always", "OnRootMismatch")
_LARGEST_ID: Final = 2**31 - 1
_SYSCTL: Final = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_sysctl = re.compile(_SYSCTL).fullmatch
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")


def _ids(faults: Faults, context: Part, keys: tuple[str, ...], path: str) -> None:
    for key in keys:
        number = context.get(key)
        if number is not None and not 0 <= number <= _LARGEST_ID:
            faults.append(invalid(f"{path}.{key}", number, formats.range_fault(0, _LARGEST_ID)))


def pod_security(faults: Faults, context: Part, spec: Part, path: str) -> None:
    _ids(faults, context, ("fsGroup", "runAsUser", "runAsGroup"), path)
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= _LARGEST_ID:
            faults.append(invalid(f"{path}.supplementalGroups[{i}]", group, formats.range_fault(0, _LARGEST_ID)))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        faults.append(invalid(f"{path}.shareProcessNamespace", True, text))
    _sysctls(faults, context, spec, f"{path}.sysctls")
    choice(faults, context, "fsGroupChangePolicy", path, _GROUP_CHANGES, _GROUP_CHANGES)
    _profiles(faults, context, path)
    choice(faults, context, "supplementalGroupsPolicy", path, ("Merge", "Strict"), ("Merge", "Strict"))
    choice(faults, context, "seLinuxChangePolicy", path, ("Recursive",), ("Recursive",))


def container_security(faults: Faults, context: Part, spec: Part, path: str) -> None:
    _ids(faults, context, ("runAsUser", "runAsGroup"), path)
    mount = context.get("procMount")
    if mount is not None:
        if mount not in ("Default", "Unmasked"):
            faults.append(not_supported(f"{path}.procMount", mount, ("Default", "Unmasked")))
        if mount == "Unmasked" and spec.get("hostUsers", True):
            faults.append(invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    _profiles(faults, context, path)
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            faults.append(invalid(path, _shown(context), text))
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            faults.append(invalid(path, _shown(context), text))
    _windows(faults, context.get("windowsOptions") or {}, f"{path}.windowsOptions")


def _windows(faults: Faults, options: Part, path: str) -> None:
    name, user = options.get("gmsaCredentialSpecName"), options.get("runAsUserName")
    if name is not None:
        add_all(faults, f"{path}.gmsaCredentialSpecName", name, formats.dns_subdomain(name))
    if options.get("gmsaCredentialSpec") == "":
        faults.append(invalid(f"{path}.gmsaCredentialSpec", "", "gmsaCredentialSpec cannot be an empty string"))
    if user == "":
        faults.append(invalid(f"{path}.runAsUserName", "", "runAsUserName cannot be an empty string"))


def _shown(context: Part) -> dict[str, object]:
    """As Go's encoder prints it, with its own field names."""
    capabilities, profile = context.get("capabilities"), context.get("seccompProfile")
    windows, linux, armor = (context.get(key) for key in ("windowsOptions", "seLinuxOptions", "appArmorProfile"))
    return {
        "Capabilities": capabilities and {"Add": capabilities.get("add"), "Drop": capabilities.get("drop")},
        "Privileged": context.get("privileged"),
        "SELinuxOptions": linux and {key.capitalize(): linux.get(key, "") for key in ("user", "role", "type", "level")},
        "WindowsOptions": windows
        and {
            "GMSACredentialSpecName": windows.get("gmsaCredentialSpecName"),
            "GMSACredentialSpec": windows.get("gmsaCredentialSpec"),
            "RunAsUserName": windows.get("runAsUserName"),
            "HostProcess": windows.get("hostProcess"),
        },
        "RunAsUser": context.get("runAsUser"),
        "RunAsGroup": context.get("runAsGroup"),
        "RunAsNonRoot": context.get("runAsNonRoot"),
        "ReadOnlyRootFilesystem": context.get("readOnlyRootFilesystem"),
        "AllowPrivilegeEscalation": context.get("allowPrivilegeEscalation"),
        "ProcMount": context.get("procMount"),
        "SeccompProfile": profile
        and {"Type": profile.get("type", ""), "LocalhostProfile": profile.get("localhostProfile")},
        "AppArmorProfile": armor and {"Type": armor.get("type", ""), "LocalhostProfile": armor.get("localhostProfile")},
    }


def _sysctls(faults: Faults, context: Part, spec: Part, path: str) -> None:
    seen: set[str] = set()
    for i, sysctl in enumerate(context.get("sysctls") or ()):
        name, where = sysctl.get("name", ""), f"{path}[{i}].name"
        if not name:
            faults.append(required(where))
        elif len(name) > 253 or not _sysctl(name):
            faults.append(invalid(where, name, f"must have at most 253 characters and match regex ^{_SYSCTL}$"))
        elif name in seen:
            faults.append(duplicate(where, name))
        seen.add(name)
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            faults.append(invalid(where, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and dotted.startswith(("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")):
            faults.append(invalid(where, name, "may not be specified when 'hostIPC' is true"))


def _profiles(faults: Faults, context: Part, path: str) -> None:
    for key, said in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        if (profile := context.get(key)) is not None:
            _profile(faults, profile, said, key, f"{path}.{key}")


def _profile(faults: Faults, profile: Part, said: str, key: str, path: str) -> None:
    kind, file = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        faults.append(required(f"{path}.type", f"type is required when {key} is set"))
    elif kind not in _PROFILES:
        faults.append(not_supported(f"{path}.type", kind, _PROFILES))
    where = f"{path}.localhostProfile"
    if kind == "Localhost":
        if not file:
            faults.append(required(where, f"must be set when {said} type is Localhost"))
        elif said == "seccomp":
            descending_path(faults, where, file)
        elif file != file.strip():
            faults.append(invalid(where, file, "must not be padded with whitespace"))
    elif file is not None and (said == "seccomp" or kind in _PROFILES):
        shown = dict(profile) if said == "seccomp" else file
        faults.append(invalid(where, shown, f"can only be set when {said} type is Localhost"))


def validate_os(faults: Faults, spec: Part, path: str) -> None:
    """What a pod says of its operating system must fit its security contexts."""
    name = (spec.get("os") or {}).get("name", "")
    if not name:
        faults.append(required(f"{path}.os.name"))
        return
    if name not in ("linux", "windows"):
        faults.append(not_supported(f"{path}.os", name, ("linux", "windows")))
        return
    unfit = ("windowsOptions",) if name == "linux" else _NOT_WINDOWS
    text = "windows options cannot be set for a linux pod" if name == "linux" else "cannot be set for a windows pod"
    for key in unfit:
        if (spec.get("securityContext") or {}).get(key):
            faults.append(forbidden(f"{path}.securityContext.{key}", text))
        for own in _SHARED.get(key, ()) if name == "windows" else ():
            if spec.get(own) or (own == "hostUsers" and spec.get(own) is not None):
                faults.append(forbidden(f"{path}.{own}", text))
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(group) or ()):
            for key in unfit:
                if (container.get("securityContext") or {}).get(key) is not None:
                    faults.append(forbidden(f"{path}.{group}[{i}].securityContext.{key}", text))


_SHARED: Final = {"seLinuxOptions": ("hostUsers", "hostPID", "hostIPC"), "sysctls": ("shareProcessNamespace",)}
"""What a pod shares with its node, told after these fields of its security context."""
_NOT_WINDOWS: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser",
    "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "capabilities", "readOnlyRootFilesystem",
    "privileged", "allowPrivilegeEscalation", "procMount",
)  # fmt: skip
