"""Prose check: finds phrases that read as translated in Python and Markdown files, and lines of Markdown that are too
wide.

    python -m tools.prose              compare the counts with the allowance; part of `make lint`
    python -m tools.prose PATH...      list the suspects in files and folders
    python -m tools.prose --shrink     lower the allowance to the current counts

A suspect is a hint, not an error: some are right where they stand. The allowance (tools/prose_allowance.json) therefore
has a count for each top-level folder. A folder above its count fails. So does a folder below it, until `--shrink` has
written the lower count. `--shrink` never raises the total. Lines of Markdown prose over 100 columns always fail.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ALLOWANCE: Final = ROOT / "tools" / "prose_allowance.json"
WIDTH: Final = 100


@dataclass(frozen=True)
class Rule:
    name: str
    pattern: re.Pattern[str]
    advice: str


@dataclass(frozen=True)
class Suspect:
    path: str
    line: int
    rule: Rule
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule.name} (better: {self.rule.advice}): {self.text.strip()[:110]}"


def _rule(name: str, pattern: str, advice: str) -> Rule:
    return Rule(name, re.compile(pattern, re.MULTILINE), advice)


RULES: Final = (
    _rule("verb with 'of'", r"\b(told|heard|spoken|thought|asked) of\b", "received, seen, reported"),
    _rule("preposition with 'which'", r"\b(of|by|from|to) (which|whom)\b", "two sentences, or 'whose' or 'where'"),
    _rule("unnamed person", r"\b(whoever|whomever|who is|to whom|for whom)\b", "the caller, the user, the scheduler"),
    _rule(
        "'who' as a noun", r"(^|[\"(;:.,] ?)[Ww]ho (?!is\b|are\b|may\b|can\b|did\b|runs\b)[a-z]+s?\b", "a named subject"
    ),
    _rule("pronoun with 'who'", r"\b(one|ones|those|that) (whom|who|which)\b", "the noun again"),
    _rule("negated noun", r"\bwhat (is|are|has) no\b|\bis no [a-z]+ (of|that|which)\b", "an invalid X, not an X"),
    _rule("'is to' for the future", r"\b(is|are|was|were) to (be|go|have|get|come|become)\b", "will, must, pending"),
    _rule("unstated number", r"\b(so (many|much)|of so)\b", "the number, or N"),
    _rule("'such' for a noun", r"\b[Ss]uch (an? )?[a-z]+s?\b", "the noun again"),
    _rule("unnamed actor", r"\b(nobody|somebody)\b", "no pod, no component, another user"),
    _rule(
        "dated word",
        r"\b(heed(s|ed)?|anew|meanwhile|thereby|therein|whence|henceforth|whither|fares?|mend(s|ed|ing)?|begun)\b",
        "respect, again, in the meantime, fix, started",
    ),
    _rule("'go by'", r"\b(goes|go|went|going) by\b", "use, follow"),
    _rule("'let in'", r"\blets? (it|them|him) (in|go)\b", "admit, release, make schedulable"),
    _rule("'that is there'", r"\b(that|what) (is|are) there\b", "the existing X"),
    _rule("'as it is'", r"\bas (it|they) (is|are|was|were)\b", "unchanged"),
    _rule("empty name", r"\b(class|def) (Seen|Held|Look|Taken|Told|Known|Found)\b", "a noun of the field"),
)

_STRING_OR_COMMENT: Final = re.compile(
    r"""#[^\n]*|\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_SPAN: Final = re.compile(r"`[^`]*`")
_NAMED: Final = re.compile(r"^[ \t]*(?:class|def) .*$", re.MULTILINE)


def prose(path: str, source: str) -> Iterator[tuple[int, str]]:
    """The lines that people read, numbered: comments, strings of three words or more, names, Markdown outside code."""
    if path.endswith(".md"):
        yield from _markdown(source)
        return
    number, counted = 1, 0
    for match in _STRING_OR_COMMENT.finditer(source):
        number, counted = number + source.count("\n", counted, match.start()), match.start()
        for below, line in enumerate(match[0].split("\n")):
            if line.strip().count(" ") >= 2:
                yield number + below, line
    for match in _NAMED.finditer(source):
        yield source.count("\n", 0, match.start()) + 1, match[0]


