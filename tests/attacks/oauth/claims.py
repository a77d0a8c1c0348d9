"""Tokens that a trusted issuer did sign, and that are not for this server, not for now, or no access tokens."""

import json
import time
from collections.abc import Callable
from typing import Any, Final

from tests.attacks.oauth import words
from tests.attacks.oauth.forge import MISSING, jws
from tests.attacks.oauth.forgeries import Forgery, Ground, saying, written

LEEWAY: Final = 30


def later(seconds: float) -> int:
    return int(time.time() + seconds)


def of(name: str, story: str, why: str, claims: Callable[[Ground], dict[str, Any]], *, status: int = 401) -> Forgery:
    """Return a token of corp, signed well, with claims that are known when it is made."""
    return Forgery(name, story, lambda ground: ground.corp.saying(**claims(ground)), why, status)


def issuer(name: str, story: str, value: Callable[[str], Any], why: str = words.ISSUER) -> Forgery:
    return of(f"iss {name}", story, why, lambda ground: {"iss": value(ground.corp.issuer)})


def audience(
    name: str, story: str, value: Callable[[str], Any], why: str = words.AUDIENCE, *, status: int = 401
) -> Forgery:
    return of(f"aud {name}", story, why, lambda ground: {"aud": value(ground.resource)}, status=status)


def raw(name: str, story: str, why: str, edit: Callable[[str], str | bytes], **claims: Any) -> Forgery:
    """Return a token whose payload's text was edited before it was signed."""
    return written(name, story, why, lambda ground: edit(json.dumps(ground.corp.payload(**claims))))


def put(more: str) -> Callable[[str], str]:
    """Return what puts more members at the end of an object's text."""
    return lambda text: f"{text[:-1]},{more}}}"


def typed(typ: Any, story: str, why: str = words.TYPE, **claims: Any) -> Forgery:
    return Forgery(
        f"typ {typ!r}" if typ is not MISSING else "typ missing",
        story,
        lambda ground: ground.corp.token(ground.corp.header(typ=typ), ground.corp.payload(**claims)),
        why,
    )


LOGOUT: Final[dict[str, dict[str, str]]] = {"http://schemas.openid.net/event/backchannel-logout": {}}

TYPES: Final = (
    typed(MISSING, "a token that does not say what it is: one for something else, perhaps"),
    typed("JWT", "what every token of the issuer is"),
    typed("id_token+jwt", "an ID token says who signed in, to a client; it opens nothing", nonce="n", aud="agent"),
    typed("logout+jwt", "a logout token goes to everybody who ever signed somebody in", events=LOGOUT),
    typed("dpop+jwt", "a proof, in the place of a token"),
    typed("secevent+jwt", "an event, in the place of a token"),
    typed("at+jwt ", "with a space, it is another type"),
    typed("at\uff0bjwt", "a full-width plus"),
    typed(["at+jwt"], "a list is no type"),
    typed(None, "null is no type"),
    Forgery(
        "an ID token",
        "a client shows what it was given about its user, for the wrong audience and of the wrong type",
        lambda ground: ground.corp.token(
            ground.corp.header(typ="JWT"),
            ground.corp.payload(aud="agent", azp="agent", nonce="n", at_hash="h", scope=MISSING, client_id=MISSING),
        ),
        words.TYPE,
    ),
    Forgery(
        "a client's assertion",
        "what a client proves itself with at its issuer, signed by the client",
        lambda ground: jws(
            {"alg": "RS256", "kid": ground.stranger.key.kid, "typ": "JWT"},
            ground.corp.payload(iss="agent", sub="agent", aud=f"{ground.corp.issuer}/token"),
            ground.stranger.key,
        ),
        words.ISSUER,
    ),
)

