"""One connection to an SSH server: how it is made, whom it trusts, and what went wrong where it was not.

Owns the settings of the SSH library, and the meaning of its errors. Trusts a key that ``known_hosts`` has and no other,
reads no configuration of OpenSSH's, knows no password, and asks for nothing but channels to sockets: no command.
"""

import asyncio
import base64
import os
import shlex
import socket
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import asyncssh
from asyncssh.known_hosts import SSHKnownHosts, read_known_hosts

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.causes import os_errors
from guideway.interpreter.drivers.ssh import SshOptions
from guideway.interpreter.drivers.ways import WayLost
from guideway.interpreter.results import Reason

#: How long a connection may take to be made, authentication included: less than a GET_STATUS waits by default.
CONNECT_SECONDS: Final = 8.0
#: A host that is silent for so long is asked whether it is there, and given up after as long again, twice.
KEEPALIVE_SECONDS: Final = 4.0
#: Calls that may be under way on one connection; others wait for their turn within their own deadline.
MOST_CALLS: Final = 32

# Known kinds of a host's key come first; one that shows another kind is heard, to say which key that is.
_ANY_KIND: Final = "+ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,rsa-sha2-256"
# Before the library's own order: these are one call for it, where ChaCha20 is several.
_CHEAP_FIRST: Final = "^aes256-gcm@openssh.com,aes128-gcm@openssh.com"
_MOST_BYTES: Final = 1024 * 1024
_KEY_OPTIONS: Final = "key options:"  # how OpenSSH's sshd tells, in a debug message, what a key may do

_ENDED: Final = "the connection to its SSH host ended"
_NOT_OPENED: Final = (
    "its SSH host did not open the socket: it does not exist there, nobody listens at it, the SSH user may not use it, "
    "or sshd does not allow forwarding to it; the log of that sshd says which"
)
_NO_FORWARDING: Final = "the SSH key may not forward: its line in `authorized_keys` needs `port-forwarding`"
_AUTHORIZED: Final = "its line in `authorized_keys` there should begin so: "
_USUAL_PORT: Final = 22
_FORBIDDEN: Final = "its SSH host does not allow forwarding to the socket; the log of that sshd says why"


class _Client(asyncssh.SSHClient):
    """What the library tells while a connection is made and when it ends."""

    def __init__(self) -> None:
        self.shown: asyncssh.SSHKey | None = None
        self.address = ""
        self.forwards = True

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        """Trust no key that is not known, and keep it to name it."""
        self.shown, self.address = key, addr
        return False

    def debug_msg_received(self, msg: str, lang: str, always_display: bool) -> None:  # noqa: ARG002
        """Find out whether the key may forward, from servers that say so."""
        _, found, options = msg.partition(_KEY_OPTIONS)
        if found:
            self.forwards = "port-forwarding" in options.split()


class Connection:
    """A connection that was made."""

    def __init__(self, ssh: asyncssh.SSHClientConnection, client: _Client, user: str) -> None:
        self._ssh = ssh
        self._user = user
        self._client = client
        self.calls = anyio.Semaphore(MOST_CALLS)

    @property
    def lives(self) -> bool:
        """Whether it can be used."""
        return not self._ssh.is_closed()

    @property
    def lost(self) -> WayLost | None:
        """That it ended, None where it did not."""
        return WayLost(_ENDED) if self._ssh.is_closed() else None

    async def channel(self, path: Path) -> tuple[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]]:
        """Open a channel to a socket of the host's. Raises ``Fault``."""
        # A task of its own: a channel whose opening is broken off would stay open on the other end.
        opening = asyncio.ensure_future(self._opened(path))
        try:
            await asyncio.wait([opening])
        except BaseException:
            opening.add_done_callback(_abandon)
            raise
        try:
            return opening.result()
        except (asyncssh.Error, OSError) as error:
            raise self._not_opened(error, path) from error

    async def ended(self) -> None:
        """Wait until it has ended."""
        await self._ssh.wait_closed()

    def close(self) -> None:
        """End it at once."""
        self._ssh.abort()

    async def _opened(self, path: Path) -> tuple[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]]:
        return await self._ssh.open_unix_connection(str(path), encoding=None)

    def _not_opened(self, error: asyncssh.Error | OSError, path: Path) -> Fault:
        if self._ssh.is_closed() or not isinstance(error, asyncssh.ChannelOpenError):
            return WayLost(_ENDED)
        if not self._client.forwards:
            return Fault(Reason.NO_PERMISSION, _NO_FORWARDING, mend=f"{_AUTHORIZED}{_key_options(path)}")
        allow = f'where the key\'s line there or sshd_config limits it, allow `permitopen="[{path}]:*"`'
        if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
            return Fault(Reason.NO_PERMISSION, _FORBIDDEN, error.reason, f"the socket is `{path}`; {allow}")
        mend = f"see that `{path}` is there and that `{self._user}` may connect to it (`ls -l`); {allow}"
        return Fault(Reason.UNREACHABLE, _NOT_OPENED, error.reason, mend)


