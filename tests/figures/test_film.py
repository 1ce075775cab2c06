"""Films: frames pixel by pixel, rendered observations, and files read back."""

import time

import numpy as np
import pytest
from PIL import Image
from PIL.ImageColor import getrgb

from sidequest.figures import film, style
from sidequest.figures.film import (
    _BARS,
    _CELL,
    _GROUND,
    _PLANES,
    _UNSEEN,
    Caption,
    _paint_tracks,
    draw_film,
    make_renderer,
    save_film,
)
from tests.figures.decoding import decode, modes_shown
from tests.figures.traces import trace_of

MODES = "GGXXXG"
CAPTION = Caption("XU-intra(2,blind,3,G)", "made up, seed 0", "game over")


def square(step):
    return np.full((10, 10, 3), step % 256, np.uint8)


def frames_of(trace, screen=square):
    return np.stack(list(draw_film(screen, trace, CAPTION)))


def track(frame, top, height):
    """One of the strip's tracks in a frame."""
    panel = frame[:, -film._PANEL :]
    return panel[top : top + height, film._MARGIN : film._MARGIN + film._TRACK]


def test_a_frame_has_the_game_and_the_mode_of_its_step():
    frames = frames_of(trace_of("GGGXXG"))
    assert frames.shape == (6, 420, 420 + film._PANEL, 3)
    assert modes_shown(frames) == "GGGXXG"
    for step, frame in enumerate(frames):
        assert (frame[:, :420] == step).all()


def test_a_wide_game_is_in_the_middle_and_not_wider_than_800_pixels():
    frame = frames_of(trace_of("G"), lambda step: np.full((10, 150, 3), 9, np.uint8))[0]
    assert frame.shape == (420, 750 + film._PANEL, 3)  # five times as large
    shown = (frame[:, :750] == 9).all((1, 2))
    assert shown.nonzero()[0].tolist() == list(range(185, 235))


