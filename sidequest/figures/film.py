"""Films of one episode: the game beside a strip of when the agent explores.

    ┌───────────┬──────────────────┐
    │           │  [X] explore     │    the mode now: colour, letter and word
    │   game    │  ▄▄▄███▄▄▄▄██    │    modes so far, explore the taller
    │           │  ╭╮__╭╮_╭──╮     │    the trigger's signal
    │           │  ____|____|__    │    rewards
    └───────────┴──────────────────┘

A film has thousands of frames, so the strip of the whole episode is painted once; a frame
shows the part of it that has happened, and only the newest steps where that is too long.
Games are rendered from what the agent observes, as small as possible and with square
pixels, and enlarged afterwards.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import matplotlib
import numpy as np
from jaxtyping import Float, Integer, Num, UInt8
from PIL import Image, ImageDraw, ImageFont
from PIL.ImageColor import getrgb

from sidequest.figures.style import BLUE, GOLD, GREY, INK, MAGENTA
from sidequest.types import Trace
from sidequest.wording import rounded

Pixels: TypeAlias = UInt8[np.ndarray, "_ _ 3"]

_HEIGHT = 420  # of a frame in pixels; more if the game is taller
_WIDEST = 800  # what a game is scaled up to
_PANEL = 480  # width of what stands beside the game
_MARGIN = 16
_TRACK = _PANEL - 2 * _MARGIN  # width of the strip
_STEP_WIDTHS = (2, 12)  # of one step, in pixels; short episodes fill the strip
_BADGE_TOP, _BADGE = 66, 60
_MODE_TOP, _MODE_HEIGHT, _EXPLOIT_HEIGHT = 158, 40, 24
_SIGNAL_TOP, _REWARD_TOP, _GRAPH_HEIGHT = 232, 332, 68
_TOPS = (_MODE_TOP, _SIGNAL_TOP, _REWARD_TOP)
_HEIGHTS = (_MODE_HEIGHT, _GRAPH_HEIGHT, _GRAPH_HEIGHT)
_PAPER = "#f4f4f4"  # behind the strip
_SHADE = "#f3dcea"  # behind the signal while the agent explores

SUFFIXES = (".mp4", ".gif")
FASTEST_GIF = 50  # frames a second; players slow down what is faster
HINT = 'an mp4 needs PyAV: in the clone, pip install ".[train,video]"; or name a .gif file'

_TELEVISION = 4 / 3  # Atari's pixels are wider than they are tall
_CELL = 30  # pixels of a tile's side
_BARS = (105, 140)  # height and width of the image of a vector
_UNSEEN, _GROUND, _LINE = (34, 34, 34), (0, 0, 0), (60, 60, 60)
_PLANES = (
    *((31, 190, 207), (255, 221, 87), (214, 118, 49), (120, 170, 90), (178, 118, 210)),
    *((240, 110, 120), (90, 140, 220), (200, 200, 200), (150, 100, 80), (240, 170, 210)),
)


class Caption(NamedTuple):
    """The texts of a film."""

    title: str
    subtitle: str
    ending: str
    """How the episode ended; shown with the last frame."""


def draw_film(
    render: Callable[[int], Pixels], trace: Trace, caption: Caption
) -> Iterator[Pixels]:
    """Yields one frame a step, all of one size with even sides, as videos need them."""
    steps = len(trace.modes)
    width = min(max(_TRACK // steps, _STEP_WIDTHS[0]), _STEP_WIDTHS[1])
    tracks = _paint_tracks(trace, width)
    fitting = _TRACK // width
    returns, explored = np.cumsum(trace.reward), np.cumsum(trace.modes)
    background = _draw_background(_enlarge(render(0)).shape, trace, caption)
    left = background.width - _PANEL + _MARGIN
    right, beside, middle = left + _TRACK, left + _BADGE + 12, left + _BADGE // 2
    badge = (left, _BADGE_TOP, left + _BADGE - 1, _BADGE_TOP + _BADGE - 1)
    for step in range(steps):
        frame = background.copy()
        game = Image.fromarray(_enlarge(render(step)))
        frame.paste(game, (0, (frame.height - game.height) // 2))
        first = max(0, step + 1 - fitting)
        for top, track in zip(_TOPS, tracks, strict=True):
            shown = (first * width, 0, (step + 1) * width, track.height)
            frame.paste(track.crop(shown), (left, top))
        mode, word, colour = (
            ("X", "explore", MAGENTA) if trace.modes[step] else ("G", "exploit", BLUE)
        )
        ImageDraw.Draw(frame).rectangle(badge, colour)
        letter: Any = {"bold": True, "colour": "white", "anchor": "ma"}
        _write(frame, mode, middle, _BADGE_TOP + 8, 36, **letter)
        _write(frame, word, beside, _BADGE_TOP + 2, 20, bold=True, colour=colour)
        _write(frame, f"step {step + 1:,} of {steps:,}", beside, _BADGE_TOP + 32)
        share = explored[step] / (step + 1)
        _write(frame, f"explored {share:.0%}", beside, _BADGE_TOP + 48)
        total = f"return {rounded(returns[step])}"
        _write(frame, total, right, _BADGE_TOP + 4, 18, anchor="ra")
        if step == steps - 1:
            _write(frame, caption.ending, right, _BADGE_TOP + 32, anchor="ra")
        yield np.asarray(frame)


def _draw_background(shape: tuple[int, ...], trace: Trace, caption: Caption) -> Image.Image:
    """Returns what is the same in every frame, beside a game of this shape."""
    height, width = max(_HEIGHT, shape[0]), shape[1]
    height, width = height + height % 2, width + width % 2
    image = Image.new("RGB", (width + _PANEL, height), "black")
    draw = ImageDraw.Draw(image)
    draw.rectangle((width, 0, width + _PANEL, height), "white")
    left, right = width + _MARGIN, width + _MARGIN + _TRACK
    _write(image, caption.title, left, 14, 15, bold=True)
    _write(image, caption.subtitle, left, 38, colour=GREY)
    high, largest = _signal_range(trace.signal)[1], float(np.abs(trace.reward).max())
    signal = f"top {rounded(high, 3)}" if np.isfinite(trace.signal).any() else "none"
    texts = ("", signal, f"top {rounded(largest, 3)}" if largest else "none")
    labels = ("mode", "trigger signal", "reward")
    for top, tall, label, text in zip(_TOPS, _HEIGHTS, labels, texts, strict=True):
        draw.rectangle((left, top, right - 1, top + tall - 1), _PAPER)
        _write(image, label, left, top - 18)
        _write(image, text, right, top - 18, colour=GREY, anchor="ra")
    return image


def _paint_tracks(trace: Trace, width: int) -> list[Image.Image]:
    """Paints modes, signal and rewards of a whole episode, `width` pixels a step.

    The signal is a line that is broken where there is none. Rewards are bars up and down
    from a line in the middle; even the smallest is visible.
    """
    steps, explores = len(trace.modes), trace.modes
    tracks = [np.full((tall, steps, 3), getrgb(_PAPER), np.uint8) for tall in _HEIGHTS]
    modes, signal, reward = tracks
    inset, middle = (_MODE_HEIGHT - _EXPLOIT_HEIGHT) // 2, _GRAPH_HEIGHT // 2
    _fill(modes, inset, _MODE_HEIGHT - inset, BLUE, ~explores)
    _fill(modes, 0, _MODE_HEIGHT, MAGENTA, explores)
    _fill(signal, 0, _GRAPH_HEIGHT, _SHADE, explores)
    low, high = _signal_range(trace.signal)
    share = (trace.signal - low) / ((high - low) or 1.0)
    levels = np.round((1 - share) * (_GRAPH_HEIGHT - 4)) + 1
    _fill(signal, levels, levels + 2, INK)
    lengths = trace.reward / (float(np.abs(trace.reward).max()) or 1.0) * (middle - 2)
    up, down = np.maximum(lengths, 2), np.maximum(-lengths, 2)
    _fill(reward, middle - up // 1, middle, GOLD, lengths > 0)
    _fill(reward, middle, middle + down // 1 + 1, INK, lengths < 0)
    reward[middle] = getrgb(GREY)
    modes, signal, reward = (track.repeat(width, axis=1) for track in tracks)
    ends = levels[1:], levels[:-1]  # neighbours of the signal are joined
    _fill(signal[:, width::width], np.minimum(*ends), np.maximum(*ends) + 2, INK)
    return [Image.fromarray(track) for track in (modes, signal, reward)]


def _fill(track: Pixels, top: Any, bottom: Any, colour: str, where: Any = True) -> None:
    """Fills the columns of a track from `top` to before `bottom`; NaN fills nothing."""
    rows = np.arange(len(track))[:, None]
    track[(rows >= top) & (rows < bottom) & where] = getrgb(colour)


def _signal_range(signal: Float[np.ndarray, "T"]) -> tuple[float, float]:
    """Returns the values at the bottom and the top of the graph; 0 is always within."""
    known = signal[np.isfinite(signal)]
    return float(known.min(initial=0.0)), float(known.max(initial=0.0))


def _write(
    image: Image.Image,
    text: str,
    x: int,
    y: int,
    size: int = 12,
    *,
    bold: bool = False,
    colour: str = INK,
    anchor: str = "la",
) -> None:
    """Writes a text with its top at `y`; `anchor` says which of its sides is at `x`."""
    draw = ImageDraw.Draw(image)
    draw.text((x, y), text, fill=colour, font=_font(size, bold), anchor=anchor)


@cache
def _font(size: int, bold: bool) -> ImageFont.FreeTypeFont:
    """Returns a font that comes with matplotlib, so that films look the same everywhere."""
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", name), size)


def make_renderer(
    observations: Num[np.ndarray, "T ..."],
    maximum: float,
    categories: tuple[int, ...] | None,
) -> Callable[[int], Pixels]:
    """Returns a function that renders what the agent observed at a step of an episode.

    `maximum` and `categories` are those of the game's spec: about the largest value, and
    the number of symbols and colours where an observation is a grid of those.
    """
    shape = observations.shape[1:]
    if categories is not None and len(shape) == 3 and shape[-1] == 2:
        return lambda step: _render_tiles(observations[step])
    if len(shape) == 3 and shape[-1] == 3 and maximum == 255:
        return lambda step: _render_television(observations[step])
    if len(shape) in (2, 3):
        return lambda step: _render_planes(observations[step] / maximum)
    flat = np.nan_to_num(observations.reshape(len(observations), -1), posinf=0, neginf=0)
    largest = float(np.abs(flat).max()) or 1.0
    return lambda step: _render_bars(flat[step] / largest)


def _render_television(frame: Pixels) -> Pixels:
    """Returns a raw frame at twice its height, as wide as a television shows it."""
    height, width, _ = frame.shape
    shown = round(2 * height * _TELEVISION)
    return frame[:, np.arange(shown) * width // shown].repeat(2, axis=0)


def _render_planes(planes: Num[np.ndarray, "height width *planes"]) -> Pixels:
    """Paints each plane in its own colour, the first on top; values are from 0 to 1."""
    planes = planes.reshape(*planes.shape[:2], -1)
    image = np.full((*planes.shape[:2], 3), _GROUND, np.float32)
    for number in reversed(range(planes.shape[2])):
        strength = np.clip(planes[:, :, number, None], 0, 1)
        colour = strength * np.array(_PLANES[number % len(_PLANES)])
        image = np.where(strength > 0, colour, image)
    return image.astype(np.uint8)


def _render_tiles(grid: Integer[np.ndarray, "height width 2"]) -> Pixels:
    """Paints a grid of (tile, colour) as XLand-MiniGrid does; the agent looks up.

    Tile 0 is what the agent does not see.
    """
    from xminigrid.rendering.rgb_render import render_tile

    height, width, _ = grid.shape
    image = np.full((height, width, _CELL, _CELL, 3), _UNSEEN, np.uint8)
    for place in np.argwhere(grid[:, :, 0]):
        agent = 0 if tuple(place) == (height - 1, width // 2) else None
        tile = tuple(grid[*place].tolist())
        image[*place] = render_tile(tile, agent, tile_size=_CELL)
    return image.swapaxes(1, 2).reshape(height * _CELL, width * _CELL, 3)


def _render_bars(values: Float[np.ndarray, "N"]) -> Pixels:
    """Paints numbers from -1 to 1 as bars that rise or hang from a line in the middle."""
    height, width = _BARS
    image = np.full((height, width, 3), _GROUND, np.uint8)
    middle = height // 2
    edges = np.linspace(0, width, len(values) + 1).round().astype(int)
    for value, left, right in zip(values, edges, edges[1:], strict=False):
        tip = middle - round(float(np.clip(value, -1, 1)) * (middle - 2))
        gap = (right - left) // 6
        top, bottom = sorted((middle, tip))
        image[top : bottom + 1, left + gap : right - gap] = _PLANES[0 if value > 0 else 2]
    image[middle] = _LINE
    return image


def _enlarge(image: Pixels) -> Pixels:
    """Scales by the largest whole number that makes it neither too tall nor too wide."""
    height, width, _ = image.shape
    factor = max(1, min(_HEIGHT // height, _WIDEST // width))
    return image.repeat(factor, axis=0).repeat(factor, axis=1)


def save_film(frames: Iterable[Pixels], path: Path, fps: int) -> Path:
    """Writes a film in its suffix's format, to a temporary file that is then renamed."""
    writers = dict(zip(SUFFIXES, (_save_mp4, _save_gif), strict=True))
    if path.suffix not in writers:
        raise ValueError(f"{path} ends with {path.suffix!r}; allowed: {SUFFIXES}")
    partial = path.with_name(path.name + ".part")
    try:
        writers[path.suffix](iter(frames), partial, fps)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _save_mp4(frames: Iterator[Pixels], path: Path, fps: int) -> None:
    import av

    first = next(frames)
    # Wheels of PyAV have x264; a build without it has at least MPEG-4.
    codec = "libx264" if "libx264" in av.codecs_available else "mpeg4"
    with av.open(path, "w", format="mp4", options={"movflags": "faststart"}) as file:
        stream = file.add_stream(codec, rate=fps)
        stream.height, stream.width = first.shape[:2]
        stream.pix_fmt = "yuv420p"  # what every player understands
        if codec == "libx264":
            stream.options = {"crf": "18", "preset": "veryfast"}
        for frame in itertools.chain([first], frames):
            file.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        file.mux(stream.encode(None))


def _save_gif(frames: Iterator[Pixels], path: Path, fps: int) -> None:
    # The quickest method paints white grey; few colours need no dithering.
    method, dither = Image.Quantize.MEDIANCUT, Image.Dither.NONE
    images = (Image.fromarray(one).quantize(method=method, dither=dither) for one in frames)
    # GIF counts hundredths of a second.
    timing = {"duration": 10 * round(100 / min(fps, FASTEST_GIF)), "loop": 0}
    with path.open("wb") as file:
        next(images).save(file, format="GIF", save_all=True, append_images=images, **timing)
