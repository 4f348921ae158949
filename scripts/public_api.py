#!/usr/bin/env python3
"""Lists the public API of crate carrick from its rustdoc pages.

    cargo doc -p carrick --no-deps --features dtls,serde,tracing,event-log,metrics,prometheus --locked
    scripts/public_api.py                writes crates/sctp/carrick/public-api.txt
    scripts/public_api.py --check        exits 1 if the file is not up to date

One line for each declaration, method and implemented trait.
"""

import html.parser
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "target/doc/carrick"
LIST = ROOT / "crates/sctp/carrick/public-api.txt"

# Sections of a page that are derived from other sections.
DERIVED = {
    "synthetic-implementations",
    "blanket-implementations",
    "deref-methods-SendHalf",
}


class Declarations(html.parser.HTMLParser):
    """Collects the text of the declarations of a page."""

    def __init__(self):
        super().__init__()
        self.tag, self.depth, self.text = None, 0, ""
        self.found, self.derived = [], False

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if attributes.get("id") in DERIVED:
            self.derived = True
        classes = (attributes.get("class") or "").split()
        if self.tag is None and ("item-decl" in classes or "code-header" in classes):
            self.tag, self.depth, self.text = tag, 0, ""
        if tag == self.tag:
            self.depth += 1

    def handle_endtag(self, tag):
        if tag != self.tag:
            return
        self.depth -= 1
        if self.depth == 0:
            self.tag = None
            if not self.derived:
                self.found.append(re.sub(r"\s+", " ", self.text).strip())

    def handle_data(self, data):
        if self.tag:
            self.text += data


def lines():
    """Returns the lines of the list."""
    result = []
    # Pages of items that do not exist any more may be there as well.
    index = (PAGES / "all.html").read_text(encoding="utf-8")
    for page in sorted(PAGES / link for link in set(re.findall(r'<li><a href="([^"#]+)"', index))):
        kind, _, name = page.stem.partition(".")
        if kind not in {"struct", "enum", "trait", "fn", "constant", "type"}:
            continue
        folder = page.parent.relative_to(PAGES).parts
        path = "::".join(("carrick", *folder, name))
        declarations = Declarations()
        declarations.feed(page.read_text(encoding="utf-8"))
        result += [f"{path}: {text}" for text in dict.fromkeys(declarations.found)]
    uses = re.findall(
        r"<code>(pub use .*?)</code>",
        (PAGES / "index.html").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    result += [re.sub(r"<[^>]*>", "", use) for use in uses]
    return result


def main():
    """Writes or checks the list."""
    if not PAGES.exists():
        sys.exit("no pages: run cargo doc -p carrick --no-deps --features dtls,serde,tracing,event-log,metrics,prometheus")
    text = "\n".join(lines()) + "\n"
    if "--check" not in sys.argv[1:]:
        LIST.write_text(text, encoding="utf-8")
    elif LIST.read_text(encoding="utf-8") != text:
        sys.exit(f"{LIST.relative_to(ROOT)} is not up to date: run scripts/public_api.py")


if __name__ == "__main__":
    main()