def _abandon(opening: "asyncio.Future[tuple[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]]]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        _, writer = opening.result()
        writer.channel.abort()


async def connect(options: SshOptions) -> Connection:
    """Return a connection. Raises ``Fault``."""
    known = _known_hosts(options.known_hosts)
    client = _Client()
    offered: Sequence[asyncssh.SSHKeyPair] = ()
    try:
        async with asyncio.timeout(CONNECT_SECONDS), _keys(options) as keys:
            offered = keys
            ssh = await asyncssh.connect(
                options.host,
                options.port,
                username=options.user,
                known_hosts=known,
                server_host_key_algs=_ANY_KIND,
                client_keys=keys,
                client_factory=lambda: client,
                keepalive_interval=KEEPALIVE_SECONDS,
                keepalive_count_max=2,
                preferred_auth="publickey",
                password_auth=False,
                kbdint_auth=False,
                host_based_auth=False,
                gss_kex=False,
                gss_auth=False,
                encryption_algs=_CHEAP_FIRST,
                compression_algs=None,
                # What the library would take from the environment or from the user's files otherwise.
                config=None,
                agent_path=None,
                pkcs11_provider=None,
                x509_trusted_certs=None,
            )
    except TimeoutError as error:
        silent = f"its SSH host did not answer within {CONNECT_SECONDS:g} s"
        raise WayLost(silent, mend=_where(options)) from error
    except asyncssh.HostKeyNotVerifiable as error:
        raise _not_trusted(options, known, client) from error
    except asyncssh.PermissionDenied as error:
        refused = "its SSH host does not let the user in with this key"
        raise Fault(Reason.NO_PERMISSION, refused, mend=_admission(options, offered)) from error
    except asyncssh.KeyExchangeFailed as error:
        raise Fault(Reason.UNREACHABLE, "its SSH host and this end share no algorithm", error.reason) from error
    except asyncssh.DisconnectError as error:
        ended = "its SSH host ended the connection before it was made"
        raise WayLost(ended, error.reason, _where(options)) from error
    except OSError as error:
        raise _no_network(error, options) from error
    return Connection(ssh, client, options.user)


@asynccontextmanager
async def _keys(options: SshOptions) -> AsyncIterator[Sequence[asyncssh.SSHKeyPair]]:
    """Return the keys to show; an agent keeps them to itself, and is asked meanwhile. Raises ``Fault``."""
    if options.key_file is not None:
        yield _from_file(options.key_file)
        return
    where = os.environ.get("SSH_AUTH_SOCK")
    if not where:
        raise Fault(Reason.NO_PERMISSION, "its SSH host asks for a key of the agent, and SSH_AUTH_SOCK is not set")
    agent = asyncssh.SSHAgentClient(where)
    try:
        try:
            await agent.connect()
            keys = await agent.get_keys()
        except (OSError, ValueError, asyncssh.Error) as error:
            raise Fault(Reason.NO_PERMISSION, "the SSH agent that SSH_AUTH_SOCK names does not answer") from error
        if not keys:
            raise Fault(Reason.NO_PERMISSION, "the SSH agent that SSH_AUTH_SOCK names holds no key")
        yield keys
    finally:
        agent.close()


def _from_file(path: Path) -> Sequence[asyncssh.SSHKeyPair]:
    """Return the key of a file, with the certificate that stands beside it. Raises ``Fault``."""
    _check_mode("key_file", path, stat.S_IRWXG | stat.S_IRWXO, "chmod go= FILE")
    try:
        return asyncssh.load_keypairs(str(path))
    except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError, OSError) as error:
        if isinstance(error, asyncssh.KeyEncryptionError) or "Passphrase" in str(error):
            message = "`key_file` of its SSH host has a passphrase: use an agent, or a key without"
        else:
            message = "`key_file` of its SSH host holds no private key"
        raise Fault(Reason.NO_PERMISSION, message, mend=f"`key_file` is `{path}`") from None


def _known_hosts(path: Path | None) -> SSHKnownHosts:
    """Return the keys that are known. Raises ``Fault``."""
    path = path or Path("~/.ssh/known_hosts").expanduser()
    # Whoever can write it says whom we trust.
    _check_mode("known_hosts", path, stat.S_IWGRP | stat.S_IWOTH, "chmod go-w FILE")
    try:
        return read_known_hosts(str(path))
    except (ValueError, OSError):  # text that is not UTF-8 among them
        raise Fault(
            Reason.NO_PERMISSION,
            "`known_hosts` of its SSH host has a line that does not belong there",
            mend=f"`known_hosts` is `{path}`; `ssh-keygen -lf` says which line",
        ) from None


