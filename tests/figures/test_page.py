"""The report in a real browser: it works, and can be read on a phone and in the dark."""

import itertools
import re

import pytest

from sidequest.figures.claims import CLAIMS
from sidequest.figures.data import read_records
from sidequest.figures.report import write_report
from tests.figures import pages
from tests.figures.browser import Browser, find_browser

PROGRAM = find_browser()
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="needs Chromium or Chrome on the path (Debian: chromium)"
)

# Texts of a table's column, from top to bottom, without hidden rows.
COLUMN = (
    "((id, name) => {{ const table = document.getElementById(id);"
    "const names = [...table.tHead.rows[0].cells].map(cell => cell.textContent);"
    "return [...table.tBodies[0].rows].filter(row => !row.hidden)"
    ".map(row => row.cells[names.indexOf(name)].textContent) }})({!r}, {!r})"
)
WHERE = "document.querySelector('[data-part=where]').textContent"
# Not beside window.innerWidth: a phone that finds the page too wide zooms out.
WIDTH = "document.documentElement.scrollWidth"
# The least contrast of any visible text with what lies behind it (WCAG 2.2, 1.4.3).
CONTRAST = """(() => {
  const numbers = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((one) => one / 255)
    .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, i) => sum + one * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = numbers(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  let worst = [99, ""];
  for (const node of document.querySelectorAll("body *")) {
    const texts = [...node.childNodes].filter((one) => one.nodeType === Node.TEXT_NODE);
    const own = texts.some((one) => one.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest("svg, :disabled")) continue;
    const pair = [light(numbers(getComputedStyle(node).color)), light(behind(node))].sort();
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (ratio < worst[0]) worst = [ratio, node.outerHTML.slice(0, 100)];
  }
  return worst;
})()"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return pages.make_report(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def browser():
    assert PROGRAM
    with Browser(PROGRAM) as one:
        yield one


@pytest.fixture
def page(browser, path):
    """The page, freshly opened at a desktop's width; it must not complain to the end."""
    browser.resize(1200)
    browser.open(path)
    yield browser
    assert browser.complaints() == []


def test_it_opens_without_complaint_and_runs_no_foreign_script(page):
    assert page.run("document.title") == pages.TITLE
    assert page.run("window.hacked") is None
    assert page.run(
        "[...document.images].every(one => one.complete && one.naturalWidth > 0)"
    )


def test_claims_are_shown_with_their_state_as_text(page):
    states = (
        "[...document.querySelectorAll('.claim')].map(one => one.checkVisibility() &&"
        "one.querySelector('.badge').textContent.slice(2) === one.dataset.state)"
    )
    shown = page.run(states)
    assert len(shown) == len(CLAIMS) and shown.count(True) == 2, "those that can be judged"
    page.run("document.querySelector('#claims > details').open = true")
    assert page.run(states) == [True] * len(CLAIMS)
    assert not page.run("document.querySelector('.claim table')?.checkVisibility()")
    page.click("#claim-coin-diversity summary")
    assert page.run(
        "document.querySelector('#claim-coin-diversity table').checkVisibility()"
    )


def test_tables_sort_by_mouse_and_by_keyboard(page):
    column = COLUMN.format("scores", "mean")
    before = page.run(column)
    page.click("#scores thead th:nth-child(3) button")
    assert page.run(column) == ["2", "2.25", "4", "5.5", "7.75", "20", "54.5"]
    assert sorted(before) == sorted(page.run(column))
    assert (
        page.run("document.querySelector('#scores th[aria-sort]').ariaSort") == "ascending"
    )
    page.run("document.querySelector('#scores thead th:nth-child(3) button').focus()")
    page.press("Enter")
    assert page.run(column) == ["54.5", "20", "7.75", "5.5", "4", "2.25", "2"]
    assert (
        page.run("document.querySelector('#scores th[aria-sort]').ariaSort") == "descending"
    )


def test_names_sort_as_people_count_and_gaps_come_last(page):
    page.click("#exploration thead th:nth-child(7) button")  # target rate
    rates = page.run(COLUMN.format("exploration", "target rate"))
    assert rates[:3] == ["0.01"] * 3 and set(rates[3:]) == {"–"}
    page.click("#exploration thead th:nth-child(7) button")
    assert page.run(COLUMN.format("exploration", "target rate")) == rates
    page.click("#scores thead th:nth-child(2) button")
    assert page.run(COLUMN.format("scores", "game")) == ["a"] * 6 + ["b"]


