"""The curves of all traces as one SVG picture: a panel a trace, a line a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH: Final = 300
HEIGHT: Final = 210
LEFT: Final = 44
BELOW: Final = 34
ABOVE: Final = 26
ACROSS: Final = 4
LEGEND: Final = 120
COLOURS: Final = ("#9aa5b1", "#c08a3e", "#7a6fb0", "#4f9d8f", "#8aa13c", "#d1495b", "#1f5fa8")
"""In the order of policies: what koord proposes comes last, and strongest."""

Curve = Mapping[int, float]


def svg(panels: Mapping[str, Mapping[str, Curve]], ceilings: Mapping[str, float], policies: Sequence[str]) -> str:
    """`panels`: by trace and policy, the percentage that is allocated by the percentage that arrived."""
    across = min(ACROSS, max(len(panels), 1))
    rows = -(-len(panels) // across)
    wide, high = max(across * WIDTH + 20, 16 + len(policies) * LEGEND), rows * HEIGHT + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{wide}" height="{high}" fill="#ffffff"/>',
        '<text x="16" y="22" font-size="14" fill="#222">GPU allocated (%) by GPU asked for (%)</text>',
    ]
    for i, policy in enumerate(policies):
        x = 16 + i * LEGEND
        parts.append(f'<line x1="{x}" y1="38" x2="{x + 18}" y2="38" stroke="{_colour(i, policies)}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 23}" y="42" fill="#333">{escape(policy)}</text>')
    for number, (trace, curves) in enumerate(panels.items()):
        x, y = 10 + number % across * WIDTH, 50 + number // across * HEIGHT
        parts += _panel(x, y, trace, curves, ceilings.get(trace), policies)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(
    x: int, y: int, trace: str, curves: Mapping[str, Curve], ceiling: float | None, policies: Sequence[str]
) -> list[str]:
    arrived = [percent for curve in curves.values() for percent in curve if percent >= 70]
    heights = [curve[percent] for curve in curves.values() for percent in curve if percent >= 90]
    first, last = 70, max(arrived, default=100)
    low = 5 * int(min(heights, default=0.0) // 5)
    high = 100 if max(heights, default=100.0) > 90 else 95
    right, bottom = x + WIDTH - 12, y + HEIGHT - BELOW

    def at(percent: float, allocated: float) -> tuple[float, float]:
        across = (percent - first) / max(last - first, 1)
        up = (allocated - low) / max(high - low, 1)
        return x + LEFT + across * (right - x - LEFT), bottom - up * (bottom - y - ABOVE)

    parts = [f'<text x="{x + LEFT}" y="{y + 16}" font-weight="bold" fill="#222">{escape(trace)}</text>']
    for allocated in range(low, high + 1, 5):
        _, level = at(first, allocated)
        parts.append(f'<line x1="{x + LEFT}" y1="{level:.1f}" x2="{right}" y2="{level:.1f}" stroke="#e4e7eb"/>')
        parts.append(f'<text x="{x + LEFT - 6}" y="{level + 4:.1f}" text-anchor="end" fill="#555">{allocated}</text>')
    for percent in range(first, last + 1, 10):
        across, _ = at(percent, low)
        parts.append(f'<text x="{across:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#555">{percent}</text>')
    if ceiling is not None:
        (x1, y1), (x2, _) = at(max(first, 95), ceiling), at(min(last, 105), ceiling)
        parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y1:.1f}" stroke="#222" stroke-dasharray="3 2">'
            f"<title>no policy can exceed {ceiling:.2f} at 100</title></line>"
        )
    for i, policy in enumerate(policies):
        curve = curves.get(policy, {})
        points = [at(percent, max(curve[percent], low)) for percent in sorted(curve) if percent >= first]
        if points:
            path = " ".join(f"{across:.1f},{up:.1f}" for across, up in points)
            colour = _colour(i, policies)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    return parts


def _colour(i: int, policies: Sequence[str]) -> str:
    return COLOURS[(i + len(COLOURS) - len(policies)) % len(COLOURS)]
