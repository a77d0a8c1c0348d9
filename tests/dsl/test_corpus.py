"""The corpus is what the language does: each script, and what is expected of it."""

import linecache
import re
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from guideway.dsl import cursor, draw, parse, parser, recovery
from guideway.dsl.errors import Code, Diagnostic
from tests.dsl.corpus import CORPUS, Case, cases, outcome

ALL = cases()


@pytest.mark.parametrize("case", ALL, ids=str)
def test_the_script_is_what_is_expected(case: Case) -> None:
    assert outcome(case.text, case.settings) == case.expected


@pytest.mark.parametrize("case", cases("valid"), ids=str)
def test_a_valid_script_stays_itself_when_formatted(case: Case) -> None:
    found = outcome(case.text, case.settings)
    formatted = outcome("\n".join(found["format"]), {})
    one_line = outcome(found["one_line"], {})
    assert formatted["format"] == found["format"]
    assert one_line["one_line"] == found["one_line"]
    assert formatted["one_line"] == found["one_line"] == one_line["one_line"]
    for again in (formatted, one_line):
        assert again["warnings"] == [], "the canonical form can be read in one way only"
        assert again["worst_case"] == found["worst_case"]
        assert _without_places(again["tree"]) == _without_places(found["tree"])


def _without_places(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_without_places(each) for each in tree]
    if isinstance(tree, dict):
        return {key: _without_places(each) for key, each in tree.items() if key != "span"}
    return tree


@pytest.mark.parametrize("case", cases("invalid"), ids=str)
def test_a_slip_gives_one_diagnostic(case: Case) -> None:
    assert len(case.expected["diagnostics"]) == 1


@pytest.mark.parametrize("case", [case for case in ALL if case.expected.get("diagnostics")], ids=str)
def test_a_diagnostic_points_into_the_text_and_keeps_the_rules_for_messages(case: Case) -> None:
    found = case.expected["diagnostics"]
    assert found == sorted(found, key=lambda one: one["span"])
    assert len(found) <= recovery.MOST_DIAGNOSTICS
    assert found[0]["code"] in {Code.SYNTAX, Code.TOO_LARGE}
    vocabulary = case.settings.get("vocabulary")
    for one, drawn in zip(found, case.expected["drawn"], strict=True):
        start, end = one["span"]
        assert 0 <= start <= end <= len(case.text)
        assert (one["line"], one["column"]) <= (one["end_line"], one["end_column"])
        for said in (one["message"], one["help"] or "x"):
            assert not said[0].isupper() or said.startswith("U+")
            assert not said.endswith(".")
            assert said.isprintable()
        if vocabulary is not None:
            unknown = {"PING", "GET_STATUS", "RESTART", "IF_RUNNING"} - {*vocabulary}
            assert not unknown & {*one["expected"], *(one["help"] or "").replace("`", " ").split()}
        text, carets = drawn[2].partition("|")[2], drawn[3].partition("|")[2]
        if text.isascii() and "…" not in text and not carets.endswith("^" * 100):
            line = case.text.removeprefix("\ufeff").split("\n")[one["line"] - 1]
            at = len(carets) - len(carets.lstrip()) - 1
            assert at == one["column"] - 1
            width = (end - start) if one["line"] == one["end_line"] else len(line) - at
            assert carets.count("^") == max(1, width)


def test_every_script_has_its_expectation_and_every_expectation_its_script() -> None:
    scripts = {path.with_suffix("") for path in CORPUS.rglob("*.diag")}
    expectations = {path.with_suffix("") for path in CORPUS.rglob("*.json")}
    assert scripts == expectations
    assert len(scripts) > 200


def test_the_corpus_reaches_every_line_of_the_parser_and_its_recovery() -> None:
    """So every diagnostic that these modules can give stands in the corpus, and none is there for nothing."""
    files = {module.__file__: module for module in (parser, recovery, cursor)}
    wanted = {(str(name), line) for name, module in files.items() for line in _lines(vars(module), str(name))}
    seen: set[tuple[str | None, int]] = set()

    def watch(frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event in ("line", "call"):
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        for case in ALL:
            outcome(case.text, case.settings)
        outcome("{" * 5000, {"limits": {"nesting": 5000}})  # Python's own stack ends first
    finally:
        sys.settrace(before)
    # A trace cannot follow where Python's own stack ends: tests/dsl/test_hostile.py goes there.
    # ``nearest`` has a way of its own for large inventories, which no program takes.
    beyond = {
        (function.__code__.co_filename, line)
        for function in (cursor.Cursor._too_deep_to_read, recovery.nearest)
        for _, _, line in function.__code__.co_lines()
    }
    missed = [
        place
        for place in sorted(wanted - seen - beyond)
        if not re.search("RecursionError|too_deep_to_read", linecache.getline(*place))
    ]
    assert missed == []
    assert len(wanted) > 300


def _lines(names: dict[str, Any], file: str) -> Iterator[int]:
    """Yield the lines of every function and method that is written in a file."""
    codes: list[CodeType] = []
    for found in names.values():
        members = vars(found).values() if isinstance(found, type) else (found,)
        codes += [
            member.__code__ for member in members if hasattr(member, "__code__") and member.__code__.co_filename == file
        ]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        yield from (line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno)


def test_a_warning_is_drawn_as_one() -> None:
    program = parse('PING "a"', name="runbook.diag")
    found = Diagnostic(Code.DANGLING_ELSE, "so it is", program.span)
    assert draw(found, program.source, severity="warning").startswith(
        "runbook.diag:1:1: warning[dangling_else]: so it is\n"
    )


def test_the_older_form_means_the_same_however_it_is_laid_out() -> None:
    older = [case for case in cases("valid") if case.path.stem.startswith("older_form")]
    assert len(older) == 4
    for key in ("tree", "format", "one_line", "worst_case", "scopes", "targets"):
        first, *others = (_without_places(case.expected[key]) for case in older)
        assert all(other == first for other in others)
    assert "\n".join(older[0].expected["format"]) == Case(CORPUS / "valid" / "older_form_in_lines.diag").text
