"""Frames into a file: MP4 by PyAV, GIF by Pillow."""

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

SUFFIXES = (".mp4", ".gif")
FASTEST_GIF = 50  # frames a second; readers slow down what is faster
HINT = 'an mp4 needs PyAV: pip install "sidequest[video]"; or name a .gif file'

Frames = Iterable[np.ndarray]
"""[height, width, 3] of uint8, all of one size with even sides."""


def save_video(frames: Frames, path: Path, fps: int) -> Path:
    """Writes a film in the format that the suffix names; beside, then renamed."""
    writers = dict(zip(SUFFIXES, (_save_mp4, _save_gif), strict=True))
    if path.suffix not in writers:
        raise ValueError(f"{path} ends with {path.suffix!r}; allowed: {SUFFIXES}")
    beside = path.with_name(path.name + ".part")
    try:
        writers[path.suffix](iter(frames), beside, fps)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def _save_mp4(frames: Iterator[np.ndarray], path: Path, fps: int) -> None:
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
            image = av.VideoFrame.from_ndarray(frame, format="rgb24")
            file.mux(stream.encode(image))
        file.mux(stream.encode(None))


def _save_gif(frames: Iterator[np.ndarray], path: Path, fps: int) -> None:
    from PIL import Image

    def images() -> Iterator[Image.Image]:
        for frame in frames:
            # The quickest method paints white grey; few colours need no dithering.
            yield Image.fromarray(frame).quantize(
                method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE
            )

    stream = images()
    # GIF counts hundredths of a second.
    timing = {"duration": 10 * round(100 / min(fps, FASTEST_GIF)), "loop": 0}
    with path.open("wb") as file:
        first = next(stream)
        first.save(file, format="GIF", save_all=True, append_images=stream, **timing)
