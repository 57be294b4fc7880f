"""Anomaly detection: whether a node has been overloaded for long enough to act on it.

A node is anomalous after more than N rounds in a row above its marks. It stays anomalous until more than M rounds in a
row below them, or until a timeout: then counting starts again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from koord.api.configuration.descheduler_args import AnomalyCondition
from koord.api.text.duration import parse_duration


@dataclass(frozen=True, slots=True)
class Detector:
    """What is known of one node."""

    anomalous_since_s: float | None = None
    overloaded: int = 0
    "Rounds above its marks in a row."
    normal: int = 0
    "Rounds below them in a row."
    seen_s: float = 0.0
    "When it was last looked at."

    @property
    def is_anomalous(self) -> bool:
        return self.anomalous_since_s is not None


NOTHING_KNOWN = Detector()


def marked(detector: Detector, condition: AnomalyCondition, now_s: float, *, overloaded: bool) -> Detector:
    """A detector after another round."""
    detector = _timed_out(detector, condition, now_s)
    if overloaded:
        if not detector.is_anomalous and detector.overloaded + 1 > condition.consecutive_abnormalities:
            return Detector(anomalous_since_s=now_s, seen_s=now_s)
        return replace(detector, overloaded=detector.overloaded + 1, normal=0, seen_s=now_s)
    if detector.is_anomalous and detector.normal + 1 > condition.consecutive_normalities:
        return Detector(seen_s=now_s)
    return replace(detector, normal=detector.normal + 1, overloaded=0, seen_s=now_s)


def _timed_out(detector: Detector, condition: AnomalyCondition, now_s: float) -> Detector:
    since_s = detector.anomalous_since_s
    if since_s is None or now_s <= since_s + parse_duration(condition.timeout or "0s"):
        return detector
    return NOTHING_KNOWN