ISSUERS: Final = (
    saying("iss missing", "a token of nobody's", words.ISSUER, iss=MISSING),
    saying("iss empty", "a token of nobody's", words.ISSUER, iss=""),
    saying("iss null", "a token of nobody's", words.ISSUER, iss=None),
    saying("iss a number", "no name", words.ISSUER, iss=7),
    issuer("a list", "one of them is right", lambda us: [us, "https://evil.example"]),
    issuer("a list of it alone", "CVE-2024-53861 of another library: `in` finds it in a list", lambda us: [us]),
    issuer("an object", "its keys are names", lambda us: {us: 1}),
    issuer("with a slash", "issuers are compared character by character (RFC 8414, section 3.3)", lambda us: f"{us}/"),
    issuer("cut", "the beginning of the right one, which is a substring of it", lambda us: us[:-1]),
    issuer("and more", "a name that begins like the right one", lambda us: f"{us}.evil.example"),
    issuer("with a user", "the right one behind somebody's name", lambda us: us.replace("//", "//corp@")),
    issuer("in upper case", "hosts have no case, strings do", str.upper),
    issuer("with a space", "nearly it", lambda us: f"{us} "),
    issuer(
        "by another name of this machine",
        "the same server by another name",
        lambda us: us.replace("127.0.0.1", "localhost"),
    ),
    Forgery(
        "a stranger's token",
        "a good token of an issuer that nobody here trusts",
        lambda ground: ground.stranger.token(),
        words.ISSUER,
    ),
    Forgery(
        "the partner's name under corp's signature",
        "of two trusted issuers, one makes a token in the other's name, with its own key",
        lambda ground: ground.corp.saying(iss=ground.partner.issuer),
        words.SIGNATURE,
    ),
    Forgery(
        "the partner's name and key's name under corp's signature",
        "the same, and it gives its own key the other's name",
        lambda ground: ground.corp.token(
            ground.corp.header(kid=ground.partner.key.kid), ground.corp.payload(iss=ground.partner.issuer)
        ),
        words.SIGNATURE,
    ),
    Forgery(
        "corp's name under the partner's signature",
        "the other way round",
        lambda ground: ground.partner.saying(iss=ground.corp.issuer),
        words.SIGNATURE,
    ),
)

AUDIENCES: Final = (
    saying("aud missing", "a token for whoever takes it", words.LACKS, aud=MISSING),
    saying("aud empty", "for nobody", words.AUDIENCE, aud=""),
    saying("aud an empty list", "for nobody", words.AUDIENCE, aud=[]),
    saying("aud null", "for nobody", words.NO_AUDIENCE, aud=None),
    saying("aud a number", "for no URL", words.NO_AUDIENCE, aud=7),
    saying("aud true", "for whoever asks", words.NO_AUDIENCE, aud=True),
    saying("aud a star", "for all", words.AUDIENCE, aud="*"),
    saying(
        "aud another resource",
        "a token that a hostile server was shown, and now shows here",
        words.AUDIENCE,
        aud="https://files.example.com/mcp",
    ),
    saying(
        "aud other resources", "none of them this one", words.AUDIENCE, aud=["https://files.example.com/mcp", "agent"]
    ),
    saying("aud the client", "a token for the client itself", words.AUDIENCE, aud="agent"),
    audience(
        "the origin", "the beginning of this resource is another resource", lambda here: here.removesuffix("/mcp")
    ),
    audience("a prefix", "the beginning of the right one", lambda here: here[:-1]),
    audience("and more", "a resource whose name begins with this one's", lambda here: f"{here}/admin"),
    audience("with a slash", "not the same resource", lambda here: f"{here}/"),
    audience("with a query", "not the same resource", lambda here: f"{here}?x=1"),
    audience("with a fragment", "a resource has none (RFC 8707, section 2)", lambda here: f"{here}#x"),
    audience("inside of another", "a name that has this one in it", lambda here: f"https://evil.example/?{here}"),
    audience("in upper case", "strings have a case", str.upper),
    audience(
        "by another scheme",
        "the same server, read by everybody on the way",
        lambda here: here.replace("http:", "https:"),
    ),
    audience("joined by a space", "a list that is none", lambda here: f"https://evil.example {here}"),
    audience("in a list in a list", "found by whoever looks deep enough", lambda here: [[here]], words.NO_AUDIENCE),
    audience(
        "among things that are no strings",
        "a list that is to be refused whole",
        lambda here: [here, 7],
        words.NO_AUDIENCE,
    ),
    audience("an object", "its keys are names", lambda here: {here: True}, words.NO_AUDIENCE),
    audience(
        "in a list of two",
        "a token may be for two (RFC 7519, section 4.1.3)",
        lambda here: ["agent", here],
        "",
        status=200,
    ),
)

