"""The audit trail: what a seal proves, what a verifier says, what an export proves by itself, and what is private."""

import base64
import hashlib
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwk import OKPKey
from tests.interpreter.trails import CALLER, NOW, Memory, restarts, signer

from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.audit.exported import NotExported, lines, verify_file
from guideway.interpreter.audit.findings import Verdict, What
from guideway.interpreter.audit.index import run_in, subject_in
from guideway.interpreter.audit.privacy import COVERS, REMOVED, Matter, Pseudonyms, private
from guideway.interpreter.audit.seal import Believed, Signer, public_keys
from guideway.interpreter.audit.sealed import Nobody, Unbelieved, unproven
from guideway.interpreter.audit.verify import NOT_SIGNED
from guideway.interpreter.audit.verifying import by_trail, verify_store

KEY = "0123456789abcdef0123456789abcdef"


def verdict(trail: Memory, by: Signer | None = None, **outside: list[str]) -> Verdict:
    """Return what is said of a trail in memory."""

    async def run() -> list[Verdict]:
        belief = Nobody() if by is None else Believed([by.public])
        return [found async for found in verify_store(trail, belief, by_trail(outside.get("outside", [])))]

    return anyio.run(run)[0]


def exported(trail: Memory, since: float | None = None, until: float | None = None) -> list[str]:
    """Return a trail's lines."""

    async def run() -> list[str]:
        assert trail.head is not None
        return [line async for line in lines(trail, trail.head, since, until)]

    return anyio.run(run)


def verified(written: list[str], by: Signer, outside: list[str] | None = None) -> list[Verdict]:
    """Return what is said of a file with these lines."""
    file = io.BytesIO("".join(f"{line}\n" for line in written).encode())
    return verify_file(file, Believed([by.public]), by_trail(outside or []))


def test_a_seal_is_a_jws_that_names_its_key_by_thumbprint() -> None:
    made = signer()
    header, payload, _ = (
        base64.urlsafe_b64decode(part + "==") for part in made.seal("acme", 7, "a" * 64, NOW).split(".")
    )
    public = made.public.as_dict(private=False)
    members = {key: public[key] for key in ("crv", "kty", "x")}  # RFC 7638, section 3.2
    digest = hashlib.sha256(json.dumps(members, separators=(",", ":")).encode()).digest()
    kid = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert json.loads(header) == {"alg": "Ed25519", "kid": kid}
    at = "2030-03-17T17:46:40.000000Z"
    assert json.loads(payload) == {"trail": "acme", "seq": 7, "hash": "a" * 64, "at": at}


def test_keys_are_read_from_pem_jwk_and_jwk_sets() -> None:
    key = OKPKey.generate_key("Ed25519")
    thumbprint = key.thumbprint()
    private_forms = (key.as_pem(private=True).decode(), json.dumps(key.as_dict(private=True)))
    for text in private_forms:
        assert Signer.of(text).kid == thumbprint
        assert not public_keys(text)[0].is_private
    other = OKPKey.generate_key("Ed25519")
    sets = json.dumps({"keys": [each.as_dict(private=False) for each in (key, other)]})
    assert [each.thumbprint() for each in public_keys(sets)] == [thumbprint, other.thumbprint()]
    assert public_keys(key.as_pem(private=False).decode())[0].thumbprint() == thumbprint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "no key",
        '{"keys":[]}',
        '{"keys":3}',
        '{"kty":"oct","k":"c2VjcmV0LXRoYXQtaXM"}',
        pytest.param(OKPKey.generate_key("X25519").as_pem(private=True).decode(), id="X25519"),
        pytest.param(OKPKey.generate_key("Ed25519").as_pem(private=False).decode(), id="public"),
    ],
)
def test_what_is_no_private_ed25519_key_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"Ed25519|empty|JWK|public") as told:
        Signer.of(text)
    assert "secret" not in str(told.value)
    assert "c2Vj" not in str(told.value)


def test_a_seal_is_believed_from_a_believed_key_alone() -> None:
    mine, other = signer(), signer()
    seal = mine.seal("", 1, "a" * 64, NOW)
    assert Believed([mine.public]).read(seal) == unproven(seal)
    forged = other.seal("", 2, "b" * 64, NOW).split(".")
    relabelled = ".".join([seal.split(".")[0], *forged[1:]])  # it says to be mine
    for text, words in (
        (other.seal("", 1, "a" * 64, NOW), "another key"),
        (relabelled, "not right"),
        (f"{seal}x", "not right"),
        ("a.b.c", "does not read"),
        ("", "does not read"),
        ("é.é.é", "does not read"),
        ("a" * 5_000, "too long"),
    ):
        with pytest.raises(Unbelieved, match=words):
            Believed([mine.public]).read(text)


