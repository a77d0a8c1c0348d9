"""Tokens that are good in all but their scopes: what looks like a scope of this server, and is none.

They are believed, and may do nothing: 403. What else they hold never becomes a right.
"""

from typing import Any, Final

from tests.attacks.oauth import words
from tests.attacks.oauth.forge import MISSING
from tests.attacks.oauth.forgeries import Forgery, saying

READ: Final = "mcp:diag:read"
WRITE: Final = "mcp:diag:write"


def nothing(name: str, story: str, scope: Any, **more: Any) -> Forgery:
    """Return a token that may do nothing."""
    return saying(f"scope {name}", story, words.NO_SCOPE, status=403, scope=scope, **more)


def malformed(name: str, story: str, scope: Any) -> Forgery:
    return saying(f"scope {name}", story, words.SCOPE, scope=scope)


SCOPES: Final = (
    nothing("missing", "nothing was granted", MISSING),
    nothing("empty", "nothing was granted", ""),
    nothing("of another server", "a right elsewhere", "openid profile mcp:files:write"),
    nothing("to approve", "who may approve may not for that run anything", "mcp:diag:approve"),
    nothing("with a no-break space between", "a lax reader splits at it", f"{READ}\u00a0{WRITE}"),
    nothing("with a tab between", "RFC 6749, section 3.3, has one separator", f"{READ}\t{WRITE}"),
    nothing("with a line end between", "the same", f"{READ}\n{WRITE}"),
    nothing("with a comma between", "what some issuers write", f"{READ},{WRITE}"),
    nothing("with an ideographic space between", "the same in Unicode", f"{READ}\u3000{WRITE}"),
    nothing("with a NUL behind it", "a name that ends early for some", f"{WRITE}\x00"),
    nothing("with a line end behind it", "`$` of a pattern stands before it too", f"{WRITE}\n"),
    nothing("in upper case", "scopes have a case (RFC 6749, section 3.3)", WRITE.upper()),
    nothing("in mixed case", "scopes have a case", "mcp:diag:Write"),
    nothing("in a case that folds", "a letter whose lower case is `i`, to some", "mcp:d\u0130ag:write"),
    nothing("cut", "the beginning of one", "mcp:diag:writ"),
    nothing("and more", "one that begins like it", "mcp:diag:write2"),
    nothing("with a prefix", "one that ends like it", "xmcp:diag:write"),
    nothing("of the family", "what is above both", "mcp:diag"),
    nothing("of the family with a colon", "what is above both", "mcp:diag:"),
    nothing("with a star", "a pattern is a word like any other", "mcp:diag:*"),
    nothing("of everything", "a star alone", "*"),
    nothing("as a pattern", "a scope is no regular expression", "mcp:diag:(read|write)"),
    nothing("of the administrator", "no scope implies another", "admin root mcp:diag:admin"),
    nothing("in other order", "parts have a place", "mcp:write:diag"),
    nothing("with a full-width colon", "looks the same", "mcp:diag\uff1awrite"),
    nothing(
        "in full-width letters", "becomes the same when it is normalised", "mcp:diag:\uff57\uff52\uff49\uff54\uff45"
    ),
    nothing("with a Cyrillic letter", "looks the same", "m\u0441p:diag:write"),
    nothing("with a zero-width space", "looks the same", "mcp:diag:\u200bwrite"),
    nothing("with a soft hyphen", "looks the same", "mcp:diag:wri\u00adte"),
    nothing("with a combining mark", "looks nearly the same", "mcp:diag:write\u0301"),
    nothing("with an override", "reads the same from the other side", "\u202eetirw:gaid:pcm"),
    nothing("percent-encoded", "becomes the same when it is decoded", "mcp%3Adiag%3Awrite"),
    nothing("in quotes", "a quoted word is another word", f'"{WRITE}"'),
    nothing("as JSON in a string", "a list that is a word", f'["{WRITE}"]'),
    nothing("with an escape", "becomes the same when it is read twice", "mcp:diag:\\u0077rite"),
    nothing(
        "below another claim",
        "rights that stand where nobody looks",
        MISSING,
        scopes=WRITE,
        scp=WRITE,
        roles=[WRITE],
        permissions=[WRITE],
        authorities=[WRITE],
        groups=[WRITE],
    ),
    nothing("in a claim of another case", "claims have a case", MISSING, Scope=WRITE, SCOPE=WRITE),
    nothing(
        "in an inner claim",
        "rights that stand deeper",
        MISSING,
        realm_access={"scope": WRITE},
        resource_access={"guideway": {"scope": WRITE}},
    ),
    malformed("a list", "RFC 9068 has a string; a list is for issuers that are known for it", [READ, WRITE]),
    malformed("a list in a list", "found by whoever looks deep enough", [[WRITE]]),
    malformed("a list of what is no text", "a list that is to be refused whole", [WRITE, 7]),
    malformed("a list with an object", "the same", [{"scope": WRITE}]),
    malformed("a number", "no scope", 7),
    malformed("true", "everything", True),
    malformed("an object", "its keys are names", {WRITE: True}),
    malformed("null", "said, and not said", None),
)
