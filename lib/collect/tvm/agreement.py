"""Comparisons of what two programs, or two networks, compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

OUTPUTS = 1e-4  # two programs of a task agree if their outputs' fingerprints do, to that part
DIFFERENCE = 1e-3  # of results of networks, relative to the largest number: above it they differ


def agree(computed: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
    """Return whether two results are the same, but for rounding."""
    return len(computed) == len(expected) and all(
        difference(a, b) <= DIFFERENCE for a, b in zip(computed, expected, strict=True)
    )


def difference(computed: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference over the largest number; NaN is equal to NaN."""
    if computed.size != expected.size:
        return np.inf
    left, right = (np.asarray(x, np.float64).ravel() for x in (computed, expected))
    apart = ~((left == right) | (np.isnan(left) & np.isnan(right)))
    if not (np.isfinite(left) & np.isfinite(right))[apart].all():
        return np.inf
    largest = np.abs(right[np.isfinite(right)]).max(initial=0.0)
    return float((np.abs(left[apart] - right[apart]) / max(largest, 1e-30)).max(initial=0.0))


def fingerprint(*outputs: np.ndarray) -> tuple[float, float]:
    """Return two numbers that differ where outputs do: size, and mean against random signs.

    NaN counts as a number larger than all other numbers, so that it is equal to NaN.
    """
    flat = np.concatenate([output.reshape(-1).astype(np.float64) for output in outputs])
    largest = np.abs(flat[np.isfinite(flat)]).max(initial=0.0) or 1.0
    flat = np.nan_to_num(flat / largest, nan=2.0, posinf=3.0, neginf=-3.0)
    signs = np.random.default_rng(flat.size).integers(0, 2, flat.size) * 2.0 - 1.0
    return float(largest * np.sqrt((flat**2).mean())), float(largest * (flat * signs).mean())


def same(checks: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return (n,) whether programs compute what is expected, as the unscheduled one does."""
    return (np.abs(checks - expected) <= OUTPUTS * np.abs(expected[0]) + 1e-30).all(1)


def varied(values: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
    """Return values, with random numbers for an array of equal ones, on which most agree."""
    generator = np.random.default_rng(seed)
    return [
        generator.uniform(0.1, 1, array.shape).astype(array.dtype)
        if array.dtype.kind == "f" and array.size > 1 and array.min() == array.max()
        else array
        for array in values
    ]