def test_modes_appear_as_they_happen():
    frames = frames_of(trace_of("GGXG"))
    width = film._STEP_WIDTHS[1]
    middle = film._MODE_HEIGHT // 2
    expected = [style.BLUE, style.BLUE, style.MAGENTA, style.BLUE]
    for step, frame in enumerate(frames):
        shown = track(frame, film._MODE_TOP, film._MODE_HEIGHT)
        steps = shown[:, width // 2 :: width]
        colours = [tuple(colour) for colour in steps[middle, : step + 2]]
        assert colours == [
            getrgb(colour) for colour in (*expected[: step + 1], film._PAPER)
        ]
    # Explore is the taller bar, for those who see no hue.
    assert (steps[0, 2] == getrgb(style.MAGENTA)).all()
    assert (steps[0, [0, 1, 3]] == getrgb(film._PAPER)).all()


def test_a_long_episode_moves_on(monkeypatch):
    monkeypatch.setattr(film, "_TRACK", 80)
    fitting = film._TRACK // film._STEP_WIDTHS[0]
    modes = "G" * 25 + "X" * 5 + "G" * 45
    colours = {style.BLUE: "G", style.MAGENTA: "X", film._PAPER: "-"}
    for step, frame in enumerate(draw_film(square, trace_of(modes), CAPTION)):
        if step in (20, 28, 28 + fitting - 2, len(modes) - 1):
            middle = track(frame, film._MODE_TOP, film._MODE_HEIGHT)[film._MODE_HEIGHT // 2]
            shown = "".join(
                letter
                for pixel in middle[::2]
                for colour, letter in colours.items()
                if (pixel == getrgb(colour)).all()
            )
            past = modes[max(0, step + 1 - fitting) : step + 1]
            assert shown == past.ljust(fitting, "-")


def test_the_signal_is_a_line_with_gaps():
    signal = np.array([np.nan, 0.0, 4.0, 2.0, np.nan], np.float32)
    trace = trace_of("GGGGX")._replace(signal=signal)
    width = film._STEP_WIDTHS[1]
    signal = np.asarray(_paint_tracks(trace, width)[1])
    columns = signal[:, width // 2 :: width]
    inked = (columns == getrgb(style.INK)).all(axis=2)
    rows = [np.flatnonzero(inked[:, step]).tolist() for step in range(5)]
    bottom, top = film._GRAPH_HEIGHT - 3, 1
    middle = top + (bottom - top) // 2
    assert rows == [[], [bottom, bottom + 1], [1, 2], [middle, middle + 1], []]
    # Neighbours are joined.
    joined = (signal[:, 2 * width] == getrgb(style.INK)).all(axis=1)
    assert joined[top : bottom + 2].all()
    # Where the agent explores, the ground is tinted.
    assert (columns[:, 4] == getrgb(film._SHADE)).all()


def test_rewards_are_bars_up_and_down():
    reward = np.array([0.0, 8.0, -4.0, 0.001], np.float32)
    track = _paint_tracks(trace_of("GGGG")._replace(reward=reward), 1)[2]
    columns = np.asarray(track)
    middle = film._GRAPH_HEIGHT // 2
    reach = middle - 2
    up, down = getrgb(style.GOLD), getrgb(style.INK)
    gold = [np.flatnonzero((columns[:, step] == up).all(axis=1)) for step in range(4)]
    dark = [np.flatnonzero((columns[:, step] == down).all(axis=1)) for step in range(4)]
    assert [len(rows) for rows in gold] == [0, reach, 0, 2]
    assert [len(rows) for rows in dark] == [0, 0, reach // 2, 0]
    assert gold[1].max() == middle - 1 and dark[2].min() == middle + 1


def test_text_tells_step_return_and_ending():
    trace = trace_of("GX")._replace(reward=np.array([1.5, 2.0], np.float32))
    frames = frames_of(trace)
    written = []
    real = film._write

    def listen(image, text, *place, **how):
        written.append(text)
        real(image, text, *place, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(film, "_write", listen)
        np.testing.assert_array_equal(frames_of(trace), frames)
    for text in (CAPTION.title, "step 1 of 2", "return 1.5", "return 3.5", "explored 50%"):
        assert written.count(text) == 1, text
    assert written[-1] == "game over" and written.count("game over") == 1


def test_a_long_title_stays_beside_the_game():
    long = CAPTION._replace(title="XU-intra(10,informed,p*,X) " * 5)
    (frame,) = draw_film(square, trace_of("G"), long)
    assert (frame[:, :420] == 0).all() and (frame[10:35, -20:] < 100).any()


@pytest.mark.parametrize("shape", [(7, 5), (425, 3), (500, 667)])
def test_all_sides_are_even(shape):
    frames = frames_of(trace_of("GX"), lambda step: np.zeros((*shape, 3), np.uint8))
    assert frames.shape[1] % 2 == 0 and frames.shape[2] % 2 == 0
    assert frames.shape[1] >= max(film._HEIGHT, shape[0])


def test_one_step_makes_a_film():
    trace = trace_of("X")._replace(reward=np.array([np.nan], np.float32))
    assert modes_shown(frames_of(trace)) == "X"


def test_a_thousand_frames_are_drawn_in_seconds():
    trace = trace_of("GGGGXX" * 10)
    begin = time.process_time()
    for _ in draw_film(lambda step: np.zeros((420, 560, 3), np.uint8), trace, CAPTION):
        pass
    assert time.process_time() - begin < 60 * 0.05  # 10 ms each on a quiet machine


def test_a_raw_frame_gets_the_shape_of_a_television():
    frame = np.random.default_rng(0).integers(0, 256, (210, 160, 3), np.uint8)
    picture = make_renderer(frame[None], 255.0, None)(0)
    assert picture.shape == (420, 560, 3)
    # Every pixel is twice as tall, and three or four times as wide: 3.5 on average.
    np.testing.assert_array_equal(picture[::2, [0, 4, 7, 11]], frame[:, [0, 1, 2, 3]])
    np.testing.assert_array_equal(picture[1::2], picture[::2])
    np.testing.assert_array_equal(picture[0, :8, 0], frame[0, [0, 0, 0, 0, 1, 1, 1, 2], 0])
    np.testing.assert_array_equal(picture[-1, -1], frame[-1, -1])


def test_planes_have_colours_and_the_first_is_on_top():
    planes = np.array([[[1, 1], [0, 1]], [[1, 0], [0, 0]]], np.uint8)
    picture = make_renderer(planes[None], 1.0, None)(0)
    assert picture.tolist() == [
        [list(_PLANES[0]), list(_PLANES[1])],
        [list(_PLANES[0]), list(_GROUND)],
    ]


def test_a_flat_grid_is_one_plane():
    picture = make_renderer(np.eye(3, dtype=np.uint8)[None], 1.0, None)(0)
    assert (picture == _PLANES[0]).all(axis=2).tolist() == np.eye(3, dtype=bool).tolist()


def test_tiles_have_their_colours():
    constants = pytest.importorskip("xminigrid.core.constants")
    tiles, colours = constants.Tiles, constants.Colors
    grid = np.zeros((3, 3, 2), np.uint8)
    grid[0, 0] = tiles.WALL, colours.GREY
    grid[0, 1] = tiles.GOAL, colours.GREEN
    grid[2, 1] = tiles.FLOOR, colours.BLACK
    image = make_renderer(grid[None], 12.0, (13, 12))(0)
    assert image.shape == (3 * _CELL, 3 * _CELL, 3)
    middles = image[_CELL // 2 :: _CELL, _CELL // 2 :: _CELL]
    assert middles[0].tolist() == [[100, 100, 100], [0, 255, 0], list(_UNSEEN)]
    # The agent stands below the middle and looks up.
    assert middles[2, 1].tolist() == [255, 0, 0]
    top, bottom = image[2 * _CELL + 5, _CELL + 5], image[-6, _CELL + 7]
    assert top.max() < 100 and bottom[0] > 200


def test_vectors_are_bars():
    vectors = np.array([[2.0, -1.0], [0.0, 0.5]], np.float32)
    screen = make_renderer(vectors, 1.0, None)
    height, width = _BARS
    middle, reach = height // 2, height // 2 - 2
    left, right = width // 4, 3 * width // 4

    def filled(step, column):
        return np.flatnonzero((screen(step)[:, column] != _GROUND).any(axis=1))

    # The largest number of the episode, 2, is as long as there is room.
    assert filled(0, left).tolist() == list(range(middle - reach, middle + 1))
    assert filled(0, right).tolist() == list(range(middle, middle + reach // 2 + 1))
    assert filled(1, left).tolist() == [middle]
    assert filled(1, right).tolist() == list(range(middle - round(reach / 4), middle + 1))


def test_numbers_that_are_all_zero_or_not_finite_are_drawn():
    assert make_renderer(np.zeros((1, 4), np.float32), 1.0, None)(0).shape == (*_BARS, 3)
    broken = np.array([[np.nan, np.inf, 1.0]], np.float32)
    assert make_renderer(broken, 1.0, None)(0).shape == (*_BARS, 3)


def short_film():
    def screen(step):
        return np.full((10, 10, 3), 20 * step, np.uint8)

    return draw_film(screen, trace_of(MODES), Caption("title", "subtitle", "game over"))


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_what_is_written_is_what_is_read(tmp_path, suffix):
    if suffix == ".mp4":
        pytest.importorskip("av")
    path = save_film(short_film(), tmp_path / f"film{suffix}", fps=15)
    assert [file.name for file in path.parent.iterdir()] == [f"film{suffix}"]
    frames, drawn = decode(path), np.stack(list(short_film()))
    assert frames.shape == drawn.shape
    assert modes_shown(frames) == MODES
    assert abs(frames.astype(int) - drawn).mean() < 2


def test_the_speed_is_the_one_that_was_asked_for(tmp_path):
    av = pytest.importorskip("av")
    with av.open(save_film(short_film(), tmp_path / "film.mp4", fps=7)) as file:
        stream = file.streams.video[0]
        assert stream.average_rate == 7 and stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
    with Image.open(save_film(short_film(), tmp_path / "film.gif", fps=20)) as image:
        assert image.info["duration"] == 50 and image.info["loop"] == 0


def test_a_film_that_breaks_off_leaves_nothing(tmp_path):
    def broken():
        yield from list(short_film())[:3]
        raise KeyboardInterrupt

    (tmp_path / "film.gif").write_text("an older one")
    with pytest.raises(KeyboardInterrupt):
        save_film(broken(), tmp_path / "film.gif", fps=15)
    assert [file.name for file in tmp_path.iterdir()] == ["film.gif"]
    assert (tmp_path / "film.gif").read_text() == "an older one"


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.mp4.*\.gif"):
        save_film(short_film(), tmp_path / "film.avi", fps=15)
