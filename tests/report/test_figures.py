"""Figures: the same bytes every time, labelled axes, and no name on top of another."""

import doctest
import io
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from examples import FIRST, second
from fadiff.analysis.search_trace import Phase, SearchTrace
from fadiff.cost.evaluate import evaluate
from fadiff.errors import FadiffError
from fadiff.hardware import Vector
from fadiff.report.figures import FIGURES, FORMATS, SCHEDULE_FIGURES, figure_bytes, style
from fadiff.report.figures.convergence import convergence_figure
from fadiff.report.figures.style import STYLE, memory_colour, styled
from fadiff.schedule import Group, Schedule
from fadiff.schedule.file import read_schedule
from fadiff.workload import Workload
from report.plans import deep, plain
from schedule.toys import add, conv, mac, on, schedule

MAGIC = {"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF-"}
TRACE = SearchTrace(
    made_by={"seed": 0},
    seconds=(0.1, 1.0, 2.0, 9.0, 10.0),
    phase=("greedy", "map", "map", "descend", "decode"),
    best_edp_uj_cycles=(9e9, 6e9, 5e9, 5e9, 4e9),
    fused_edges=(0, 1, 2, 2, 3),
    temperature=(None, None, None, 0.5, None),
    legal_share=(None, None, None, 0.75, None),
    restart_edp_uj_cycles=(None, None, None, (7e9, 8e9), None),
    phases=(Phase("greedy", 0, 0.1), Phase("map", 0.1, 2), Phase("descend", 2, 9), Phase("decode", 9, 10)),
    improvement=2.25,
)


def long_network(blocks: int) -> Schedule:
    """Residual blocks with long names, every second block fused: four layers a block, and one."""
    layers = [conv("stem/convolution", K=8, C=4, P=8, Q=8)]
    groups = [Group(("stem/convolution",))]
    last = "stem/convolution"
    for i in range(blocks):
        names = [f"stage/block{i}/{part}" for part in ("reduce", "spatial", "expand", "add")]
        layers.append(conv(names[0], last, K=4, C=8, P=8, Q=8))
        layers.append(conv(names[1], names[0], K=4, C=4, P=8, Q=8, R=3, S=3))
        layers.append(conv(names[2], names[1], K=8, C=4, P=8, Q=8))
        layers.append(add(names[3], names[2], last, K=8, P=8, Q=8))
        groups += [Group(tuple(names))] if i % 2 else [Group((name,)) for name in names]
        last = names[3]
    return schedule(*layers, groups=tuple(groups))


PLANS = {
    "one layer": schedule(mac("only", N=8, K=4, C=4)),
    "vector unit": on(schedule(conv("only", epilogue=("gelu",))), vector=Vector(lanes=1, pj=100.0)),
    "28 layers": read_schedule(FIRST / "mobilenet_v1.gemmini-large.fused.json")[0],
    "201 layers": long_network(50),
    "six memories": second("simba_mbconv"),
    "twelve memories": plain(
        Workload("chain", tuple(conv(f"c{i}", f"c{i - 1}" if i else None) for i in range(9))), deep(12)
    ),
}
each_size = pytest.mark.parametrize("size", PLANS)
each_figure = pytest.mark.parametrize("name", SCHEDULE_FIGURES)


@pytest.fixture(scope="module")
def evaluation():
    return evaluate(long_network(2))


@pytest.mark.parametrize(
    ("name", "form"), [*((name, "svg") for name in FIGURES), *(("latency", form) for form in FORMATS if form != "svg")]
)
def test_a_figure_is_written_as_the_same_bytes_twice(name, form, evaluation):
    once = figure_bytes(name, form, evaluation, TRACE)
    assert once.startswith(MAGIC[form])
    assert once == figure_bytes(name, form, evaluation, TRACE)
    assert b"Matplotlib" not in once or form == "svg"


def test_the_users_own_settings_change_nothing(evaluation):
    import matplotlib as mpl

    plain = figure_bytes("latency", "svg", evaluation)
    with mpl.rc_context({"font.size": 20, "axes.grid": True, "svg.hashsalt": "mine"}):
        assert figure_bytes("latency", "svg", evaluation) == plain


@cache
def drawn(name, size):
    """A figure of one of the plans, laid out."""
    with styled():
        figure = SCHEDULE_FIGURES[name](evaluate(PLANS[size]))
        figure.draw_without_rendering()
        return figure


def boxes(texts):
    return [text.get_window_extent() for text in texts if text.get_text() and text.get_visible()]


def apart(found):
    return all(not a.overlaps(b) for i, a in enumerate(found) for b in found[i + 1 :])


@each_size
@pytest.mark.parametrize("name", ["energy", "latency"])
def test_names_of_layers_do_not_overlap(name, size):
    with styled():
        (axes,) = drawn(name, size).axes
        labels = boxes(axes.get_xticklabels())
        assert labels
        assert all(a.x1 <= b.x0 for a, b in pairwise(labels))
        assert apart([*labels[:2], axes.xaxis.label.get_window_extent()])


