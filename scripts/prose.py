#!/usr/bin/env python3
"""Lists where the project's texts leave plain technical English.

Checked are the comments, the string literals (help texts, errors and metrics are strings) and the names
in Rust, Go, C, Python and shell files, TOML comments, and Markdown. Reported are

- words that have a better one among the RFCs' (told: advertised, reported, notified, ...);
- names with such a word or with a metaphor (door, shelf, heir, ...): functions, types, fields, variables;
- doc comments that do not begin with a verb or a noun;
- names of tests that are sentences: more than 50 characters, or with the section or rule of an RFC;
- names of types that lack their subject (State, Source, Writer, ...).

    scripts/prose.py              everything
    scripts/prose.py PATH...      these files and folders
    scripts/prose.py --count      only the number in each folder
"""

import functools
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

WORDS = re.compile(
    r"\b(told|tell|tells|telling|anew|whoever|so many|is no more|in vain|nobody|somebody|everybody"
    r"|goes on|of its own|by turns|stands(?! for\b)|that one|the others|bear|bears|heed|heeds|heard|hears?"
    r"|says?|said|saying|anybody|g(?:ives?|ave|iven|iving) up)\b",
    re.IGNORECASE,
)
# Words of names only: metaphors for data structures and decisions of the protocol.
NAME_WORDS = re.compile(
    WORDS.pattern + r"|\b(doors?|shelf|shelves|wish|wishes|heirs?|scraps?|judg(?:e[sd]?|ing)|thaws?|stranded|moods?|vain)\b",
    re.IGNORECASE,
)
DOC_START = re.compile(r"(What|Whether|Where|That|Those|Of which)\b")
TEST_NAME = re.compile(r"^\s*(?:async )?fn (\w+)\(")
# `..._5_2_4_...`, `..._6`, `rule_3_...`, `icmp7_...`: they belong in the doc line.
SECTION = re.compile(r"_\d+_(?!000)\d+|_\d+(_[a-z]?\d+)*$|^(rule|icmp)(_\w|\d)_")
LONGEST_NAME = 50
TYPE_NAME = re.compile(r"\b(?:struct|enum|union|trait|class)\s+(\w+)|^type (\w+)", re.MULTILINE)
BARE_TYPES = set(
    "Entry Kind Lines Outcome Part Pending Place Plan Reader Run Sent Side Sink Slot Source State Way World Writer".split()
)
# Those that the only model, script or peer of a test may have.
TEST_TYPES = {"Lines", "Part", "Place", "Plan", "Reader", "Side", "World"}
TEST_MODULE = re.compile(r"^#\[cfg\(test\)\]\s*mod \w+ \{", re.MULTILINE)
TEST_FILE = re.compile(r"(^|/)(tests?|fuzz_targets)/|(^|[/_])tests?\.\w+$")
CODE_FENCE = re.compile(r"^\s*(```|~~~)")

# Comments, strings and characters of Rust, C and Go. A lifetime is no character.
SLASHES = re.compile(
    r'''//[^\n]*|/\*.*?\*/|\bb?r(?P<hashes>\#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"'''
    r"""|'(?:\\[^']*|[^\\'])'""",
    re.DOTALL,
)
GO = re.compile(SLASHES.pattern + "|`[^`]*`", re.DOTALL)
# Those of Python, shell and TOML.
HASHES = re.compile(r"""#[^\n]*|"{3}.*?"{3}|"(?:\\.|[^"\\])*"|'[^']*'""", re.DOTALL)
TOKENS = {".rs": SLASHES, ".c": SLASHES, ".h": SLASHES, ".go": GO, ".py": HASHES, ".sh": HASHES, ".toml": HASHES}
NAME = re.compile(r"[A-Za-z_]\w*")
# Ends of the words of a name: `peer_told`, `PeerTold`, `TSNTold`.
NAME_BREAK = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def code_texts(source, tokens):
    """Returns the (line number, kind, text) of the comments and strings, and the code without them."""
    texts, code, line, at = [], [], 1, 0
    for token in tokens.finditer(source):
        text = token.group()
        code.append(source[at : token.start()])
        line += code[-1].count("\n")
        at = token.end()
        if text.startswith("//"):
            kind = "doc" if re.match(r"//[/!](?!/)", text) else "comment"
            texts.append((line, kind, text.lstrip("/!").strip()))
        elif not text.startswith("'"):
            texts.append((line, "comment" if text.startswith("/*") else "string", text))
        newlines = text.count("\n")
        line += newlines
        code.append("\n" * newlines)
    code.append(source[at:])
    return texts, "".join(code)


def markdown_texts(source):
    """Yields (line number, kind, text) of the lines outside of code, without links and code spans."""
    fenced = False
    for number, text in enumerate(source.split("\n"), 1):
        if CODE_FENCE.match(text):
            fenced = not fenced
        elif not fenced:
            text = re.sub(r"\]\([^)]*\)", "]", text)
            yield number, "text", re.sub(r"`[^`]*`", "", text)


def lines(source):
    """Yields (line number, kind, text) of the lines, code included."""
    for number, text in enumerate(source.split("\n"), 1):
        yield number, "text", text


@functools.cache
def name_word(name):
    """Returns the word that a name should not have."""
    found = NAME_WORDS.search(NAME_BREAK.sub(" ", name))
    return found and found.group(0)


def name_faults(code):
    """Names with a word that has a better one, each at its first place in the file."""
    for name in sorted(set(NAME.findall(code))):
        if word := name_word(name):
            line = code.count("\n", 0, re.search(rf"\b{name}\b", code).start()) + 1
            yield line, f"“{word}” in the name: {name}"


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


def test_name_faults(source):
    source_lines = source.split("\n")
    for number, text in enumerate(source_lines, 1):
        found = TEST_NAME.match(text)
        if not found or not any("test]" in line for line in attributes_above(source_lines, number - 1)):
            continue
        name = found.group(1)
        if len(name) > LONGEST_NAME:
            yield number, f"test name of {len(name)} characters: {name}"
        elif SECTION.search(name):
            yield number, f"test name with a section or rule, which belongs in a doc line: {name}"


def type_name_faults(path, code):
    """Types whose name is a word that many types could have."""
    tests = TEST_FILE.search(str(path.relative_to(ROOT)))
    module = TEST_MODULE.search(code)
    for found in TYPE_NAME.finditer(code):
        name = found.group(1) or found.group(2)
        in_test = tests or (module and found.start() > module.start())
        if name in BARE_TYPES and not (in_test and name in TEST_TYPES):
            yield code.count("\n", 0, found.start()) + 1, f"type name without its subject: {name}"


def attributes_above(lines, index):
    while index > 0 and lines[index - 1].lstrip().startswith("#["):
        index -= 1
        yield lines[index]


def faults(path):
    source = path.read_text(errors="replace")
    if path.suffix == ".md":
        yield from word_faults(markdown_texts(source))
        return
    texts, code = code_texts(source, TOKENS[path.suffix])
    yield from name_faults(code)
    yield from type_name_faults(path, code)
    # Texts of shell scripts are not always in quotation marks.
    yield from word_faults(lines(source) if TOKENS[path.suffix] is HASHES else texts)
    if path.suffix == ".rs":
        yield from doc_faults(texts)
        yield from test_name_faults(source)


def files(paths):
    """Returns the tracked text files below these paths."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True
    )
    texts = {*TOKENS, ".md"}
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
