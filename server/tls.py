"""TLS of the HTTP door: the certificate, its key, and whose certificates clients must show.

Everything that is wrong with the files is told at once, by key and file. Says nothing about who a client is: a client
certificate opens the connection, and its caller is still told apart by the token alone.
"""

import datetime
import os
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from guideway.dsl.errors import printable, quoted
from guideway.server.config_errors import Problem
from guideway.server.sections import TlsSection

SOON: Final = datetime.timedelta(days=14)
"""How long before its end a certificate is worth a note."""

_MOST_BYTES: Final = 1024 * 1024
#: Its owner and its group may read a key: on many systems a group is how one certificate serves several programs.
_OTHERS: Final = stat.S_IWGRP | stat.S_IRWXO


class TlsError(Exception):
    """The files cannot be used, and every reason that was found. Each problem's key begins with ``server.tls``."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(_line(problem) for problem in problems))


class Tls:
    """The TLS of one listener. TLS 1.2 and later; with ``client_ca`` no handshake ends without a client's certificate.

    ``context`` is for the listener, and stays the same one when the files are read again.
    """

    def __init__(self, section: TlsSection) -> None:
        """Read the files. Raises ``TlsError``."""
        self._section = section
        self._certificates = _Files(section)
        self.context = _context(section)

    def reload(self) -> None:
        """Read certificate and key again; connections from now on have them. Raises ``TlsError``, and keeps the old.

        ``client_ca`` stays as it was read first: OpenSSL only ever adds to those it trusts.
        """
        certificates = _Files(self._section)
        _context(self._section)  # on one of its own first: a failure half way would leave a certificate without its key
        _load(self.context, self._section)
        self._certificates = certificates

    @property
    def good_until(self) -> datetime.datetime:
        """When the certificate, or one between it and its authority, ends."""
        return min(one.not_valid_after_utc for one in self._certificates.chain)

    def warnings(self, now: datetime.datetime) -> Iterator[str]:
        """Yield what is wrong with the certificates at a time, and does not keep a server from starting."""
        name, section = "`server.tls.certificate`", self._section
        begins = max(one.not_valid_before_utc for one in self._certificates.chain)
        if self.good_until <= now:
            yield f"{name} {_quoted(section.certificate)} ended on {_day(self.good_until)}: clients will refuse it"
        elif begins > now:
            yield f"{name} {_quoted(section.certificate)} begins on {_day(begins)}: clients will refuse it"
        authorities = self._certificates.authorities
        if authorities and section.client_ca and max(one.not_valid_after_utc for one in authorities) <= now:
            yield f"`server.tls.client_ca` {_quoted(section.client_ca)} has ended: no client can be let in"


class _Files:
    """What the files of a section hold: the certificate and those above it, and the authorities of clients."""

    def __init__(self, section: TlsSection) -> None:
        self._problems: list[Problem] = []
        self.chain = self._read_certificates("certificate", section.certificate)
        self.authorities = self._read_certificates("client_ca", section.client_ca) if section.client_ca else []
        self._check_key(section)
        if self._problems:
            raise TlsError(*self._problems)

    def _read_certificates(self, key: str, path: Path) -> list[x509.Certificate]:
        content = self._read(key, path)
        try:
            return x509.load_pem_x509_certificates(content) if content is not None else []
        except ValueError:
            self._say(key, path, "holds no certificate in PEM form")
            return []

    def _check_key(self, section: TlsSection) -> None:
        content = self._read("key", section.key)
        if content is None:
            return
        try:
            key = load_pem_private_key(content, None)
        except TypeError:  # it asks for a password
            self._say("key", section.key, "is encrypted", "give a key without a passphrase, which its mode protects")
        except (ValueError, UnsupportedAlgorithm):
            self._say("key", section.key, "holds no private key in PEM form")
        else:
            if self.chain and self.chain[0].public_key() != key.public_key():
                help = "the certificate comes first in its file, before those above it"  # noqa: A001  # the word here
                self._say("key", section.key, f"is not the key of {_quoted(section.certificate)}", help)

    def _read(self, key: str, path: Path) -> bytes | None:
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                content = file.read(_MOST_BYTES + 1)
        except OSError as error:
            self._say(key, path, f"cannot be read: {(error.strerror or type(error).__name__).lower()}")
            return None
        if key == "key" and stat.S_ISREG(mode) and mode & _OTHERS:
            self._say(key, path, "can be read or written by others", f"chmod g-w,o-rwx {printable(str(path))}")
        if len(content) > _MOST_BYTES:
            self._say(key, path, f"is larger than {_MOST_BYTES:,} bytes")
            return None
        return content

    def _say(self, key: str, path: Path, what: str, help: str | None = None) -> None:  # noqa: A002  # the word here
        self._problems.append(Problem(f"{_quoted(path)} {what}", key=f"server.tls.{key}", help=help))


def _context(section: TlsSection) -> ssl.SSLContext:
    # Not ``create_default_context``: that writes every session's keys to a file which the environment names.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    _load(context, section)
    if section.client_ca:
        try:
            context.load_verify_locations(section.client_ca)
        except (ssl.SSLError, OSError) as error:
            raise TlsError(_unusable("client_ca", section.client_ca, error)) from None
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # what the file holds is trusted, root or not
    return context


def _load(context: ssl.SSLContext, section: TlsSection) -> None:
    try:
        context.load_cert_chain(section.certificate, section.key)
    except (ssl.SSLError, OSError) as error:
        raise TlsError(_unusable("certificate", section.certificate, error)) from None


def _unusable(key: str, path: Path, error: OSError) -> Problem:
    reason = (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or type(error).__name__
    return Problem(f"{_quoted(path)} cannot be used: {reason.replace('_', ' ').lower()}", key=f"server.tls.{key}")


def _quoted(path: Path) -> str:
    return quoted(str(path), most=4096)


def _line(problem: Problem) -> str:
    return f"`{problem.key}` {problem.message}" + (f"; {problem.help}" if problem.help else "")


def _day(when: datetime.datetime) -> str:
    return when.strftime("%Y-%m-%d %H:%M UTC")
