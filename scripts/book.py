#!/usr/bin/env python3
"""Preprocessor of the book in docs/, and the check of the built book.

The pages are read in a checkout as well as in the book. Their links to files outside docs/ are relative to the
checkout; in the book they lead to the repository.

    mdbook build docs               calls this script for the links (docs/book.toml)
    scripts/book.py --check         builds the book with $MDBOOK or mdbook, and checks each link of each page

Prints the faults, one per line; exit status 1 if there are any.
"""
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOOK = ROOT / "target/book"
REPOSITORY = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["repository"]
LINK = re.compile(r"(\]\()([^)\s]+)(?=\))")
CODE_FENCE = re.compile(r"^\s*(```|~~~)")
# Folders and files in the address of a repository.
FOLDER, FILE = f"{REPOSITORY}/tree/main/", f"{REPOSITORY}/blob/main/"


def address(page, target):
    """Returns the target of a link of a page of docs/ in the book: the repository for files outside docs/."""
    path, _, fragment = target.partition("#")
    if not path or urllib.parse.urlsplit(target).scheme:
        return target
    path = os.path.normpath(f"docs/{os.path.dirname(page)}/{path}")
    if path.startswith("docs/"):
        return target
    return (FOLDER if (ROOT / path).is_dir() else FILE) + path + (f"#{fragment}" if fragment else "")


def rewritten(page, text):
    """Returns the text of a page with the links of the book."""
    fenced, lines = False, []
    for line in text.split("\n"):
        if CODE_FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            line = LINK.sub(lambda link: link[1] + address(page, link[2]), line)
        lines.append(line)
    return "\n".join(lines)


def preprocess():
    """Rewrites the book that mdBook writes to standard input."""
    _, book = json.load(sys.stdin)
    items = list(book.get("items") or book["sections"])
    while items:
        chapter = items.pop()
        chapter = chapter.get("Chapter") if isinstance(chapter, dict) else None
        if chapter and chapter["path"]:
            chapter["content"] = rewritten(chapter["path"], chapter["content"])
            items += chapter["sub_items"]
    json.dump(book, sys.stdout)


class Page(html.parser.HTMLParser):
    """Targets of the links, and the anchors, of a built page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.add(attributes.get("id"))
        target = attributes.get("href" if tag == "a" else "src")
        if tag in ("a", "img") and target:
            self.links.append(target)


def link_fault(page, pages, target):
    """Returns the fault of a link of a built page, or `None`."""
    for prefix in (FOLDER, FILE):
        path = target.removeprefix(prefix).partition("#")[0]
        if target.startswith(prefix):
            found = (ROOT / path).is_dir() if prefix == FOLDER else (ROOT / path).is_file()
            return None if found else f"not in the repository: {path}"
    if urllib.parse.urlsplit(target).scheme:
        return None
    path, _, fragment = urllib.parse.unquote(target).partition("#")
    path = pathlib.Path(os.path.normpath(page.parent / path)) if path else page
    if not path.is_file() or not path.is_relative_to(BOOK):
        return f"not in the book: {target}"
    if fragment and path in pages and fragment not in pages[path].anchors:
        return f"no such heading: {target}"
    return None


def check():
    """Builds the book and checks its links. Returns the exit status."""
    subprocess.run([os.environ.get("MDBOOK", "mdbook"), "build", "docs"], cwd=ROOT, check=True)
    # These two repeat the contents of the other pages, with links relative to those.
    paths = [path for path in sorted(BOOK.rglob("*.html")) if path.name not in ("print.html", "toc.html")]
    pages = {path: Page(path) for path in paths}
    faults = 0
    for path, page in pages.items():
        for target in page.links:
            if fault := link_fault(path, pages, target):
                print(f"{path.relative_to(BOOK)}: {fault}")
                faults += 1
    links = sum(len(page.links) for page in pages.values())
    print(f"{len(pages)} pages, {links} links, {faults} faults")
    return 1 if faults or not links else 0


def main():
    """Checks the book, or acts as mdBook's preprocessor."""
    match sys.argv[1:]:
        case ["--check"]:
            sys.exit(check())
        case ["supports", _]:
            sys.exit(0)
        case _:
            preprocess()


if __name__ == "__main__":
    main()