def test_what_a_record_is_found_by_is_a_text_that_every_database_takes() -> None:
    for facts, found in (
        ({"run": "r", "caller": {"subject": "mona"}}, ("r", "mona")),
        ({"run": 5, "caller": {"subject": None}}, (None, None)),
        ({"run": "a\0b", "caller": {"subject": "\ud800"}}, (None, None)),
        ({"caller": "mona", "by": {"subject": "ada"}}, (None, None)),
        ({}, (None, None)),
    ):
        body: Mapping[str, Any] = facts
        assert (run_in(body), subject_in(body)) == found


@settings(max_examples=60, deadline=None)
@given(seq=st.integers(1, 90), data=st.data())
def test_any_change_of_one_record_is_found_at_its_place(seq: int, data: st.DataObject) -> None:
    trail = Memory(SIGNER).append(restarts(30), checkpoint_every=20)
    row = trail.rows[seq - 1]
    at = data.draw(st.integers(0, len(row.body) - 1))
    byte = data.draw(st.characters(min_codepoint=32, max_codepoint=126).filter(lambda char: char != row.body[at]))
    trail.change(seq, body=row.body[:at] + byte + row.body[at + 1 :])
    found = verdict(trail, SIGNER).finding
    assert found is not None
    assert (found.what, found.seq) == (What.CHANGED, seq)


SIGNER = signer()


def test_without_a_key_what_cannot_be_proven_is_said() -> None:
    unsigned, signed = Memory().append(restarts(5)), Memory(SIGNER).append(restarts(5))
    assert verdict(unsigned).whole
    assert not verdict(unsigned).proven
    assert verdict(unsigned).proof == NOT_SIGNED
    assert verdict(signed).whole
    assert not verdict(signed).proven
    assert SIGNER.kid in verdict(signed).proof
    found = verdict(unsigned, SIGNER).finding
    assert found is not None
    assert found.what is What.UNSIGNED


def test_a_trail_that_goes_on_while_it_is_read_is_whole() -> None:
    class Busy(Memory):
        async def records(self, trail: str, **which: Any) -> list[Any]:
            found = await super().records(trail, **which)
            if len(self.rows) < 60:
                self.append(list(restarts(2)))
            return found

    assert verdict(Busy(SIGNER).append(restarts(5)), SIGNER).whole


def test_records_beyond_the_head_were_added() -> None:
    trail = Memory(SIGNER).append(restarts(5))
    head = trail.head
    trail.append(restarts(1))
    trail.head = head
    found = verdict(trail, SIGNER).finding
    assert found is not None
    assert (found.what, found.seq) == (What.ADDED, 16)


def test_an_export_proves_itself() -> None:
    trail = Memory(SIGNER).append(restarts(20), checkpoint_every=20)
    (found,) = verified(exported(trail), SIGNER)
    assert found.whole
    assert found.proven
    assert (found.records, found.checkpoints, found.after) == (60, 3, None)


def test_a_part_goes_on_to_the_next_seal_and_is_proven_by_it() -> None:
    trail = Memory(SIGNER).append(restarts(20), checkpoint_every=20)
    written = exported(trail, NOW + 8, NOW + 9)
    (found,) = verified(written, SIGNER)
    assert found.proven
    assert (found.first, found.last, found.after) == (25, 40, 24)
    assert found.sound
    assert not found.whole
    (cut,) = verified([written[0], *written[2:]], SIGNER)
    assert cut.finding is not None
    assert (cut.finding.what, cut.finding.seq) == (What.DROPPED, 25)
    assert exported(trail, NOW + 1_000) == []


