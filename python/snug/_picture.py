"""A plan as a picture, in SVG: for notebooks and pages. Nothing else is needed to draw it."""

from __future__ import annotations

import html
from typing import Any

# As `snug plan --html` has them.
_COLOURS = {"activations": "#4f8fd8", "gradients": "#e08a3c", "optimizer": "#c9a227", "workspace": "#9aa5b1",
            "weights": "#5fb3b3"}
_LEFT, _TOP, _RIGHT, _BOTTOM = 78, 44, 14, 34


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def plan_svg(plan: Any, width: int, height: int) -> str:
    """Time goes to the right, a node of the order a column; addresses go up. A rectangle's title says what it is."""
    arena, columns = max(plan.step_bytes, 1), max(len(plan.order), 1)
    across, up = (width - _LEFT - _RIGHT) / columns, (height - _TOP - _BOTTOM) / arena
    ground = height - _BOTTOM
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="12">',
           f'<text x="{_LEFT}" y="16" font-weight="bold">{html.escape(plan.network)}, batch {plan.batch}, '
           f'{plan.mode}: {_bytes(plan.total_bytes)} by {html.escape(plan.strategy)}, '
           f'{_bytes(plan.state_bytes)} of them Variables</text>',
           f'<rect x="{_LEFT}" y="{_TOP}" width="{across * columns:.1f}" height="{ground - _TOP}" fill="none" '
           'stroke="#bbb"/>']
    for buffer in plan.buffers:
        first, last = max(buffer.first, 0), min(buffer.last, columns - 1)
        x, y = _LEFT + across * first, ground - up * (buffer.offset + buffer.bytes)
        wide, high = across * max(last - first + 1, 1), up * buffer.bytes
        title = f"{buffer.name}: {buffer.bytes:,} bytes of {buffer.kind} at {buffer.offset:,}, made by {buffer.op}"
        out.append(f'<rect x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{max(high, 0.3):.2f}" '
                   f'fill="{_COLOURS.get(buffer.kind, "#999")}" fill-opacity="0.75" stroke="#fff" stroke-width="0.3">'
                   f"<title>{html.escape(title)}</title></rect>")
    peak = _LEFT + across * (plan.peak + 0.5)
    out.append(f'<line x1="{peak:.1f}" x2="{peak:.1f}" y1="{_TOP}" y2="{ground}" stroke="#222" stroke-dasharray="3 3">'
               f"<title>most bytes are live here</title></line>")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = ground - up * arena * share
        out.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_bytes(arena * share)}</text>')
    out.append(f'<text x="{_LEFT}" y="{height - 10}">the first of {columns} nodes</text>'
               f'<text x="{width - _RIGHT}" y="{height - 10}" text-anchor="end">the last</text>')
    x = _LEFT
    for kind, colour in _COLOURS.items():
        if any(buffer.kind == kind for buffer in plan.buffers):
            out.append(f'<rect x="{x}" y="24" width="11" height="11" fill="{colour}"/>'
                       f'<text x="{x + 15}" y="34">{kind}</text>')
            x += 30 + 7 * len(kind)
    out.append("</svg>")
    return "\n".join(out)
