"""How the capacity room writes numbers, so that every sum reads the same on the screen, in logs and in tables."""

GB = 10**9


def size(value: float) -> str:
    """Bytes, right-aligned to nine characters: `2.95 GB`, `22.5 MB`, `640 kB`. Units are powers of ten."""
    return f"{plain_size(value):>9}"


def plain_size(value: float) -> str:
    """Bytes with three significant digits."""
    magnitude = abs(value)
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if magnitude >= factor * 0.9995:
            scaled = value / factor
            digits = 0 if abs(scaled) >= 99.95 else 1 if abs(scaled) >= 9.995 else 2
            return f"{scaled:.{digits}f} {unit}"
    return f"{value:.0f} B"


def count(value: float) -> str:
    """A whole number with thin groups: `81,920`."""
    return f"{value:,.0f}"
