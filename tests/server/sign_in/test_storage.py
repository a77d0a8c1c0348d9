"""Where tokens are kept: whole, for their owner alone, one shell at a time; and never seen on the way."""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import keyring
import keyring.backend
import keyring.backends.fail
import keyring.errors
import pytest

from guideway.server.sign_in.errors import StorageError
from guideway.server.sign_in.store import TokenStore, Unreadable, standard_store
from tests.server.sign_in.entries import ACCESS, REFRESH, SECRET, SERVER, entry

pytestmark = pytest.mark.anyio

OTHER = "https://other.example.com/mcp"


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "state" / "tokens", uses_keyring=False)


def path_of(store: TokenStore) -> Path:
    return Path(store.where(SERVER))


def test_what_is_kept_comes_back(store: TokenStore) -> None:
    assert store.read(SERVER) is None
    kept = entry(client_secret=SECRET, token_endpoint_auth_method="client_secret_basic")  # noqa: S106
    store.write(kept)
    store.write(entry(OTHER))
    assert store.read(SERVER) == kept
    assert {*store.kept()} == {SERVER, OTHER}
    store.remove(SERVER)
    store.remove(SERVER)
    assert store.read(SERVER) is None
    assert [*store.kept()] == [OTHER]


def test_one_file_that_cannot_be_read_hides_none_of_the_others(store: TokenStore) -> None:
    store.write(entry())
    store.write(entry(OTHER))
    path_of(store).write_text("{")
    told = [*store.kept()]
    (bad,) = (one for one in told if isinstance(one, Unreadable))
    assert OTHER in told
    assert (bad.path, str(bad.why)) == (path_of(store), f"`{bad.path}` does not hold a sign-in of this version")
    store.discard(bad)
    assert [*store.kept()] == [OTHER]


def test_whether_something_can_be_kept_is_tried_and_leaves_nothing(store: TokenStore) -> None:
    store.try_out()
    assert list(path_of(store).parent.iterdir()) == []
    path_of(store).parent.chmod(0o755)
    with pytest.raises(StorageError, match="others may read or write"):
        store.try_out()


async def test_a_lock_goes_with_what_it_locks_and_is_still_one_lock(store: TokenStore) -> None:
    """Whoever waited for a lock whose file was removed must not hold it beside who made a new file."""
    lock = path_of(store).with_suffix(".lock")
    holding, most = 0, 0

    async def hold() -> None:
        nonlocal holding, most
        for _ in range(10):
            async with store.lock(SERVER):
                assert lock.exists()
                holding += 1
                most = max(most, holding)
                await anyio.lowlevel.checkpoint()
                holding -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(hold)
    assert most == 1
    assert not lock.exists()
    store.write(entry())
    async with store.lock(SERVER):
        pass
    assert lock.exists(), "as long as there is something to lock"
    path_of(store).unlink()
    (lock.parent / f"{path_of(store).name}.1234.new").write_text("of a shell that was killed")
    store.remove(SERVER)
    await store.tidy()
    assert list(lock.parent.iterdir()) == []


def test_an_entry_shows_no_secret(store: TokenStore) -> None:
    kept = entry(client_secret=SECRET)
    for text in (repr(kept), str(kept), repr(kept.secrets), f"{kept!r:.5000}"):
        assert ACCESS not in text
        assert REFRESH not in text
        assert SECRET not in text
    path = store.where(SERVER)
    assert SERVER not in path


def test_files_are_the_owners_alone_whatever_the_umask(store: TokenStore) -> None:
    before = os.umask(0)
    try:
        store.write(entry())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path_of(store).stat().st_mode) == 0o600
    assert stat.S_IMODE(path_of(store).parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o602, 0o666])
def test_a_file_that_others_may_read_or_write_is_refused(store: TokenStore, mode: int) -> None:
    """Somebody's backup restored it with a wide mode: who knows who has read it, or put their own client in it."""
    store.write(entry())
    path_of(store).chmod(mode)
    with pytest.raises(StorageError, match="others may read or write") as refused:
        store.read(SERVER)
    assert "chmod 600" in (refused.value.help or "")
    store.remove(SERVER)
    assert not path_of(store).exists()


