#!/usr/bin/env python3
"""Lists where the project's texts leave plain technical English.

Checked are the comments and the string literals of Rust, Python and shell files (help texts, errors
and metrics are strings), TOML comments, and Markdown. Reported are

- words that have a better one among the RFCs' (told: advertised, reported, notified, ...);
- doc comments that do not begin with a verb or a noun;
- names of tests that are sentences: more than 50 characters, or with a section of an RFC at the end.

    scripts/prose.py              everything
    scripts/prose.py PATH...      these files and folders
    scripts/prose.py --count      only the number in each folder
"""

import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

WORDS = re.compile(
    r"\b(told|tell|tells|telling|anew|whoever|so many|is no more|in vain|nobody|somebody|everybody"
    r"|goes on|of its own|by turns|stands(?! for\b)|that one|the others|bear|bears|heed|heeds|heard|hears?)\b",
    re.IGNORECASE,
)
DOC_START = re.compile(r"(What|Whether|Where|That|Those|Of which)\b")
TEST_NAME = re.compile(r"^\s*(?:async )?fn (\w+)\(")
SECTION_SUFFIX = re.compile(r"_\d+(_[a-z]?\d+)*$")
LONGEST_NAME = 50
CODE_FENCE = re.compile(r"^\s*(```|~~~)")

# Character literal, whose quotes begin no string; not a lifetime.
CHARACTER = re.compile(r"'(\\.[^']*|[^\\'])'")
RAW_STRING = re.compile(r'b?r(#*)"')


def rust_texts(source):
    """Yields (line number, kind, text) of the comments and strings of a Rust file."""
    at, line = 0, 1
    while at < len(source):
        two = source[at : at + 2]
        begin = line
        if two == "//":
            end = source.find("\n", at)
            end = len(source) if end < 0 else end
            comment = source[at:end]
            kind = "doc" if re.match(r"//[/!](?!/)", comment) else "comment"
            yield begin, kind, comment.lstrip("/!").strip()
        elif two == "/*":
            end = source.find("*/", at)
            end = len(source) if end < 0 else end + 2
            yield begin, "comment", source[at:end]
        elif (raw := RAW_STRING.match(source, at)) and not source[at - 1 : at].isalnum():
            end = source.find('"' + raw.group(1), raw.end())
            end = len(source) if end < 0 else end + 1 + len(raw.group(1))
            yield begin, "string", source[raw.end() : end]
        elif source[at] == '"':
            end = at + 1
            while end < len(source) and source[end] != '"':
                end += 2 if source[end] == "\\" else 1
            end += 1
            yield begin, "string", source[at + 1 : end - 1]
        elif source[at] == "'" and (character := CHARACTER.match(source, at)):
            end = character.end()
        else:
            end = at + 1
        line += source.count("\n", at, end)
        at = end


def markdown_texts(source):
    """Yields (line number, kind, text) of the lines outside of code, without links and code spans."""
    fenced = False
    for number, text in enumerate(source.split("\n"), 1):
        if CODE_FENCE.match(text):
            fenced = not fenced
        elif not fenced:
            text = re.sub(r"\]\([^)]*\)", "]", text)
            yield number, "text", re.sub(r"`[^`]*`", "", text)


def hash_texts(source):
    """Yields (line number, kind, text) of a file whose comments begin with a hash."""
    for number, text in enumerate(source.split("\n"), 1):
        yield number, "text", text


def word_faults(texts):
    for number, kind, text in texts:
        for found in WORDS.finditer(text):
            line = number + text.count("\n", 0, found.start())
            yield line, f"“{found.group(0)}” in: {excerpt(text, found)}"


def excerpt(text, found):
    around = text[max(0, found.start() - 40) : found.end() + 40]
    return " ".join(around.split())


def doc_faults(texts):
    """Doc comments whose first line begins with neither a verb nor a noun."""
    previous = -1
    for number, kind, text in texts:
        if kind != "doc":
            continue
        if number != previous + 1 and DOC_START.match(text):
            yield number, f"doc comment begins with “{text.split()[0]}”: {text[:70]}"
        previous = number


def name_faults(source):
    lines = source.split("\n")
    for number, text in enumerate(lines, 1):
        found = TEST_NAME.match(text)
        if not found or not any("test]" in line for line in attributes_above(lines, number - 1)):
            continue
        name = found.group(1)
        if len(name) > LONGEST_NAME:
            yield number, f"test name of {len(name)} characters: {name}"
        elif SECTION_SUFFIX.search(name):
            yield number, f"test name with a section, which belongs in a doc line: {name}"


def attributes_above(lines, index):
    while index > 0 and lines[index - 1].lstrip().startswith("#["):
        index -= 1
        yield lines[index]


def faults(path):
    source = path.read_text(errors="replace")
    if path.suffix == ".rs":
        texts = list(rust_texts(source))
        yield from word_faults(texts)
        yield from doc_faults(texts)
        yield from name_faults(source)
    elif path.suffix == ".md":
        yield from word_faults(markdown_texts(source))
    else:
        yield from word_faults(hash_texts(source))


def files(paths):
    """Returns the tracked text files below these paths."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True
    )
    texts = {".rs", ".md", ".py", ".sh", ".toml"}
    for name in sorted(listed.stdout.split("\n")):
        path = ROOT / name
        if path.suffix in texts and path.is_file() and path != Path(__file__).resolve():
            yield path


def folder(path):
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts[:2]) or "."


def main():
    arguments = sys.argv[1:]
    count = "--count" in arguments
    paths = [a for a in arguments if a != "--count"] or ["."]
    total, counts = 0, {}
    for path in files(paths):
        for line, fault in sorted(faults(path)):
            total += 1
            counts[folder(path)] = counts.get(folder(path), 0) + 1
            if not count:
                print(f"{path.relative_to(ROOT)}:{line}: {fault}")
    for name, number in sorted(counts.items(), key=lambda entry: -entry[1]):
        if count:
            print(f"{number:6} {name}")
    print(f"{total} places" if total else "0 places")
    sys.exit(1 if total else 0)


signal.signal(signal.SIGPIPE, signal.SIG_DFL)
main()