def _check_mode(key: str, path: Path, forbidden: int, mend: str) -> None:
    """See that a file can be used, and by whom. Its path is the operator's business. Raises ``Fault``."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            found = os.fstat(handle)
        finally:
            os.close(handle)
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno else type(error).__name__
        message = f"`{key}` of its SSH host cannot be read: {why}"
        raise Fault(Reason.NO_PERMISSION, message, mend=f"`{key}` is `{path}`") from None
    if not stat.S_ISREG(found.st_mode):
        message = f"`{key}` of its SSH host is no regular file"
        raise Fault(Reason.NO_PERMISSION, message, mend=f"`{key}` is `{path}`: name a file")
    if found.st_size > _MOST_BYTES:
        message = f"`{key}` of its SSH host is longer than 1 MiB"
        raise Fault(Reason.NO_PERMISSION, message, mend=f"`{key}` is `{path}`")
    if found.st_mode & forbidden:
        message = f"`{key}` of its SSH host is open to other users: `{mend}`"
        raise Fault(Reason.NO_PERMISSION, message, mend=f"`{mend.replace('FILE', shlex.quote(str(path)))}`")
    if found.st_uid not in {0, os.geteuid()}:
        message = f"`{key}` of its SSH host belongs to another user"
        raise Fault(Reason.NO_PERMISSION, message, mend=f"`{key}` is `{path}`: give it to this user, or to root")


def _not_trusted(options: SshOptions, known: SSHKnownHosts, client: _Client) -> Fault:
    """Return what is wrong with the key that a host showed."""
    keys, authorities, revoked, *_ = known.match(options.host, client.address, options.port)
    if client.shown is None and revoked:
        revoked_key = "its SSH host shows a key that `known_hosts` has as revoked"
        return Fault(Reason.UNREACHABLE, revoked_key, mend=_where(options))
    name = f" ({client.shown.get_fingerprint()})" if client.shown else ""
    if keys or authorities:
        message = f"its SSH host shows another key{name} than `known_hosts` has: it is new, or somebody else answers"
        forget = f"`ssh-keygen -R {_known_as(options)} -f {_file(options)}`"
        mend = f"compare it on the machine itself; if it is new: {forget}, then {_scan(options)}"
        return Fault(Reason.UNREACHABLE, message, mend=mend)
    mend = (
        f"compare it on the machine itself (`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`), then {_scan(options)}"
    )
    return Fault(Reason.UNREACHABLE, f"the key of its SSH host{name} is not in `known_hosts`", mend=mend)


def _no_network(error: OSError, options: SshOptions) -> WayLost:
    if isinstance(error, socket.gaierror):
        return WayLost("the name of its SSH host cannot be resolved", mend=_where(options))
    number = next((found.errno for found in os_errors(error)), None)
    what = f": {os.strerror(number).lower()}" if number else ""
    return WayLost(f"its SSH host cannot be reached{what}", mend=_where(options))


def _where(options: SshOptions) -> str:
    return f"its SSH host is `{options.host}`, port {options.port}"


def _known_as(options: SshOptions) -> str:
    """Return how a host is called in ``known_hosts``, for a shell."""
    return options.host if options.port == _USUAL_PORT else shlex.quote(f"[{options.host}]:{options.port}")


def _file(options: SshOptions) -> str:
    return shlex.quote(str(options.known_hosts)) if options.known_hosts else "~/.ssh/known_hosts"


def _scan(options: SshOptions) -> str:
    port = "" if options.port == _USUAL_PORT else f"-p {options.port} "
    return f"`ssh-keyscan {port}{options.host} >>{_file(options)}`"


def _key_options(*sockets: Path) -> str:
    """Return what stands before a key that may lead to sockets and do nothing else (sshd(8), AUTHORIZED_KEYS)."""
    opens = "".join(f',permitopen="[{path}]:*"' for path in sockets)
    return f"`restrict,port-forwarding{opens} …`"


def _admission(options: SshOptions, offered: Sequence[asyncssh.SSHKeyPair]) -> str:
    """Return what would let a user in: the line of each key that was shown."""
    lines = [_line(key) for key in offered if not key.has_cert]
    shown = f", this line in its `authorized_keys`: {' or '.join(f'`{line}`' for line in lines)}" if lines else ""
    return f"on `{options.host}` there has to be the user `{options.user}`{shown}"


def _line(key: asyncssh.SSHKeyPair) -> str:
    """Return a public key as it stands in a line of ``authorized_keys``."""
    return f"{key.algorithm.decode()} {base64.b64encode(key.public_data).decode()}"
