"""Studies as data: what is in them, counted and spelled by hand."""

import functools
from pathlib import Path

import pytest

from sidequest.config import PAPER, SMALL_FRAMES, change, check
from sidequest.environments import registry
from sidequest.errors import InvalidRequest, VariantError
from sidequest.runs.build import build_agent
from sidequest.runs.spec import Checkpointing
from sidequest.study.scheduler import Machine, plan_groups
from sidequest.study.studies import STUDIES, Grid, Study, find, jobs_of, narrow
from sidequest.switching.variants import parse

EXAMPLE = Study(
    name="example",
    title="Two by two",
    grids=(
        Grid(("XU-step-level-0.01", "XI-episode-level-*"), ("probe:constant",)),
        Grid(("XU-step-level-0.01",), ("probe:constant", "probe:two_step")),
        Grid(("XI-episode-level-*",), ("probe:constant",), (("learning.watkins", False),)),
    ),
    seeds=2,
    frames=1_000,
    preset="small",
    settings=(("replay.ratio", 1.0),),
)


def ids(study: Study) -> list[str]:
    return [job.id for job in jobs_of(study)]


@functools.cache
def paper_ids() -> set[str]:
    return set(ids(find("paper")))


def test_a_grid_is_every_variant_on_every_game_and_overlaps_count_once():
    assert ids(EXAMPLE) == [
        "XU-step-level-0.01/probe:constant/0",
        "XU-step-level-0.01/probe:constant/1",
        "XI-episode-level-*/probe:constant/0",
        "XI-episode-level-*/probe:constant/1",
        "XU-step-level-0.01/probe:two_step/0",
        "XU-step-level-0.01/probe:two_step/1",
        "XI-episode-level-*+learning.watkins=False/probe:constant/0",
        "XI-episode-level-*+learning.watkins=False/probe:constant/1",
    ]


def test_a_job_has_a_folder_and_settings_of_its_own():
    plain, other = jobs_of(EXAMPLE)[2], jobs_of(EXAMPLE)[6]
    plain, other = plain.spec_in(Path("out")), other.spec_in(Path("out"))
    rest = "probe-constant/seed-0"
    assert plain.folder == Path("out/XI-episode-level-star", rest)
    assert other.folder == Path("out/XI-episode-level-star-watkins-False", rest)
    assert plain.config.replay.ratio == other.config.replay.ratio == 1.0
    assert plain.config.learning.watkins is True
    assert other.config.learning.watkins is False


def test_narrow_takes_parts_and_other_numbers():
    part = narrow(EXAMPLE, games=["probe:two_step"], seeds=1, frames=5)
    assert ids(part) == ["XU-step-level-0.01/probe:two_step/0"]
    assert jobs_of(part)[0].spec.frames == 5
    part = narrow(EXAMPLE, variants=["xi-episode-level-*"], seeds=1)
    assert ids(part) == [
        "XI-episode-level-*/probe:constant/0",
        "XI-episode-level-*+learning.watkins=False/probe:constant/0",
    ]


def test_narrow_adds_what_is_new():
    more = narrow(EXAMPLE, games=["probe:by_action"], seeds=1)
    assert {job.spec.game for job in jobs_of(more)} == {"probe:by_action"}
    assert {str(job.spec.variant) for job in jobs_of(more)} == set(EXAMPLE.variants)
    assert more.title == "A study of your own, with the settings of example"
    assert narrow(EXAMPLE, games=["probe:two_step"]).title == EXAMPLE.title
    more = narrow(EXAMPLE, variants=["XU-episode-level-0.3"], seeds=1)
    assert ids(more) == [
        "XU-episode-level-0.3/probe:constant/0",
        "XU-episode-level-0.3/probe:two_step/0",
    ]


def test_pieces_make_a_study():
    """Issue 18: `study atari` is made four runs at a time, on machines that come and go."""
    atari = find("atari")
    pieces = [
        narrow(atari, games=[game], seeds=1, first_seed=seed)
        for seed in range(3)
        for game in ("ms_pacman", "frostbite")
    ]
    jobs = [job for piece in pieces for job in jobs_of(piece)]
    assert [len(jobs_of(piece)) for piece in pieces] == [4] * 6
    groups = plan_groups(jobs_of(atari), Machine("gpu", 1))
    assert [group.jobs for group in groups] == [(job,) for job in jobs]
    assert {job.spec.memory for job in jobs} == {12 * 10**9}
    assert {job.spec.checkpoints for job in jobs} == {
        Checkpointing(2_000_000, replay=False)
    }


