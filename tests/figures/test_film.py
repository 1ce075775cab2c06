"""Frames of a film, pixel by pixel: what was, and nothing of what is to come."""

import time

import numpy as np
import pytest

from sidequest.figures import look
from sidequest.figures.films import film
from sidequest.figures.films.film import Caption, draw_film, paint_strip, rgb
from tests.figures.decoding import modes_shown
from tests.figures.traces import trace_of

CAPTION = Caption("XU-intra(2,blind,3,G)", "made up, seed 0", "game over")


def square(step):
    return np.full((10, 10, 3), step % 256, np.uint8)


def frames_of(trace, screen=square):
    return np.stack(list(draw_film(screen, trace, CAPTION)))


def track(frame, top, height):
    """One of the strip's tracks in a frame."""
    panel = frame[:, -film.PANEL :]
    return panel[top : top + height, film.MARGIN : film.MARGIN + film.TRACK]


def test_a_frame_has_the_game_and_the_mode_of_its_step():
    frames = frames_of(trace_of("GGGXXG"))
    assert frames.shape == (6, 420, 420 + film.PANEL, 3)
    assert modes_shown(frames) == "GGGXXG"
    for step, frame in enumerate(frames):
        assert (frame[:, :420] == step).all()


def test_modes_appear_as_they_happen():
    frames = frames_of(trace_of("GGXG"))
    width = film.STEP_WIDTHS[1]
    middle = film.MODE_HEIGHT // 2
    expected = [look.BLUE, look.BLUE, look.MAGENTA, look.BLUE]
    for step, frame in enumerate(frames):
        shown = track(frame, film.MODE_TOP, film.MODE_HEIGHT)
        steps = shown[:, width // 2 :: width]
        colours = [tuple(colour) for colour in steps[middle, : step + 2]]
        assert colours == [rgb(colour) for colour in (*expected[: step + 1], film.PAPER)]
    # Explore is the taller bar, for those who see no hue.
    assert (steps[0, 2] == rgb(look.MAGENTA)).all()
    assert (steps[0, [0, 1, 3]] == rgb(film.PAPER)).all()


def test_a_long_episode_moves_on():
    modes = "G" * 150 + "X" * 20 + "G" * 230
    trace = trace_of(modes)
    frames = draw_film(square, trace, CAPTION)
    fitting = film.TRACK // film.STEP_WIDTHS[0]
    for step, frame in enumerate(frames):
        if step in (100, 155, 155 + fitting - 10, 399):
            middle = track(frame, film.MODE_TOP, film.MODE_HEIGHT)[film.MODE_HEIGHT // 2]
            letters = {rgb(look.BLUE): "G", rgb(look.MAGENTA): "X", rgb(film.PAPER): "-"}
            shown = "".join(letters[tuple(map(int, colour))] for colour in middle[::2])
            past = modes[max(0, step + 1 - fitting) : step + 1]
            assert shown == past.ljust(fitting, "-")


def test_the_signal_is_a_line_with_gaps():
    signal = np.array([np.nan, 0.0, 4.0, 2.0, np.nan], np.float32)
    trace = trace_of("GGGGX")._replace(signal=signal)
    width = film.STEP_WIDTHS[1]
    columns = paint_strip(trace).signal[:, width // 2 :: width]
    inked = (columns == rgb(look.INK)).all(axis=2)
    rows = [np.flatnonzero(inked[:, step]).tolist() for step in range(5)]
    bottom, top = film.GRAPH_HEIGHT - 3, 1
    middle = top + (bottom - top) // 2
    assert rows == [[], [bottom, bottom + 1], [1, 2], [middle, middle + 1], []]
    # Neighbours are joined.
    joined = (paint_strip(trace).signal[:, 2 * width] == rgb(look.INK)).all(axis=1)
    assert joined[top : bottom + 2].all()
    # Where the agent explores, the ground is tinted.
    assert (columns[:, 4] == rgb(film.SHADE)).all()


def test_rewards_are_bars_up_and_down():
    reward = np.array([0.0, 8.0, -4.0, 0.001], np.float32)
    picture = paint_strip(trace_of("GGGG")._replace(reward=reward)).reward
    columns = picture[:, :: film.STEP_WIDTHS[1]]
    middle = film.GRAPH_HEIGHT // 2
    reach = middle - 2
    up, down = rgb(look.GOLD), rgb(look.INK)
    gold = [np.flatnonzero((columns[:, step] == up).all(axis=1)) for step in range(4)]
    dark = [np.flatnonzero((columns[:, step] == down).all(axis=1)) for step in range(4)]
    assert [len(rows) for rows in gold] == [0, reach, 0, 2]
    assert [len(rows) for rows in dark] == [0, 0, reach // 2, 0]
    assert gold[1].max() == middle - 1 and dark[2].min() == middle + 1


def test_text_tells_step_return_and_ending():
    trace = trace_of("GX")._replace(reward=np.array([1.5, 2.0], np.float32))
    frames = frames_of(trace)
    said = []
    real = film.write

    def listen(picture, text, *place, **how):
        said.append(text)
        real(picture, text, *place, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(film, "write", listen)
        np.testing.assert_array_equal(frames_of(trace), frames)
    for text in (CAPTION.title, "step 1 of 2", "return 1.5", "return 3.5", "explored 50%"):
        assert said.count(text) == 1, text
    assert said[-1] == "game over" and said.count("game over") == 1


def test_letters_are_inside_the_picture_wherever_they_are_put():
    picture = np.full((20, 50, 3), 255, np.uint8)
    film.write(picture, "XU-intra(10,informed,p*,X) " * 5, (10, 12), size=15)
    assert picture.min() < 100 and (picture[:, :10] == 255).all()
    film.write(picture, "too long to be right", (40, 0), size=15, align="right")


@pytest.mark.parametrize("shape", [(7, 5), (425, 3), (500, 667)])
def test_all_sides_are_even(shape):
    frames = frames_of(trace_of("GX"), lambda step: np.zeros((*shape, 3), np.uint8))
    assert frames.shape[1] % 2 == 0 and frames.shape[2] % 2 == 0
    assert frames.shape[1] >= max(film.HEIGHT, shape[0])


def test_one_step_makes_a_film():
    trace = trace_of("X")._replace(reward=np.array([np.nan], np.float32))
    assert modes_shown(frames_of(trace)) == "X"


def test_a_thousand_frames_are_drawn_in_seconds():
    trace = trace_of("GGGGXX" * 50)
    begin = time.process_time()
    for _ in draw_film(lambda step: np.zeros((420, 560, 3), np.uint8), trace, CAPTION):
        pass
    assert time.process_time() - begin < 300 * 0.02  # a minute for 3,000
