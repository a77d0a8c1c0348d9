"""Tokens that nobody who is trusted has signed, or not this way: header, key, algorithm and signature."""

import base64
import datetime
import json
import zlib
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.attacks.oauth import words
from tests.attacks.oauth.forge import MISSING, Key, b64, ec_key, ed_key, jws, rsa_key, secret, sign, unb64
from tests.attacks.oauth.forgeries import Forgery, Ground, headed

MALLORY: Final = rsa_key("mallory")
_NONE: Final = ("none", "None", "NONE", "nOnE", "none ", "", "NONE\x00")


def unsigned(alg: Any) -> Forgery:
    return Forgery(
        f"alg {alg!r} without a signature",
        "the oldest forgery: a token that says itself that nobody signed it, in a spelling that a check may not know",
        lambda ground: ground.corp.token(ground.corp.header(alg=alg), key=None),
        words.ALGORITHM,
    )


def shared(name: str, key: Any, alg: str = "HS256") -> Forgery:
    return Forgery(
        f"{alg} with {name}",
        "the public key is no secret: whoever takes it for one lets anybody sign",
        lambda ground: ground.corp.token(ground.corp.header(alg=alg), key=key(ground)),
        words.ALGORITHM,
    )


def by_mallory(name: str, story: str, why: str, **members: Any) -> Forgery:
    """Return a token that Mallory signed with a key of hers, and that says where that key is to be found."""
    return Forgery(
        name,
        story,
        lambda ground: ground.corp.token(
            ground.corp.header(**{key: value(ground) if callable(value) else value for key, value in members.items()}),
            key=MALLORY,
            alg="RS256",
        ),
        why,
    )


def named(name: str, story: str, kid: Any, why: str, *by: Any) -> Forgery:
    """Return a token with a key's name of its own, signed ``by`` a key and an algorithm."""
    key, alg = by or (b"", "HS256")
    return Forgery(
        f"kid {name}", story, lambda ground: ground.corp.token(ground.corp.header(kid=kid, alg=alg), key=key), why
    )


def changed(name: str, story: str, why: str, change: Any) -> Forgery:
    """Return a good token after its three parts were changed."""
    return Forgery(name, story, lambda ground: secret(change(*ground.corp.token().split("."))), why)


def certificate(key: Key) -> str:
    """Return a certificate that a key signed for itself, as a member of `x5c` (RFC 7515, section 4.1.6)."""
    assert isinstance(key.private, rsa.RSAPrivateKey)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "corp")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.private.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key.private, hashes.SHA256())
    )
    return base64.b64encode(built.public_bytes(serialization.Encoding.DER)).decode()


def encrypted(ground: Ground) -> str:
    """Return a token that is encrypted to corp's public key, which anybody can do (RFC 7516)."""
    header = b64(json.dumps({"alg": "RSA-OAEP-256", "enc": "A256GCM", "kid": ground.corp.key.kid}).encode())
    private = ground.corp.key.private
    assert isinstance(private, rsa.RSAPrivateKey)
    oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    content = AESGCM(b"k" * 32).encrypt(b"n" * 12, json.dumps(ground.corp.payload()).encode(), header.encode())
    wrapped = private.public_key().encrypt(b"k" * 32, oaep)
    parts = (header, b64(wrapped), b64(b"n" * 12), b64(content[:-16]), b64(content[-16:]))
    return secret(".".join(parts))


def spelled_in_der(ground: Ground) -> str:
    signed = ".".join(ground.corp.token(ec_header(ground), key=ground.corp_ec).split(".")[:2])
    raw = sign("ES256", ground.corp_ec, signed.encode())
    return secret(f"{signed}.{b64(encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:])))}")


def ec_header(ground: Ground, **changes: Any) -> dict[str, Any]:
    return ground.corp.header(**{"alg": "ES256", "kid": ground.corp_ec.kid} | changes)


def compressed(ground: Ground) -> str:
    squeezed = zlib.compress(json.dumps(ground.corp.payload()).encode())[2:-4]
    return ground.corp.token(ground.corp.header(zip="DEF"), squeezed)


