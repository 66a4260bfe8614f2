"""Numbers as the page writes them."""

from pathlib import Path

from browser.conftest import Desk
from fadiff.analysis.units import size_text
from fadiff.report import html

SOURCE = (Path(html.__file__).parent / "assets" / "format.js").read_text(encoding="utf-8")
WRITTEN = {
    "significant(1234567.8)": "1,234,568",
    "significant(3.14159)": "3.14",
    "significant(0.0012345)": "0.00123",
    "significant(0.9996)": "1.00",
    "significant(-2.5)": "−2.50",
    "significant(0)": "0",
    "energy(960e6)": "960 µJ",
    "energy(2.616e9)": "2.62 mJ",
    "energy(999.9)": "1.00 nJ",
    "bytes(524288)": "512 KB",
    "bytes(96)": "96 B",
    "bytes(1258291)": "1.2 MB",
    "count(1424012)": "1.42 M",
    "count(512)": "512",
    "exact(1424012.4)": "1,424,012",
    "exact(0)": "0",
    "percent(0.388)": "38.8%",
    "edp(1.367e9)": "1.367 × 10⁹",
    "edp(3.186e-10, 3)": "3.19 × 10⁻¹⁰",
    "change(0.021)": "+2.1%",
    "change(-0.0004)": "−0.040%",
    "change(1e-12)": "0%",
    "tick(1000)": "1 K",
    "tick(0.1)": "0.1",
    "plural(1, 'layer')": "1 layer",
    "plural(2, 'layer')": "2 layers",
    "steps(10, 4).join()": "0,5,10",
    "steps(543, 4, 2).join()": "0,256,512",
    "stopped('no')": "no.",
}


def test_the_page_writes_bytes_as_the_command_does(desk: Desk):
    sizes = [
        0,
        1,
        96,
        999,
        1000,
        1023,
        1024,
        1536,
        8704,
        98304,
        602112,
        1023 * 1024,
        1048000,
        1258291,
        25165824,
        2**31,
        3 * 2**41,
    ]
    written = desk.browser.new_page().evaluate(f"(sizes) => {{ {SOURCE}\nreturn sizes.map(bytes); }}", sizes)
    assert written == [size_text(size) for size in sizes]


def test_numbers_are_written_for_people(desk: Desk):
    calls = ", ".join(WRITTEN)
    written = desk.browser.new_page().evaluate(f"(() => {{ {SOURCE}\nreturn [{calls}]; }})()")
    assert dict(zip(WRITTEN, written, strict=True)) == WRITTEN
