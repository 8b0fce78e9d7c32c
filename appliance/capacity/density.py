"""Durations as densities on a grid: the few shapes and operations that the speed prediction needs.

Owns arrays of probabilities over multiples of `GRID_MS`. It knows nothing of what lasts that long.
"""

import math

import numpy as np
from numpy.typing import NDArray

GRID_MS = 10.0
BINS = 2048  # 20 s; what is longer is counted as that long
Density = NDArray[np.float64]


def point(ms: float) -> Density:
    """All weight at `ms`, shared by the two nearest grid points so that means are exact."""
    density = np.zeros(BINS)
    place = min(max(ms / GRID_MS, 0.0), BINS - 1.0)
    low = int(place)
    density[low] += 1 - (place - low)
    density[min(low + 1, BINS - 1)] += place - low
    return density


def uniform(ms: float) -> Density:
    bins = min(BINS, max(1, round(ms / GRID_MS)))
    density = np.zeros(BINS)
    density[:bins] = 1 / bins
    return density


def spread(ms: float, variation: float) -> Density:
    """Log-normal with mean `ms` and coefficient of variation `variation`."""
    if variation == 0 or ms < 2 * GRID_MS:
        return point(ms)
    sigma = math.sqrt(math.log1p(variation**2))
    mu = math.log(ms) - sigma**2 / 2
    x = (np.arange(BINS) + 0.5) * GRID_MS
    density = np.exp(-((np.log(x) - mu) ** 2) / (2 * sigma**2)) / x
    return np.asarray(density / density.sum(), np.float64)


def queue(service: Density, urgent: float, most: int) -> Density:
    """q services one after another, q geometric with ratio `urgent`, at most `most`: (1 - u) Σ uᵠ Sᵠ + uᵐ Sᵐ."""
    spectrum = urgent * np.fft.rfft(service, 2 * BINS)
    last = spectrum ** max(1, most)
    return _folded((1 - urgent) * (1 - last) / (1 - spectrum) + last)


def add(*densities: Density) -> Density:
    """The density of a sum of independent durations; what leaves the grid stays in its last bin."""
    spectrum = np.fft.rfft(densities[0], 2 * BINS)
    for other in densities[1:-1]:
        # Folded after each: a longer sum would come round to the beginning.
        spectrum = np.fft.rfft(_folded(spectrum * np.fft.rfft(other, 2 * BINS)), 2 * BINS)
    return _folded(spectrum * np.fft.rfft(densities[-1], 2 * BINS))


def _folded(spectrum: NDArray[np.complex128]) -> Density:
    both = np.fft.irfft(spectrum, 2 * BINS)
    density = np.clip(both[:BINS], 0.0, None)
    density[-1] += max(0.0, float(both[BINS:].sum()))
    return np.asarray(density, np.float64)


def mix(parts: list[tuple[float, Density]]) -> Density:
    total = np.zeros(BINS)
    for share, density in parts:
        total += share * density
    return np.asarray(total / max(total.sum(), 1e-12), np.float64)


def later(density: Density, ms: float) -> Density:
    """Shifted by `ms`; what would be negative becomes 0."""
    bins = round(ms / GRID_MS)
    moved = np.zeros(BINS)
    if bins >= 0:
        moved[min(bins, BINS - 1) :] = density[: BINS - min(bins, BINS - 1)]
        moved[-1] += density[BINS - min(bins, BINS - 1) :].sum()
    else:
        moved[: BINS + bins] = density[-bins:]
        moved[0] += density[:-bins].sum()
    return moved


def quantile(density: Density, share: float) -> float:
    return float(np.searchsorted(np.cumsum(density), share * density.sum()) * GRID_MS)


def binomial(n: int, p: float) -> list[float]:
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
