"""The documentation site, opened as a file in a browser: it complains about nothing, and its search answers."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Request

from docs.site import build


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documentation") / "site"
    build(folder)
    return folder / "index.html"


@pytest.mark.parametrize("tone", ["light", "dark"])
def test_the_site_searches_without_a_server(browser: Browser, home: Path, tone: str):
    page = browser.new_page(color_scheme=tone, viewport={"width": 1300, "height": 900})
    complaints: list[str] = []
    asked: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        complaints.append(message.text)

    def on_request(request: Request) -> None:
        asked.append(request.url)

    page.on("console", on_console)
    page.on("request", on_request)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(home.as_uri())
    page.click("input[name=query]")
    page.keyboard.type("online softmax")
    page.wait_for_selector(".md-search-result__item")
    assert page.locator(".md-search-result__item a", has_text="Hardware files").count() >= 1
    assert page.locator(f"img[src*='schedule-{tone}.svg']").is_visible()
    assert complaints == []
    assert all(url.startswith("file:") for url in asked)
    page.close()
