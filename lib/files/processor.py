"""Which processor this is: measurements of two of them are never mixed."""

from __future__ import annotations

import platform
import re
from pathlib import Path


def processor() -> str:
    """The processor's name with its family and model, since one name covers several."""
    text = Path("/proc/cpuinfo").read_text()
    fields = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", text, re.MULTILINE))
    complete = {"model name", "cpu family", "model"} <= fields.keys()
    name = "{model name} (family {cpu family}, model {model})"
    return name.format(**fields) if complete else platform.processor()