@pytest.mark.parametrize("mode", [0o701, 0o750, 0o777])
def test_a_folder_that_others_may_look_into_is_refused(store: TokenStore, mode: int) -> None:
    store.write(entry())
    path_of(store).parent.chmod(mode)
    with pytest.raises(StorageError, match="others may read or write"):
        store.read(SERVER)
    with pytest.raises(StorageError, match="others may read or write"):
        store.write(entry())


def test_a_link_in_a_files_place_is_not_followed(store: TokenStore, tmp_path: Path) -> None:
    """Another user's file behind a link would sign the person in as somebody else, or be overwritten."""
    store.write(entry())
    elsewhere = tmp_path / "elsewhere"
    path_of(store).rename(elsewhere)
    path_of(store).symlink_to(elsewhere)
    with pytest.raises(StorageError, match="is a link"):
        store.read(SERVER)
    before = elsewhere.read_bytes()
    store.write(entry(lasts=5))
    assert not path_of(store).is_symlink(), "a new sign-in takes the link's place"
    assert elsewhere.read_bytes() == before


def test_a_link_in_the_folders_place_is_not_followed(store: TokenStore, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    path_of(store).parent.parent.mkdir()
    path_of(store).parent.symlink_to(elsewhere)
    with pytest.raises(StorageError, match="is no folder"):
        store.read(SERVER)
    with pytest.raises(StorageError, match="is no folder"):
        store.write(entry())
    assert not list(elsewhere.iterdir())


async def test_a_link_in_a_locks_place_is_not_followed(store: TokenStore, tmp_path: Path) -> None:
    store.write(entry())
    victim = tmp_path / "victim"
    path_of(store).with_suffix(".lock").symlink_to(victim)
    with pytest.raises(StorageError, match="is a link"):
        async with store.lock(SERVER):
            pass
    assert not victim.exists()


def test_a_pipe_in_a_files_place_does_not_make_a_shell_wait(store: TokenStore) -> None:
    store.write(entry())
    path_of(store).unlink()
    os.mkfifo(path_of(store), 0o600)
    with pytest.raises(StorageError, match="is no plain file"):
        store.read(SERVER)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 2}', '{"tokens": {"access_token": "a-secret"}}', "\0"])
def test_what_is_no_sign_in_is_an_error_that_quotes_nothing(store: TokenStore, content: str) -> None:
    store.write(entry())
    path_of(store).write_text(content)
    with pytest.raises(StorageError, match="does not hold a sign-in") as refused:
        store.read(SERVER)
    assert "a-secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_another_servers_sign_in_is_not_used(store: TokenStore) -> None:
    """Somebody moved one file in another's place: a token would go to a server that it is not for."""
    store.write(entry(OTHER))
    Path(store.where(OTHER)).rename(path_of(store))
    with pytest.raises(StorageError, match="another server"):
        store.read(SERVER)


def test_a_write_that_fails_leaves_what_was_there(store: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = entry()
    store.write(kept)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="no space left on device"):
            store.write(entry(lasts=5))
    assert store.read(SERVER) == kept
    assert [path.suffix for path in path_of(store).parent.iterdir()] == [".json"]


async def test_one_task_at_a_time_holds_a_lock(store: TokenStore) -> None:
    inside = most = 0

    async def hold() -> None:
        nonlocal inside, most
        async with store.lock(SERVER):
            inside += 1
            most = max(most, inside)
            await anyio.lowlevel.checkpoint()
            inside -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(hold)
    assert most == 1


HOLD = """
import sys, anyio
from pathlib import Path
from guideway.server.sign_in.store import TokenStore
async def hold():
    async with TokenStore(Path(sys.argv[1]), uses_keyring=False).lock(sys.argv[2]):
        print("held", flush=True)
        await anyio.sleep_forever()
anyio.run(hold)
"""


