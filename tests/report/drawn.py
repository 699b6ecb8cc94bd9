"""Reading figures of a page back."""

from __future__ import annotations

import re
from xml.etree import ElementTree


def marks(figure: str, variable: str) -> list[tuple[float, float]]:
    """Return where a figure has marks of a colour, a variable of the page's style."""
    uses = ElementTree.fromstring(figure).iter("use")
    colour = f"var(--{variable})"
    return [(float(u.get("x")), float(u.get("y"))) for u in uses if u.get("stroke") == colour]


def texts(figure: str) -> list[str]:
    """Return the text of a figure, in its order."""
    return [text.text or "" for text in ElementTree.fromstring(figure).iter("text")]


def numbers(figure: str) -> list[float]:
    """Return every coordinate of the marks and lines of a figure."""
    assert "nan" not in figure.lower() and "inf" not in figure.lower()
    root = ElementTree.fromstring(figure)
    lines = " ".join(p.get("d", "") for p in root.iter("path") if "clip-path" in p.attrib)
    points = [float(u.get(axis)) for u in root.iter("use") for axis in "xy"]
    return points + [float(one) for one in re.findall(r"-?\d+\.?\d*", lines)]
