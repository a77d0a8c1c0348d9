"""The TLS of a kubeconfig: whom it trusts, and the certificate that it shows. Reaches nothing."""

import base64
import ssl
import tempfile
from pathlib import Path

import httpx2
from lightkube.config.kubeconfig import SingleConfig


def context_of(config: SingleConfig) -> ssl.SSLContext:
    """Return the TLS for a cluster. Raises ``OSError`` or ``ValueError`` where a certificate or key cannot be read."""
    cluster, user = config.cluster, config.user
    # What is in the file itself goes before what it names, as with kubectl.
    if cluster.certificate_auth_data:
        context = ssl.create_default_context(cadata=_decoded(cluster.certificate_auth_data).decode("ascii"))
    elif cluster.certificate_auth:
        context = ssl.create_default_context(cafile=config.abs_file(cluster.certificate_auth))
    else:
        context = httpx2.create_ssl_context(trust_env=False)
    if user is None or not (user.client_cert_data or user.client_cert):
        return context
    with tempfile.TemporaryDirectory() as folder:  # mode 0700; Python reads certificates from files alone
        certificate = _file(config, user.client_cert_data, user.client_cert, Path(folder, "certificate"))
        key = _file(config, user.client_key_data, user.client_key, Path(folder, "key"))
        context.load_cert_chain(certificate, key)
    return context


def _file(config: SingleConfig, content: str | None, named: str | None, to: Path) -> Path:
    if content:
        to.write_bytes(_decoded(content))
        return to
    return Path(config.abs_file(named or ""))


def _decoded(content: str) -> bytes:
    return base64.b64decode(content, validate=True)
