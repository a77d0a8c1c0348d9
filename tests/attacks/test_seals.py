"""Whoever may write the store, or the file of checkpoints, writes what they like in a seal's place.

What is no seal proves nothing, and no more than that: it keeps nobody from reading what stands beside it.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from guideway.interpreter.audit.seal import Believed
from guideway.interpreter.audit.sealed import Nobody, Unbelieved
from guideway.server.audit_anchor import furthest
from tests.interpreter.trails import NOW, signer

SIGNER = signer()
OURS: dict[str, Any] = {"alg": "Ed25519", "kid": SIGNER.kid}
SAID: dict[str, Any] = {"trail": "", "seq": 9, "hash": "a" * 64, "at": "2030-03-17T17:46:40.000000Z"}

HEADERS: dict[str, Any] = {
    "another algorithm": OURS | {"alg": "HS256"},
    "no algorithm": OURS | {"alg": "none"},
    "an algorithm that is a list": OURS | {"alg": ["Ed25519"]},
    "an algorithm that is a number": OURS | {"alg": 5},
    "no name of an algorithm": {"kid": SIGNER.kid},
    "crit that is a number": OURS | {"crit": 5},
    "crit that is empty": OURS | {"crit": []},
    "crit of what is no name": OURS | {"crit": [{}]},
    "crit of what is not known": OURS | {"crit": ["x"], "x": 1},
    "a payload that is not encoded": OURS | {"crit": ["b64"], "b64": False},
    "keys of its own": OURS | {"jwk": 5, "x5c": {}, "jku": []},
}
PAYLOADS: dict[str, Any] = {
    "a trail that is no text": SAID | {"trail": "\ud800"},
    "a trail that no database can be asked for": SAID | {"trail": "a\0b"},
    "a trail that is a list": SAID | {"trail": ["a"]},
    "a hash that is no text": SAID | {"hash": "\ud800"},
    "a time that is a number": SAID | {"at": 5},
    "the place before the first": SAID | {"seq": 0},
    "a place before the beginning": SAID | {"seq": -1},
    "a place beyond any store's": SAID | {"seq": 2**63},
    "a place of many digits": SAID | {"seq": 10**2_500},
    "a place that is a fraction": SAID | {"seq": 9.0},
    "a place that is true": SAID | {"seq": True},
    "no object": ["a"],
}


def forged(header: Any, payload: Any) -> str:
    """Return what looks like a seal."""
    parts = [json.dumps(header).encode(), json.dumps(payload).encode(), b"x" * 64]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@pytest.mark.parametrize("name", HEADERS)
def test_no_header_makes_a_seal_of_what_nobody_signed(name: str) -> None:
    with pytest.raises(Unbelieved, match="not right"):
        Believed([SIGNER.public]).read(forged(HEADERS[name], SAID))


@pytest.mark.parametrize("name", PAYLOADS)
def test_what_says_nothing_of_a_record_is_no_seal_whoever_is_believed(name: str) -> None:
    for belief in (Nobody(), Believed([SIGNER.public])):
        with pytest.raises(Unbelieved, match="is none"):
            belief.read(forged(OURS, PAYLOADS[name]))


def test_what_a_seal_of_ours_says_is_read() -> None:
    assert Nobody().read(forged(OURS, SAID)).seq == SAID["seq"]


def test_a_server_finds_the_checkpoints_among_all_that(tmp_path: Path) -> None:
    seal = SIGNER.seal("", 7, "a" * 64, NOW)
    lines = [
        *(forged(header, SAID) for header in HEADERS.values()),
        *(forged(OURS, said) for said in PAYLOADS.values()),
    ]
    (tmp_path / "checkpoints").write_text("\n".join([*lines, seal, *lines, ""]))
    assert furthest(tmp_path / "checkpoints", Believed([SIGNER.public]))[""].seq == 7
