"""An authority for tests: it signs what a test asks for, and keeps everything as PEM files in one folder."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates for ``localhost`` and the loopback addresses, and for clients."""

    def __init__(self, folder: Path, name: str = "authority", *, signed_by: "Authority | None" = None) -> None:
        self._folder, self._name, self._key = (
            folder,
            x509.Name([_common(name)]),
            ec.generate_private_key(ec.SECP256R1()),
        )
        above = signed_by or self
        builder = self._begin(self._name, self._key.public_key(), above._name).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(builder.sign(above._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def server(self, name: str = "server", *, begins: int = -1, ends: int = 2) -> Pair:
        """Return a server's certificate; ``begins`` and ``ends`` are in days from now."""
        return self._issue(name, ExtendedKeyUsageOID.SERVER_AUTH, begins, ends)

    def client(self, name: str = "client", *, begins: int = -1, ends: int = 2) -> Pair:
        """Return a client's certificate."""
        return self._issue(name, ExtendedKeyUsageOID.CLIENT_AUTH, begins, ends)

    def trusting(self, client: Pair | None = None) -> ssl.SSLContext:
        """Return the TLS of a client that trusts this authority, and shows a certificate where it is given one."""
        context = ssl.create_default_context(cafile=self.file)
        if client:
            context.load_cert_chain(client.certificate, client.key)
        return context

    def _issue(self, name: str, use: x509.ObjectIdentifier, begins: int, ends: int) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), *(x509.IPAddress(ipaddress.ip_address(a)) for a in ("127.0.0.1", "::1"))]
        builder = (
            self._begin(x509.Name([_common(name)]), key.public_key(), self._name, begins, ends)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return pair

    def _begin(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, issuer: x509.Name, begins: int = -1, ends: int = 2
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins * DAY)
            .not_valid_after(now + ends * DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        )


def _common(name: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(NameOID.COMMON_NAME, name)
