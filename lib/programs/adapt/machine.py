"""What this machine is like, as far as it tells or a short probe finds (CDMPP, section 4.3).

A dataset has it under ``machine`` of its devices in ``dataset.json``, if it has it at all.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import numpy as np

CPUINFO, CACHES = Path("/proc/cpuinfo"), Path("/sys/devices/system/cpu/cpu0/cache")
FASTEST = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
VECTORS = {"avx512f": 512, "avx2": 256, "sse2": 128, "asimd": 128}  # bits, by the system's word
PROBED_BYTES, PROBES = 1 << 26, 9  # of an array that is copied, and how often
# Fields of a machine; 0 where one is not known. All but the first are numbers.
FIELDS = (
    "clock_ghz",
    "cores",
    "l1_kib",
    "l2_kib",
    "l3_kib",
    "memory_gib",
    "vector_bits",
    "bandwidth_gbs",
)


def machine() -> dict[str, float]:
    """What this machine is like, by ``FIELDS``; takes about a second, for the bandwidth.

    Gigahertz as the processor has them now or at most; cores that this process may use; data caches
    of one core, and the shared one, in KiB; memory in GiB; bits of the widest vector; gigabytes a
    second that one core reads and writes while it copies an array that no cache holds.
    """
    caches = cache_sizes(CACHES)
    return {
        "clock_ghz": round(clock(CPUINFO, FASTEST), 3),
        "cores": len(os.sched_getaffinity(0)),
        **{f"l{level}_kib": caches.get(level, 0) for level in (1, 2, 3)},
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 2),
        "vector_bits": vector_bits(CPUINFO),
        "bandwidth_gbs": round(bandwidth(), 2),
    }


def clock(cpuinfo: Path, fastest: Path) -> float:
    """Gigahertz: the most that the processor tells of, else the fastest core's; 0 if unknown."""
    if fastest.exists():
        return int(fastest.read_text()) / 1e6
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    return (
        max((float(mhz) for mhz in re.findall(r"^cpu MHz\s*: ([\d.]+)", text, re.M)), default=0)
        / 1e3
    )


def cache_sizes(folder: Path) -> dict[int, int]:
    """KiB of the caches that hold data, by level."""
    sizes = {}
    for cache in sorted(folder.glob("index*")):
        texts = {name: (cache / name).read_text().strip() for name in ("level", "type", "size")}
        amount, unit = re.fullmatch(r"(\d+)([KMG]?)", texts["size"]).groups()
        if texts["type"] != "Instruction":
            sizes[int(texts["level"])] = (
                int(amount) * {"": 0, "K": 1, "M": 1024, "G": 1 << 20}[unit]
            )
    return sizes


def vector_bits(cpuinfo: Path) -> int:
    """Bits of the widest vector that the processor tells of; 0 if unknown."""
    words = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    return max((bits for word, bits in VECTORS.items() if word in words), default=0)


def bandwidth() -> float:
    """Gigabytes a second that are read and written by the fastest of some copies."""
    source = np.ones(PROBED_BYTES // 8)
    target, times = np.zeros_like(source), []
    for _ in range(PROBES):
        started = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - started)
    return 2 * PROBED_BYTES / min(times) / 1e9
