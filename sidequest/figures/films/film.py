"""One episode as a film: what the game shows, beside a strip of when the agent explores.

    ┌───────────┬──────────────────┐
    │           │  [X] explore     │    the mode now: colour, letter and word
    │   game    │  ▄▄▄███▄▄▄▄██    │    modes so far, explore the taller
    │           │  ╭╮__╭╮_╭──╮     │    the trigger's signal
    │           │  ____|____|__    │    rewards
    └───────────┴──────────────────┘

A film has thousands of frames, so they are painted as arrays. The strip of a whole episode
is painted once; a frame shows as much of it as has happened, and the newest steps of it
once it is too long.
"""

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.colors import to_rgb

from sidequest.figures import look
from sidequest.figures.films.screens import Picture, stretch
from sidequest.types import Trace

HEIGHT = 420  # of a frame in pixels; more if the game's picture is taller
PANEL = 480  # width of what stands beside the game
MARGIN = 16
TRACK = PANEL - 2 * MARGIN  # width of the strip
STEP_WIDTHS = (2, 12)  # of one step, in pixels; short episodes fill the strip
BADGE_TOP, BADGE = 66, 60
MODE_TOP, MODE_HEIGHT, EXPLOIT_HEIGHT = 158, 40, 24
SIGNAL_TOP, REWARD_TOP, GRAPH_HEIGHT = 232, 332, 68
PAPER = "#f4f4f4"  # behind the strip
SHADE = "#f3dcea"  # behind the signal while the agent explores


class Caption(NamedTuple):
    """What a film says of itself."""

    title: str
    subtitle: str
    ending: str
    """How the episode ended; told with the last frame."""


class Strip(NamedTuple):
    """The whole episode's strip: three pictures, `width` pixels a step."""

    width: int
    modes: Picture
    signal: Picture
    reward: Picture


def draw_film(
    screen: Callable[[int], Picture], trace: Trace, caption: Caption
) -> Iterator[Picture]:
    """One frame a step, all of one size with even sides, as videos want them."""
    steps = len(trace.modes)
    strip = paint_strip(trace)
    returns = np.cumsum(trace.reward)
    explored = np.cumsum(trace.modes)
    blank = _blank(enlarge(screen(0)), trace, caption)
    for step in range(steps):
        frame = blank.copy()
        picture = enlarge(screen(step))
        top = (len(frame) - len(picture)) // 2
        frame[top : top + len(picture), : picture.shape[1]] = picture
        panel = frame[:, -PANEL:]
        _paste_strip(panel, strip, step, steps)
        _paste_badge(panel, bool(trace.modes[step]))
        told = f"step {step + 1:,} of {steps:,}"
        write(panel, told, (MARGIN + BADGE + 12, BADGE_TOP + 32), size=12)
        share = f"explored {explored[step] / (step + 1):.0%}"
        write(panel, share, (MARGIN + BADGE + 12, BADGE_TOP + 48), size=12)
        score = f"return {returns[step]:,.4g}"
        write(panel, score, (PANEL - MARGIN, BADGE_TOP + 4), size=18, align="right")
        if step == steps - 1:
            place = (PANEL - MARGIN, BADGE_TOP + 32)
            write(panel, caption.ending, place, size=12, align="right")
        yield frame


