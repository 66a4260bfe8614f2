"""The report in a real browser: drawn, answering to pointer and keyboard, light and dark, wide and narrow, on paper."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import Desk
from report.html.samples import HOSTILE, WORDY, cores, large

SECTIONS = [
    "Summary",
    "Compared",
    "Network",
    "Energy and time",
    "Timeline",
    "Loop nests",
    "Why not fused",
    "What if",
    "Search",
]
SHOWN = ".graph.shown .node"


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.getAttribute('aria-label')")


def test_every_section_is_drawn_and_listed(desk: Desk):
    page = desk.open("full")
    assert page.locator("main h2").all_inner_texts() == SECTIONS
    assert page.locator("#contents a").all_inner_texts() == SECTIONS
    for place in page.locator("main > section").all():
        assert place.bounding_box() is not None
    assert page.locator(".host > svg").count() == 3 + 5  # roofline, traffic, timeline; five series of the search
    assert page.locator(".host .series.faint").count() == 3  # a line for each restart
    assert page.locator(".card").count() == 5


def test_sections_without_data_are_left_out(desk: Desk):
    page = desk.open("small")
    titles = page.locator("#contents a").all_inner_texts()
    assert titles == ["Summary", "Network", "Energy and time", "Timeline", "Loop nests"]
    assert page.locator(".rival").count() == 0
    assert "--trace FILE" in page.locator("#colophon").inner_text()
    page = desk.open("full")
    assert page.locator("#colophon > *").count() == 1
    assert not re.search(r"\b(false|null|undefined|NaN)\b|\[object", page.locator("body").inner_text())


def test_the_graph_shows_every_layer_and_tensor_once(desk: Desk):
    page, schedule = desk.open("full"), large()
    assert page.locator(SHOWN).count() == len(schedule.workload.layers)
    assert page.locator(".graph.shown .edge.chip").count() == len(schedule.fused_edges)
    assert page.locator(".graph.shown .edge").count() == len(schedule.workload.edges)
    boxes = [node.bounding_box() for node in page.locator(SHOWN).all()]
    assert all(box is not None and box["width"] > 20 and box["height"] > 20 for box in boxes)


def test_a_click_opens_the_details_of_a_layer(desk: Desk):
    page = desk.open("full")
    panel = page.get_by_role("dialog")
    expect(panel).to_be_hidden()
    page.locator(SHOWN, has_text="l2.0.conv2").click()
    expect(panel).to_be_visible()
    expect(panel.get_by_role("heading", name="l2.0.conv2")).to_be_visible()
    text = panel.inner_text()
    for part in ("Mapping", "Tiles", "Traffic", "Loop nest", "Bound by", "Memories while it runs", "O += W * I"):
        assert part in text
    assert "While computing" in text
    assert "sum, " not in text
    panel.get_by_role("button", name="Next layer").click()
    expect(panel.get_by_role("heading", level=2)).not_to_have_text("l2.0.conv2")
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_be_hidden()


def test_the_graph_is_one_stop_and_arrows_walk_through_it(desk: Desk):
    page = desk.open("full")
    names = [layer.name for layer in large().workload.layers]
    assert page.locator(f"{SHOWN}[tabindex='0']").count() == 1
    page.locator(f"{SHOWN}[tabindex='0']").focus()
    assert focused(page).startswith("conv1:")
    order = [name for group in large().groups for name in group.layers]
    page.keyboard.press("ArrowRight")
    assert focused(page).startswith(f"{order[1]}:")
    page.keyboard.press("End")
    assert focused(page).startswith(f"{order[-1]}:")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    assert focused(page).split(":")[0] in set(names) - {"conv1"}
    page.keyboard.press("Enter")
    panel = page.get_by_role("dialog")
    expect(panel).to_be_visible()
    assert page.evaluate("document.getElementById('details').contains(document.activeElement)")
    chosen = panel.get_by_role("heading", level=2).inner_text()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    assert focused(page).startswith(f"{chosen}:")
    assert page.locator(f"{SHOWN}[tabindex='0']").count() == 1


def test_what_has_the_focus_is_marked(desk: Desk):
    page = desk.open("full")
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    page.locator(f"{SHOWN}[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    box = page.locator(f"{SHOWN}:focus .box")
    assert float(box.evaluate("e => getComputedStyle(e).strokeWidth").removesuffix("px")) > 3


def test_every_chart_has_words_and_a_table(desk: Desk):
    page = desk.open("full")
    for drawing in page.locator(".host > svg").all():
        assert drawing.get_attribute("role") == "img"
        assert len(drawing.get_attribute("aria-label") or "") > 20
    for box in page.locator("details.data").all():
        box.locator("summary").click()
        expect(box.locator("tbody tr").first).to_be_visible()
    assert page.locator("button:not([aria-label])").filter(has_not_text=re.compile(r"\S")).count() == 0


def test_bars_change_what_they_show(desk: Desk):
    page = desk.open("full")
    costs = page.locator("#costs")
    seen = set()
    for name in ("Energy", "by memory", "by tensor", "Cycles", "DRAM"):
        costs.get_by_role("group", name="What the bars show").get_by_role("button", name=name, exact=True).click()
        seen.add(costs.locator("table.bars thead").inner_text())
        assert costs.locator("table.bars tbody tr").count() == 29
    assert len(seen) == 5
    costs.get_by_role("button", name="In order").click()
    assert costs.locator("table.bars tbody th").first.inner_text() == "conv1"


def test_a_loop_nest_opens_with_its_counts(desk: Desk):
    page = desk.open("full")
    nest = page.locator("details.nest").first
    assert nest.locator("table").count() == 0
    nest.locator("summary").click()
    expect(nest.locator("table.code")).to_be_visible()
    whole = nest.locator("tbody tr").count()
    nest.get_by_label("Show").select_option("conv1")
    assert 5 < nest.locator("tbody tr").count() < whole
    assert "parallel_for" in nest.inner_text()


def test_hundreds_of_equal_layers_are_told_once_and_listed_on_demand(desk: Desk):
    page = desk.open("blocks")
    assert page.locator(SHOWN).count() == 30
    page.locator(SHOWN, has_text="the same 263").click()
    panel = page.get_by_role("dialog")
    expect(panel.get_by_role("heading", name="789 layers")).to_be_visible()
    assert "And 489 more" in panel.inner_text()
    panel.locator("tbody button.link").nth(3).click()
    expect(panel.get_by_role("heading", level=2)).not_to_have_text("789 layers")
    assert "which differs in names alone" in panel.inner_text()
    assert page.locator(".graph.shown .node.many.open").count() == 1
    nests = page.locator("details.nest summary").all_inner_texts()
    assert len(nests) < 30
    assert any("more like it" in nest for nest in nests)


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_page_follows_the_system_and_the_button(desk: Desk, colours: str):
    page = desk.open("small", colours=colours)

    def lightness() -> float:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 765

    assert (lightness() > 0.5) == (colours == "light")
    page.locator("#theme").click()
    assert (lightness() > 0.5) == (colours == "dark")


CONTRAST = """([theme, inks, grounds]) => {
  document.documentElement.dataset.theme = theme;
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const probe = document.body.appendChild(document.createElement('i'));
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const luminance = (name) => {
    probe.style.color = `var(--${name})`;
    canvas.fillStyle = getComputedStyle(probe).color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return inks.flatMap((ink) => grounds.map((ground) => {
    const [a, b] = [luminance(ink), luminance(ground)];
    return [`${ink} on ${ground}`, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
  }));
}"""
DIFFERENCES = """([theme, hues]) => {
  document.documentElement.dataset.theme = theme;
  const probe = document.body.appendChild(document.createElement('i'));
  const oklab = (name) => {
    probe.style.color = `color-mix(in oklab, var(--${name}), var(--${name}))`;
    return getComputedStyle(probe).color.match(/-?[\\d.]+(e-?\\d+)?/g).slice(-3).map(Number);
  };
  return hues.flatMap((a, i) => hues.slice(i + 1).map((b) => {
    const [x, y] = [oklab(a), oklab(b)];
    return [`${a} and ${b}`, Math.hypot(...x.map((v, k) => v - y[k]))];
  }));
}"""
"""Distances of colours as eyes see them: in the space oklab."""
INKS = ["ink", "soft", "faint", "accent", "better", "worse"]
HUES = [f"m{i}" for i in range(8)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_ground(desk: Desk, theme: str):
    page = desk.open("small")
    for pair, ratio in page.evaluate(CONTRAST, [theme, INKS, ["paper", "surface"]]):
        assert ratio >= 4.5, f"{pair}: {ratio:.2f}"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_memories_stand_out_from_their_ground_and_from_each_other(desk: Desk, theme: str):
    page = desk.open("small")
    for pair, ratio in page.evaluate(CONTRAST, [theme, HUES, ["surface"]]):
        assert ratio >= 1.9, f"{pair}: {ratio:.2f}"
    differences = page.evaluate(DIFFERENCES, [theme, HUES])
    assert len(differences) == 28
    for pair, difference in differences:
        assert difference >= 0.08, f"{pair}: {difference:.3f}"


@pytest.mark.parametrize("name", ["full", "mobilenet_v2", "long", "hostile", "wordy", "cores", "eyeriss"])
@pytest.mark.parametrize("width", [1400, 420])
def test_nothing_is_wider_than_the_window(desk: Desk, name: str, width: int):
    page = desk.open(name, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".graph.shown").count() == 1
    kind = page.locator(".graph.shown").get_attribute("class") or ""
    assert ("narrow" in kind) == (width == 420)


def test_a_long_network_fits_on_the_screen_with_its_names(desk: Desk):
    page = desk.open("long")
    view, picture = page.locator("#graph-view"), page.locator(".graph.shown")
    assert "whole" in (picture.get_attribute("class") or "")
    room, size = view.bounding_box(), picture.bounding_box()
    assert room is not None
    assert size is not None
    assert size["width"] <= room["width"]
    assert size["height"] <= room["height"] + 1
    assert picture.locator(".name").first.is_visible()
    page.get_by_role("button", name="Fit the width").click()
    assert "wide" in (page.locator(".graph.shown").get_attribute("class") or "")
    before = page.locator(".graph.shown").bounding_box()
    page.get_by_role("button", name="Zoom in").click()
    after = page.locator(".graph.shown").bounding_box()
    assert before is not None
    assert after is not None
    assert after["width"] > before["width"]


@pytest.mark.parametrize("name", ["mobilenet_v2", "wordy"])
@pytest.mark.parametrize("smaller", [0, 3])
def test_text_of_the_graph_stays_in_its_boxes(desk: Desk, name: str, smaller: int):
    page = desk.open(name)
    for _ in range(smaller):
        page.get_by_role("button", name="Zoom out").click()
    outside = page.evaluate(
        """() => [...document.querySelectorAll('.graph.shown .node')].flatMap((node) => {
          const { right } = node.querySelector('.box').getBoundingClientRect();
          const texts = [...node.querySelectorAll('text')];
          return texts.filter((t) => t.getBoundingClientRect().right > right + 1).map((t) => t.textContent);
        })"""
    )
    assert outside == []


def test_long_names_keep_the_ends_that_tell_them_apart(desk: Desk):
    page = desk.open("wordy")
    for i, place in enumerate(page.locator(f"{SHOWN} .name").all()):
        assert (place.text_content() or "").endswith(f"_{i}")
    page.locator("#costs").get_by_role("button", name="In order").click()
    for i, link in enumerate(page.locator("table.bars tbody th button").all()):
        assert re.fullmatch(rf"Stateful.*….*_{i}", link.inner_text())
        assert link.get_attribute("title") == link.get_attribute("aria-label") == WORDY.format(i)
        assert link.evaluate("e => e.scrollWidth <= e.clientWidth")


CROWDED = """() => [...document.querySelectorAll('.host > svg')].flatMap((picture) => {
  const frame = picture.getBoundingClientRect();
  const boxes = [...picture.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()]);
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  const cut = boxes.filter(([, b]) => b.left < frame.left - 2 || b.right > frame.right + 2).map(([t]) => t);
  const over = boxes.flatMap(([t, a], i) => boxes.slice(i + 1).filter(([, b]) => meet(a, b)).map(([u]) => `${t} ${u}`));
  return [...cut, ...over];
})"""


@pytest.mark.parametrize("name", ["wordy", "cores", "eyeriss", "full"])
@pytest.mark.parametrize("width", [320, 420, 900])
def test_words_in_charts_have_their_room(desk: Desk, name: str, width: int):
    page = desk.open(name, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CROWDED) == []


def test_reasons_and_heads_of_rows_are_read_without_scrolling_on_a_small_phone(desk: Desk):
    page = desk.open("wordy", width=320)
    assert page.locator("#why-not .scroll").evaluate("e => e.scrollWidth <= e.clientWidth")
    for head in page.locator("#compare table.totals tbody th").all():
        box = head.bounding_box()
        assert box is not None
        assert box["width"] >= 80
    for card in page.locator(".card").all():
        assert card.evaluate("e => e.scrollWidth <= e.clientWidth")


def test_a_search_that_found_nothing_better_says_so(desk: Desk, tmp_path: Path):
    text = desk.reports["full"].read_text(encoding="utf-8")
    flat = tmp_path / "flat.html"
    flat.write_text(re.sub(r'"improvement":[\d.]+', '"improvement":1.0', text), encoding="utf-8")
    desk.reports = {**desk.reports, "flat": flat}
    said = desk.open("flat").locator("#search").inner_text()
    assert "no EDP was found that is clearly below that at the start" in said
    assert "times lower" not in said
    assert "2.67 times lower EDP" in desk.open("full").locator("#search").inner_text()


def test_names_that_are_markup_are_shown_as_they_are(desk: Desk):
    page = desk.open("hostile")
    assert HOSTILE in page.locator("h1").inner_text()
    page.locator(SHOWN).first.click()
    assert page.locator("#details-title").inner_text() == HOSTILE
    assert page.locator("script").count() == 2


def test_it_prints_with_everything_open(desk: Desk):
    page = desk.open("full", colours="dark")
    paper = page.pdf(prefer_css_page_size=True)
    assert paper.startswith(b"%PDF")
    assert paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") + paper.count(b"/Type/Page/") >= 3
    assert page.locator("details.nest:not([open])").count() == 0
    page.emulate_media(media="print")
    assert page.locator(".contents").is_hidden()
    assert page.locator(".controls").first.is_hidden()
    assert page.locator(".graph.wide").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_page_of_mobilenet_v2_is_light_to_open(desk: Desk):
    page = desk.open("mobilenet_v2")
    assert desk.reports["mobilenet_v2"].stat().st_size < 1_500_000
    assert page.evaluate("document.querySelectorAll('*').length") < 6000
    opened = page.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
    print(f"opened in {opened:.0f} ms")


def test_a_tooltip_says_what_the_pointer_is_on(desk: Desk):
    page = desk.open("full")
    node = page.locator(SHOWN, has_text="l1.0.conv1")
    node.scroll_into_view_if_needed()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    node.hover()
    tip = page.get_by_role("tooltip")
    expect(tip).to_be_visible()
    assert "l1.0.conv1" in tip.inner_text()
    assert "cycles" in tip.inner_text()


def test_every_memory_is_shown_in_its_own_name(desk: Desk):
    page = desk.open("cores")
    names = [memory.name for memory in cores().machine.memories]
    machine = page.locator("table.machine tbody th").all_inner_texts()
    assert machine == ["DRAM", "l2", "cores", "l1", "cols", "acc", "rows", "reg", "MACs"]
    energy = page.locator("#costs .total").first.inner_text()
    assert re.findall(r"MACs|DRAM|l2|l1|acc|reg", energy) == ["MACs", *reversed(names)]
    traffic = page.locator("figure", has=page.get_by_role("heading", name="Traffic between memories"))
    assert traffic.locator("svg .mark").all_text_contents() == ["DRAM", "l2", "l1", "acc", "MACs"]
    assert "What each MAC has for itself (reg) belongs to it here." in traffic.inner_text()


def test_the_timeline_shows_the_memory_that_is_asked_for(desk: Desk):
    page = desk.open("cores")
    timeline = page.locator("#timeline")
    seen = set()
    for name in ("l2", "l1", "acc", "reg"):
        timeline.locator("select").select_option(name)
        picture = timeline.locator(".host > svg")
        expect(picture).to_have_attribute("aria-label", re.compile(f"; {name} holds "))
        seen.add(picture.text_content())
    assert len(seen) == 4


def test_the_roofline_stands_against_the_memory_that_is_asked_for(desk: Desk):
    page = desk.open("cores")
    roofline = page.locator("figure", has=page.get_by_role("heading", name="Roofline"))
    options = roofline.locator("select option").all_inner_texts()
    assert options == ["DRAM", "l2", "l1", "acc"]  # registers have no limit
    roofline.locator("select").select_option(label="l1")
    expect(roofline.locator(".host > svg")).to_have_attribute("aria-label", re.compile("against l1, "))
    assert "MACs per byte of l1" in (roofline.locator(".host > svg").text_content() or "")


def test_ribbons_are_as_wide_as_their_share_of_the_energy(desk: Desk):
    page = desk.open("cores")
    traffic = page.locator("figure", has=page.get_by_role("heading", name="Traffic between memories"))
    wide = traffic.locator("path.flow").evaluate_all("paths => paths.map((path) => path.getBBox().width)")
    assert max(wide) > 10 * min(wide)
    traffic.get_by_role("button", name="Bytes").click()
    assert traffic.locator("path.flow").evaluate_all("paths => paths.map((path) => path.getBBox().width)") != wide


def test_ends_that_are_cut_are_told_in_the_nest(desk: Desk):
    page = desk.open("cores")
    nest = page.locator("details.nest").first
    nest.locator("summary").click()
    expect(nest).to_contain_text("last cut to", use_inner_text=True)


def test_a_vector_unit_and_a_clock_are_shown_beside_the_rest(desk: Desk):
    page = desk.open("charged")
    for what in ("Energy", "Time, by what binds"):
        assert "vector" in page.locator("#costs .total", has_text=what).first.inner_text()
    assert " TOPS/W" in page.locator("#summary").inner_text()
    page.locator("#summary details.data summary").click()
    heads = page.locator("#summary details.data th").all_inner_texts()
    assert {"ms", "Inferences/s", "W", "TOPS/W"} <= set(heads)
