"""How engines read what an exporter could write: the public faults, and every place where one reads it as no other.

An engine that changes its mind fails a test here before a copy of ours is read in a new way.
"""

import re

import pytest

from tests.engines.harness import EngineRefusedError, accepts
from tests.engines.roster import ENGINES
from tests.engines.trial import DEADLINE, compile_grammar
from tests.engines.vocabulary import byte_vocabulary

_Reading = str | list[bytes]  # the message of a refusal, in part; or texts that are taken, among those asked about

_PROBES = [
    b"",
    b"a",
    b"b",
    b"q",
    b"x",
    b"aa",
    b"ab",
    b"abb",
    b"a#b",
    b"-",
    b"A",
    b"A4",
    b"\xd0\x94",
    b"z",
    b"\0",
    b"[",
    b"xa",
    b" xa",
]

_GBNF: dict[str, tuple[_Reading, _Reading]] = {  # llama.cpp's reading, then XGrammar's
    # Names.
    'root ::= a_b\na_b ::= "q"': ("expecting newline or end at _b", [b"q"]),
    'root ::= a-b\na-b ::= "q"': ([b"q"], [b"q"]),
    'root ::= true\ntrue ::= "q"': ([b"q"], "preceded by an identifier"),
    "root ::= q": ("Undefined rule identifier 'q'", 'Rule "q" is not defined'),
    'rot ::= "q"': ("does not contain a 'root' symbol", 'root rule with name "root" is not found'),
    'root ::= "a"\nroot ::= "b"': ("the last rule of a name wins", "defined multiple times"),
    # Nothing at all.
    "": ("allows everything", "is not found"),
    " \n# only a comment\n": ("failed to parse", "is not found"),
    'root ::= "a"\0 | "b"': ("ends at its first NUL", "ends at its first NUL"),
    # Alternatives: an empty one, and one that begins a line.
    'root ::= | "a"': ([b"", b"a"], "Expect element"),
    'root ::= "a" |': ([b"", b"a"], "Expect element"),
    'root ::= "" | "a"': ([b"", b"a"], [b"", b"a"]),
    'root ::= "a"\n  | "b"': ("expecting name at | ", [b"a", b"b"]),
    'root ::= ("a"\n  | "b")': ([b"a", b"b"], [b"a", b"b"]),
    # Left recursion, open and hidden behind something that may be empty; and what may be empty under a star.
    'root ::= root "a" | "x"': ("left recursion", [b"x", b"xa"]),
    'root ::= ws root "a" | "x"\nws ::= " "*': ("not done after", [b"x", b"xa", b" xa"]),
    'root ::= "a"\nunused ::= unused "x" | "x"': ("left recursion", [b"a"]),
    'root ::= ("a"*)*': ([b"", b"a", b"aa"], [b"", b"a", b"aa"]),
    'root ::= item*\nitem ::= "" | "a"': ("left recursion", [b"", b"a", b"aa"]),
    "root ::= item\nitem ::= item": ("left recursion", "allows no text at all"),
    # Repetitions.
    'root ::= "a"{,1}': ("expecting an int", "Expect integer"),
    'root ::= "a"{0,2001}': ("becomes none in silence", [b"", b"a", b"aa"]),
    'root ::= "a"{2001}': ("exceeds sane defaults", []),
    'root ::= (("a"{0,60}) "b"){0,60}': ("exceeds sane defaults", [b"", b"b", b"ab", b"abb"]),
    # Classes.
    r"root ::= [\-]": ([b"-"], [b"-"]),
    r"root ::= [a\-z]": ([b"a", b"-", b"z"], [b"a", b"-", b"z"]),
    "root ::= [a-]": ([b"a", b"-"], [b"a", b"-"]),
    "root ::= [+-/]": ([b"-"], [b"-"]),  # a range from the plus to the slash
    r"root ::= [\d]": ("unknown escape", "not supported"),
    "root ::= [z-a]": ("allows no text at all", "lower bound is larger"),
    "root ::= []": ([b""], "allows no text at all"),
    "root ::= .": ([b"a", b"b", b"q", b"x", b"-", b"A", b"\xd0\x94", b"z", b"["], 'Rule "." is not defined'),
    # Literals.
    'root ::= "a#b"': ([b"a#b"], [b"a#b"]),
    r'root ::= "\["': ([b"["], "Invalid escape"),
    r'root ::= "\x414"': ([b"A4"], [b"\xd0\x94"]),
    r'root ::= "\x00"': ("allows no text at all", [b"\0"]),
    r'root ::= "\q"': ("unknown escape", "Invalid escape"),
    'root ::= "a': ("unexpected end of input", "Expect"),
    # Another engine's dialect.
    'root: "a"': ("expecting ::=", "Unexpected character"),
    "%llguidance {}\nstart: ?": ("expecting name at %llguidance", "Unexpected character: %"),
}

