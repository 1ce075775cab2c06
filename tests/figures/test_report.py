"""The report as text: it says what it must, and nothing in it can break out."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from sidequest.cli import main
from sidequest.figures import report
from sidequest.figures.claims import CLAIMS
from sidequest.figures.data import read_records
from sidequest.records import Recorder, write_json
from tests.figures import pages
from tests.figures.fakes import Fake, make_records

EVENTS = re.compile(r"^on", re.IGNORECASE)


class Page(HTMLParser):
    """Elements, attributes and texts of a page, as a browser would see them."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_data(self, data):
        (self.scripts if self.tags[-1:] == ["script"] else self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    assert pages.make_report(folder) == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def source(study):
    return (study / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


def test_what_was_run_is_said(page):
    for words in (
        "6 variants, 2 games, 1 to 3 seeds, 1,000 frames each: 18 of 21 runs finished.",
        "Frames a run 1,000",
        "sidequest study <pages>",
        "3 runs not finished",
        "no memory <left>",
        "not started",
        "p_X is the share of an episode's steps that explored",
        "training, or interrupted",
        pages.TITLE,
    ):
        assert words in page.text


def test_every_claim_is_there_with_rule_and_verdict(page):
    for claim in CLAIMS:
        assert claim.sentence in page.text
        assert claim.rule in page.text
    states = [value for _, name, value in page.attributes if name == "data-state"]
    assert len(states) == len(CLAIMS)
    assert {"cannot tell"} <= set(states)


def test_figures_are_inside_with_what_to_look_for(page):
    (address,) = [
        value for tag, name, value in page.attributes if (tag, name) == ("img", "src")
    ]
    kind, _, content = (address or "").partition(";base64,")
    assert kind in ("data:image/png", "data:image/svg+xml")
    assert base64.b64decode(content)[:4] in (b"\x89PNG", b"<?xm")
    assert "It rises. Look for. The line." in page.text
    assert "1 figure that these runs do not allow yet" in page.text
    assert "No line (figure 1) needs XI runs." in page.text


def test_scores_are_final_performances(source):
    row = re.search(
        r"<tr><th scope=\"row\"><abbr class=\"name\" title=\"Explores 10 steps on[^>]*>"
        r"XU-intra\(10,<wbr>informed,<wbr>0.01,<wbr>G\)</abbr></th>.*?</tr>",
        source,
    )
    assert row
    values = re.findall(r'data-value="([^"]*)"', row.group())
    assert values[:3] == ["54.5", "9.0", "100.0"]  # mean, worst, best


def test_nothing_in_a_name_can_break_out(page):
    assert page.tags.count("script") == 2
    assert page.tags.count("img") == 1
    assert not [one for one in page.attributes if EVENTS.match(one[1])]
    assert pages.HOSTILE in page.text


def test_the_page_loads_nothing_and_runs_only_its_own_script(source):
    loaded = re.findall(r'(?:src|<link[^>]* href)="([^"]*)"', source)
    assert loaded and all(one.startswith("data:") for one in loaded)
    script = re.search(r"<script>(.*?)</script>", source, re.DOTALL)
    assert script
    digest = base64.b64encode(hashlib.sha256(script.group(1).encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in source
    assert len(source) < 10_000_000


def test_episodes_are_embedded_as_they_were(page):
    cells = json.loads(page.scripts[0])
    names = [(cell["variant"], cell["game"]) for cell in cells]
    assert (pages.HOSTILE, "a") in names
    assert not [name for name in names if name[0] == "XU-episode-level-*"]
    (cell,) = [one for one in cells if one["variant"] == "XU-intra(10,informed,0.01,G)"]
    assert len(cell["episodes"]) == report.MOST_EPISODES
    assert {one["seed"] for one in cell["episodes"]} == {0, 1, 2}
    frames = [one["frames"] for one in cell["episodes"]]
    assert frames == sorted(frames)
    for one in cell["episodes"]:
        assert one["periods"] == [4, 4, 3, 2, 1]  # GGGG XXXX GGG XX G
    starts_with_x = next(
        one for one in cells if one["variant"] == "XU-intra(10,blind,p*,X)"
    )
    assert starts_with_x["episodes"][0]["periods"] == [0, 2, 2]


def test_the_same_records_give_the_same_page(study):
    records = read_records(study)
    first, second = (report.make_page(records, [], time="now") for _ in range(2))
    assert first == second


@pytest.mark.parametrize("planned", [False, True])
def test_a_study_with_nothing_in_it_yet(tmp_path, planned):
    if planned:
        plan = make_records(tmp_path / "other", Fake("XU-step-level-0.01")).plan
        write_json(tmp_path / "study.json", plan)
    page = Page(report.write_report(read_records(tmp_path), []).read_text())
    assert "No run has been started yet." in page.text
    assert ("3 runs planned." in page.text) == planned
    assert "No whole episode has been recorded yet." in page.text
    states = {value for _, name, value in page.attributes if name == "data-state"}
    assert states == {"cannot tell"}


def test_a_run_that_has_only_begun(tmp_path):
    Recorder(
        tmp_path / "run", {"variant": "XU-step-level-0.01", "game": "a", "seed": 0}
    ).close()
    path = report.write_report(read_records(tmp_path), [], tmp_path / "new" / "folder")
    page = Page(path.read_text())
    assert "1 variant, 1 game, 1 seed, 0 frames each: 0 of 1 run finished." in page.text


def test_frames_are_those_that_were_played(tmp_path):
    """A run of 4,000 frames played whole chunks; one that still trains has its budget."""
    run = {"variant": "XU-step-level-0.01", "game": "a", "frames": 4_000}
    Recorder(tmp_path / "0", run | {"seed": 0}).finish(frames_done=7_680)
    page = Page(report.write_report(read_records(tmp_path), []).read_text())
    assert "1 seed, 7,680 frames each: 1 of 1 run finished." in page.text
    assert "Frames a run 7,680" in page.text
    Recorder(tmp_path / "1", run | {"seed": 1}).close()
    page = Page(report.write_report(read_records(tmp_path), []).read_text())
    assert "4,000 to 7,680 frames each: 1 of 2 runs finished." in page.text


def test_episodes_make_room_for_each_other(study, monkeypatch):
    records = read_records(study)
    whole = report.read_episodes(records)
    size = len(json.dumps(whole))
    monkeypatch.setattr(report, "ROOM", size // 2)
    fewer = report.read_episodes(records)
    assert len(json.dumps(fewer)) <= size // 2
    assert [cell["variant"] for cell in fewer] == [cell["variant"] for cell in whole]


def test_episodes_of_two_budgets_can_be_chosen(tmp_path):
    """The page chooses by variant and game alone."""
    fake = Fake("XU-step-level-0.01", scores=(1.0, 2.0, 3.0, 4.0), modes="GXG")
    longer = fake._replace(frames=2_000, scores=(5.0, 6.0))
    (cell,) = report.read_episodes(make_records(tmp_path, fake, longer))
    assert {one["seed"] for one in cell["episodes"]} == {0, 1, 2, 3}


def test_runs_that_figures_leave_out_are_told(tmp_path):
    probe = Fake("XU-step-level-0.01", settings={"replay.ratio": 2.0})
    usual = probe._replace(scores=(1.0, 2.0, 3.0, 4.0), settings={})
    pages = [
        Page(report.make_page(make_records(tmp_path, *fakes), [], time="now")).text
        for fakes in ([usual, probe], [usual])
    ]
    told = "leave out 3 runs whose settings are not those of most runs of the same variant"
    assert [told in text for text in pages] == [True, False]


def test_a_long_signal_keeps_its_peaks():
    signal = [0.0] * 1_000 + [None] * 1_000
    signal[777] = 5.0
    thin = report.thin(signal)
    assert thin["stride"] == 5
    assert len(thin["values"]) == report.MOST_POINTS
    assert thin["values"][777 // 5] == 5.0
    assert thin["values"][200:] == [None] * 200


@pytest.mark.parametrize("number, most", [(3, 5), (5, 5), (100, 15), (16, 15)])
def test_spread_is_even_and_keeps_both_ends(number, most):
    chosen = report.spread(range(number), most)
    assert len(chosen) == len(set(chosen)) == min(number, most)
    assert chosen[0] == 0 and chosen[-1] == number - 1


def summary_of(folder, *fakes) -> str:
    """The first lines of the page."""
    source = report.make_page(make_records(folder, *fakes), [], time="now")
    section = re.search(r'<section id="summary".*?</section>', source, re.DOTALL)
    assert section
    return " ".join(re.sub("<[^>]*>", "", section.group()).split())


def on(game, *scores, variant="XU-step-level-0.01"):
    return Fake(variant, game, scores)


def test_too_few_seeds_are_a_demonstration(tmp_path):
    summary = summary_of(tmp_path, on("a", 1.0, 2.0), on("b", 1.0))
    assert summary.startswith("1 variant, 2 games, 1 to 2 seeds, 1,000 frames each: 3 of 3")
    assert "This is a demonstration. A variant has 2 seeds" in summary
    assert "to tell a probability" not in summary


def test_a_study_that_is_still_training_is_no_demonstration(tmp_path):
    step = on("a", 1.0, 2.0)
    summary = summary_of(tmp_path, step, step._replace(game="b", finished=False))
    assert "So far a variant has 2 seeds" in summary and "demonstration" not in summary


def test_few_seeds_show_large_differences_only(tmp_path):
    summary = summary_of(tmp_path, on("a", 1.0, 2.0, 3.0), on("b", 1.0, 2.0))
    assert "3 seeds on 2 games" in summary and "takes 30 seeds of each variant" in summary
    assert "demonstration" not in summary
    many = [float(seed) for seed in range(59)]
    assert "takes" not in summary_of(tmp_path, on("a", *many))


def test_what_learned_nothing_is_said(tmp_path):
    other = "XU-experiment-level-G"
    fakes = (
        on("classic:cartpole", 9.0, 10.0, 300.0),  # one seed of three learned
        on("classic:cartpole", 9.0, 10.0, 11.0, variant=other),
        on("minigrid:empty_6x6", 0.9, 0.9, 0.1),
        on("mine:corridor", 2_345.0, 2_345.0, 2_345.0),
    )
    summary = summary_of(tmp_path, *fakes)
    for sentence in (
        "What stands out classic:cartpole: 0 of 2 variants learned; best is "
        "XU-step-level-0.01 with a mean return of 106. minigrid:empty_6x6: 1 of 1 variant "
        "learned (XU-step-level-0.01); best is XU-step-level-0.01 with a mean return of "
        "0.633. mine:corridor: best is XU-step-level-0.01 with a mean return of 2,345. How",
        "On classic:cartpole no variant has learned",
        "In 2 of 4 cases (variant and game) the agent learned nothing",
    ):
        assert sentence in summary
    page = Page(report.make_page(make_records(tmp_path, *fakes), [], time="now"))
    assert page.text.count("XU-step-level-0.01 † classic:") == 1
    assert "XU-step-level-0.01 minigrid:" in page.text
    assert "XU-step-level-0.01 mine:" in page.text


def test_of_equal_variants_none_is_best_alone(tmp_path):
    names = [f"XU-intra({steps},blind,100,G)" for steps in (1, 2, 3, 4, 5)]
    cells = [on("mine:corridor", 1.0, variant=name) for name in names]
    lower = on("mine:corridor", 0.5)
    summary = summary_of(tmp_path, lower, *cells)
    best = f"{', '.join(names[:3])} and 2 more"
    assert f"mine:corridor: best are {best} with a mean return of 1." in summary


def test_few_that_learned_are_not_none(tmp_path):
    names = [f"XU-intra({steps},blind,100,G)" for steps in (1, 2, 3, 4, 5)]
    scores = (300.0, 9.0, 9.0, 9.0, 9.0)
    cells = [
        on("classic:cartpole", score, variant=name)
        for name, score in zip(names, scores, strict=True)
    ]
    summary = summary_of(tmp_path, *cells)
    assert "On classic:cartpole few variants have learned" in summary
    assert "no variant has" not in summary


def test_the_most_telling_episode_comes_first():
    """A signal counts most, then two explore periods, a reward, and the length."""

    def episode(periods, signal=None, reward=(), length=20):
        values = {"stride": 1, "values": [signal] * length}
        return {"signal": values, "periods": periods, "reward": reward, "length": length}

    order = [
        episode([20]),
        episode([20], length=200),
        episode([2, 16, 2], reward=[[3, 1.0]]),
        episode([2, 5, 2, 9, 2]),
        episode([20], signal=0.0),
        episode([2, 5, 2, 9, 2], signal=0.5),
        episode([2, 5, 2, 9, 2], signal=0.5, reward=[[3, 1.0]]),
        episode([2, 5, 2, 9, 2], signal=0.5, reward=[[3, 1.0]], length=30),
    ]
    interests = [report.interest(one) for one in order]
    assert interests == sorted(interests) and len(set(map(tuple, interests))) == len(order)


def test_the_report_goes_where_the_figures_go(study, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["figures", str(study), "--out", str(tmp_path / "out")])
    assert capsys.readouterr().out.split()[-1] == str(tmp_path / "out" / "report.html")
    assert (tmp_path / "out" / "scores.png").exists()


def test_the_plan_is_told_as_a_user_would_write_it(tmp_path):
    records = make_records(tmp_path, Fake("XU-step-level-0.01"))
    plan = records.plan | {"settings": {"learning.watkins": None, "replay.ratio": 2.0}}
    infos = (records.infos[0] | {"seconds": 93_600.0},)
    facts = report._facts(records._replace(plan=plan, infos=infos))
    assert facts["Settings"] == "learning.watkins=none, replay.ratio=2.0"
    assert facts["Longest run"] == "1 d 2 h of training"