async def test_a_lock_is_held_against_other_processes_and_ends_with_its_own(store: TokenStore) -> None:
    command = [sys.executable, "-c", HOLD, str(path_of(store).parent), SERVER]
    async with await anyio.open_process(command, stderr=None) as other:
        assert other.stdout is not None
        assert (await other.stdout.receive()).startswith(b"held")
        with anyio.move_on_after(0.1) as patience:
            async with store.lock(SERVER):
                raise AssertionError("two hold it")
        assert patience.cancelled_caught
        async with store.lock(OTHER):
            pass
        other.kill()
        await other.wait()
    async with store.lock(SERVER):
        pass


class Ring(keyring.backend.KeyringBackend):
    """A keyring that keeps what it is given, unless it is locked."""

    priority = 5

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_password(self, service: str, username: str) -> str | None:
        self._open()
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._open()
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._open()
        if self.kept.pop((service, username), None) is None:
            raise keyring.errors.PasswordDeleteError("not found")

    def _open(self) -> None:
        if self.is_locked:
            raise keyring.errors.KeyringLocked("the collection is locked")


@pytest.fixture
def ring() -> Iterator[Ring]:
    before = keyring.get_keyring()
    ring = Ring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


def test_a_keyring_keeps_the_secrets_and_the_file_the_rest(ring: Ring, tmp_path: Path) -> None:
    store = standard_store({"XDG_STATE_HOME": str(tmp_path)})
    assert store.uses_keyring
    kept = entry(client_secret=SECRET)
    store.write(kept)
    (file,) = (tmp_path / "guideway" / "tokens").glob("*.json")
    written = file.read_text()
    assert SERVER in written
    assert not [secret for secret in (ACCESS, REFRESH, SECRET) if secret in written]
    assert store.read(SERVER) == kept
    store.remove(SERVER)
    assert (ring.kept, store.read(SERVER)) == ({}, None)


def test_a_keyring_that_is_locked_says_so_and_is_not_gone_around(ring: Ring, tmp_path: Path) -> None:
    store = standard_store({"XDG_STATE_HOME": str(tmp_path)})
    store.write(entry())
    ring.is_locked = True
    with pytest.raises(StorageError, match="the collection is locked"):
        store.read(SERVER)
    with pytest.raises(StorageError, match="the collection is locked"):
        store.write(entry())
    with pytest.raises(StorageError, match="the collection is locked"):
        store.remove(SERVER)


def test_what_was_kept_in_a_keyring_is_found_where_new_tokens_go_to_files(ring: Ring, tmp_path: Path) -> None:
    standard_store({"XDG_STATE_HOME": str(tmp_path)}).write(entry())
    in_files = standard_store({"XDG_STATE_HOME": str(tmp_path), "GUIDEWAY_TOKENS": "file"})
    kept = in_files.read(SERVER)
    assert kept is not None
    assert kept.tokens.access_token == ACCESS
    in_files.remove(SERVER)
    assert ring.kept == {}


@pytest.mark.usefixtures("ring")
@pytest.mark.parametrize(("choice", "uses"), [("", True), ("keyring", True), ("file", False)])
def test_where_secrets_go_can_be_chosen(choice: str, uses: bool) -> None:
    assert standard_store({"GUIDEWAY_TOKENS": choice, "HOME": "/"}).uses_keyring is uses


def test_a_system_without_a_keyring_keeps_tokens_in_files() -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(keyring.backends.fail.Keyring())  # type: ignore[no-untyped-call]
    try:
        assert not standard_store({}).uses_keyring
    finally:
        keyring.set_keyring(before)


def test_another_choice_is_an_error() -> None:
    with pytest.raises(StorageError, match="GUIDEWAY_TOKENS is `cloud`"):
        standard_store({"GUIDEWAY_TOKENS": "cloud"})


def test_a_state_folder_that_is_not_absolute_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The XDG specification has it ignored; a folder of whoever's working directory would be anybody's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    where = standard_store({"XDG_STATE_HOME": "state", "HOME": str(tmp_path), "GUIDEWAY_TOKENS": "file"}).where(SERVER)
    assert where.startswith(f"{tmp_path}/.local/state/guideway/tokens/")
