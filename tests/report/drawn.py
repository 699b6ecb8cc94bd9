"""Reading figures of a page back."""

from __future__ import annotations

from base64 import b64decode
from xml.etree import ElementTree

SVG, LINK = "{http://www.w3.org/2000/svg}", "data:image/svg+xml;base64,"


def drawing(figure: str) -> ElementTree.Element:
    """Return the image of a figure."""
    return ElementTree.fromstring(b64decode(figure.partition(LINK)[2].partition('"')[0]))


def marks(figure: str, colour: str) -> list[tuple[float, float]]:
    """Return where a figure has marks of a colour."""
    uses = drawing(figure).iter(f"{SVG}use")
    own = [use for use in uses if f"stroke: {colour}" in use.get("style", "")]
    return [(float(use.get("x")), float(use.get("y"))) for use in own]


def texts(figure: str) -> list[str]:
    """Return the text of a figure, in its order."""
    return [text.text or "" for text in drawing(figure).iter(f"{SVG}text")]