TIMES: Final = (
    saying("exp missing", "for ever", words.LACKS, exp=MISSING),
    saying("exp null", "for ever", words.TIME, exp=None),
    saying("exp true", "true is 1, and 1 is a number", words.TIME, exp=True),
    saying("exp a string", "text is greater than any number, to some", words.TIME, exp="99999999999"),
    saying("exp a list", "the greater of two", words.TIME, exp=[99999999999]),
    saying("exp NaN", "what is compared with it is never greater", words.UNREADABLE, exp=float("nan")),
    saying("exp infinite", "for ever", words.UNREADABLE, exp=float("inf")),
    raw("exp 1e400", "a number that becomes infinite when it is read", words.TIME, put('"exp":1e400'), exp=MISSING),
    saying("exp of 400 digits", "a number that no other kind of number can hold", words.TIME, exp=10**400),
    of("exp past", "it was good", words.EXPIRED, lambda _: {"exp": later(-LEEWAY - 1)}),
    of("exp long past", "it was good", words.EXPIRED, lambda _: {"exp": later(-86_400)}),
    saying("exp zero", "the beginning of time", words.EXPIRED, exp=0),
    saying("exp negative", "before it", words.TIME, exp=-1),
    saying("exp beyond every calendar", "a time that no clock shows", words.TIME, exp=10**40),
    of("nbf in the future", "not yet", words.NOT_YET, lambda _: {"nbf": later(LEEWAY + 60)}),
    saying("nbf a string", "no time", words.TIME, nbf="0"),
    saying("nbf true", "true is 1, and long past", words.TIME, nbf=True),
    saying("nbf NaN", "never in the future", words.UNREADABLE, nbf=float("nan")),
    saying("nbf null", "no time", words.TIME, nbf=None),
    of("iat in the future", "made tomorrow", words.NOT_YET, lambda _: {"iat": later(LEEWAY + 60)}),
    saying("iat a string", "no time", words.TIME, iat="0"),
    saying("iat missing", "RFC 9068 asks for it", words.LACKS, iat=MISSING),
)

CLAIMS: Final = (
    saying("sub missing", "nobody's", words.LACKS, sub=MISSING),
    saying("sub empty", "nobody's", words.SUBJECT, sub=""),
    saying("sub a list", "two persons'", words.SUBJECT, sub=["mallory", "alice"]),
    saying("sub a number", "no name", words.SUBJECT, sub=0),
    saying("client_id missing", "RFC 9068 asks for it", words.NO_CLIENT, client_id=MISSING),
    saying("client_id an object", "no name", words.CLIENT, client_id={"id": "agent"}),
    saying("jti missing", "RFC 9068 asks for it", words.LACKS, jti=MISSING),
    raw(
        "exp twice",
        "who reads the first and who reads the last do not read the same",
        words.UNREADABLE,
        put('"exp":99999999999'),
    ),
    raw("sub twice", "one name for the log, and one for the rights", words.UNREADABLE, put('"sub":"alice"')),
    raw(
        "scope twice",
        "scopes that the issuer's own check did not see",
        words.UNREADABLE,
        put('"scope":"mcp:diag:write"'),
    ),
    raw(
        "iss twice",
        "an issuer to choose the keys by, and another to be",
        words.UNREADABLE,
        put('"iss":"https://evil.example"'),
    ),
    raw(
        "scope twice, once spelled with an escape",
        "the same name in another spelling",
        words.UNREADABLE,
        put('"\\u0073cope":"mcp:diag:write"'),
    ),
    raw(
        "a member twice, deep inside", "the same, where fewer look", words.UNREADABLE, put('"x":{"y":[{"z":1,"z":2}]}')
    ),
    raw("nesting", "a payload that ends a reader's stack", words.UNREADABLE, put('"x":' + "[" * 2_000 + "]" * 2_000)),
    raw("objects without end", "the same, cut off", words.UNREADABLE, lambda _: '{"x":' * 1_500),
    raw("a number with many digits", "a number that takes long to read", words.UNREADABLE, put('"x":' + "9" * 5_000)),
    raw("a list", "claims that are no object", words.UNREADABLE, lambda text: f"[{text}]"),
    raw("a string", "claims that are no object", words.UNREADABLE, json.dumps),
    raw("null", "claims that are no object", words.UNREADABLE, lambda _: "null"),
    raw("an empty object", "no claims", words.ISSUER, lambda _: "{}"),
    raw("no JSON", "no claims", words.UNREADABLE, lambda _: "iss=corp"),
    raw("more behind it", "two objects", words.UNREADABLE, lambda text: text + text),
    raw("a comment", "what is no JSON, and what some readers skip", words.UNREADABLE, lambda text: f"{text}/**/"),
    raw(
        "bytes that are no text",
        "no UTF-8",
        words.UNREADABLE,
        lambda text: text.encode().replace(b"mallory", b"\xc3\x28"),
    ),
    raw(
        "an overlong spelling",
        "a dot in two bytes, which no UTF-8 has",
        words.UNREADABLE,
        lambda text: text.encode().replace(b"mallory", b"\xc0\xae"),
    ),
    raw("UTF-16", "what some readers guess", words.UNREADABLE, lambda text: text.encode("utf-16")),
    raw("a byte order mark", "what some readers skip", words.UNREADABLE, lambda text: "\ufeff" + text),
    raw(
        "a lone surrogate",
        "a subject that no file can hold",
        words.SUBJECT,
        lambda text: text.replace("mallory", "\\ud800"),
    ),
    saying("a NUL in the subject", "a name that ends early for some", words.SUBJECT, sub="alice\x00mallory"),
    saying(
        "line ends in the subject",
        "a line of the log that Mallory writes",
        words.SUBJECT,
        sub="mallory\r\nrun 1: completed",
    ),
    saying(
        "an escape sequence in the client",
        "what steers the operator's terminal",
        words.CLIENT,
        client_id="agent\x1b[2J",
    ),
    saying("a subject without end", "a name that fills memory and log", words.SUBJECT, sub="m" * 5_000),
)