def detached(ground: Ground) -> str:
    """Return an unencoded payload (RFC 7797), signed as that says."""
    header = b64(json.dumps(ground.corp.header(b64=False, crit=["b64"])).encode())
    payload = json.dumps(ground.corp.payload()).replace(".", "\\u002e")
    return secret(f"{header}.{payload}.{b64(sign('RS256', ground.corp.key, f'{header}.{payload}'.encode()))}")


def flipped(text: str, at: int = 20) -> str:
    """Return base64url with one bit of what it stands for changed."""
    content = bytearray(unb64(text))
    content[at] ^= 1
    return b64(bytes(content))


def loose_end(text: str) -> str:
    """Return base64url whose last character has bits that stand for nothing (RFC 4648, section 3.5)."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert len(text) % 4
    return text[:-1] + alphabet[alphabet.index(text[-1]) + 1]


SIGNATURES: Final = (
    *map(unsigned, _NONE),
    Forgery(
        "alg none spelled with an escape",
        "a check of the text is not a check of the value",
        lambda ground: ground.corp.token(
            f'{{"alg":"n\\u006fne","typ":"at+jwt","kid":"{ground.corp.key.kid}"}}', key=None
        ),
        words.ALGORITHM,
    ),
    headed(
        "alg none over a good signature",
        "a signature that is there is not a signature that is checked",
        words.ALGORITHM,
        alg="none",
    ),
    headed("alg missing", "what is not said may be guessed", words.ALGORITHM, alg=MISSING),
    headed("alg as a list", "one of them may be the one that is looked for", words.ALGORITHM, alg=["RS256", "none"]),
    headed("alg null", "null is no algorithm", words.ALGORITHM, alg=None),
    headed("alg as a number", "a number is no name", words.ALGORITHM, alg=256),
    headed("alg as an object", "an object is no name", words.ALGORITHM, alg={"RS256": True}),
    shared("the public key in PEM", lambda ground: ground.corp.key.pem()),
    shared("the public key in PEM without its last line end", lambda ground: ground.corp.key.pem().strip()),
    shared("the public key as a JWK", lambda ground: json.dumps(ground.corp.key.jwk()).encode()),
    shared("the modulus", lambda ground: unb64(ground.corp.key.jwk()["n"])),
    shared("the curve's point", lambda ground: unb64(ground.corp_ec.jwk()["x"])),
    shared("an empty key", lambda _: b""),
    shared("the public key in PEM", lambda ground: ground.corp.key.pem(), "HS384"),
    shared("the public key in PEM", lambda ground: ground.corp.key.pem(), "HS512"),
    # ---- keys that the token brings with it
    by_mallory(
        "jwk of Mallory", "a token that brings the key to check it with", words.HEADER, jwk=lambda _: MALLORY.jwk()
    ),
    by_mallory(
        "jwk of Mallory under no kid",
        "no name to look up, so the key at hand is taken",
        words.HEADER,
        jwk=lambda _: MALLORY.jwk(),
        kid=MISSING,
    ),
    by_mallory(
        "jku",
        "a token that says from where its key is to be fetched: also a request made for Mallory",
        words.HEADER,
        jku=lambda ground: f"{ground.corp.issuer}/mallory",
    ),
    by_mallory("x5u", "the same by certificate", words.HEADER, x5u=lambda ground: f"{ground.corp.issuer}/mallory"),
    by_mallory(
        "x5c", "a certificate that nobody but Mallory vouches for", words.HEADER, x5c=lambda _: [certificate(MALLORY)]
    ),
    by_mallory(
        "x5t", "a certificate's digest in the place of a name", words.SIGNATURE, x5t="AAAAAAAAAAAAAAAAAAAAAAAAAAA"
    ),
    by_mallory("a stranger's signature", "the right name, and another key", words.SIGNATURE),
    # ---- names of keys
    named(
        "that leads to an empty file",
        "a name that is opened as a path, and an empty secret",
        "../../../../dev/null",
        words.ALGORITHM,
    ),
    named(
        "that is SQL",
        "a name that is asked of a database, which then answers a key of Mallory's",
        "x' UNION SELECT 'x' --",
        words.ALGORITHM,
        b"x",
        "HS256",
    ),
    named(
        "that is a path, over RS256",
        "the same with an algorithm that is believed",
        "../../../../dev/null",
        words.SIGNATURE,
        MALLORY,
        "RS256",
    ),
    named("that is a command", "a name that a shell reads", "corp-rsa|id", words.SIGNATURE, MALLORY, "RS256"),
    named("with a NUL", "what a C string ends at", "corp-rsa\x00", words.SIGNATURE, MALLORY, "RS256"),
    named(
        "with line ends",
        "a line of the log that Mallory writes",
        "corp-rsa\r\nverified: mallory",
        words.SIGNATURE,
        MALLORY,
        "RS256",
    ),
    named("empty", "a name that fits everything that has none", "", words.SIGNATURE, MALLORY, "RS256"),
    named("that is huge", "a name that fills memory and log", "k" * 3_000, words.SIGNATURE, MALLORY, "RS256"),
    named("that is a list", "a value that no dictionary takes", ["corp-rsa"], words.KEY_NAME, MALLORY, "RS256"),
    named("that is a number", "a name that is compared as text", 1, words.KEY_NAME, MALLORY, "RS256"),
    named("null", "no name that is a name", None, words.KEY_NAME, MALLORY, "RS256"),
    named(
        "of a key for encryption",
        "a key that is published, but signs nothing",
        "corp-enc",
        words.SIGNATURE,
        rsa_key("corp-enc"),
        "RS256",
    ),
    named(
        "of the partner's key",
        "each issuer's keys are for its own tokens",
        "partner-ec",
        words.SIGNATURE,
        ec_key("partner-ec"),
        "ES256",
    ),
    named(
        "of a key that is too short",
        "what can be factored signs nothing, whoever publishes it",
        "corp-weak",
        words.SIGNATURE,
        rsa_key("corp-weak", 1024),
        "RS256",
    ),
    headed(
        "kid missing where there are several keys",
        "a key is not searched for by trying",
        words.SIGNATURE,
        kid=MISSING,
    ),
    # ---- extensions
    headed(
        "crit of what is not understood",
        "an extension that must be understood (RFC 7515, section 4.1.11)",
        words.HEADER,
        crit=["guard"],
        guard=True,
    ),
    headed(
        "crit of a registered name",
        "a claim made critical, so that it is looked for in the header",
        words.HEADER,
        crit=["exp"],
        exp=1,
    ),
    headed("crit empty", "an empty list is forbidden", words.HEADER, crit=[]),
    headed("crit that is no list", "a string is a list of letters", words.HEADER, crit="b64"),
    headed("b64 false that is not critical", "signed one way, read another", words.HEADER, b64=False),
    Forgery("an unencoded payload", "RFC 7797 is for other things than tokens", detached, words.MALFORMED),
    Forgery("zip", "a payload that grows when it is read", compressed, words.UNREADABLE),
    Forgery(
        "a bomb under zip",
        "a few bytes that become many",
        lambda ground: ground.corp.token(ground.corp.header(zip="DEF"), zlib.compress(b" " * 5_000_000)[2:-4]),
        words.UNREADABLE,
    ),
    headed("zip over a payload that is none", "what is said of it is false", words.HEADER, zip="DEF"),
    headed(
        "a header member that nobody registered",
        "it says nothing here, and does no harm (RFC 7515, section 4)",
        status=200,
        admin=True,
    ),
    Forgery(
        "a token in a token",
        "the good token is only what the bad one talks of",
        lambda ground: jws(ground.corp.header(cty="JWT"), ground.corp.token(), MALLORY, "RS256"),
        words.UNREADABLE,
    ),
    Forgery(
        "encrypted to the issuer's public key",
        "anybody can encrypt to it: that proves nothing about who did",
        encrypted,
        words.NOT_SIGNED,
    ),
    Forgery(
        "encrypted with a key that it brings",
        "`dir` with nothing in the key's place",
        lambda _: secret(
            ".".join(
                [b64(json.dumps({"alg": "dir", "enc": "A256GCM"}).encode()), "", b64(b"n" * 12), "Y29udGVudA", "dGFn"]
            )
        ),
        words.NOT_SIGNED,
    ),
    # ---- algorithm against key
    headed(
        "ES256 under the name of an RSA key", "an algorithm that does not fit the key", words.SIGNATURE, alg="ES256"
    ),
    Forgery(
        "RS256 under the name of a key on a curve",
        "the same the other way round",
        lambda ground: ground.corp.token(ground.corp.header(kid=ground.corp_ec.kid)),
        words.SIGNATURE,
    ),
    Forgery(
        "Ed25519 under the name of an RSA key",
        "the same with a third kind",
        lambda ground: ground.corp.token(ground.corp.header(alg="Ed25519"), key=ed_key("corp-ed")),
        words.SIGNATURE,
    ),
    Forgery(
        "ES256 with a key on another curve",
        "the issuer has it, but for ES384",
        lambda ground: ground.corp.token(
            ground.corp.header(alg="ES256", kid="corp-384"), key=ec_key("corp-384", "ES384"), alg="ES256"
        ),
        words.SIGNATURE,
    ),
    Forgery(
        "an algorithm that is not allowed here",
        "the issuer has the key, and the configuration does not name ES384",
        lambda ground: ground.corp.token(
            ground.corp.header(alg="ES384", kid="corp-384"), key=ec_key("corp-384", "ES384")
        ),
        words.ALGORITHM,
    ),
    Forgery(
        "ES256K",
        "a curve that nobody here has allowed",
        lambda ground: ground.corp.token(
            ground.corp.header(alg="ES256K", kid="corp-k"), key=ec_key("corp-k", "ES256K")
        ),
        words.ALGORITHM,
    ),
    headed("alg in lower case", "names of algorithms are exact", words.ALGORITHM, alg="rs256"),
    headed("alg with a space", "names of algorithms are exact", words.ALGORITHM, alg="RS256 "),
    Forgery(
        "PS256 with a key that is published for RS256",
        "a key is for the one algorithm that it names (RFC 7517, section 4.4)",
        lambda ground: ground.corp.token(
            ground.corp.header(alg="PS256", kid="corp-rs-only"), key=rsa_key("corp-rs-only")
        ),
        words.SIGNATURE,
    ),
    # ---- signatures
    changed(
        "no signature under RS256",
        "nothing to check is nothing wrong",
        words.SIGNATURE,
        lambda header, payload, _: f"{header}.{payload}.",
    ),
    changed(
        "one bit of the signature",
        "nearly right is wrong",
        words.SIGNATURE,
        lambda header, payload, signature: f"{header}.{payload}.{flipped(signature)}",
    ),
    changed(
        "half a signature",
        "what there is of it is right",
        words.SIGNATURE,
        lambda header, payload, signature: f"{header}.{payload}.{signature[: len(signature) // 8 * 4]}",
    ),
    changed(
        "a signature of zeros",
        "zeros",
        words.SIGNATURE,
        lambda header, payload, _: f"{header}.{payload}.{b64(bytes(256))}",
    ),
    Forgery(
        "the signature of another token",
        "a good signature, of something else",
        lambda ground: secret(
            ".".join([*ground.corp.saying(sub="root").split(".")[:2], ground.corp.token().split(".")[2]])
        ),
        words.SIGNATURE,
    ),
    Forgery(
        "ES256 of zeros",
        "r and s of zero verify under any key where nobody checks for it",
        lambda ground: secret(
            ".".join([*ground.corp.token(ec_header(ground), key=ground.corp_ec).split(".")[:2], b64(bytes(64))])
        ),
        words.SIGNATURE,
    ),
    Forgery("ES256 in DER", "another spelling of the same numbers", spelled_in_der, words.SIGNATURE),
)

SPELLINGS: Final = (
    changed(
        "padding",
        "one token is one string: another spelling slips past whoever remembers the first",
        words.ISSUER,
        lambda header, payload, signature: f"{header}.{payload}.{signature}==",
    ),
    changed(
        "an alphabet that is not for URLs",
        "`+` and `/` stand for the same, elsewhere",
        words.ISSUER,
        lambda header, payload, signature: f"{header}.{payload}.{'+/' + signature[2:]}",
    ),
    changed(
        "a character that a lax reader skips",
        "the same bytes for who skips it",
        words.MALFORMED,
        lambda header, payload, signature: f"{header}.{payload}.{signature[:9]}!{signature[9:]}",
    ),
    changed(
        "bits that stand for nothing",
        "the same bytes, another string",
        words.SIGNATURE,
        lambda header, payload, signature: f"{header}.{payload}.{loose_end(signature)}",
    ),
    changed("a part more", "four parts", words.NOT_SIGNED, lambda *parts: ".".join([*parts, "e30"])),
    changed("a part less", "two parts", words.NOT_SIGNED, lambda header, payload, _: f"{header}.{payload}"),
    changed("no header", "an empty part", words.ISSUER, lambda _, payload, signature: f".{payload}.{signature}"),
    changed("no payload", "an empty part", words.UNREADABLE, lambda header, _, signature: f"{header}..{signature}"),
    changed(
        "a header that is a list",
        "JSON, but no object",
        words.ISSUER,
        lambda _, payload, signature: f"{b64(b'[]')}.{payload}.{signature}",
    ),
    changed(
        "a header that is null",
        "JSON, but no object",
        words.ISSUER,
        lambda _, payload, signature: f"{b64(b'null')}.{payload}.{signature}",
    ),
    changed(
        "a header that is no JSON",
        "no JSON",
        words.ISSUER,
        lambda _, payload, signature: f"{b64(b'alg=none')}.{payload}.{signature}",
    ),
    changed(
        "a header that is no UTF-8",
        "bytes that are no text",
        words.ISSUER,
        lambda _, payload, signature: f"{b64(bytes([0xFF, 0xFE, 0x7B]))}.{payload}.{signature}",
    ),
    changed(
        "a header that nests",
        "a header that ends a reader's stack",
        words.ISSUER,
        lambda _, payload, signature: f"{b64(b'[' * 3_000)}.{payload}.{signature}",
    ),
    Forgery(
        "alg twice",
        "who reads the first and who reads the last do not read the same",
        lambda ground: ground.corp.token(
            f'{{"alg":"none","alg":"RS256","typ":"at+jwt","kid":"{ground.corp.key.kid}"}}', alg="RS256"
        ),
        words.UNREADABLE,
    ),
    Forgery(
        "kid twice",
        "the same with the key's name",
        lambda ground: ground.corp.token(
            f'{{"kid":"corp-ec","alg":"RS256","typ":"at+jwt","kid":"{ground.corp.key.kid}"}}', alg="RS256"
        ),
        words.UNREADABLE,
    ),
    Forgery(
        "a header behind a byte order mark",
        "what some readers skip",
        lambda ground: ground.corp.token(b"\xef\xbb\xbf" + json.dumps(ground.corp.header()).encode(), alg="RS256"),
        words.ISSUER,
    ),
    Forgery(
        "a header in UTF-16",
        "what some readers guess",
        lambda ground: ground.corp.token(json.dumps(ground.corp.header()).encode("utf-16"), alg="RS256"),
        words.ISSUER,
    ),
    Forgery(
        "the JSON serialization",
        "RFC 7515 has another form, in which one payload has several signatures",
        lambda ground: secret(
            json.dumps(
                dict(zip(("protected", "payload", "signature"), ground.corp.token().split("."), strict=True)),
                separators=(",", ":"),
            )
        ),
        words.MALFORMED,
    ),
    Forgery(
        "a long token",
        "a reader that works for as long as it is fed",
        lambda ground: ground.corp.saying(more="x" * 40_000),
        words.TOO_LONG,
    ),
    Forgery("dots alone", "nothing, three times", lambda _: "..", words.ISSUER),
    Forgery("words", "somebody's password", lambda _: secret("correct-horse-battery-staple"), words.ISSUER),
)
