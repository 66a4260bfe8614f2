"""A real browser, and reports for it to open."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from examples import second
from fadiff.hardware import load_machine
from fadiff.workload import load_model
from report.html import samples
from report.plans import plain

ARGUMENTS = (
    "--no-sandbox",
    "--headless=new",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip(
            "there is no chromium: install it (Debian: apt-get install chromium) to test the report in a browser"
        )
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files by name: a block, a network with every section, one of 63 layers, one of 206, one of hundreds, two with odd
    names.

    And blocks on machines of four and of five memories, about which nothing else is known, and one on a machine with a
    clock and a vector unit.
    """
    folder = tmp_path_factory.mktemp("reports")
    machine = load_machine("gemmini-large")
    full = samples.large()
    pages = {
        "small": samples.bare(samples.small()),
        "full": samples.page(full, searched=True, other=plain(full.workload, machine)),
        "mobilenet_v2": samples.page(plain(load_model("mobilenet_v2"), machine)),
        "long": samples.page(samples.long()),
        "blocks": samples.bare(samples.blocks()),
        "hostile": samples.page(samples.hostile()),
        "wordy": samples.page(samples.wordy(), searched=True, other=samples.wordy()),
        "cores": samples.bare(samples.cores()),
        "eyeriss": samples.bare(second("eyeriss_residual_fused")),
        "charged": samples.page(samples.charged()),
    }
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in pages}


@dataclass
class Desk:
    """Opens reports, and keeps what the browser complains about."""

    browser: Browser
    reports: dict[str, Path]
    complaints: list[str] = field(default_factory=list)

    def open(self, name: str, *, width: int = 1400, height: int = 900, colours: str = "light") -> Page:
        """A report in a window of its own."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=colours,  # pyright: ignore[reportArgumentType]
            reduced_motion="reduce",
            offline=True,
        )
        page = context.new_page()
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._ask)
        page.goto(self.reports[name].as_uri())
        return page

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _ask(self, request) -> None:
        if not request.url.startswith(("file:", "data:")):
            self.complaints.append(f"asked for {request.url}")


@pytest.fixture
def desk(browser: Browser, reports: dict[str, Path]) -> Iterator[Desk]:
    made = Desk(browser, reports)
    yield made
    for context in browser.contexts:
        context.close()
    assert made.complaints == []
