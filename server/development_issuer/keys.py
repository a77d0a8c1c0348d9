"""The key that signs access tokens: made once, kept in the state folder, and shown only in its public form."""

import json
import os
import secrets
from pathlib import Path
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet

from guideway.server.development_issuer.folder import StateError, private_file

ALGORITHM: Final = "ES256"
_CURVE: Final = "P-256"
_FILE: Final = "key.json"


def load_key(folder: Path) -> KeySet:
    """Return the set with the one key of a state folder, made now if there is none. Raises ``StateError``.

    Its ``kid`` is its thumbprint (RFC 7638).
    """
    path = folder / _FILE
    if not path.exists():
        _make(path)
    text = private_file(path).read_text(encoding="utf-8")
    try:
        key = ECKey.import_key(json.loads(text), {"use": "sig", "alg": ALGORITHM})
    except (JoseError, ValueError, TypeError):
        key = None
    if key is None or not key.is_private or key.curve_name != _CURVE:
        raise StateError(f"`{path}` holds no key", "remove it, and a new one is made")
    key.ensure_kid()
    return KeySet([key])


def public_keys(keys: KeySet) -> dict[str, Any]:
    """Return the JWK Set that is published (RFC 7517, section 5)."""
    return dict(keys.as_dict(private=False))


def _make(path: Path) -> None:
    """Write a new key whole or not at all, and never over another: two starts at the same instant agree on one."""
    draft = path.with_name(f".{_FILE}.{secrets.token_hex(8)}")
    key = ECKey.generate_key(_CURVE).as_dict(private=True)
    try:
        private_file(draft).write_text(json.dumps(key), encoding="utf-8")
        os.link(draft, path)
    except FileExistsError:
        pass  # the other start was quicker, and its key is the one
    except OSError as error:
        raise StateError(f"`{path}` cannot be written: {(error.strerror or type(error).__name__).lower()}") from None
    finally:
        draft.unlink(missing_ok=True)
