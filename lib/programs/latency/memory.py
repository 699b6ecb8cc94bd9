"""Time to read a network's weights, beyond the time of programs that were timed alone.

A program that runs again and again finds its weights in the cache; in a network other programs
have used the cache since. The paper's replayer has nothing of the kind.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Traffic:
    """Bytes that a call reads of the network's weights and inputs, by their numbers, and writes."""

    reads: Mapping[int, int]
    writes: int = 0


# A core's own and the shared one, and how fast chains of layers read their weights from the next
# level, one vector at a time, on an EPYC of Zen 5. There, a
# batch of sixteen waited for its weights five times as long; whole networks did not show that.
CACHES = ((1 << 20, 240e9), (32 << 20, 34e9))
# How fast a core of an EPYC of Zen 4 reads weights from memory, and from the cache that is shared.
FROM_MEMORY, FROM_SHARED = 32e9, 96e9


def reading_seconds(calls: Sequence[Traffic]) -> tuple[float, ...]:
    """Return seconds that each call of a network waits for weights, if it runs again and again."""
    seconds = [0.0] * len(calls)
    for size, rate in CACHES:
        for number, lost in enumerate(lost_bytes(calls, size)):
            seconds[number] += lost / rate
    return tuple(seconds)


def found_seconds(calls: Sequence[Traffic], size: int = CACHES[-1][0]) -> tuple[float, ...]:
    """Return seconds that each call does not wait for weights, of a program that was timed with
    weights from memory: a call shortly before has read them, as steps of a recurrent network do.

    Args:
        calls: of a network, in their order.
        size: bytes of the shared cache.
    """
    read, ends, seconds = 0, {}, []  # bytes so far, and up to the end of each buffer
    for call in calls:
        near = [k for k in call.reads if k in ends and read - ends[k] + call.reads[k] <= size]
        found = sum(call.reads[k] for k in near)
        seconds.append(found / FROM_MEMORY - found / FROM_SHARED)
        for buffer, some in call.reads.items():
            read += some
            ends[buffer] = read
    return tuple(seconds)


def lost_bytes(calls: Sequence[Traffic], size: int) -> list[int]:
    """Return bytes that each call reads and a cache of ``size`` bytes does not have any more.

    The cache keeps what was used last. What a call itself has no room for in it, it had to wait
    for when it was timed alone as well, and is not counted.
    """
    cached: OrderedDict[tuple[str, int], int] = OrderedDict()
    lost = [0] * len(calls)
    for turn in range(2):  # the first fills the cache
        for number, call in enumerate(calls):
            used = {("read", buffer): some for buffer, some in call.reads.items()}
            if turn and sum(call.reads.values()) + call.writes <= size:
                lost[number] = sum(some for buffer, some in used.items() if buffer not in cached)
            for buffer, some in (used | {("written", number): call.writes}).items():
                cached.pop(buffer, None)
                cached[buffer] = some
            total = sum(cached.values())
            while total > size:  # what was used longest ago goes first
                total -= cached.popitem(last=False)[1]
    return lost
