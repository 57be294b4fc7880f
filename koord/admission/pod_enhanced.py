"""Labels that a cluster demands of its pods, as the ConfigMap pod-enhanced-validator-config says.

Each rule names labels that pods must have (with any value), and namespaces that it leaves alone. A pod can exempt
itself by a label. The first rule that a pod breaks is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from koord.api.configuration.slo_config import read_json
from koord.api.machinery.faults import Fault, Invalid, check
from koord.api.machinery.struct import Struct
from koord.api.protocol import names

_ENABLE: Final = "enable"
_RULES: Final = "rules"


class EnhancedRule(Struct):
    name: str = ""
    required_labels: tuple[str, ...] = ()
    namespace_whitelist: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EnhancedRules:
    enable: bool = False
    rules: tuple[EnhancedRule, ...] = ()

    def faults(self, labels: Mapping[str, str], namespace: str) -> Iterator[Fault]:
        """What is missing on a pod, by the first rule that misses something."""
        if not self.enable or labels.get(names.LABEL_SKIP_ENHANCED_VALIDATION) == "true":
            return
        for rule in self.rules:
            if namespace in rule.namespace_whitelist:
                continue
            missing = [key for key in rule.required_labels if key not in labels]
            for key in missing:
                yield Fault(f"metadata.labels[{key}]", f"is required by the rule {rule.name or 'without a name'}")
            if missing:
                return


def parse(data: Mapping[str, str]) -> EnhancedRules:
    """The rules in a ConfigMap's data. Raises Invalid."""
    text = data.get(_RULES)
    rules: tuple[EnhancedRule, ...] = ()
    if text is not None:
        try:
            raw = read_json(text)
            rules = check(tuple[EnhancedRule, ...], [] if raw is None else raw, _RULES, allow_unknown=True)
        except Invalid as error:
            faults = [fault.under(f"data.{_RULES}") for fault in error.faults]
            raise Invalid(names.CONFIGMAP_POD_ENHANCED_VALIDATOR, faults) from None
    return EnhancedRules(data.get(_ENABLE, "").strip().lower() == "true", rules)
