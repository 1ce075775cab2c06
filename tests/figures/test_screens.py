"""Pictures of observations, pixel by pixel."""

import numpy as np
import pytest

from sidequest.figures.films import screens
from sidequest.figures.films.screens import (
    BARS,
    CELL,
    COLOURS,
    FLOOR,
    LINE,
    PLANES,
    SYMBOLS,
    UNSEEN,
    screen_of,
)


def test_a_raw_frame_gets_the_shape_of_a_television():
    frame = np.random.default_rng(0).integers(0, 256, (210, 160, 3), np.uint8)
    picture = screen_of(frame[None], 255.0, None)(0)
    assert picture.shape == (420, 560, 3)
    # Every pixel is twice as tall, and three or four times as wide: 3.5 on average.
    np.testing.assert_array_equal(picture[::2, [0, 4, 7, 11]], frame[:, [0, 1, 2, 3]])
    np.testing.assert_array_equal(picture[1::2], picture[::2])
    np.testing.assert_array_equal(picture[0, :8, 0], frame[0, [0, 0, 0, 0, 1, 1, 1, 2], 0])
    np.testing.assert_array_equal(picture[-1, -1], frame[-1, -1])


def test_planes_have_colours_and_the_first_is_on_top():
    planes = np.array([[[1, 1], [0, 1]], [[1, 0], [0, 0]]], np.uint8)
    picture = screen_of(planes[None], 1.0, None)(0)
    assert picture.tolist() == [
        [list(PLANES[0]), list(PLANES[1])],
        [list(PLANES[0]), list(FLOOR)],
    ]


def test_a_flat_grid_is_one_plane():
    picture = screen_of(np.eye(3, dtype=np.uint8)[None], 1.0, None)(0)
    assert (picture == PLANES[0]).all(axis=2).tolist() == np.eye(3, dtype=bool).tolist()


def test_symbols_have_their_colours():
    wall, goal = SYMBOLS.index("wall"), SYMBOLS.index("goal")
    names = list(COLOURS)
    grid = np.zeros((3, 3, 2), np.uint8)
    grid[0, 0] = wall, names.index("grey")
    grid[0, 1] = goal, names.index("green")
    grid[0, 2] = SYMBOLS.index("floor"), names.index("black")
    picture = screen_of(grid[None], 12.0, (13, 12))(0)
    assert picture.shape == (3 * CELL, 3 * CELL, 3)
    middles = picture[CELL // 2 :: CELL, CELL // 2 :: CELL]
    row = [COLOURS["grey"], COLOURS["green"], FLOOR]
    assert middles[0].tolist() == [list(colour) for colour in row]
    # The agent stands below the middle and looks up.
    assert tuple(middles[2, 1]) == COLOURS["white"]
    assert tuple(middles[1, 1]) == UNSEEN and tuple(picture[CELL, 5]) == LINE


def test_every_symbol_looks_different():
    shapes = {symbol: screens.shape_of(symbol) for symbol in SYMBOLS}
    assert not shapes["empty"].any() and not shapes["floor"].any()
    drawn = {shape.tobytes() for shape in shapes.values()}
    assert len(drawn) == len(SYMBOLS) - 1
    assert all(shape.any() for name, shape in shapes.items() if name not in SYMBOLS[:2])


def test_the_symbols_are_the_librarys():
    constants = pytest.importorskip("xminigrid.core.constants")

    def named(table) -> dict[str, int]:
        return {
            name.lower(): int(value)
            for name, value in vars(table).items()
            if name.isupper() and not name.startswith("_")
        }

    assert named(constants.Tiles) == {name: i for i, name in enumerate(SYMBOLS)}
    assert named(constants.Colors) == {name: i for i, name in enumerate(COLOURS)}


def test_vectors_are_bars():
    vectors = np.array([[2.0, -1.0], [0.0, 0.5]], np.float32)
    screen = screen_of(vectors, 1.0, None)
    height, width = BARS
    middle, reach = height // 2, height // 2 - 2
    left, right = width // 4, 3 * width // 4

    def filled(step, column):
        return np.flatnonzero((screen(step)[:, column] != FLOOR).any(axis=1))

    # The greatest number of the episode, 2, is as long as there is room.
    assert filled(0, left).tolist() == list(range(middle - reach, middle + 1))
    assert filled(0, right).tolist() == list(range(middle, middle + reach // 2 + 1))
    assert filled(1, left).tolist() == [middle]
    assert filled(1, right).tolist() == list(range(middle - round(reach / 4), middle + 1))


def test_numbers_that_are_all_zero_or_not_finite_are_drawn():
    assert screen_of(np.zeros((1, 4), np.float32), 1.0, None)(0).shape == (*BARS, 3)
    broken = np.array([[np.nan, np.inf, 1.0]], np.float32)
    assert screen_of(broken, 1.0, None)(0).shape == (*BARS, 3)
