"""The network's heads as data: what each predicts, and how it is trained.

Every head has the same duelling shape and the same loss; they differ only in the fields of
a `Head`. Which heads a run needs follows from its variant (section 2, appendix B.1):

    head        reward      discount    needed by
    extrinsic   the game's  0.997       everything; drives the exploit mode
    intrinsic   novelty     0.997       XI
    short       the game's  0.97        Xγ
    twin        the game's  0.997       triggers that ask how much two heads disagree
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

NAMES = ("extrinsic", "intrinsic", "short", "twin")


class Head(NamedTuple):
    """One head of the network. Static: a change of heads is a change of program."""

    name: str
    source: Literal["extrinsic", "intrinsic"]
    """Which reward it predicts."""
    discount: float
    cut_traces: bool
    """Whether its targets stop at actions that are not greedy for it (Watkins)."""
    statistics: Literal["all", "recent"]
    """Over which past its return scale is estimated."""


def make_heads(
    names: Iterable[str],
    *,
    discount: float = 0.997,
    short_discount: float = 0.97,
    cut_traces: bool | None = None,
) -> tuple[Head, ...]:
    """The heads of a run, the extrinsic one first and present in any case.

    Args:
        names: Some of `NAMES`, in any order.
        discount: Of all heads but the short one.
        short_discount: Of the short head.
        cut_traces: For all heads. By default as in the paper: only where there is an
            intrinsic head (appendix A.4), else "off-policy corrections: none".
    """
    wanted = {"extrinsic", *names}
    if not wanted <= set(NAMES):
        raise ValueError(f"heads {sorted(wanted - set(NAMES))}; there are only {NAMES}")
    if cut_traces is None:
        cut_traces = "intrinsic" in wanted

    def make(name: str) -> Head:
        novelty = name == "intrinsic"
        return Head(
            name=name,
            source="intrinsic" if novelty else "extrinsic",
            discount=short_discount if name == "short" else discount,
            cut_traces=cut_traces,
            # Novelty shrinks by orders of magnitude while a run goes on; a scale that
            # remembers its beginning would mute the head.
            statistics="recent" if novelty else "all",
        )

    return tuple(make(name) for name in NAMES if name in wanted)
