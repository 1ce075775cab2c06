"""Numbers and nouns in texts that people read. Nothing here needs a library."""

import math


def rounded(value: float, digits: int = 4) -> str:
    """Returns a few digits, or all before the point: 0.01234, 12.34, 12,345."""
    return f"{value:,.0f}" if abs(value) >= 10**digits - 0.5 else f"{value:.{digits}g}"


def plural(count: float, noun: str) -> str:
    """Returns `1 run`, `2.5 runs`, `1,000 runs`."""
    return f"{count:,} ".replace(".0 ", " ") + (noun if count == 1 else f"{noun}s")


def short(value: float) -> str:
    """Returns a number with three digits and a letter: 12345 -> 12.3k."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * size:  # three digits round it up to the next letter
            return f"{value / size:.3g}{letter}"
    return f"{value:.0f}"


def duration(seconds: float) -> str:
    """Returns a duration in its two largest units: 75 -> `1 min 15 s`."""
    if math.isnan(seconds):
        return "?"
    seconds = max(0, round(seconds))
    units = (("y", 31_536_000), ("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts = []
    for unit, size in units:
        count, seconds = divmod(seconds, size)
        if count or (parts and len(parts) < 2):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]).removesuffix(" 0 s") or "0 s"
