"""What ``guideway doctor`` says of the audit trail."""

import sqlite3
from pathlib import Path

import anyio
import pytest
from joserfc.jwk import OKPKey

from guideway.server.cli.audit_findings import look_at_audit
from guideway.server.cli.entry import main
from guideway.server.cli.finding import Grade
from guideway.server.config import load
from guideway.server.stores import NoStore, open_configured
from tests.interpreter.trails import restarts

KEY = OKPKey.generate_key("Ed25519").as_pem(private=True)
SIGNED = '[audit]\nkey_file = "audit.pem"\ncheckpoint_file = "elsewhere/checkpoints"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "audit.pem").write_bytes(KEY)
    (tmp_path / "audit.pem").chmod(0o600)
    (tmp_path / "elsewhere").mkdir()
    return tmp_path


def configured(folder: Path, audit: str) -> Path:
    path = folder / "guideway.toml"
    path.write_text(f'[store]\nfolder = "store"\n{audit}')
    return path


def found(folder: Path, audit: str) -> list[tuple[Grade, str]]:
    return [(each.grade, each.message) for each in look_at_audit(load(configured(folder, audit)))]


def write(folder: Path, audit: str) -> None:
    """Write records, as they are configured."""

    async def run() -> None:
        store, leases = open_configured(load(configured(folder, audit)))
        assert not isinstance(store, NoStore)
        store.trail.put(list(restarts(3)))
        await store.trail.written()
        await leases.close()
        await store.close()

    anyio.run(run)


@pytest.mark.parametrize(
    ("audit", "mode", "grade", "words"),
    [
        ("", 0o600, Grade.NOTE, "is not signed"),
        ('[audit]\nkey_file = "audit.pem"\n', 0o600, Grade.NOTE, "in the store and the log alone"),
        (SIGNED, 0o640, Grade.WRONG, "can be read by others"),
        (SIGNED, 0o604, Grade.WRONG, "by anybody"),
        (SIGNED.replace("elsewhere/", "store/"), 0o600, Grade.NOTE, "is in the store's folder"),
        (SIGNED.replace("elsewhere/", "nowhere/"), 0o600, Grade.WRONG, "there is no such folder"),
        ('[audit]\nkey_env = "NOT_SET_ANYWHERE"\n', 0o600, Grade.WRONG, "is empty or not set"),
    ],
)
def test_how_the_trail_is_kept_is_looked_at(audit: str, mode: int, grade: Grade, words: str, folder: Path) -> None:
    (folder / "audit.pem").chmod(mode)
    ((its, message),) = found(folder, audit)
    assert its is grade
    assert words in message
    assert not (folder / "store").exists()


def test_a_trail_that_is_well_kept_is_well(folder: Path) -> None:
    assert found(folder, SIGNED) == []
    write(folder, SIGNED)
    assert found(folder, SIGNED) == [
        (Grade.OK, "the trail ends with the record that was written last, and that is signed")
    ]


def test_an_end_that_is_not_what_was_written_is_found(folder: Path) -> None:
    write(folder, SIGNED)
    with sqlite3.connect(folder / "store" / "guideway.sqlite3") as connection:
        connection.execute("DELETE FROM guideway_trail WHERE seq = 9")
    ((grade, message),) = found(folder, SIGNED)
    assert grade is Grade.WRONG
    assert "record 9 is missing" in message


def test_a_trail_of_before_the_key_is_not_signed(folder: Path) -> None:
    write(folder, "")
    ((grade, message),) = found(folder, SIGNED)
    assert grade is Grade.WRONG
    assert "not signed" in message
    write(folder, SIGNED)
    assert found(folder, SIGNED)[0][0] is Grade.OK


def test_what_is_private_is_nowhere_in_the_trail_of_a_real_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line to the disk, through the gates: also a refusal's words, and a ticket's."""
    everything = '"subject", "client", "client_says", "reason", "program", "targets", "message", "output"'
    path = configured(folder, f"[audit]\nprivate = [{everything}]\n")
    with path.open("a") as file:
        file.write(
            '[callers.mona]\nscopes = ["mcp:diag:read", "mcp:diag:write"]\n'
            '[callers.ada]\nscopes = ["mcp:diag:approve"]\n'
            '[services.cache]\ndriver = "memory"\nimpact = "low"\nreversibility = "easy"\nsettle_seconds = 0\n'
            '[services.database]\ndriver = "memory"\nsettle_seconds = 0\n'
        )
    monkeypatch.chdir(folder)
    for program in ('RESTART "cache" GET_STATUS "cache"', 'RESTART "database"', 'PING "nobody"'):
        (folder / "program.diag").write_text(program)
        main(["run", "program.diag", "--as", "mona"])
    capsys.readouterr()
    with sqlite3.connect(folder / "store" / "guideway.sqlite3") as connection:
        rows = connection.execute("SELECT kind, subject, body FROM guideway_trail ORDER BY seq").fetchall()
    kinds = {kind for kind, _, _ in rows}
    assert {"run.begun", "run.ended", "run.refused", "restart.begun", "restart.ended", "ticket.asked"} <= kinds
    for kind, subject, body in rows:
        assert subject == "[private]"
        for word in ("mona", "cache", "database", "nobody", "guideway 0.", "running"):
            assert word not in body, (kind, word, body)
