"""What a reader sees of a figure."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def notes_of(figure: Figure) -> str:
    """The small grey text below."""
    return " ".join(text.get_text().replace("\n", " ") for text in figure.texts[1:])


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def panels_of(figure: Figure) -> dict[str, Axes]:
    """Visible panels by title."""
    shown = [axes for axes in figure.axes if axes.get_visible()]
    return {axes.get_title() or axes.get_title(loc="left"): axes for axes in shown}


def labelled(axes: Axes, label: str):
    """The line of a label."""
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return line
