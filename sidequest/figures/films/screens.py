"""What a game shows, as a picture: one small function for each kind of observation.

Pictures are RGB with square pixels, as small as they can be; a film enlarges them.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Integer, Num, UInt8

Picture: TypeAlias = UInt8[np.ndarray, "_ _ 3"]

TELEVISION = 4 / 3  # Atari's pixels are wider than they are tall
CELL = 15  # pixels of a symbol's side
BARS = (105, 140)  # height and width of the picture of a vector

UNSEEN, FLOOR, LINE = (34, 34, 34), (0, 0, 0), (60, 60, 60)
PLANES = (
    *((31, 190, 207), (255, 221, 87), (214, 118, 49), (120, 170, 90), (178, 118, 210)),
    *((240, 110, 120), (90, 140, 220), (200, 200, 200), (150, 100, 80), (240, 170, 210)),
)
SYMBOLS = (
    *("empty", "floor", "wall", "ball", "square", "pyramid", "goal", "key"),
    *("door_locked", "door_closed", "door_open", "hex", "star"),
)
"""XLand-MiniGrid's tiles in the order of their numbers; a test compares them."""
COLOURS = {
    "empty": UNSEEN,
    "red": (230, 50, 50),
    "green": (60, 190, 70),
    "blue": (70, 110, 240),
    "purple": (160, 70, 210),
    "yellow": (240, 220, 60),
    "grey": (130, 130, 130),
    "black": FLOOR,
    "orange": (245, 150, 40),
    "white": (240, 240, 240),
    "brown": (150, 95, 50),
    "pink": (245, 160, 200),
}
"""Its colours, in the same way."""


def screen_of(
    observations: Num[np.ndarray, "T ..."],
    maximum: float,
    categories: tuple[int, ...] | None,
) -> Callable[[int], Picture]:
    """step -> picture, for the observations of an episode.

    `maximum` and `categories` are those of the game's spec: about the greatest value, and
    the number of symbols and colours where a grid shows those.
    """
    shape = observations.shape[1:]
    if categories is not None and len(shape) == 3 and shape[-1] == 2:
        return lambda step: draw_symbols(observations[step])
    if len(shape) == 3 and shape[-1] == 3 and maximum == 255:
        return lambda step: draw_television(observations[step])
    if len(shape) in (2, 3):
        return lambda step: draw_planes(observations[step] / maximum)
    flat = np.nan_to_num(observations.reshape(len(observations), -1), posinf=0, neginf=0)
    greatest = float(np.abs(flat).max()) or 1.0
    return lambda step: draw_bars(flat[step] / greatest)


def draw_television(frame: Picture) -> Picture:
    """A raw frame at twice its height, as wide as a television shows it."""
    height = 2 * frame.shape[0]
    return stretch(frame, height, round(height * TELEVISION))


def draw_planes(planes: Num[np.ndarray, "height width *planes"]) -> Picture:
    """Each plane in a colour of its own, the first on top; values from 0 to 1."""
    planes = planes.reshape(*planes.shape[:2], -1)
    picture = np.full((*planes.shape[:2], 3), FLOOR, np.float32)
    for number in reversed(range(planes.shape[2])):
        strength = np.clip(planes[:, :, number, None], 0, 1)
        colour = strength * np.array(PLANES[number % len(PLANES)])
        picture = np.where(strength > 0, colour, picture)
    return picture.astype(np.uint8)


def draw_symbols(grid: Integer[np.ndarray, "height width 2"]) -> Picture:
    """A grid of (tile, colour) as the agent sees it: from below the middle, looking up."""
    height, width, _ = grid.shape
    picture = np.zeros((height * CELL, width * CELL, 3), np.uint8)
    colours = list(COLOURS.values())
    for row, column in np.ndindex(height, width):
        symbol, colour = grid[row, column]
        cell = picture[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
        seen = SYMBOLS[symbol] != "empty"
        cell[:] = FLOOR if seen else UNSEEN
        cell[shape_of(SYMBOLS[symbol])] = colours[colour]
        cell[0] = cell[:, 0] = LINE
    middle = width // 2 * CELL
    agent = picture[-CELL:, middle : middle + CELL]
    agent[_triangle(*_inside(), 0.7)] = COLOURS["white"]
    return picture


def shape_of(symbol: str) -> Bool[np.ndarray, "CELL CELL"]:
    """The pixels of a cell that a symbol fills with its colour."""
    x, y = _inside()
    radius = np.maximum(abs(x), abs(y))
    nothing = np.zeros((CELL, CELL), bool)
    door = (radius > 0.7) & (radius < 0.9)
    shapes = {
        "wall": ~nothing,
        "goal": radius < 0.9,
        "ball": x**2 + y**2 < 0.5,
        "square": radius < 0.6,
        "pyramid": _triangle(x, y, 0.8),
        "key": ((x**2 + (y + 0.4) ** 2 < 0.15) | (abs(x) < 0.15) & (y > -0.2) & (y < 0.8))
        | ((y > 0.4) & (y < 0.65) & (x > 0) & (x < 0.5)),
        "door_locked": door | (radius < 0.3),
        "door_closed": door | (abs(x - 0.35) < 0.15) & (abs(y) < 0.15),
        "door_open": (radius < 0.9) & (x < -0.7),
        "hex": (abs(x) + abs(y) / 2 < 0.7) & (abs(y) < 0.7),
        "star": np.minimum(abs(x), abs(y)) + radius / 3 < 0.3,
    }
    return shapes.get(symbol, nothing)


def draw_bars(values: Float[np.ndarray, "N"]) -> Picture:
    """Numbers from -1 to 1 as bars that rise or hang from a line in the middle."""
    height, width = BARS
    picture = np.full((height, width, 3), FLOOR, np.uint8)
    middle = height // 2
    edges = np.linspace(0, width, len(values) + 1).round().astype(int)
    for value, left, right in zip(values, edges, edges[1:], strict=False):
        tip = middle - round(float(np.clip(value, -1, 1)) * (middle - 2))
        gap = (right - left) // 6
        top, bottom = sorted((middle, tip))
        picture[top : bottom + 1, left + gap : right - gap] = PLANES[0 if value > 0 else 2]
    picture[middle] = LINE
    return picture


def stretch(picture: Picture, height: int, width: int) -> Picture:
    """Another size by nearest neighbour, so that no colour is invented."""
    rows = np.arange(height) * picture.shape[0] // height
    columns = np.arange(width) * picture.shape[1] // width
    return picture[rows[:, None], columns[None]]


def _inside() -> tuple[Float[np.ndarray, "CELL CELL"], Float[np.ndarray, "CELL CELL"]]:
    """x to the right and y downwards, from -1 to 1, at the middle of a cell's pixels."""
    places = (np.arange(CELL) + 0.5) / CELL * 2 - 1
    return np.broadcast_to(places, (CELL, CELL)), np.repeat(places[:, None], CELL, axis=1)


def _triangle(x, y, size: float) -> Bool[np.ndarray, "CELL CELL"]:
    return (abs(x) < (y + size) / 2) & (y < size)
