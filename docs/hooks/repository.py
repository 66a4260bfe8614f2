"""Makes pages that are written for a repository browser ready for the site.

- A link from a page to a file outside `docs` brings that file into the site, under its path in the repository; pages
  are followed further. So `../CONTRIBUTING.md` on a page of `docs` is a link on both sides.
- A picture that has a dark version follows the site's own switch between light and dark.
- A listing that names its file, as in ```yaml chip.yaml, shows the name as its title.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from re import Match

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

LISTING = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NAMED_LISTING = re.compile(r"\A```(\w+) (\S+)$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")
PICTURE = re.compile(r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img src="([^"]+)" alt="([^"]+)">\s*</picture>')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to outside `docs`."""
    root = Path(config.docs_dir).parent
    waiting = [_in_repository(file, root) for file in files.documentation_pages()]
    for page in waiting:
        for target in _links(page, (root / page).read_text(encoding="utf-8")):
            if target.startswith("docs/") or target in files.src_uris or not (root / target).is_file():
                continue
            files.append(File.generated(config, target, abs_src_path=str(root / target)))
            if target.endswith(".md"):
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page as the site wants it; listings but for their names are left as they are."""
    source = _in_repository(page.file, Path(config.docs_dir).parent)
    at, parts = 0, list[str]()
    for listing in LISTING.finditer(markdown):
        parts += [_prose(markdown[at : listing.start()], source), _listing(listing[0])]
        at = listing.end()
    return "".join([*parts, _prose(markdown[at:], source)])


def _prose(text: str, page: str) -> str:
    def on_site(match: Match[str]) -> str:
        return posixpath.relpath(_on_site(_target(page, match[1])), posixpath.dirname(_on_site(page)) or ".")

    return LINK.sub(on_site, PICTURE.sub(r"![\3](\2#only-light)![\3](\1#only-dark)", text))


def _listing(text: str) -> str:
    return NAMED_LISTING.sub(r'```\1 title="\2"', text)


def _links(page: str, markdown: str) -> Iterator[str]:
    """What a page links to, as paths from the root of the repository."""
    for match in LINK.finditer(LISTING.sub("", markdown)):
        yield _target(page, match[1])


def _target(page: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def _on_site(path: str) -> str:
    return path.removeprefix("docs/")


def _in_repository(file: File, root: Path) -> str:
    return Path(file.abs_src_path or "").relative_to(root).as_posix()