def test_a_filter_keeps_rows_that_have_all_words(page):
    page.run(
        "(() => { const field = document.getElementById('scores-filter');"
        "field.value = 'STEP b'; field.dispatchEvent(new Event('input')) })()"
    )
    assert page.run(COLUMN.format("scores", "mean")) == ["20"]
    output = "document.querySelector('#scores-filter ~ output').textContent"
    assert page.run(output) == "1 of 7 rows"


def test_strips_page_by_buttons_keys_and_thin_strips(page):
    variant = page.run("document.getElementById('choose-variant').value")
    assert variant == "XU-intra(10,informed,0.01,G)", "one that has a signal to see"
    assert page.run(WHERE).startswith(
        "Episode 1 of 15: seed 0, 100 frames into training; 14"
    )
    page.click("[data-part=next]")
    assert page.run(WHERE).startswith("Episode 2 of 15")
    page.run("document.getElementById('viewer').focus()")
    page.press("ArrowRight")
    assert page.run(WHERE).startswith("Episode 3 of 15")
    page.press("ArrowLeft")
    page.press("ArrowLeft")
    page.press("ArrowLeft")
    assert page.run(WHERE).startswith("Episode 1 of 15")
    assert page.run("document.querySelector('[data-part=previous]').disabled")
    page.press("End")
    assert page.run(WHERE).startswith("Episode 15 of 15")
    page.click(".overview li:nth-child(4) button")
    assert page.run(WHERE).startswith("Episode 4 of 15")
    assert (
        page.run("document.querySelectorAll('.overview [aria-current=true]').length") == 1
    )


def choose(page, part, value):
    page.run(
        f"(() => {{ const one = document.getElementById('choose-{part}');"
        f"one.value = {value!r};"
        "one.dispatchEvent(new Event('change')) })()"
    )


def test_a_strip_is_what_was_recorded(page):
    choose(page, "variant", "XU-intra(10,informed,0.01,G)")
    rows = page.run(
        "[...document.querySelectorAll('[data-part=picture] rect:not(.hatched)')]"
        ".map(one => [one.className, one.width, one.height].map(two => two.baseVal))"
        ".map(([kind, width, height]) => [kind, width.value, height.value])"
    )
    assert [kind for kind, *_ in rows] == [
        "exploit",
        "explore",
        "exploit",
        "explore",
        "exploit",
    ]
    widths = [width for _, width, _ in rows]
    assert widths == pytest.approx(
        [sum(widths) * n / 14 for n in (4, 4, 3, 2, 1)], rel=1e-3
    )
    assert rows[1][2] > rows[0][2], "explore is the taller bar"
    letters = "[...document.querySelectorAll('[data-part=picture] .letter')]"
    assert page.run(f"{letters}.map(one => one.textContent).join('')") == "GXGXG"
    assert "p_X 0.429, return 0." in page.run(WHERE)
    # The signal is there from the second step on and rises: x to the right, y up.
    path = page.run(
        "document.querySelector('[data-part=picture] .signal').getAttribute('d')"
    )
    points = [
        tuple(map(float, one.split(","))) for one in re.findall(r"[ML]([\d.,]+)", path)
    ]
    assert len(points) == 13 and path.startswith("M") and path.count("M") == 1
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(points))


def test_games_follow_the_variant_and_stay_if_they_can(page):
    choose(page, "variant", "XU-step-level-0.01")
    games = "[...document.getElementById('choose-game').options].map(one => one.value)"
    assert page.run(games) == ["a", "b"]
    choose(page, "game", "b")
    assert "4 steps" in page.run(WHERE)
    choose(page, "variant", "XU-intra(10,blind,p*,X)")
    assert page.run(games) == ["a"]
    assert page.run(
        "document.querySelector('[data-part=picture] rect').className.baseVal"
    ) == ("explore")


