"""A Lark grammar file to the model. The only importer of Lark; it reads grammars and never a program.

Lark's package holds a grammar of grammars, and that is what reads the file here. It knows more than the model
does (imports, templates, priorities, aliases, flags): a file that uses any of it is refused, so nothing that
a grammar says can be lost on the way to a copy.
"""

from ast import literal_eval
from importlib.resources import files
from typing import Final

from lark import Lark, Token, Tree
from lark.exceptions import LarkError

from guideway.grammar.model import (
    Alternative,
    Definition,
    Grammar,
    Group,
    Ignore,
    Item,
    Literal,
    Paragraph,
    Pattern,
    Reference,
    Repeat,
    Rule,
    Terminal,
    leaves,
)

COMMENT_MARK: Final = "//"
_REPETITIONS: Final = {"?": (0, 1), "*": (0, None), "+": (1, None)}

_Part = Token | Tree[Token] | None


class GrammarError(ValueError):
    """A grammar file that is no Lark grammar, or says something that the model cannot hold."""


def load_grammar() -> Grammar:
    """Return the published grammar, read from the package."""
    return read_grammar(files("guideway.grammar").joinpath("diagnostic.lark").read_text(encoding="utf-8"))


def read_grammar(text: str) -> Grammar:
    """Return the model of a grammar in Lark's syntax. Raises ``GrammarError``."""
    comments: list[Token] = []
    reader = Lark.open_from_package(
        "lark",
        "lark.lark",
        ("grammars",),
        parser="lalr",
        propagate_positions=True,
        lexer_callbacks={"COMMENT": comments.append},
    )
    try:
        tree = reader.parse(text)
    except LarkError as error:
        raise GrammarError(f"not a Lark grammar: {error}") from error
    definitions = [(_line(part), _definition(part)) for part in tree.children if isinstance(part, Tree)]
    _check_names([definition for _, definition in definitions])
    return Grammar(_paragraphs(text, comments, definitions))


def _check_names(definitions: list[Definition]) -> None:
    """Refuse a grammar that defines a name twice, or uses one that it does not define."""
    names = [definition.name for definition in definitions if not isinstance(definition, Ignore)]
    for name in names:
        if names.count(name) > 1:
            raise GrammarError(f"`{name}` is defined twice")
    for definition in definitions:
        used = [definition.name] if isinstance(definition, Ignore) else _names(definition.alternatives)
        for name in used:
            if name not in names:
                raise GrammarError(f"`{name}` is not defined")


def _names(alternatives: tuple[Alternative, ...]) -> list[str]:
    return [leaf.name for leaf in leaves(alternatives) if isinstance(leaf, Reference)]


def _paragraphs(text: str, comments: list[Token], definitions: list[tuple[int, Definition]]) -> tuple[Paragraph, ...]:
    """Group definitions, each with its line, and comments by the blank lines between them."""
    said = {comment.end_line: _said(comment) for comment in comments}
    at = dict(definitions)
    paragraphs: list[Paragraph] = []
    lines: list[str] = []
    found: list[Definition] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if number in at:
            found.append(at[number])
        elif number in said:
            if found:
                raise GrammarError(f"line {number}: a comment stands above the definitions of its paragraph")
            lines.append(said[number])
        elif not line.strip() and (lines or found):
            paragraphs.append(Paragraph(tuple(lines), tuple(found)))
            lines, found = [], []
    if sum(len(p.comment) for p in paragraphs) != len(comments):
        raise GrammarError("a comment stands on a line of its own")
    return tuple(paragraphs)


def _said(comment: Token) -> str:
    """Return a comment's text without its mark."""
    mark, said = comment.strip()[:2], comment.strip()[2:]
    if mark != COMMENT_MARK:
        raise GrammarError(f"line {comment.end_line}: comments start with `{COMMENT_MARK}`")
    return said.removeprefix(" ")


def _line(part: Tree[Token]) -> int:
    return part.meta.line


def _definition(part: Tree[Token]) -> Definition:
    match part:
        case Tree(data="rule", children=[Token() as name, Tree(children=[None]), Tree() as body]) if name[0].islower():
            return Rule(str(name), _alternatives(body))
        case Tree(data="token", children=[Token() as name, Tree(children=[None]), Tree() as body]):
            return Terminal(str(name), _alternatives(body))
        case Tree(data="ignore", children=[Tree() as body]):
            match _alternatives(body):
                case (Alternative((Reference(ignored) as reference,)),) if reference.is_terminal:
                    return Ignore(ignored)
                case _:
                    raise _beyond(part)
        case _:
            raise _beyond(part)


def _alternatives(part: Tree[Token]) -> tuple[Alternative, ...]:
    match part:
        case Tree(data="expansions", children=alternatives):
            return tuple(_alternative(alternative) for alternative in alternatives)
        case _:
            return (_alternative(part),)


def _alternative(part: _Part) -> Alternative:
    match part:
        case Tree(data="alias", children=[Tree(data="expansion", children=items), None]):
            return Alternative(tuple(_item(item) for item in items))
        case Tree(data="alias", children=[item, None]):
            return Alternative((_item(item),))
        case _:
            raise _beyond(part)


def _item(part: _Part) -> Item:
    match part:
        case Tree(data="expr", children=[atom, None, None]):
            return _atom(atom)
        case Tree(data="expr", children=[atom, Token(type="OP") as repetition]):
            return Repeat(_atom(atom), *_REPETITIONS[repetition])
        case _:
            return _atom(part)


def _atom(part: _Part) -> Literal | Pattern | Reference | Group:
    match part:
        case Tree(data="name", children=[Token() as name]):
            return Reference(str(name))
        case Tree(data="literal", children=[Token(type="STRING") as string]) if string.endswith('"'):
            return Literal(str(literal_eval(string)))
        case Tree(data="literal", children=[Token(type="REGEXP") as regex]) if regex.endswith("/"):
            return Pattern(regex[1:-1])
        case Tree(data="alias" | "expansions") as body:
            return Group(_alternatives(body))
        case _:
            raise _beyond(part)


def _beyond(part: _Part) -> GrammarError:
    where = f"line {part.meta.line}: " if isinstance(part, Tree) else ""
    what = part.data if isinstance(part, Tree) else part
    return GrammarError(f"{where}the model cannot hold this ({what})")
