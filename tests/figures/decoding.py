"""Films read back from their files."""

from pathlib import Path

import numpy as np
from PIL.ImageColor import getrgb

from sidequest.figures import film, style


def decode(path: Path) -> np.ndarray:
    """Frames [T, height, width, 3] of an mp4 or a gif."""
    if path.suffix == ".mp4":
        import av

        with av.open(path) as file:
            frames = file.decode(video=0)
            return np.stack([frame.to_ndarray(format="rgb24") for frame in frames])
    from PIL import Image, ImageSequence

    with Image.open(path) as image:
        frames = ImageSequence.Iterator(image)
        return np.stack([np.asarray(frame.convert("RGB")) for frame in frames])


def modes_shown(frames: np.ndarray) -> str:
    """The mode of each frame by the colour of its badge, off the letter: `"GGXX"`."""
    corner = frames.shape[2] - film._PANEL + film._MARGIN
    badge = frames[:, film._BADGE_TOP + 6 : film._BADGE_TOP + 12, corner + 6 : corner + 12]
    colours = badge.reshape(len(frames), -1, 3).astype(int)
    shown = ""
    for pixels in colours:
        near = {
            letter: abs(pixels - getrgb(colour)).max() <= 12
            for letter, colour in (("G", style.BLUE), ("X", style.MAGENTA))
        }
        shown += {(True, False): "G", (False, True): "X"}.get(tuple(near.values()), "?")
    return shown
