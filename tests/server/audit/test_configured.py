"""What ``[audit]`` comes to: keys, checkpoints that leave the store, and pseudonyms."""

import logging
import os
import stat
from pathlib import Path

import anyio
import pytest
from joserfc.jwk import OKPKey

from guideway.interpreter.audit.seal import Signer
from guideway.server.audit_anchor import Anchor, read_checkpoints
from guideway.server.audit_keeping import believed, keeping
from guideway.server.audit_section import AuditSection
from guideway.server.config import load
from guideway.server.stores import NoStore, open_configured
from tests.interpreter.trails import CALLER, restarts, signer

SEALS = [signer().seal("", seq, "0" * 64, 1_900_000_000.0) for seq in (1, 2)]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A private key in a file of its owner's."""
    path = tmp_path / "audit.pem"
    path.write_bytes(OKPKey.generate_key("Ed25519").as_pem(private=True))
    path.chmod(0o600)
    return path


def test_nothing_configured_signs_nothing_and_hides_nothing() -> None:
    found = keeping(AuditSection())
    assert (found.sealer, found.private, found.anchor, found.keep_seconds) == (None, None, None, None)


def test_a_store_is_kept_as_configured(key: Path, tmp_path: Path) -> None:
    """From the file to the disk: signed, redacted, and each checkpoint written elsewhere."""
    (tmp_path / "guideway.toml").write_text(
        """
        [store]
        folder = "store"
        [audit]
        key_file = "audit.pem"
        checkpoint_file = "elsewhere"
        checkpoint_records = 10
        keep_days = 30
        private = ["subject"]
        private_key_env = "PSEUDONYMS"
        """
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PSEUDONYMS", "0123456789abcdef")
        store, leases = open_configured(load(tmp_path / "guideway.toml"))
    assert not isinstance(store, NoStore)

    async def run() -> tuple[list[str], list[str | None]]:
        store.trail.put(list(restarts(5)))
        await store.trail.written()
        seals, subjects = await store.checkpoints(""), [row.subject for row in await store.records("")]
        await leases.close()
        await store.close()
        return list(seals), subjects

    seals, subjects = anyio.run(run)
    assert (seals, []) == read_checkpoints(tmp_path / "elsewhere")
    assert len(seals) == 1
    assert len(set(subjects)) == 1
    assert str(subjects[0]).startswith("private:")
    assert str(CALLER["subject"]) not in (tmp_path / "store" / "guideway.sqlite3").read_bytes().decode("latin-1")
    assert believed(AuditSection(key_file=key), []).read(seals[0]).seq == 15


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (None, 0o600, "no such file"),
        ("", 0o600, "is empty"),
        ("no key", 0o600, "holds no Ed25519 key"),
        ("x" * 5_000, 0o600, "more than"),
        ("anything", 0o604, "by anybody"),
    ],
)
def test_a_key_that_cannot_be_used_leaves_no_store(content: str | None, mode: int, words: str, tmp_path: Path) -> None:
    """A trail that should be signed and is not would be found out only by who verifies it."""
    path = tmp_path / "audit.pem"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    with pytest.raises(ValueError, match=words) as told:
        keeping(AuditSection(key_file=path))
    assert "`key_file` of [audit]" in str(told.value)
    (tmp_path / "guideway.toml").write_text('[store]\nfolder = "store"\n[audit]\nkey_file = "audit.pem"\n')
    store, _ = open_configured(load(tmp_path / "guideway.toml"))
    assert isinstance(store, NoStore)


def test_who_verifies_needs_no_private_key(key: Path, tmp_path: Path) -> None:
    signer = Signer.of(key.read_text())
    public = tmp_path / "public.pem"
    public.write_bytes(signer.public.as_pem(private=False))
    missing = tmp_path / "nowhere.pem"
    assert believed(AuditSection(key_file=missing), [public]).kids == [signer.kid]
    assert believed(AuditSection(public_keys=(public,)), []).kids == [signer.kid]
    assert believed(AuditSection(), []).kids == []
    for section, files in ((AuditSection(key_file=missing), []), (AuditSection(), [missing])):
        with pytest.raises(ValueError, match="cannot be read"):
            believed(section, files)


def test_each_checkpoint_is_a_line_of_a_file_that_is_its_owners_and_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "checkpoints"
    anchor = Anchor(file)
    with caplog.at_level(logging.INFO, "guideway"):
        for seal in SEALS:
            anchor(seal)
    assert read_checkpoints(file) == (SEALS, [])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert all(seal in caplog.text for seal in SEALS)


def test_a_line_that_was_cut_off_is_no_checkpoint_and_swallows_none(tmp_path: Path) -> None:
    file = tmp_path / "checkpoints"
    file.write_text(f"{SEALS[0]}\naa.b")
    assert read_checkpoints(file) == (SEALS[:1], [])
    Anchor(file)(SEALS[1])
    assert read_checkpoints(file) == (SEALS, ["line 2 is no checkpoint"])


def test_a_checkpoint_file_is_no_way_to_write_elsewhere(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was\n")
    (tmp_path / "checkpoints").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        Anchor(tmp_path / "checkpoints")(SEALS[0])
    assert victim.read_text() == "as it was\n"


def test_checkpoints_are_read_out_of_a_log_too_and_what_is_none_hides_none(tmp_path: Path) -> None:
    file = tmp_path / "log"
    said = f"INFO guideway.server.audit_anchor: checkpoint of the audit trail: {SEALS[0]}\n\n"
    file.write_bytes(f"{said}INFO something else\n".encode() + b"\xff\n" + b"x" * 100_000 + f"\n{SEALS[1]}\n".encode())
    faults = [f"line {number} is no checkpoint" for number in (3, 4, 5)]
    assert read_checkpoints(file) == (SEALS, faults)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Anchor(tmp_path / "nowhere" / "checkpoints")(SEALS[0])
    assert os.listdir(tmp_path) == []