#: What a key is bound by. A confirmation that is not understood must not be taken for none (RFC 7800, section 3.1).
BOUND: Final = (
    saying("cnf empty", "bound to nothing that is said", words.BINDING, cnf={}),
    saying("cnf null", "bound to nothing", words.BINDING, cnf=None),
    saying("cnf a string", "bound to a word", words.BINDING, cnf="jkt"),
    saying("cnf a list", "bound to a list", words.BINDING, cnf=[{"jkt": "x"}]),
    saying(
        "cnf of a certificate",
        "bound to a certificate that nobody here can see",
        words.BINDING,
        cnf={"x5t#S256": "A" * 43},
    ),
    saying(
        "cnf of a whole key",
        "bound to a key, in a form that is not checked here",
        words.BINDING,
        cnf={"jwk": {"kty": "OKP"}},
    ),
    saying("cnf of a key's name", "bound to a name", words.BINDING, cnf={"kid": "mallory"}),
    saying(
        "cnf of two",
        "bound to a key, and to what is not checked here",
        words.BINDING,
        cnf={"jkt": "A" * 43, "x5t#S256": "A" * 43},
    ),
    saying("cnf of a number", "bound to a number", words.BINDING, cnf={"jkt": 7}),
    saying("cnf of an empty thumbprint", "bound to whatever has none", words.BINDING, cnf={"jkt": ""}),
    saying("cnf of a thumbprint that is none", "bound to what no key has", words.BINDING, cnf={"jkt": "short"}),
)

TENANTS: Final = (
    saying("tenant a list of two", "whose of the two?", words.TENANT, org=["org_acme", "org_zeta"]),
    saying("tenant a list of one", "what an issuer sends that allows several", status=200, org=["org_acme"]),
    saying("tenant a list in a list", "found by whoever looks deep enough", words.TENANT, org=[["org_acme"]]),
    saying("tenant an empty list", "nobody's, but not without saying so", words.TENANT, org=[]),
    saying("tenant unknown", "a tenant that nobody here serves", words.OTHER_TENANT, org="org_other"),
    saying("tenant empty", "a name that is none", words.OTHER_TENANT, org=""),
    saying("tenant null", "said, and not said", words.TENANT, org=None),
    saying("tenant a number", "no name", words.TENANT, org=1),
    saying("tenant true", "no name", words.TENANT, org=True),
    saying("tenant an object", "its keys are names", words.TENANT, org={"org_acme": {}}),
    saying("tenant in upper case", "names are exact", words.OTHER_TENANT, org="ORG_ACME"),
    saying("tenant with a space", "names are exact", words.OTHER_TENANT, org="org_acme "),
    saying("tenant two in one string", "names are exact", words.OTHER_TENANT, org="org_acme org_zeta"),
    saying(
        "tenant by the name that it has here",
        "the configuration's own name is nobody's claim",
        words.OTHER_TENANT,
        org="acme",
    ),
    saying("tenant with a look-alike", "a Cyrillic letter", words.OTHER_TENANT, org="org_\u0430cme"),
    Forgery(
        "tenant of another issuer",
        "a tenant is known by issuer and value: the partner's `org_acme` is not corp's",
        lambda ground: ground.partner.saying(org="org_acme"),
        words.OTHER_TENANT,
    ),
)

ALL: Final = (*TYPES, *ISSUERS, *AUDIENCES, *TIMES, *CLAIMS, *BOUND, *TENANTS)
