"""Figures as inline SVG: scales, axes and marks. Colours are classes, which the page's style sets
for light and dark; sizes are user units, about a pixel each on a phone.

A picture is :class:`markupsafe.Markup`, and so is every part of one: whatever is put into it that
is not, such as the name of a graph, is text and gets escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

# What XML has no way to write: control characters, and halves of surrogate pairs.
UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Scale:
    """Maps values ``low``..``high`` to positions ``start``..``end``, linearly or by logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The position of a value."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        share = (value - low) / (high - low) if high != low else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """About ``count`` round values from ``low`` to ``high``."""
        if self.log and self.high / self.low >= 10:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            step = max(1, -(-(last - first) // count))
            return [10.0**power for power in range(first, last + 1, step)]
        step = _round_step((self.high - self.low) / max(1, count))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(place * step, 12) for place in range(first, last + 1)]


def scale_over(values: Sequence[float], start: float, end: float, log: bool = False) -> Scale:
    """A scale that holds all values with a little room; a log one only where all are positive."""
    finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if log and low > 0 and high / low > 20:
        return Scale(low / 1.15, high * 1.15, start, end, True)
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return Scale(low - room, high + room, start, end)


def number(value: float) -> str:
    """A tick's label: as few digits as tell it, true minus sign."""
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        mantissa, exponent = f"{value:.0e}".split("e")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{power}" if mantissa == "1" else f"{mantissa}·10{power}"
    return f"{value:,.6g}".replace("-", "−")


@dataclass
class Figure:
    """One picture, drawn from the back to the front.

    Attributes:
        width, height: of its own coordinates; it is shown as wide as its place.
        label: what it shows, for who cannot see it.
        stretched: whether it fills a place of any shape, rather than keep its own.
    """

    width: float
    height: float
    label: str
    stretched: bool = False
    parts: list[Markup] = field(default_factory=list)

    def add(self, tag: str, look: str, title: str = "", text: str = "", **values: object) -> None:
        """An element of class ``look``; ``title`` appears when it is pointed at."""
        inner = Markup("<title>{}</title>").format(_text(title)) if title else Markup()
        about = attributes(class_=look, **values)
        self.parts.append(Markup("<{0}{1}>{2}</{0}>").format(tag, about, inner + _text(text)))

    def line(self, look: str, x1: float, y1: float, x2: float, y2: float) -> None:
        """A straight line."""
        self.add("line", look, x1=x1, y1=y1, x2=x2, y2=y2)

    def path(self, look: str, points: Sequence[tuple[float, float]], title: str = "") -> None:
        """A line through points."""
        if points:
            d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            self.add("path", look, title, d=d)

    def dot(self, look: str, x: float, y: float, r: float = 4, title: str = "") -> None:
        """A filled or, by its class, hollow circle."""
        self.add("circle", look, title, cx=x, cy=y, r=r)

    def diamond(self, look: str, x: float, y: float, r: float = 5, title: str = "") -> None:
        """A square on its corner."""
        self.add("path", look, title, d=f"M{x:.1f} {y - r:.1f}l{r} {r}l{-r} {r}l{-r} {-r}z")

    def text(self, look: str, x: float, y: float, text: str, anchor: str = "start") -> None:
        """Text on a base line."""
        self.add("text", look, text=text, x=x, y=y, text_anchor=anchor)

    def x_axis(self, scale: Scale, top: float, bottom: float, name: str, count: int = 5) -> None:
        """Grid lines from ``top`` to ``bottom``, labels below, the name at the right."""
        for tick in scale.ticks(count):
            x = scale(tick)
            self.line("grid", x, top, x, bottom)
            self.text("tick", x, bottom + 15, number(tick), "middle")
        self.line("axis", scale.start, bottom, scale.end, bottom)
        self.text("name", scale.end, bottom + 31, name, "end")

    def y_axis(self, scale: Scale, left: float, right: float, name: str, count: int = 5) -> None:
        """Grid lines from ``left`` to ``right``, labels at the left, the name above."""
        for tick in scale.ticks(count):
            y = scale(tick)
            self.line("grid", left, y, right, y)
            self.text("tick", left - 7, y + 4, number(tick), "end")
        self.text("name", 0, scale.end - 10, name)

    def render(self, look: str = "") -> Markup:
        """The ``<svg>`` element, of a class ``look``."""
        about = attributes(
            class_=f"figure {look}",
            viewBox=f"0 0 {self.width:g} {self.height:g}",
            preserveAspectRatio="none" if self.stretched else None,
            role="img",
            aria_label=self.label,
        )
        return Markup("<svg{}>{}</svg>").format(about, Markup().join(self.parts))


def attributes(**values: object) -> Markup:
    """Attributes of an element, each after a blank, without those that are ``None``.

    Underscores in names become dashes; one at the end, as of ``class_``, is dropped.
    """
    attribute = Markup(' {}="{}"')
    named = ((name.rstrip("_").replace("_", "-"), value) for name, value in values.items())
    return Markup().join(attribute.format(n, _value(v)) for n, v in named if v is not None)


def shortened(text: str, most: int) -> str:
    """``text`` with its middle left out where it is longer than ``most`` characters."""
    if len(text) <= most:
        return text
    head = (most - 1) * 3 // 5
    return f"{text[:head]}…{text[-(most - 1 - head) :]}"


def _value(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else _text(str(value))


def _text(text: str) -> str:
    return UNWRITABLE.sub("\ufffd", text)


def _round_step(rough: float) -> float:
    if rough <= 0 or not math.isfinite(rough):
        return 1.0
    power = 10 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