TAMPERINGS: dict[str, tuple[Callable[[list[str]], object], What, int]] = {
    "flip": (lambda file: file.__setitem__(30, file[30].replace("mona", "moma")), What.CHANGED, 31),
    "no JSON": (lambda file: file.__setitem__(30, "{"), What.CHANGED, 31),
    "delete": (lambda file: file.__delitem__(30), What.DROPPED, 31),
    "delete the first": (lambda file: file.__delitem__(0), What.DROPPED, 1),
    "twice": (lambda file: file.insert(30, file[30]), What.MOVED, 31),
    "swap": (lambda file: file.__setitem__(slice(30, 32), file[30:32][::-1]), What.MOVED, 31),
    "cut off": (lambda file: file.__delitem__(slice(50, 60)), What.CUT_OFF, 51),
    "without a head": (lambda file: file.__delitem__(-1), What.CUT_OFF, 61),
    "an older head": (
        lambda file: file.__setitem__(-1, file[-1].replace('"seq":60', '"seq":40')),
        What.ADDED,
        41,
    ),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_with_an_exported_file_is_found(name: str) -> None:
    tamper, what, seq = TAMPERINGS[name]
    written = exported(Memory(SIGNER).append(restarts(20), checkpoint_every=20))
    tamper(written)
    finding = verified(written, SIGNER)[0].finding
    assert finding is not None
    assert (finding.what, finding.seq) == (what, seq), finding


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b'{"export":"head"}\n',
        b'{"export":"map","trail":""}\n',
        b'{"export":"part","trail":"","after":"x"}',
        b'{"export":"part","trail":"","after":-1}',
        b'{"export":"part","trail":"","after":1e999}',
        b'{"export":"part","trail":"","after":24.0}',
        b'{"export":"part","trail":"","after":"24"}',
        b'{"export":"part","trail":"","after":true}',
        b'{"export":"head","trail":"","seq":"1","hash":"","seal":null}',
        b'{"export":"part","trail":"","after":1}\n{"export":"part","trail":"","after":2}',
        b'{"export":"head","trail":"","seq":1,"hash":"","seal":null}\n' * 2,
    ],
)
def test_what_is_no_export_is_refused(text: bytes) -> None:
    with pytest.raises(NotExported):
        verify_file(io.BytesIO(text), Nobody(), {})


def test_an_export_may_be_older_than_a_checkpoint_and_then_ends_before_it() -> None:
    trail = Memory(SIGNER).append(restarts(20), checkpoint_every=20)
    written = exported(trail)
    trail.append(restarts(20), checkpoint_every=20)
    finding = verified(written, SIGNER, trail.seals)[0].finding
    assert finding is not None
    assert finding.what is What.CUT_OFF


def test_a_file_that_says_to_be_a_part_is_never_whole_and_held_against_what_is_kept_outside() -> None:
    """Else one line would let a file that was cut off, or written anew, pass for the trail."""
    trail = Memory(SIGNER).append(restarts(20), checkpoint_every=20)
    written = exported(trail, None, NOW + 9)
    assert written[0] == '{"export":"part","trail":"","after":0}'
    (found,) = verified(written, SIGNER, trail.seals)
    assert (found.sound, found.whole, found.outside, found.beyond) == (True, False, 2, 60)
    assert verified(written, SIGNER, trail.seals[:2])[0].beyond is None
    stranger = Memory(signer()).append(restarts(20), checkpoint_every=20)
    assert verified(written, SIGNER, [*trail.seals[:2], stranger.seals[2]])[0].beyond is None
    rewritten = Memory(SIGNER).append([*islice(restarts(20), 4), *islice(restarts(40), 10, 66)], checkpoint_every=99)
    (found,) = verified([written[0], *exported(rewritten)], SIGNER, trail.seals)
    assert found.finding is not None
    assert found.finding.what is What.REWRITTEN


# What is private


FACTS: dict[str, Any] = {
    "run": "r",
    "caller": CALLER,
    "by": CALLER | {"subject": "ada"},
    "client_says": "claude",
    "model_says": "opus",
    "break_glass": "the shop is down",
    "reason": "go on",
    "program": 'RESTART "database"',
    "digest": "d" * 64,
    "service": "database",
    "unit": "unit database",
    "message": "database hung",
    "glass_broken": ["database is frozen"],
    "commands": [{"command": "RESTART", "target": "database", "tier": 3, "reason": "frozen"}],
    "worst_case": [{"command": "RESTART", "target": "database", "times": 1}],
    "causes": [{"command": "RESTART", "target": "database", "source": "database is frozen"}],
    "steps": [{"target": "database", "outcome": "ok", "observation": "answered in 3 ms", "message": "database runs"}],
    "refusal": {
        "code": "frozen",
        "message": "database is frozen",
        "reasons": [{"code": "frozen", "message": "database is frozen"}],
    },
}


def test_all_that_can_be_private_leaves_what_is_nobodys_business_out_and_the_rest_as_it_was() -> None:
    take_out = private(frozenset(Matter))
    assert take_out is not None
    left = json.dumps(take_out(FACTS))
    for word in ("mona", "ada", "an-agent", "claude", "opus", "shop", "go on", "database", "3 ms"):
        assert word not in left
    for word in (
        "d" * 64,
        "https://login.example",
        "RESTART",
        "frozen",
        "mcp:diag:write",
        '"tier": 3',
        '"outcome": "ok"',
    ):
        assert word in left
    assert FACTS["caller"] is CALLER
    assert CALLER["subject"] == "mona"


