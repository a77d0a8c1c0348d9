"""What ``[audit]`` comes to: how the store keeps the trail, and whom a verifier believes."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from guideway.interpreter.audit.keeping import Keeping, Private, Sealer
from guideway.interpreter.audit.privacy import Matter, Pseudonyms, private
from guideway.interpreter.audit.sealed import Belief, Nobody
from guideway.interpreter.secret import read_key, read_secret
from guideway.server.audit_anchor import Anchor, furthest
from guideway.server.audit_section import AuditSection

if TYPE_CHECKING:
    from joserfc.jwk import OKPKey

    from guideway.interpreter.audit.seal import Signer

_DAY = 86_400.0


def keeping(audit: AuditSection) -> Keeping:
    """Return how the trail is kept. Raises ``ValueError``: which key of ``[audit]`` names nothing that can be used."""
    sealer: Sealer | None = signer(audit)
    belief: Belief = Nobody() if sealer is None else believed(audit, [])
    file = audit.checkpoint_file
    return Keeping(
        sealer=sealer,
        belief=belief,
        reached=None if file is None else partial(furthest, file, belief),
        private=_private(audit),
        checkpoint_records=audit.checkpoint_records,
        checkpoint_seconds=audit.checkpoint_seconds,
        anchor=None if sealer is None else Anchor(file),
        keep_seconds=None if audit.keep_days is None else audit.keep_days * _DAY,
    )


def signer(audit: AuditSection) -> "Signer | None":
    """Return what signs the trail, None where no key is configured. Raises ``ValueError``, as ``keeping`` does."""
    if not audit.has_key:
        return None
    from guideway.interpreter.audit.seal import Signer  # noqa: PLC0415  # loads cryptography, where there is a key

    try:
        return Signer.of(read_key(audit.key_file, audit.key_env))
    except ValueError as error:
        key = "key_file" if audit.key_file is not None else "key_env"
        raise ValueError(f"what `{key}` of [audit] names {error}") from None


def pseudonyms(audit: AuditSection) -> Pseudonyms | None:
    """Return what names private subjects, None where nothing does. Raises ``ValueError``, as ``keeping`` does."""
    if not audit.has_private_key:
        return None
    try:
        return Pseudonyms(read_secret(audit.private_key_file, audit.private_key_env))
    except ValueError as error:
        key = "private_key_file" if audit.private_key_file is not None else "private_key_env"
        raise ValueError(f"what `{key}` of [audit] names {error}") from None


def believed(audit: AuditSection, files: list[Path]) -> Belief:
    """Return whom a verifier believes: the configured key, ``public_keys``, and further files of public keys.

    Who verifies needs no private key: where others are given, one that cannot be read is left out. Raises
    ``ValueError``, with the file's name.
    """
    if not (audit.has_key or audit.public_keys or files):
        return Nobody()
    from guideway.interpreter.audit.seal import Believed, public_keys  # noqa: PLC0415  # loads cryptography

    keys: list[OKPKey] = []
    try:
        own = signer(audit)
    except ValueError:
        if not (audit.public_keys or files):
            raise
    else:
        keys += [] if own is None else [own.public]
    for file in (*audit.public_keys, *files):
        try:
            keys += public_keys(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"`{file}` cannot be read: {(error.strerror or type(error).__name__).lower()}") from None
        except UnicodeDecodeError:
            raise ValueError(f"`{file}` is not UTF-8") from None
        except ValueError as error:
            raise ValueError(f"`{file}` {error}") from None
    return Believed(keys)


def _private(audit: AuditSection) -> Private | None:
    patterns = [re.compile(pattern) for pattern in audit.private_patterns]
    names = pseudonyms(audit) if Matter.SUBJECT in audit.private else None
    return private(audit.private, patterns, names)
