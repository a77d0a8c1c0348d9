"""Whoever may write the store writes rows into it that no program would: no reader stumbles, and no trail is hidden.

A record of a few is spoiled in one column at a time, by sqlite3 itself. ``audit verify`` says which, and that the other
trail is whole; ``tail``, ``show`` and ``export`` show what there is to be read, or say what is not.
"""

import base64
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from joserfc.jwk import OKPKey

from guideway.interpreter.audit.chain import hash_of
from guideway.interpreter.audit.keeping import Keeping
from guideway.interpreter.audit.seal import Believed, Signer
from guideway.interpreter.store import open_store
from guideway.interpreter.store.folder import FILE
from guideway.server.cli.command import Exit
from guideway.server.cli.entry import main
from tests.interpreter.trails import restarts

RUN = "00000001-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a configuration, and a store with two signed trails."""
    folder, key = tmp_path_factory.mktemp("written"), OKPKey.generate_key("Ed25519")
    (folder / "audit.pem").write_bytes(key.as_pem(private=True))
    (folder / "audit.pem").chmod(0o600)
    (folder / "guideway.toml").write_text('[store]\nfolder = "store"\n[audit]\nkey_file = "audit.pem"\n')

    async def write() -> None:
        store, leases = open_store(folder=folder / "store", keeping=Keeping(Signer(key), Believed([key])))
        store.trail.put([*restarts(3), *restarts(3, tenant="acme")])
        await store.trail.written()
        await leases.close()
        await store.close()

    anyio.run(write)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    shutil.copytree(written, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def said(folder: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["audit", *arguments, "--config", str(folder / "guideway.toml")])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return run


def write(folder: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(folder / "store" / FILE)
    with connection:
        assert connection.execute(statement, values).rowcount > 0
    connection.close()


#: Values of every type that SQLite has, and texts that are none, or none of ours.
ODD: dict[str, Any] = {
    "a blob": b"\x00\xff",
    "text": "abc",
    "empty text": "",
    "a negative number": -7,
    "a huge number": 2**63 - 1,
    "a fraction": 4.5,
    "more than a time": 1e300,
    "deep JSON": "[" * 100_000,
    "an escape": "\x1b[2J\r\n",
}
COLUMNS = {
    "guideway_trail": ("seq", "body", "hash", "at", "kind", "run_id", "subject"),
    "guideway_trails": ("trail", "seq", "hash", "seal", "checkpoint_seq"),
    "guideway_checkpoints": ("seal", "seq"),
}
#: What was there, and what says that no checkpoint was kept.
HARMLESS = {
    ("guideway_trails", "trail", "empty text"),
    ("guideway_trails", "checkpoint_seq", "a negative number"),
}
PLACES = [
    (table, column, name)
    for table, columns in COLUMNS.items()
    for column in columns
    for name in ODD
    if (table, column, name) not in HARMLESS
]


@pytest.mark.parametrize(("table", "column", "name"), PLACES)
def test_no_value_in_any_column_blinds_a_reader(table: str, column: str, name: str, folder: Path, said: Said) -> None:
    where = "trail = '' AND seq = 4" if table == "guideway_trail" else "trail = ''"
    write(folder, f"UPDATE {table} SET {column} = ? WHERE {where}", ODD[name])  # noqa: S608  # of this file
    code, out, _ = said("verify", "--json")
    verdicts = {verdict["trail"]: verdict for verdict in json.loads(out)["trails"]}
    assert code == Exit.FAILED, verdicts
    assert verdicts[""]["finding"] is not None or column == "trail", verdicts
    assert verdicts["acme"]["whole"]
    for reading in (("tail", "--all"), ("show", RUN), ("export", "--all"), ("export", "--format", "ocsf")):
        said(*reading)


def test_a_text_that_is_no_utf_8_is_found(folder: Path, said: Said) -> None:
    write(folder, "UPDATE guideway_trail SET body = CAST(x'7bff7d' AS TEXT) WHERE trail = '' AND seq = 4")
    code, out, _ = said("verify")
    assert code == Exit.FAILED
    assert "the text of record 4 was changed" in " ".join(out.split())
    for reading in (("tail", "--all"), ("show", RUN), ("export", "--all")):
        said(*reading)


#: Bodies that read, each with its hash, and say nothing that a record of their kind says.
FACTS: dict[str, Any] = {
    "caller": ["mona", {"subject": {"a": 1}}, 5],
    "commands": [5, ["x"], [{"tier": {"a": 1}, "command": []}]],
    "program": [5, {"a": 1}],
    "time": [5, "yesterday", None],
    "kind": [5, "run.ended", "restart.ended"],
    "steps": ["x", [{"seconds": "long", "number": {}}]],
}


@pytest.mark.parametrize(("fact", "value"), [(fact, value) for fact, values in FACTS.items() for value in values])
def test_facts_of_no_kind_are_told(fact: str, value: object, folder: Path, said: Said) -> None:
    database = sqlite3.connect(folder / "store" / FILE)
    (text,) = database.execute("SELECT body FROM guideway_trail WHERE trail = '' AND seq = 4").fetchone()
    database.close()
    body = json.dumps(json.loads(text) | {"kind": "run.ended", "steps": [], fact: value}, separators=(",", ":"))
    change = "UPDATE guideway_trail SET body = ?, hash = ?, kind = 'run.ended' WHERE trail = '' AND seq = 4"
    write(folder, change, body, hash_of(body))
    assert said("verify")[0] == Exit.FAILED
    for reading in (("tail", "--all"), ("show", RUN), ("export", "--all"), ("export", "--format", "ocsf")):
        said(*reading)


def test_a_trail_without_a_head_is_not_hidden(folder: Path, said: Said) -> None:
    """To delete one row took a whole tenant's trail out of everybody's sight."""
    write(folder, "DELETE FROM guideway_trails WHERE trail = 'acme'")
    code, out, _ = said("verify")
    assert code == Exit.FAILED
    assert "NOT WHOLE the trail of tenant `acme`" in out
    assert "nothing says that the trail ends with record 9" in out
    code, out, errors = said("tail", "--tenant", "acme", "--json")
    assert (code, len(out.splitlines())) == (Exit.OK, 9)
    assert "does not say any more where the trail of tenant `acme` ends" in errors
    code, out, errors = said("export", "--tenant", "acme")
    assert len([line for line in out.splitlines() if '"kind"' in line]) == 9
    assert '"head"' not in out
    assert "does not say any more" in errors
    assert said("show", RUN, "--tenant", "acme")[0] == Exit.FAILED


def test_nor_is_one_of_which_only_a_checkpoint_is_left(folder: Path, said: Said) -> None:
    for table in ("guideway_trails", "guideway_trail"):
        write(folder, f"DELETE FROM {table} WHERE trail = 'acme'")  # noqa: S608  # of this file
    code, out, _ = said("verify")
    assert code == Exit.FAILED
    assert "the trail of tenant `acme` is missing" in " ".join(out.split())


def test_a_checkpoint_that_was_dropped_is_missed_without_one_outside(folder: Path, said: Said) -> None:
    write(folder, "DELETE FROM guideway_checkpoints WHERE trail = 'acme'")
    code, out, _ = said("verify")
    assert code == Exit.FAILED
    assert "of record 9, the last one, is missing" in " ".join(out.split())


def test_a_line_that_is_no_checkpoint_hides_nothing(folder: Path, said: Said) -> None:
    """One forged line in the file that is kept outside ended the verification of everything."""
    (folder / "outside").write_text("forged\n")
    write(folder, "UPDATE guideway_trail SET subject = 'eve' WHERE trail = 'acme' AND seq = 2")
    code, out, _ = said("verify", "--checkpoints", "outside")
    assert code == Exit.FAILED
    assert "NOT WHOLE `outside`: line 1 is no checkpoint" in out
    assert "whole     the installation's own trail" in out
    assert "record 2 would be found by another subject" in " ".join(out.split())
    found = json.loads(said("verify", "--checkpoints", "outside", "--json")[1])
    assert (found["whole"], found["checkpoint_faults"]) == (False, ["`outside`: line 1 is no checkpoint"])


@pytest.mark.parametrize("seq", [10**6, 10**12, 2**63 - 1, 3, 1, 0, -7])
def test_a_head_that_names_another_end_hides_no_record(seq: int, folder: Path, said: Said) -> None:
    """A lower one hid all records behind it, and from a high one on the last ones were looked for without end."""
    write(folder, "UPDATE guideway_trails SET seq = ? WHERE trail = 'acme'", seq)
    assert said("verify")[0] == Exit.FAILED
    code, out, errors = said("tail", "--tenant", "acme", "--json")
    assert (code, len(out.splitlines())) == (Exit.OK, 9)
    assert "does not say any more where the trail of tenant `acme` ends" in errors
    code, out, _ = said("show", RUN, "--tenant", "acme")
    assert code == Exit.FAILED
    assert "records 4-6 of the trail of tenant `acme`" in out
    assert len([line for line in said("export", "--tenant", "acme")[1].splitlines() if '"kind"' in line]) == 9


@pytest.mark.parametrize("name", ["CAST('acme' AS BLOB)", "CAST(x'61ff' AS TEXT)", "CAST(x'61636d6500' AS TEXT)"])
def test_a_trail_whose_name_nobody_can_ask_for_is_told(name: str, folder: Path, said: Said) -> None:
    for table in COLUMNS:
        write(folder, f"UPDATE {table} SET trail = {name} WHERE trail = 'acme'")  # noqa: S608  # of this file
    code, out, _ = said("verify")
    assert code == Exit.FAILED
    assert "whole     the installation's own trail" in out
    assert "NOT WHOLE the trail of tenant `a" in out
    for reading in (("tail", "--all", "--json"), ("export", "--all")):
        code, out, errors = said(*reading)
        assert len([line for line in out.splitlines() if '"kind"' in line]) == 18 or "guideway audit verify" in errors


def test_a_head_under_a_name_that_is_no_text_stands_in_front_of_none(folder: Path, said: Said) -> None:
    columns = "3, hash, seal, sealed_at, checkpoint_seq, checkpoint_at FROM guideway_trails WHERE trail = 'acme'"
    write(folder, f"INSERT INTO guideway_trails SELECT CAST(trail AS BLOB), {columns}")
    code, out, _ = said("verify")
    assert code == Exit.FAILED
    assert "the head has a value of the type `blob` as its `trail`" in " ".join(out.split())
    assert len(said("tail", "--tenant", "acme", "--json")[1].splitlines()) == 9


@pytest.mark.parametrize("seq", [0, -5])
def test_a_record_before_the_first_was_added(seq: int, folder: Path, said: Said) -> None:
    columns = "body, hash, at, kind, run_id, subject FROM guideway_trail WHERE trail = 'acme' AND seq = 1"
    write(folder, f"INSERT INTO guideway_trail SELECT trail, {seq}, {columns}")
    code, out, _ = said("verify")
    assert code == Exit.FAILED
    assert f"record {seq} stands before the first place" in " ".join(out.split())
    assert f"record {seq} stands before the first place" in said("tail", "--all")[2]


def test_a_record_in_no_place_is_missed_by_those_who_are_not_shown_it(folder: Path, said: Said) -> None:
    write(folder, "UPDATE guideway_trail SET seq = 'nine' WHERE trail = 'acme' AND seq = 9")
    code, out, errors = said("tail", "--tenant", "acme", "--json")
    assert (code, len(out.splitlines())) == (Exit.OK, 8)
    assert "a record has a value of the type `text` as its `seq`" in errors
    assert "as its `seq`" in said("export", "--tenant", "acme")[2]
    assert "as its `seq`" not in said("tail", "--tenant", "")[2]


def test_a_checkpoint_in_another_ones_place_is_told(folder: Path, said: Said) -> None:
    """By its place it is chosen up to where old records are removed."""
    write(folder, "UPDATE guideway_checkpoints SET seq = 5 WHERE trail = 'acme'")
    code, out, _ = said("verify")
    assert code == Exit.FAILED
    assert "checkpoint 5 stands in another one's place: it is of record 9" in " ".join(out.split())


def test_how_a_run_began_cannot_be_hidden_from_who_looks_at_the_run(folder: Path, said: Said) -> None:
    """A record that is found by another run was left out, and what was left was called proven."""
    write(folder, "UPDATE guideway_trail SET run_id = 'another' WHERE trail = 'acme' AND seq = 4")
    code, out, _ = said("show", RUN, "--tenant", "acme")
    assert code == Exit.FAILED
    assert "record 4 would be found by another run" in " ".join(out.split())


#: Bodies that would be more than one record's line, or none, where they are written as they stand there.
LINES = [
    '{"v":1}\n{"export":"head","trail":"","seq":4,"hash":"","seal":null}',
    '{"v":1}\r\n{"export":"part","trail":"acme","after":0}\n',
    '{"export":"part","trail":"acme","after":4}',
    '{"export":"map"}',
    "",
    "\x1b[2J",
]


@pytest.mark.parametrize("body", LINES)
def test_no_body_is_more_than_its_record_where_it_is_written(body: str, folder: Path, said: Said) -> None:
    change = "UPDATE guideway_trail SET body = ?, hash = ? WHERE trail = '' AND seq = 4"
    write(folder, change, body, hash_of(body))
    rows = [json.loads(line) for line in said("tail", "--json", "--tenant", "")[1].splitlines()]
    assert [row["seq"] for row in rows] == list(range(1, 10))
    assert rows[3] == {"trail": "", "seq": 4, "unreadable": body}
    assert said("export", "--all", "--output", "trails.jsonl")[0] == Exit.OK
    code, out, _ = said("verify", "trails.jsonl", "--json")
    own, acme = json.loads(out)["trails"]
    assert code == Exit.FAILED
    assert (own["finding"]["what"], own["finding"]["seq"]) == ("changed", 4)
    assert acme["whole"]


def test_a_checkpoint_of_what_no_store_can_be_asked_for_hides_nothing(folder: Path, said: Said) -> None:
    payload = base64.urlsafe_b64encode(b'{"trail":"\\ud800","seq":1,"hash":"","at":""}').decode()
    header = base64.urlsafe_b64encode(b'{"kid":""}').decode()
    (folder / "outside").write_text(f"\n{header}.{payload}.\n")
    code, out, _ = said("verify", "--checkpoints", "outside")
    assert code == Exit.FAILED
    assert "NOT WHOLE `outside`: line 2 is no checkpoint" in out
    assert out.count("whole     the ") == 2
