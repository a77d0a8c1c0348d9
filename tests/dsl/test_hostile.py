"""What somebody could send to break the reader: it answers with a tree or a refusal, always, and soon."""

import gc
import json
import sys
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guideway.dsl import DEFAULT_LIMITS, Analysis, Code, Limits, Refusal, analyze, draw, format_program, parse
from guideway.dsl.ast import Program
from guideway.dsl.printer import format_one_line
from guideway.dsl.recovery import MOST_DIAGNOSTICS
from tests.strategies import garbage, mutations, token_soup

UNBOUND = Limits(bytes=10**9, nesting=10**9, commands=10**9)


def answer(text: str, limits: Limits = DEFAULT_LIMITS) -> Program | Refusal:
    """Read a text, and look at the answer in every way in which somebody will look at it."""
    try:
        program = parse(text, limits=limits)
    except Refusal as refusal:
        assert_presentable(refusal, text)
        return refusal
    analysis = analyze(program)
    analysis.worst_case(lambda _: 1.0)
    format_program(program)
    format_one_line(program)
    for warning in analysis.warnings:
        assert_plain(draw(warning, program.source, severity="warning"))
    return program


def assert_presentable(refusal: Refusal, text: str) -> None:
    assert 1 <= len(refusal.diagnostics) <= MOST_DIAGNOSTICS
    starts = [found.span.start for found in refusal.diagnostics]
    assert starts == sorted(starts)
    for found in refusal.diagnostics:
        assert 0 <= found.span.start <= found.span.end <= len(text)
        assert_plain(draw(found, refusal.source))
        assert len(draw(found, refusal.source)) < 2000
        assert len(found.message) < 200
    machine = json.dumps(refusal.to_json(), ensure_ascii=False)
    machine.encode("utf-8")
    assert machine.isprintable()
    assert str(refusal)


def assert_plain(drawn: str) -> None:
    drawn.encode("utf-8")
    for line in drawn.split("\n"):
        assert line.isprintable(), line


@given(token_soup())
@settings(max_examples=400)
def test_any_tokens_in_any_order(text: str) -> None:
    answer(text)


@given(mutations())
@settings(max_examples=400)
def test_a_program_with_a_few_slips(text: str) -> None:
    answer(text)


@given(garbage())
@settings(max_examples=300)
@example("\ud800")
@example('PING "\ud800"')
@example("PING a\ud800b")
@example("# \udfff")
@example("\x00" * 100)
@example("\ufeff\ufeff")
def test_any_characters(text: str) -> None:
    answer(text)


@given(token_soup(), st.integers(0, 3), st.integers(0, 3), st.integers(0, 40))
def test_any_tokens_at_any_limits(text: str, nesting: int, commands: int, size: int) -> None:
    answer(text, Limits(bytes=size * 4, nesting=nesting, commands=commands))


# Sizes