_LARK: dict[str, tuple[_Reading, _Reading]] = {  # llguidance's reading, then GLRMask's
    # Names.
    'start: a_b\na_b: "q"': ([b"q"], [b"q"]),
    'start: a-b\na-b: "q"': ([b"q"], "got Minus"),
    'start: Ab\nAb: "q"': ("Expected token ':'", [b"q"]),
    "start: q": ('unknown name: "q"', "unknown Lark rule reference q"),
    'rot: "q"': ("no start rule", "must define a rule named 'start'"),
    'start: "a"\nstart: "b"': ("duplicate rule", "duplicate Lark declaration"),
    # Nothing at all.
    "": ("Empty grammar", "empty grammar"),
    # Alternatives.
    'start: "a" |\n': ([b"", b"a"], [b"", b"a"]),
    'start:\n  | "a"': ([b"", b"a"], [b"", b"a"]),
    # Recursion, and what may be empty under a star.
    'start: start "a" | "x"': ([b"x", b"xa"], [b"x", b"xa"]),
    'start: ws start "a" | "x"\nws: " "*': ([b"x", b"xa", b" xa"], [b"x", b"xa", b" xa"]),
    'start: ("a"*)*': ([b"", b"a", b"aa"], [b"", b"a", b"aa"]),
    # Repetitions.
    'start: item{0,1}\nitem: "a"': ([b"", b"a"], "unexpected character '{'"),
    'start: item~0..1\nitem: "a"': ([b"", b"a"], [b"", b"a"]),
    # Terminals: each takes as much as it can, in both.
    r"start: /[\-]/": ([b"-"], [b"-"]),
    "start: A\nA: /a(?!b)/": ("look-around", "look-around"),
    'start: A "b"\nA: /ab?/': ([b"abb"], [b"abb"]),
    'start: a "b"\na: "a" "b"?': ([b"ab", b"abb"], [b"ab", b"abb"]),
    r'start: "\x00"': ([b"\0"], [b"\0"]),
    'start: "a#b"': ([b"a#b"], [b"a#b"]),
    # White space between tokens: llguidance allows none before the first, GLRMask does.
    'start: "x" "a"\n%ignore " "': ([b"xa"], [b"xa", b" xa"]),
    '%llguidance {"ignore_once": true}\nstart: "x" "a"\n%ignore / /': ([b"xa"], "unsupported Lark directive"),
    # Parentheses.
    f'start: {"(" * 40}"a"{")" * 40}': ("too deeply nested", [b"a"]),
    f'start: {"(" * 200}"a"{")" * 200}': ("too deeply nested", "nesting exceeds the supported depth"),
    # Another engine's dialect.
    'root ::= "a"': ("Expected token", "unexpected character '='"),
}

_READINGS = [
    (name, grammar, reading)
    for names, table in ((("llama.cpp", "xgrammar"), _GBNF), (("llguidance", "glrmask"), _LARK))
    for grammar, readings in table.items()
    for name, reading in zip(names, readings, strict=True)
]


@pytest.mark.parametrize(
    ("name", "grammar", "reading"), _READINGS, ids=[f"{name}-{grammar[:40]!r}" for name, grammar, _ in _READINGS]
)
def test_reading(name: str, grammar: str, reading: _Reading) -> None:
    if isinstance(reading, str):
        deadline = 3 if reading.startswith("not done") else DEADLINE
        with pytest.raises(EngineRefusedError, match=re.escape(reading)):
            compile_grammar(ENGINES[name], grammar, "bytes", deadline)
    else:
        start = compile_grammar(ENGINES[name], grammar, "bytes")
        assert [probe for probe in _PROBES if accepts(start, byte_vocabulary(), probe)] == reading


def test_llama_cpp_leaves_a_large_bound_away() -> None:
    sampler = ENGINES["llama.cpp"]
    with pytest.raises(EngineRefusedError, match="becomes none"):
        sampler.compile('root ::= "a"{0,2001}', byte_vocabulary())
    start = sampler.compile('root ::= "a"{0,2000} "{0,2001}"?', byte_vocabulary())
    assert accepts(start, byte_vocabulary(), b"a" * 2000)
    assert not accepts(start, byte_vocabulary(), b"a" * 2001)


def test_llguidance_meets_a_limit_of_alternatives_only_while_it_runs() -> None:
    names = [f'"n{number}"' for number in range(3000)]
    alternatives = f'start: "x" name\nname: {" | ".join(names)}\n'
    start = compile_grammar(ENGINES["llguidance"], alternatives, "bytes")
    with pytest.raises(EngineRefusedError, match="max is 2000"):
        accepts(start, byte_vocabulary(), b"xn17")
    as_terminal = compile_grammar(ENGINES["llguidance"], alternatives.replace("name", "NAME"), "bytes")
    assert accepts(as_terminal, byte_vocabulary(), b"xn2999")
    assert not accepts(as_terminal, byte_vocabulary(), b"xn3000")


def test_unbounded_classes_let_llama_cpp_write_what_is_not_utf_8() -> None:
    start = compile_grammar(ENGINES["llama.cpp"], 'root ::= [^"]', "bytes")
    assert not accepts(start, byte_vocabulary(), b"\x80")
    assert accepts(start, byte_vocabulary(), b"\xff\x80\x80\x80")
