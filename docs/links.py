"""Follow every link of the built site that stays within it: pages, places in them, pictures.

``python docs/links.py docs/_build/html``
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The places in a page, and where it leads."""

    def __init__(self, path: Path) -> None:
        """Read a page."""
        super().__init__()
        self.places: set[str] = set()
        self.leads_to: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a place or a link."""
        given = dict(attrs)
        self.places |= {value for key in ("id", "name") if (value := given.get(key))}
        self.leads_to += [value for key in ("href", "src") if (value := given.get(key))]


def pages_of(site: Path) -> list[Path]:
    """The pages, without those that come with the theme and listings of the source."""
    own = (path for path in site.rglob("*.html") if not {"_static", "_modules"} & {*path.parts})
    return sorted(own)


def broken(site: Path) -> list[str]:
    """Links that lead nowhere."""
    pages = {path.resolve(): Page(path) for path in pages_of(site)}
    found = []
    for path, page in pages.items():
        for link in page.leads_to:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target, place = unquote(parts.path), unquote(parts.fragment)
            there = (path.parent / target).resolve() if target else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists():
                found.append(f"{path.relative_to(site.resolve())}: no file {link}")
            elif place and there in pages and place not in pages[there].places:
                found.append(f"{path.relative_to(site.resolve())}: no place {link}")
    return found


if __name__ == "__main__":
    wrong = broken(Path(sys.argv[1]))
    print("\n".join(wrong), file=sys.stderr)
    n_pages = len(pages_of(Path(sys.argv[1])))
    print(f"{n_pages} pages, {len(wrong)} broken links")
    sys.exit(bool(wrong) or n_pages == 0)