@pytest.mark.parametrize("matter", Matter)
def test_each_matter_is_the_facts_that_are_listed_for_it(matter: Matter) -> None:
    def at(value: Any, path: tuple[str, ...]) -> list[Any]:
        if not path:
            return [value]
        if path[0] == "*":
            return [found for each in value for found in at(each, path[1:])]
        return at(value[path[0]], path[1:]) if path[0] in value else []

    take_out = private([matter])
    assert take_out is not None
    found = take_out(FACTS)
    changed = {value for path in COVERS[matter] for value in at(found, path)}
    assert changed == {REMOVED}
    others = [path for other in Matter if other is not matter for path in COVERS[other]]
    for path in others:
        assert at(found, path) == at(FACTS, path)


def test_nothing_private_costs_nothing() -> None:
    assert private(()) is None


def test_people_are_told_together_by_their_pseudonyms() -> None:
    take_out = private([Matter.SUBJECT], pseudonyms=Pseudonyms(KEY))
    assert take_out is not None
    facts: dict[str, Any] = dict(take_out(FACTS))
    mona, ada = facts["caller"]["subject"], facts["by"]["subject"]
    assert re.fullmatch(r"private:[0-9a-f]{16}", mona)
    assert mona != ada
    assert mona == Pseudonyms(KEY).of("https://login.example", "mona")
    assert mona != Pseudonyms(KEY).of("https://other.example", "mona")
    assert mona != Pseudonyms(KEY[::-1]).of("https://login.example", "mona")
    with pytest.raises(ValueError, match="too short"):
        Pseudonyms("short")


def test_patterns_are_taken_out_of_every_text() -> None:
    take_out = private((), [re.compile(r"\d+ ms"), re.compile("mona")])
    assert take_out is not None
    facts: dict[str, Any] = dict(take_out(FACTS))
    assert facts["steps"][0]["observation"] == f"answered in {REMOVED}"
    assert facts["caller"]["subject"] == REMOVED
    assert facts["commands"] == FACTS["commands"]


def test_a_private_record_is_hashed_without_what_is_private() -> None:
    take_out = private([Matter.SUBJECT])
    assert take_out is not None
    entry = Entry(Kind.RUN_BEGUN, None, NOW, take_out(FACTS))
    assert "mona" not in Memory().append([entry]).rows[0].body


def test_a_trail_whose_head_is_gone_is_not_whole() -> None:
    trail = Memory(SIGNER).append(restarts(2))
    trail.head = None
    finding = verdict(trail, SIGNER).finding
    assert finding is not None
    assert (finding.what, finding.seq) == (What.HEAD, 7)


def test_a_trail_of_which_only_a_checkpoint_is_left_is_missing() -> None:
    trail = Memory(SIGNER).append(restarts(20), checkpoint_every=20)
    trail.head = None
    trail.rows.clear()
    finding = verdict(trail, SIGNER).finding
    assert finding is not None
    assert finding.what is What.DELETED
    assert "names its record 60" in finding.words


def test_a_head_that_says_to_have_a_checkpoint_has_it() -> None:
    trail = Memory(SIGNER).append(restarts(20), checkpoint_every=20)
    assert trail.head is not None
    trail.head = replace(trail.head, checkpoint=60)
    assert verdict(trail, SIGNER).whole
    trail.seals.pop()
    finding = verdict(trail, SIGNER).finding
    assert finding is not None
    assert (finding.what, finding.seq) == (What.CHECKPOINT, 60)


def test_a_trail_that_was_signed_later_says_up_to_where_it_was_not() -> None:
    trail = Memory(SIGNER).append(restarts(2))
    trail.append([Entry(Kind.TRAIL_SIGNED, None, NOW, {"unsigned_to": 6, "kid": SIGNER.kid})])
    found = verdict(trail, SIGNER)
    assert found.whole
    assert found.proof.endswith("; up to record 6 it was not signed before")


def test_an_emptied_trail_is_not_whole() -> None:
    trail = Memory(SIGNER).append(restarts(2))
    trail.rows.clear()
    finding = verdict(trail, SIGNER).finding
    assert finding is not None
    assert (finding.what, finding.seq) == (What.CUT_OFF, 1)