def enlarge(picture: Picture) -> Picture:
    """By the greatest whole number that keeps it within a frame's height."""
    height, width, _ = picture.shape
    factor = max(1, HEIGHT // height)
    return stretch(picture, factor * height, factor * width)


def paint_strip(trace: Trace) -> Strip:
    steps = len(trace.modes)
    narrow, wide = STEP_WIDTHS
    width = min(wide, max(narrow, TRACK // steps))
    modes = _canvas(MODE_HEIGHT, steps)
    low = (MODE_HEIGHT - EXPLOIT_HEIGHT) // 2
    modes[low:-low] = rgb(look.BLUE)
    modes[:, trace.modes] = rgb(look.MAGENTA)
    return Strip(
        width,
        np.repeat(modes, width, axis=1),
        _paint_signal(trace, width),
        np.repeat(_paint_reward(trace.reward), width, axis=1),
    )


def _paint_signal(trace: Trace, width: int) -> Picture:
    """A line of steps, broken where there was no signal."""
    picture = _canvas(GRAPH_HEIGHT, len(trace.modes))
    picture[:, trace.modes] = rgb(SHADE)
    picture = np.repeat(picture, width, axis=1)
    heights = _levels(trace.signal, *signal_range(trace.signal))
    before = np.nan
    for step, height in enumerate(heights):
        if not np.isnan(height):
            left, level = step * width, int(height)
            picture[level : level + 2, left : left + width] = rgb(look.INK)
            if not np.isnan(before):
                low, high = sorted((level, int(before)))
                picture[low : high + 2, left] = rgb(look.INK)
        before = height
    return picture


def _paint_reward(reward: Float[np.ndarray, "T"]) -> Picture:
    """Bars up and down from a line in the middle; one pixel a step."""
    picture = _canvas(GRAPH_HEIGHT, len(reward))
    middle = GRAPH_HEIGHT // 2
    lengths = reward / (float(np.abs(reward).max()) or 1.0) * (middle - 2)
    rows = middle - np.arange(GRAPH_HEIGHT)[:, None]  # how far above the line
    # However small a reward is, it is seen.
    up = (reward > 0) & (rows > 0) & (rows <= np.maximum(lengths, 2))
    down = (reward < 0) & (rows < 0) & (rows >= np.minimum(lengths, -2))
    picture[up] = rgb(look.GOLD)
    picture[down] = rgb(look.INK)
    picture[middle] = rgb(look.GREY)
    return picture


def signal_range(signal: Float[np.ndarray, "T"]) -> tuple[float, float]:
    """What the bottom and the top of its graph stand for; 0 is always within."""
    known = signal[np.isfinite(signal)]
    return min(0.0, float(known.min(initial=0.0))), float(known.max(initial=0.0))


def _levels(
    signal: Float[np.ndarray, "T"], low: float, high: float
) -> Float[np.ndarray, "T"]:
    """Rows of the graph, counted from its top; NaN where there is no signal."""
    share = (signal - low) / ((high - low) or 1.0)
    return np.round((1 - share) * (GRAPH_HEIGHT - 4)) + 1


def _canvas(height: int, width: int) -> Picture:
    return np.full((height, width, 3), rgb(PAPER), np.uint8)


def _blank(picture: Picture, trace: Trace, caption: Caption) -> Picture:
    """All that stays the same from frame to frame."""
    height = max(HEIGHT, len(picture))
    height, width = height + height % 2, picture.shape[1] + picture.shape[1] % 2
    frame = np.full((height, width + PANEL, 3), 255, np.uint8)
    frame[:, :width] = 0
    panel = frame[:, -PANEL:]
    write(panel, caption.title, (MARGIN, 14), size=15, bold=True)
    write(panel, caption.subtitle, (MARGIN, 38), size=12, colour=look.GREY)
    high = signal_range(trace.signal)[1]
    has_signal = bool(np.isfinite(trace.signal).any())
    greatest = float(np.abs(trace.reward).max())
    labels = (
        (MODE_TOP, "mode", ""),
        (SIGNAL_TOP, "trigger signal", f"top {high:.3g}" if has_signal else "none"),
        (REWARD_TOP, "reward", f"top {greatest:.3g}" if greatest else "none"),
    )
    for top, label, told in labels:
        write(panel, label, (MARGIN, top - 18), size=12)
        place = (PANEL - MARGIN, top - 18)
        write(panel, told, place, size=12, colour=look.GREY, align="right")
    for top, tall in (
        (MODE_TOP, MODE_HEIGHT),
        (SIGNAL_TOP, GRAPH_HEIGHT),
        (REWARD_TOP, GRAPH_HEIGHT),
    ):
        panel[top : top + tall, MARGIN : MARGIN + TRACK] = rgb(PAPER)
    return frame


def _paste_strip(panel: Picture, strip: Strip, step: int, steps: int) -> None:
    fitting = TRACK // strip.width
    start = max(0, step + 1 - fitting) if steps > fitting else 0
    columns = slice(start * strip.width, (step + 1) * strip.width)
    for top, track in (
        (MODE_TOP, strip.modes),
        (SIGNAL_TOP, strip.signal),
        (REWARD_TOP, strip.reward),
    ):
        shown = track[:, columns]
        panel[top : top + len(track), MARGIN : MARGIN + shown.shape[1]] = shown


def _paste_badge(panel: Picture, explores: bool) -> None:
    letter, word, colour = (
        ("X", "explore", look.MAGENTA) if explores else ("G", "exploit", look.BLUE)
    )
    panel[BADGE_TOP : BADGE_TOP + BADGE, MARGIN : MARGIN + BADGE] = rgb(colour)
    centre = (MARGIN + BADGE // 2, BADGE_TOP + 8)
    write(panel, letter, centre, size=36, bold=True, colour="white", align="centre")
    place = (MARGIN + BADGE + 12, BADGE_TOP + 2)
    write(panel, word, place, size=20, bold=True, colour=colour)


def write(
    picture: Picture,
    text: str,
    place: tuple[int, int],
    *,
    size: int,
    bold: bool = False,
    colour: str = look.INK,
    align: str = "left",
) -> None:
    """Text whose top is at `place`, which is its left, right or middle as `align` says."""
    if not text:
        return
    ink = letters(text, size, bold)
    left = place[0] - {"left": 0, "right": 1, "centre": 0.5}[align] * ink.shape[1]
    top, left = place[1], max(0, int(left))
    below = picture[top : top + ink.shape[0], left : left + ink.shape[1]]
    ink = ink[: below.shape[0], : below.shape[1], None]  # what is too long is cut
    below[:] = (1 - ink) * below + ink * np.array(rgb(colour), np.float32)


@lru_cache(maxsize=1_000)
def letters(text: str, size: int, bold: bool) -> Float[np.ndarray, "height width"]:
    """How much ink, from 0 to 1, each pixel of a text gets."""
    from PIL import Image, ImageDraw

    font = _font(size, bold)
    width = max(1, round(font.getlength(text)) + 1)
    canvas = Image.new("L", (width, round(1.3 * size)))
    ImageDraw.Draw(canvas).text((0, 0), text, font=font, fill=255)
    return np.asarray(canvas, np.float32) / 255


@cache
def _font(size: int, bold: bool):
    """The font that matplotlib brings, so that a film looks the same everywhere."""
    from PIL import ImageFont

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(folder / name, size)


@cache
def rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = (round(255 * part) for part in to_rgb(colour))
    return red, green, blue
