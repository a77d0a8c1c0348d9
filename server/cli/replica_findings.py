"""What ``guideway doctor`` finds where the store is one that replicas share: what else they would have to share."""

from collections.abc import Iterator

from guideway.server.cli.finding import Finding, Grade
from guideway.server.config import Config
from guideway.server.request_state import keys_note
from guideway.server.stores import is_shared

_KEYS = "give every replica the same `state_keys_file` or `state_keys_env`; `openssl rand -hex 32` makes a key"


def look_at_replicas(config: Config) -> Iterator[Finding]:
    """Look at what is configured of replicas. Changes nothing."""
    if not is_shared(config):
        return
    found = list(_found(config))
    yield from found
    if not found:
        yield Finding(Grade.OK, "replicas", "share their store, and the keys of the questions that they ask")


def _found(config: Config) -> Iterator[Finding]:
    note = keys_note(config)
    if note is not None:
        yield Finding(Grade.NOTE, "replicas", note, _KEYS)
    if config.development_issuer is not None:
        yield Finding(
            Grade.NOTE,
            "replicas",
            "[development_issuer] is for one machine: each replica would have one of its own, whose tokens the others "
            "do not know",
            "trust your organisation's own issuer in [issuers.NAME]",
        )
    elif config.issuers and config.server.url is None:
        yield Finding(
            Grade.NOTE,
            "replicas",
            "[server] has no `url`: tokens and proofs for one replica are not for another",
            "name the address that clients know, the same for every replica",
        )
