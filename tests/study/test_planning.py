"""Which runs go together, and in which order."""

from hypothesis import given
from hypothesis import strategies as st

from sidequest.study.grids import Grid, Study, jobs_of
from sidequest.study.planning import Machine, parts, plan, program
from sidequest.study.studies import find

VARIANTS = (
    *("XU-step-level-0.01", "XS-step-level-0.01", "XI-step-level-0.01"),
    *("XU-intra(10,informed:mismatch,p*,X)", "XI-intra(10,informed:variance,p*,X)"),
)
GAMES = ("probe:constant", "probe:two_step", "frostbite")
WATKINS = (("learning.watkins", False),)


@given(
    variants=st.sets(st.sampled_from(VARIANTS), min_size=1),
    games=st.sets(st.sampled_from(GAMES), min_size=1),
    seeds=st.integers(1, 9),
    kind=st.sampled_from(["cpu", "gpu", "tpu"]),
    devices=st.integers(1, 12),
)
def test_every_run_once_and_one_program_a_group(variants, games, seeds, kind, devices):
    variants, games = tuple(sorted(variants)), tuple(sorted(games))
    grids = (Grid(variants, games), Grid(variants[:1], games, WATKINS))
    jobs = jobs_of(Study("s", "t", grids, seeds, 1_000, "small"))
    machine = Machine(kind, devices)
    groups = plan(jobs, machine)
    planned = [job for group in groups for job in group.jobs]
    assert len(planned) == len(jobs) and set(planned) == set(jobs)
    for group in groups:
        assert len({program(job) for job in group.jobs}) == 1
        assert len({(job.variant.heads, job.game, job.settings) for job in group.jobs}) == 1
        assert len(group.jobs) <= machine.most_members
        if group.jobs[0].game == "frostbite":
            assert len(group.jobs) == 1
        # No device idles while another has two members to go.
        assert len(group.jobs) < devices or len(group.jobs) % devices == 0


def test_parts_keep_all_devices_busy():
    def sizes(count, kind, devices):
        study = Study("s", "t", (Grid(VARIANTS[:1], GAMES[:1]),), count, 1_000, "small")
        return [len(part) for part in parts(jobs_of(study), Machine(kind, devices))]

    assert sizes(11, "cpu", 2) == [10, 1]
    assert sizes(30, "cpu", 2) == [30]
    assert sizes(70, "cpu", 2) == [32, 32, 6]
    assert sizes(40, "cpu", 12) == [24, 12, 4]
    assert sizes(200, "gpu", 1) == [128, 72]


def test_one_seed_of_everything_comes_first():
    jobs = jobs_of(find("paper"))
    order = [job for group in plan(jobs, Machine("gpu", 1)) for job in group.jobs]
    assert [job.seed for job in order] == [0] * 259 + [1] * 259 + [2] * 259
    first = order[:37]
    assert {job.game for job in first} == {"frostbite"}
    assert len({(str(job.variant), job.settings) for job in first}) == 37


def test_quick_has_few_programs():
    jobs = jobs_of(find("quick"))
    groups = plan(jobs, Machine("cpu", 2))
    assert len(groups) == len({program(job) for job in jobs}) == 6


def test_short_runs_are_not_saved_all_the_time():
    group = plan(jobs_of(find("quick")), Machine("cpu", 2))[0]
    assert group.checkpoints.interval(30_000) == 25_000
    group = plan(jobs_of(find("paper/fig7")), Machine("gpu", 1))[0]
    assert group.checkpoints.interval(2_000_000_000) == 100_000_000