N = 100_000
BIG: dict[str, Callable[[int], str]] = {
    "opening braces": lambda n: "{" * n,
    "braces": lambda n: "{" * n + "}" * n,
    "closing braces": lambda n: "}" * n,
    "braces side by side": lambda n: "{}" * n,
    "quotes": lambda n: '"' * n,
    "quotes and spaces": lambda n: '" ' * n,
    "a string that never ends": lambda n: 'PING "' + "a" * n,
    "a string that ends": lambda n: f'PING "{"a" * n}"',
    "a string of keywords": lambda n: 'PING "' + "PING " * n + '"',
    "strings that never end": lambda n: 'PING "a\n' * n,
    "a comment": lambda n: "#" * n,
    "a comment and a program": lambda n: "#" * n + '\nPING "a"',
    "a comment that a control character ends": lambda n: "#" + "a" * n + "\0",
    "comments": lambda n: "#\n" * n,
    "TRY": lambda n: "TRY " * n,
    "CATCH": lambda n: "CATCH " * n,
    "ELSE": lambda n: "ELSE " * n,
    "TRY with braces": lambda n: "TRY { " * n,
    "a ladder": lambda n: 'IF_RUNNING "a" THEN { } ELSE ' * n + "{ }",
    "bodies without braces": lambda n: 'IF_RUNNING "a" THEN ' * n + 'PING "b"',
    "IF_RUNNING": lambda n: "IF_RUNNING " * n,
    "names": lambda n: '"a" ' * n,
    "commands": lambda n: 'PING "a" ' * n,
    "commands without names": lambda n: "PING " * n,
    "words": lambda n: "word " * n,
    "one word": lambda n: "w" * n,
    "one name without quotes": lambda n: "PING " + "w." * n,
    "spaces": lambda n: " " * n,
    "spaces and an error": lambda n: " " * n + "?",
    "line feeds": lambda n: "\n" * n,
    "carriage returns": lambda n: "\r" * n,
    "CRLF": lambda n: "\r\n" * n,
    "NUL": lambda n: "\0" * n,
    "lone surrogates": lambda n: "\ud800" * n,
    "wide characters": lambda n: "漢" * n,
    "single quotes": lambda n: "'" * n,
    "backticks": lambda n: "`" * n,
    "fences": lambda n: "```\n" * n,
    "slashes": lambda n: "/" * n,
    "comments of another language": lambda n: "/*" * n,
    "parentheses": lambda n: "PING (" * n,
    "options": lambda n: "PING -c 3 " * n,
    "separators": lambda n: 'PING "a";' * n,
    "blocks that CATCH ends": lambda n: "TRY { CATCH { } " * n,
    "blocks that ELSE ends": lambda n: 'IF_RUNNING "a" THEN { ELSE ' * n,
    "misspelled": lambda n: 'PNIG "a" ' * n,
    "two words": lambda n: 'GET STATUS "a" ' * n,
    "unknown blocks": lambda n: "FOO { " * n,
    "many errors": lambda n: 'ping a; TRY } else "\n' * n,
}


@pytest.mark.parametrize("kind", BIG)
def test_a_text_beyond_the_size_limit_is_not_read(kind: str) -> None:
    text = BIG[kind](N)
    refusal = answer(text)
    assert isinstance(refusal, Refusal)
    assert refusal.code in {Code.TOO_LARGE, Code.SYNTAX}
    if len(text.encode("utf-8", "surrogatepass")) > DEFAULT_LIMITS.bytes:
        assert [found.code for found in refusal.diagnostics] == [Code.TOO_LARGE]


@pytest.mark.parametrize("kind", BIG)
def test_a_text_at_the_size_limit_is_answered(kind: str) -> None:
    answer(BIG[kind](N)[: DEFAULT_LIMITS.bytes])


@pytest.mark.parametrize("kind", BIG)
def test_a_text_without_limits_is_answered(kind: str) -> None:
    """Also where somebody raised every limit, nothing but a refusal comes out."""
    try:
        parse(BIG[kind](N), limits=UNBOUND)
    except Refusal as refusal:
        assert_presentable(refusal, refusal.source.text)


@pytest.mark.parametrize("kind", BIG)
def test_the_work_is_linear(kind: str) -> None:
    """Twice the text takes at most twice the steps: calls of Python and of C functions, not time."""
    few, many = (steps(BIG[kind](n)) for n in (1500, 3000))
    assert many <= 2.2 * few + 200


def steps(text: str) -> int:
    count = 0

    def watch(*_: object) -> None:
        nonlocal count
        count += 1

    def run() -> None:
        sys.setprofile(watch)
        try:
            parse(text, limits=Limits(bytes=10**9, nesting=64, commands=10**9))
        except Refusal as refusal:
            sys.setprofile(None)
            assert_presentable(refusal, text)
        finally:
            sys.setprofile(None)

    run()
    return count


def test_a_file_of_fifty_megabytes_is_refused_at_once() -> None:
    for text in ("x" * 50_000_000, "é" * 25_000_000):
        tracemalloc.start()
        refusal = answer(text)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert isinstance(refusal, Refusal)
        assert str(refusal) == "the program has 50,000,000 bytes; at most 65,536 are read"
        assert len(refusal.source.text) <= 200
        assert peak <= (1 if text.isascii() else 60) * 2**20