def test_a_step_can_be_read(page):
    choose(page, "variant", "XU-intra(10,informed,0.01,G)")
    x, y, width = page.run(
        "(() => { const one = document.querySelector('[data-part=picture]');"
        "one.scrollIntoView({block: 'center', behavior: 'instant'});"
        "const box = one.getBoundingClientRect(); return [box.x, box.y, box.width] })()"
    )
    page.call(
        "Input.dispatchMouseEvent", type="mouseMoved", x=x + width * 6.5 / 14, y=y + 20
    )
    reading = page.run("document.querySelector('[data-part=reading]').textContent")
    assert reading == (
        "Step 6: explore (X), step 3 of 4 in its period; signal 0.6; reward 0."
    )


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_needs_no_sideways_scrolling(page, width):
    page.resize(width)
    assert page.run(WIDTH) <= width
    page.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert page.run(WIDTH) <= width
    picture = "document.querySelector('[data-part=picture]').getBoundingClientRect()"
    assert 200 < page.run(f"{picture}.width") <= width
    box = "document.querySelector('#final .scroll')"
    assert page.run(f"{box}.scrollWidth > {box}.clientWidth"), (
        "a wide table scrolls by itself"
    )


@pytest.mark.parametrize("dark", [False, True])
def test_texts_have_contrast_in_both_schemes(page, dark):
    page.resize(1200, dark=dark)
    background = page.run("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") != dark
    page.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
    ratio, element = page.run(CONTRAST)
    assert ratio >= 4.5, element


# Done when the page has been drawn twice.
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
TIP = "document.getElementById('tip')"


def point_at(page, selector: str) -> dict[str, float]:
    """Scrolls to an element and returns a point in it. The page is drawn before, since a
    hint that appears moves what is below, and after, since scrolling hides the tip."""
    page.run(DRAWN)
    centred = "{block: 'center', behavior: 'instant'}"
    page.run(f"document.querySelector({selector!r}).scrollIntoView({centred})")
    page.run(DRAWN)
    box = page.run(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
    return {"x": box["x"] + 5, "y": box["y"] + 5}


def test_a_name_is_explained_on_hover_and_on_a_tap(page):
    name = "#scores tbody tr:first-child abbr"
    assert page.run(f"{TIP}.hidden")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", **point_at(page, name))
    says = "Each step explores with probability 0.01. Exploring (XU) means uniformly random"
    assert page.run(f"!{TIP}.hidden && {TIP}.textContent").startswith(says)
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0)
    assert page.run(f"{TIP}.hidden")
    page.resize(390)
    touched = [point_at(page, name)]
    page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=touched)
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert page.run(f"!{TIP}.hidden && {TIP}.getBoundingClientRect().right <= 390")
    page.press("Escape")
    assert page.run(f"{TIP}.hidden")


def test_wide_tables_say_so_and_keep_their_first_column(page):
    hint = "document.querySelector('#final .hint')"
    assert page.run(f"{hint}.hidden")
    page.resize(390)
    page.run(DRAWN)
    assert not page.run(f"{hint}.hidden")
    lefts = (
        "['th', '.number'].map(one => document.querySelector('#scores tbody ' + one)"
        ".getBoundingClientRect().left)"
    )
    name, number = page.run(lefts)
    page.run("document.querySelector('#final .scroll').scrollLeft = 50")
    assert page.run(lefts) == [name, number - 50]


def test_decimal_points_are_below_each_other(page):
    """The digits after the point, with those that are there for their width only."""
    widths = page.run(
        "[...document.querySelectorAll('#scores tbody tr')].map(row => row.cells[2])"
        ".map(cell => (cell.textContent + (cell.dataset.pad ?? '')).split('.')[1].length)"
    )
    assert set(widths) == {2}  # 2.25 and 7.75 have most


def test_a_figure_fits_the_page_and_grows_when_it_is_selected(page):
    page.resize(390)
    width = "document.querySelector('.picture img').getBoundingClientRect().width"
    assert page.run(width) < 390
    page.click(".picture")
    assert page.run(width) > 700 and page.run(WIDTH) <= 390
    assert page.run("document.querySelector('.picture').ariaPressed") == "true"


def test_a_page_without_runs(browser, tmp_path):
    browser.resize(390)
    browser.open(write_report(read_records(tmp_path), []))
    assert browser.complaints() == []
    assert browser.run(WIDTH) <= 390


def test_this_browser_hears_complaints(browser, tmp_path):
    """The other tests would be worth nothing if it did not."""
    bad = tmp_path / "bad.html"
    bad.write_text("<script>console.error('ouch'); nothing.here</script>")
    browser.open(bad)
    first, second = browser.complaints()
    assert "ouch" in first and "nothing is not defined" in second