def test_narrow_refuses_what_there_is_not():
    with pytest.raises(registry.InvalidRequest):
        narrow(EXAMPLE, games=["probe:nothing"])
    with pytest.raises(VariantError):
        narrow(EXAMPLE, variants=["XU-sometimes"])
    with pytest.raises(registry.InvalidRequest, match="for Atari"):
        jobs_of(narrow(find("paper"), games=["probe:constant"]))
    # Its network is for games of 10 x 10 pixels; every run failed, and nothing else.
    with pytest.raises(InvalidRequest, match="quick do not fit ms_pacman: network: ch"):
        jobs_of(narrow(find("quick"), games=["ms_pacman"]))


def test_memory_for_frames_is_ataris_alone():
    """Every run of another game was refused, for an option that nobody had typed."""
    jobs = jobs_of(narrow(find("atari"), games=["gymnasium:CartPole-v1", "ms_pacman"]))
    memory = {job.spec.game: job.spec.memory for job in jobs}
    assert memory == {"gymnasium:CartPole-v1": None, "ms_pacman": 12 * 10**9}


def test_a_study_evaluates_ten_times_or_as_its_settings_say():
    def interval(name, **changes):
        return jobs_of(narrow(find(name), **changes))[0].spec.config.evaluation.interval

    assert (interval("small"), interval("gpu")) == (10_000, 50_000)
    assert interval("small", frames=20_000) == 2_000
    assert interval("quick", frames=20_000) == interval("quick") == 5_000


def test_a_grid_overrides_a_setting_of_its_study():
    grid = Grid(("XU-step-level-0.01",), ("probe:constant",), (("replay.ratio", 2.0),))
    small = Study("s", "t", (grid,), 1, 1_000, "small", (("replay.ratio", 3.0),))
    assert jobs_of(small)[0].spec.config.replay.ratio == 2.0


def test_small_settings_on_emulators_are_those_for_frames():
    (job, *_) = jobs_of(narrow(EXAMPLE, games=["pong"]))
    changes = {"replay.ratio": 1.0, "evaluation.interval": 100}  # of 1,000 frames
    assert job.spec.config == change(SMALL_FRAMES, **changes)


def test_the_papers_study_by_hand():
    jobs = jobs_of(find("paper"))
    # Per game and seed: 5 granularities in 2 modes; 3 more variants of figure 4 in 2; 4 of
    # figure 12; 2 starting modes in 2; 2 ways to parameterise in 2; the example with 100
    # steps in 2; 2 more triggers; no trace cutting; 4 settings of XS.
    kinds = 5 * 2 + 3 * 2 + 4 + 2 * 2 + 2 * 2 + 1 * 2 + 2 + 1 + 4
    assert kinds == 37
    assert len(jobs) == kinds * 7 * 3
    assert {job.spec.frames for job in jobs} == {2_049_000_000}
    # The first 42 blocks of 120 x 40 steps of 4 frames fill 200,000 observations; from then
    # on every 64 sequences, which are as many as blocks of 40 steps, make an update.
    blocks = 2_049_000_000 // (120 * 40 * 4)
    assert 200_000 <= (blocks - 42) * 120 / 64 < 200_100
    watkins = {PAPER, change(PAPER, **{"learning.watkins": False})}
    assert {job.spec.config for job in jobs} == watkins
    assert {job.spec.game for job in jobs} == {
        *("frostbite", "gravitar", "hero", "montezuma_revenge"),
        *("ms_pacman", "phoenix", "star_gunner"),
    }


