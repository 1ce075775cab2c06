"""Films written to files and read back by the libraries of others."""

import numpy as np
import pytest

from sidequest.figures.films.film import Caption, draw_film
from sidequest.figures.films.video import save_video
from tests.figures.decoding import decode, modes_shown
from tests.figures.traces import trace_of

MODES = "GGGXXGXXXXGG"


def film():
    def screen(step):
        return np.full((10, 10, 3), 20 * step, np.uint8)

    return draw_film(screen, trace_of(MODES), Caption("title", "subtitle", "game over"))


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_what_is_written_is_what_is_read(tmp_path, suffix):
    if suffix == ".mp4":
        pytest.importorskip("av")
    path = save_video(film(), tmp_path / f"film{suffix}", fps=15)
    assert [file.name for file in path.parent.iterdir()] == [f"film{suffix}"]
    frames, drawn = decode(path), np.stack(list(film()))
    assert frames.shape == drawn.shape
    assert modes_shown(frames) == MODES
    assert abs(frames.astype(int) - drawn).mean() < 2


def test_the_speed_is_the_one_that_was_asked_for(tmp_path):
    av = pytest.importorskip("av")
    with av.open(save_video(film(), tmp_path / "film.mp4", fps=7)) as file:
        stream = file.streams.video[0]
        assert stream.average_rate == 7 and stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
    from PIL import Image

    with Image.open(save_video(film(), tmp_path / "film.gif", fps=20)) as image:
        assert image.info["duration"] == 50 and image.info["loop"] == 0


def test_a_film_that_breaks_off_leaves_nothing(tmp_path):
    def broken():
        yield from list(film())[:3]
        raise KeyboardInterrupt

    (tmp_path / "film.gif").write_text("an older one")
    with pytest.raises(KeyboardInterrupt):
        save_video(broken(), tmp_path / "film.gif", fps=15)
    assert [file.name for file in tmp_path.iterdir()] == ["film.gif"]
    assert (tmp_path / "film.gif").read_text() == "an older one"


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.mp4.*\.gif"):
        save_video(film(), tmp_path / "film.avi", fps=15)