@each_size
def test_names_in_the_roofline_do_not_overlap(size):
    with styled():
        (axes,) = drawn("roofline", size).axes
        assert apart(boxes(axes.texts))


@each_size
def test_names_of_groups_fit_into_their_bars(size):
    with styled():
        strips, _ = drawn("timeline", size).axes
        assert apart(boxes(strips.texts))


@each_size
def test_the_legend_stands_within_the_figure(size):
    with styled():
        for name in SCHEDULE_FIGURES:
            figure = drawn(name, size)
            for axes in figure.axes:
                if (legend := axes.get_legend()) is not None:
                    box = legend.get_window_extent()
                    assert box.x0 >= 0
                    assert box.x1 <= figure.bbox.x1


@each_size
@each_figure
def test_every_axis_has_a_unit(name, size):
    for axes in drawn(name, size).axes:
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            label, ticks = axis.get_label_text(), [text.get_text() for text in axis.get_ticklabels()]
            shared = axis is axes.xaxis and not axis.get_tick_params()["labelbottom"]
            of_names = label.startswith("layer") or ticks == ["layers", "groups"]
            assert "[" in label or of_names or shared


def test_words_of_the_graph_fit_into_their_boxes():
    with styled():
        figure = drawn("graph", "201 layers")
        (axes,) = figure.axes
        patches = [patch.get_window_extent() for patch in axes.patches]
        for text in axes.texts:
            box = text.get_window_extent()
            assert any(p.x0 <= box.x0 and box.x1 <= p.x1 and p.y0 <= box.y0 and box.y1 <= p.y1 for p in patches)
        assert apart(boxes(axes.texts))


def test_bars_are_as_high_as_the_model_says(evaluation):
    with styled():
        (axes,) = SCHEDULE_FIGURES["energy"](evaluation).axes
        tops = [max(bar.get_y() + bar.get_height() for bar in bars) for bars in zip(*axes.containers, strict=True)]
    energy = [float(pj) * 1e-6 for pj in evaluation.layer_energy_pj * evaluation.repeat]
    assert tops == pytest.approx(energy)


def test_every_memory_has_a_colour_of_its_own():
    colours = [memory_colour(i) for i in range(16)]
    assert len(set(colours)) == 16
    with styled():
        (axes,) = drawn("energy", "twelve memories").axes
        bars = {bars.patches[0].get_facecolor() for bars in axes.containers}
        assert len(bars) == 1 + 12
        told = [text.get_text() for text in axes.get_legend().get_texts()]
    assert told == ["MACs", *(f"memory {i}" for i in range(11, 0, -1)), "far away"]


def test_the_timeline_is_of_the_memory_that_fuses():
    assert drawn("timeline", "six memories").axes[1].get_ylabel() == "gb in use [KB]"
    assert drawn("timeline", "28 layers").axes[1].get_ylabel() == "scratchpad in use [KB]"


def test_a_network_of_sums_has_a_roofline_without_points():
    plan = schedule(add("s", None, None, K=4, P=2))
    for name in SCHEDULE_FIGURES:
        assert figure_bytes(name, "png", evaluate(plan))


def test_a_first_memory_without_a_rate_has_a_flat_roof():
    plan = on(schedule(conv("a")), {"DRAM": {"words_per_cycle": None}})
    with styled():
        (axes,) = SCHEDULE_FIGURES["roofline"](evaluate(plan)).axes
        assert set(axes.lines[0].get_ydata()) == {64}


def test_a_search_without_descent_has_one_panel():
    quick = SearchTrace(
        {}, (0.0,), ("greedy",), (9e9,), (0,), (None,), (None,), (None,), (Phase("greedy", 0, 0),), 1.0
    )  # fmt: skip
    with styled():
        assert len(convergence_figure(quick).axes) == 1
        assert len(convergence_figure(TRACE).axes) == 2
    assert figure_bytes("convergence", "svg", evaluate(PLANS["one layer"]), quick)


@pytest.mark.parametrize(
    ("name", "form", "told"),
    [("energie", "png", "unknown: use one of energy"), ("energy", "jpg", "cannot be written as 'jpg'"),
     ("convergence", "png", "needs a trace")],
)  # fmt: skip
def test_what_cannot_be_drawn_is_told(name, form, told, evaluation):
    with pytest.raises(FadiffError, match=told):
        figure_bytes(name, form, evaluation)


def test_without_matplotlib_it_says_what_to_install(monkeypatch, evaluation):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(FadiffError, match=r"figures need matplotlib: run python -m pip install 'matplotlib>="):
        figure_bytes("energy", "png", evaluation)


def test_the_font_comes_with_matplotlib():
    from matplotlib import font_manager, get_data_path

    assert Path(font_manager.findfont(STYLE["font.family"])).is_relative_to(get_data_path())


def test_pngs_are_large_enough_for_print(evaluation):
    from PIL import Image

    assert Image.open(io.BytesIO(figure_bytes("timeline", "png", evaluation))).width >= 1400


def test_examples_in_docstrings_run():
    failed, tried = doctest.testmod(style)
    assert tried > 0
    assert failed == 0
