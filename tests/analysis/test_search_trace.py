"""Reading a trace: series, phases, and what is wrong with a file that is none."""

import json

import pytest

from fadiff.analysis.search_trace import Phase, read_trace
from fadiff.files import FileError


def point(seconds, phase, edp, **rest):
    return {"seconds": seconds, "phase": phase, "step": 0, "best_edp_uj_cycles": edp, "fused_edges": 1,
            "temperature": None, "legal_share": None, **rest}  # fmt: skip


POINTS = [
    point(0.5, "greedy", 8.0),
    point(1.0, "map", 6.0),
    point(2.0, "map", 5.0),
    point(4.0, "descend", 5.0, temperature=1.5, legal_share=0.25, restart_edp_uj_cycles=[6.0, 7.5]),
    point(5.0, "decode", 4.0, note="what another version may add"),
]


def written(folder, points=POINTS, **changes):
    path = folder / "trace.json"
    path.write_text(json.dumps({"format": "fadiff-trace/1", "made_by": {"seed": 1}, "points": points} | changes))
    return path


def test_a_trace_becomes_series_and_phases(tmp_path):
    trace = read_trace(written(tmp_path))
    assert trace.made_by == {"seed": 1}
    assert trace.seconds == (0.5, 1.0, 2.0, 4.0, 5.0)
    assert trace.temperature == (None, None, None, 1.5, None)
    assert trace.legal_share[3] == 0.25
    assert trace.restart_edp_uj_cycles[2:] == (None, (6.0, 7.5), *[None] * (len(POINTS) - 4))
    assert trace.improvement == 2.0
    assert trace.phases == (
        Phase("greedy", 0.0, 0.5), Phase("map", 0.5, 2.0), Phase("descend", 2.0, 4.0), Phase("decode", 4.0, 5.0)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"format": "fadiff-trace/2"}, "format"),
        ({"points": []}, "the trace is empty"),
        ({"points": [point(2.0, "map", 1.0), point(1.0, "map", 1.0)]}, "seconds run backwards"),
        ({"points": [{"seconds": 1.0}]}, r"points\.0\.phase: this key is missing"),
        ({"points": [point(1.0, "map", "low")]}, r"points\.0\.best_edp_uj_cycles"),
        ({"extra": 1}, "extra: this key is unknown"),
    ],
)
def test_what_is_no_trace_is_refused_with_its_place(tmp_path, changes, told):
    with pytest.raises(FileError, match=told):
        read_trace(written(tmp_path, **changes))
