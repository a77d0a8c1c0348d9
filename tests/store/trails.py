"""Entries for the tests of the trail, a key that signs it, and the verifier that holds it to be whole."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from joserfc.jwk import OKPKey

from guideway.interpreter.audit.chain import read_body
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.audit.keeping import PLAIN, Keeping
from guideway.interpreter.audit.seal import Believed, Signer
from guideway.interpreter.audit.verify import Verifier
from guideway.interpreter.records import Mutation
from guideway.interpreter.store import Store
from tests.store.questions import ASKER, NOW

KEY: Final = OKPKey.generate_key("Ed25519")
SIGNED: Final = replace(PLAIN, sealer=Signer(KEY), belief=Believed([KEY]))


def keeping(**changed: Any) -> Keeping:
    """Return how a trail is kept that is signed."""
    return replace(SIGNED, **changed)


def entry(number: int, tenant: str | None = None, **facts: Any) -> Entry:
    """Return an entry of a run."""
    caller = {"issuer": "https://login.example", "subject": "mona", "client": None, "tenant": tenant}
    return Entry(Kind.RUN_BEGUN, tenant, NOW + number, {"run": f"run-{number}", "caller": caller, **facts})


def restart(kind: Kind, run_id: str = "run-1", *, tenant: str | None = None, key: str = "db", **mutation: Any) -> Entry:
    """Return an entry of a restart that has 60 s from ``NOW`` on."""
    told = replace(Mutation(run_id, "database", ASKER, NOW, key=key, until=NOW + 60), **mutation)
    return Entry(kind, tenant, NOW, {"run": run_id, "service": "database"}, told)


async def whole(store: Store, trail: str = "") -> Sequence[dict[str, Any]]:
    """Return what a trail's records say, and hold it to be whole."""
    heads = {head.trail: head for head in await store.trails()}
    if trail not in heads:
        return []
    signs = heads[trail].seal is not None
    verifier = Verifier(
        trail,
        heads[trail],
        inside=await store.checkpoints(trail),
        belief=Believed([KEY] if signs else []),
    )
    kept, after = [], 0
    while found := await store.records(trail, after=after):
        kept += found
        after = found[-1].seq
    for each in kept:
        verifier.take(each)
    verdict = verifier.verdict()
    assert verdict.whole, verdict.finding
    assert verdict.proven == signs
    return [read_body(each.body) for each in kept]