def _markdown(source: str) -> Iterator[tuple[int, str]]:
    in_code = False
    for number, line in enumerate(source.split("\n"), 1):
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith("    "):
            yield number, line


def suspects(path: str, source: str) -> list[Suspect]:
    """Each rule counts once a line. For speed, all lines are searched as one text."""
    lines = list(prose(path, source))
    text = "\n".join(line for _, line in lines)
    hits = [(text.count("\n", 0, match.start()), rule) for rule in RULES for match in rule.pattern.finditer(text)]
    ordered = sorted(dict.fromkeys(hits), key=lambda hit: hit[0])
    return [Suspect(path, lines[at][0], rule, lines[at][1]) for at, rule in ordered]


def too_wide(path: str, source: str) -> list[str]:
    """Lines of Markdown prose over 100 columns. Exempt: tables, comments, code, a line that is one span of code."""
    return [
        f"{path}:{number}: {len(line)} columns; prose wraps at {WIDTH}"
        for number, line in _markdown(source)
        if len(line) > WIDTH and not line.startswith(("|", "<!--")) and " " in _SPAN.sub("", line.strip())
    ]


def folder_of(path: str) -> str:
    return path.partition("/")[0] if "/" in path else "."


MADE_FROM_CODE: Final = "docs/reference/"


def tracked(paths: Iterable[str] = ()) -> dict[str, str]:
    """Tracked Python and Markdown files with their text, by path; without pages that repeat words of the code."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return {
        path: (ROOT / path).read_text()
        for path in listed
        if path.endswith((".py", ".md")) and not path.startswith(MADE_FROM_CODE) and (ROOT / path).exists()
    }


def complaints(counts: dict[str, int], allowed: dict[str, int]) -> list[str]:
    """What is wrong with the counts, one line for each folder."""
    lines = []
    for folder in sorted(counts.keys() | allowed.keys()):
        count, most = counts.get(folder, 0), allowed.get(folder, 0)
        if count > most:
            lines.append(
                f"{folder}: {count} suspects, {most} allowed. List them: python -m tools.prose {folder}\n"
                "  Files moved between folders: python -m tools.prose --shrink"
            )
        elif count < most:
            lines.append(
                f"{folder}: {count} suspects, {most} allowed. Lower the allowance: python -m tools.prose --shrink"
            )
    return lines


def shrunk(counts: dict[str, int], allowed: dict[str, int]) -> dict[str, int]:
    """The new allowance. Suspects may move between folders, but the total never rises."""
    total, most = sum(counts.values()), sum(allowed.values())
    if total > most:
        raise ValueError(f"{total} suspects, {most} allowed: rewrite {total - most} first (python -m tools.prose .)")
    return {folder: count for folder, count in sorted(counts.items()) if count}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.prose", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="list the suspects below these paths")
    parser.add_argument("--shrink", action="store_true", help="write the current counts as the allowance")
    options = parser.parse_args(arguments)
    files = tracked(options.paths)
    listed = [suspect for path, source in files.items() for suspect in suspects(path, source)]
    if options.paths:
        words = sum(len(line.split()) for path, source in files.items() for _, line in prose(path, source))
        print(*listed, f"{len(listed)} suspects in {words:,} words", sep="\n")
        return 0
    counts = Counter(folder_of(suspect.path) for suspect in listed)
    allowed: dict[str, int] = json.loads(ALLOWANCE.read_text()) if ALLOWANCE.exists() else {}
    if options.shrink:
        try:
            new = shrunk(counts, allowed)
        except ValueError as error:
            print(error, file=sys.stderr)
            return 1
        ALLOWANCE.write_text(json.dumps(new, indent=2) + "\n")
        return 0
    wrong = [line for path, source in files.items() if path.endswith(".md") for line in too_wide(path, source)]
    wrong += complaints(counts, allowed)
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
