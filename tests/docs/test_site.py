"""The documentation site: it is complete, it needs no other host, and its links lead somewhere."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import fadiff
from docs.pages import ROOT, text_of
from docs.site import SitePage, build, nav_pages

ELSEWHERE = re.compile(r"(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, SitePage]:
    return {page.path: page for page in build(tmp_path_factory.mktemp("documentation") / "site")}


@pytest.fixture(scope="module")
def folder(site: dict[Path, SitePage]) -> Path:
    return min(site, key=lambda path: len(path.parts)).parent


def test_every_page_of_the_navigation_is_there(folder: Path, site: dict[Path, SitePage]):
    pages = nav_pages()
    assert len(pages) > 10
    for page in pages:
        assert (folder / page).with_suffix(".html") in site, page


def test_every_page_of_the_documentation_is_in_the_navigation():
    assert {page.name for page in (ROOT / "docs").glob("*.md")} <= set(nav_pages())


def test_no_page_loads_anything_from_another_host(folder: Path, site: dict[Path, SitePage]):
    for page in site.values():
        assert page.loaded
        for target in page.loaded:
            assert not ELSEWHERE.match(target), f"{page.path.name} loads {target}"
        assert not re.search(r"@import|url\(\s*[\"']?(?:https?:)?//", page.text), page.path.name
    for sheet in folder.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", text_of(sheet)), sheet.name


def test_what_pages_load_is_there(folder: Path, site: dict[Path, SitePage]):
    for page in site.values():
        if page.path.name == "404.html":  # is served from any place, so its paths begin at the root of the site
            continue
        for target in page.loaded:
            assert data_or_file(page, target), f"{page.path.name} loads {target}"


def data_or_file(page: SitePage, target: str) -> bool:
    return target.startswith("data:") or (page.path.parent / unquote(urlsplit(target).path)).is_file()


def test_links_and_anchors_lead_somewhere(site: dict[Path, SitePage]):
    followed = 0
    for page in site.values():
        if page.path.name == "404.html":
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
            if target.is_dir():
                target /= "index.html"
            assert target.is_file(), f"{page.path.name} links to {link}"
            anchor = unquote(parts.fragment)
            if anchor and target in site:
                assert anchor in site[target].ids, f"{page.path.name} links to {link}"
            followed += 1
    assert followed > 500


def test_the_site_links_to_no_file_of_this_machine(site: dict[Path, SitePage]):
    for page in site.values():
        assert str(ROOT) not in page.text, page.path.name


def test_every_public_name_is_on_the_page_about_python(folder: Path, site: dict[Path, SitePage]):
    shown = site[folder / "api.html"].ids
    for name in fadiff.__all__:
        assert name == "__version__" or f"fadiff.{name}" in shown, name


def test_docstrings_are_shown_as_they_are_meant(folder: Path, site: dict[Path, SitePage]):
    text = site[folder / "api.html"].text
    assert "<blockquote>" not in text, "an example is a listing"
    assert ":class:" not in text
    assert "H = (P-1)*stride + (R-1)*dilation + 1" in text, "a star between factors is no emphasis"


def test_named_listings_show_their_names(folder: Path, site: dict[Path, SitePage]):
    assert '<span class="filename">chip.yaml</span>' in site[folder / "files.html"].text


def test_pages_outside_the_folder_are_part_of_the_site(folder: Path, site: dict[Path, SitePage]):
    assert "model.html#8-when-a-schedule-is-legal" in site[folder / "CONTRIBUTING.html"].links
    assert any(page.path.parent == folder / "data" for page in site.values())


def test_the_search_works_without_a_server(folder: Path):
    index = text_of(folder / "search" / "search_index.js")
    assert index.startswith("var __index = {")
    for word in ("online_softmax", "fadiff.optimize"):
        assert word in index