def test_a_million_errors_give_as_many_diagnostics_as_twenty() -> None:
    refusal = answer("ping a\n" * 1_000_000, UNBOUND)
    assert isinstance(refusal, Refusal)
    assert len(refusal.diagnostics) == MOST_DIAGNOSTICS


# The stack

DEEPEST = {
    "braces": "{ " * 64 + "} " * 64,
    "try": "TRY { " * 64 + 'PING "a" ' + "} CATCH { } " * 64,
    "bare": "TRY " * 64 + 'PING "a" ' + 'CATCH PING "b" ' * 64,
    "handlers": 'TRY PING "a" CATCH ' * 64 + 'PING "b"',
    "branches": 'IF_RUNNING "a" THEN { ' * 64 + "} ELSE { } " * 64,
    "ladder": 'IF_RUNNING "a" THEN { } ELSE ' * 64 + "{ }",
}


def at_depth(depth: int, run: Callable[[], Any]) -> Any:
    return run() if depth == 0 else at_depth(depth - 1, run)


def apart(run: Callable[[], None]) -> None:
    """Run something on a stack of its own: the depth of pytest's is no part of it."""
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


@pytest.mark.parametrize("kind", DEEPEST)
def test_the_deepest_program_is_handled_deep_in_the_stack(kind: str) -> None:
    text = DEEPEST[kind]
    used: list[Program] = []

    def use() -> None:
        program = answer(text)
        assert isinstance(program, Program)
        assert parse(format_one_line(program), limits=UNBOUND) == program
        assert hash(program)
        used.append(program)

    apart(lambda: at_depth(500, use))
    assert used


@pytest.mark.parametrize("kind", DEEPEST)
def test_one_level_more_is_refused(kind: str) -> None:
    text = (
        DEEPEST[kind].replace('PING "a"', '{ PING "a" }').replace("{ }", "{ { } }").replace('PING "b"', '{ PING "b" }')
    )
    text = f"{{ {text} }}"
    refusal = answer(text)
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.TOO_LARGE
    assert str(refusal) == "blocks are nested more than 64 deep"


@pytest.mark.parametrize("kind", DEEPEST)
def test_the_end_of_the_stack_is_a_refusal(kind: str) -> None:
    found: list[Program | Refusal] = []

    def read() -> None:
        found.extend(at_depth(depth, lambda: _read(DEEPEST[kind])) for depth in range(500, 950, 10))

    apart(read)
    assert len(found) == 45
    refused = [each for each in found if isinstance(each, Refusal)]
    assert refused, "the stack did not end"
    assert {str(each) for each in refused} == {"blocks are nested too deep to be read"}
    assert {each.code for each in refused} == {Code.TOO_LARGE}


def _read(text: str) -> Program | Refusal:
    try:
        return parse(text)
    except Refusal as refusal:
        return refusal


# Memory


def _program_of(size: int) -> str:
    one = 'TRY { IF_RUNNING "database" THEN { PING "api.internal" } ELSE { RESTART "database" } } CATCH { } # why\n'
    return (one * (size // len(one))).ljust(size, "#")


def test_a_program_of_16_kib_is_read_within_4_mib() -> None:
    for text in (_program_of(16_384), "{}" * 8_192, ";" * 16_384, "#\n" * 8_192):
        assert len(text) == 16_384
        parse('PING "a"')
        tracemalloc.start()
        result: Program | Refusal | Analysis = _read(text)
        if isinstance(result, Program):
            result = analyze(result)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4 * 2**20


def test_ten_thousand_programs_leave_nothing_behind() -> None:
    texts = ['TRY { PING "a" } CATCH { RESTART "b" }', "TRY { PING a } CATCH {", 'PING "a']

    def read_many(count: int) -> None:
        for index in range(count):
            answer_quietly(texts[index % 3].replace("a", f"a{index}"))

    def answer_quietly(text: str) -> None:
        result = _read(text)
        if isinstance(result, Program):
            analyze(result).worst_case(lambda _: 1.0)
            format_program(result)

    read_many(300)
    gc.collect()
    tracemalloc.start()
    read_many(300)
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    read_many(10_000)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 16_384