@pytest.mark.parametrize(
    "name, runs",
    [
        ("paper/fig3", 10 * 7 * 3),
        ("paper/fig4", 10 * 4 * 3),
        ("paper/fig5", 2 * 2 * 3),
        ("paper/fig6", 4 * 7 * 3),
        ("paper/fig7", 4 * 1 * 3),
        ("paper/fig8", 3 * 7 * 3),
        ("paper/fig12", 4 * 7 * 3),
        ("paper/fig15", 2 * 7 * 3),
        ("paper/fig16", 12 * 7 * 3),
    ],
)
def test_the_papers_figures_by_hand(name, runs):
    jobs = jobs_of(find(name))
    assert len(jobs) == runs
    assert {job.id for job in jobs} <= paper_ids()


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_sound(name):
    jobs = jobs_of(STUDIES[name])
    assert jobs and len({job.spec.folder for job in jobs}) == len({job.id for job in jobs})
    for variant in {job.spec.variant for job in jobs}:
        assert parse(str(variant)) == variant
    for game in {job.spec.game for job in jobs}:
        registry.check(game)
    for config in {job.spec.config for job in jobs}:
        check(config)
        assert jobs[0].spec.frames >= config.replay.warm_up


def test_the_small_study_has_every_comparison_of_the_paper():
    jobs = jobs_of(find("small"))
    names = {str(job.spec.variant) for job in jobs}
    assert {one.partition("-")[0] for one in names} == {"XU", "XI", "XS"}
    triggers = {job.spec.variant.trigger for job in jobs}
    assert triggers >= {"blind", "informed", "informed:mismatch", "informed:variance"}
    assert {job.spec.variant.granularity for job in jobs} == {
        *("experiment", "episode", "step", "intra"),
    }
    assert names >= {"XU-intra(=,blind,n*,G)", "XU-intra(=,blind,n*,X)"}
    assert names >= {"XI-intra(10,blind,n*,G)", "XI-intra(10,blind,p*,G)"}
    assert names >= {"XU-intra(10,blind,100,G)", "XU-intra(10,informed,0.01,G)"}
    assert {job.settings for job in jobs} == {(), (("learning.watkins", False),)}
    assert find("small").seeds >= 3


def test_the_study_for_one_gpu_by_hand():
    study = find("gpu")
    jobs = jobs_of(study)
    names = {str(job.spec.variant) for job in jobs}
    assert len(names) == 11 + 5 and len(jobs) == 16 * 5 * 8 + 3 * 4 * 8
    assert {name for name in names if name.startswith("XI")} == {
        *("XI-experiment-level-X", "XI-experiment-level-G", "XI-step-level-0.01"),
        *("XI-episode-level-*", "XI-intra(10,informed,p*,X)"),
    }
    assert names >= {"XU-intra(=,blind,n*,G)", "XU-intra(=,blind,n*,X)"}
    assert names >= {"XU-intra(10,blind,n*,G)", "XU-intra(10,blind,p*,G)"}
    # Whether traces are cut is turned round in three variants.
    turned = {
        (job.spec.variant.mode, dict(job.settings)["learning.watkins"])
        for job in jobs
        if job.settings
    }
    assert turned == {("XU", True), ("XI", False)}
    # The others have the paper's learner, whatever the preset has.
    plain = {job.spec.config.learning for job in jobs if not job.settings}
    assert {(one.n_step, one.watkins, one.trace_tolerance) for one in plain} == {
        (5, None, 0)
    }
    # One program for each game and set of heads: 88 runs with XU, 40 with XI; with other
    # settings 16 and 8 of them on four games.
    groups = plan_groups(jobs, Machine("gpu", 1))
    assert (
        sorted(len(group.jobs) for group in groups)
        == [8] * 4 + [16] * 4 + [40] * 5 + [88] * 5
    )


def test_test_sizes_keep_all_variants():
    for study in STUDIES.values():
        if not study.name.endswith("/tiny"):
            twin = STUDIES[f"{study.name}/tiny"]
            assert twin.variants == study.variants
            assert max(job.spec.frames for job in jobs_of(twin)) < 10_000


def test_a_tiny_agent_can_be_put_together():
    job = jobs_of(find("paper/fig8/tiny"))[1]
    spec = registry.make(job.spec.game).spec
    assert build_agent(job.spec.config, spec, [job.spec.variant]).environments == 8


def test_an_unknown_name_gives_the_nearest():
    with pytest.raises(InvalidRequest, match="quick"):
        find("qick")
    with pytest.raises(InvalidRequest, match="paper/fig4"):
        find("paper/fig44")


def test_no_title_has_a_number_that_options_change():
    titles = " ".join(study.title.lower() for study in STUDIES.values())
    numbers = ("one", "two", "three", "four", "five", "seven", "eight")
    assert not {word.strip(":,") for word in titles.split()} & {*numbers}
