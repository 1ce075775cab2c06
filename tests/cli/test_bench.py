"""How the figures of a benchmark are printed."""

from sidequest.cli.bench import show


def test_figures_are_read_at_a_glance(capsys):
    rates = {"alone": 85_712.72, "each": [84_830.97, 0.5]}
    show({**rates, "streams": 1536, "variants": {"XU": {"share": 0.98141}}})
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["alone", "85,713"],
        ["each", "84,831, 0.5"],
        ["streams", "1536"],
        ["variants"],
        ["XU"],
        ["share", "0.9814"],
    ]
