"""What every replica has: the services and who may restart them, over the store that all share.

A restart goes into the truth when the driver is asked for it and when it is over, and does nothing else.
"""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import anyio
import anyio.lowlevel
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from guideway.dsl.scopes import Scope
from guideway.interpreter.approvals import Who
from guideway.interpreter.audit.keeping import Keeping
from guideway.interpreter.audit.seal import Believed, Signer
from guideway.interpreter.drivers.base import Echo, Fault, Observation, Phase
from guideway.interpreter.impact import ImpactGate
from guideway.interpreter.inventory import Host, Inventory
from guideway.interpreter.leases import Leases, Place, Waited
from guideway.interpreter.pipeline import Deadlines, Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.results import Reason, State
from guideway.interpreter.risk import HARMLESS, UNSTATED, Impact, Quota, Reversibility, Risk
from guideway.interpreter.service import Service
from guideway.interpreter.store import Store, open_store
from guideway.interpreter.store.sql_leases import SqlLeases
from guideway.interpreter.weighing import Bounds, Rules
from tests.crash.truth import Writer

ISSUER: Final = "https://login.example"
BOTH: Final = frozenset({Scope.READ, Scope.WRITE})
MONA: Final = Principal("mona", BOTH, issuer=ISSUER, client="an-agent")  # people are there whom she can ask
BOT: Final = Principal("bot", BOTH, issuer=ISSUER, client="an-agent")  # and none for it
READER: Final = Principal("rita", frozenset({Scope.READ}), issuer=ISSUER)
TENANT: Final = "acme"
ANA: Final = Principal("ana", BOTH, issuer=ISSUER, tenant=TENANT)
ADA: Final = Who(ISSUER, "ada")

LEASE_SECONDS: Final = 2.0
"""How long a row that gives a place is good: short, and long beside a restart of this world."""

RESTART_SECONDS: Final = 2.0
DEADLINES: Final = Deadlines(ping=1.0, get_status=1.0, if_running=1.0, restart=RESTART_SECONDS, pipeline=4.0)
WAIT: Final = 0.3

MEMBERS_AT_ONCE: Final = 2
TENANT_AT_ONCE: Final = 2
PER_HOUR: Final = 3
COOLDOWN: Final = 0.5
AT_ONCE: Final = {"group members": MEMBERS_AT_ONCE, f"tenant {TENANT}": TENANT_AT_ONCE}

PLAIN, ALIASED, MEMBERS, GUARDED, COOLING, THEIRS = (
    [f"{word}-{number}" for number in range(count)]
    for word, count in (("plain", 30), ("aliased", 8), ("member", 8), ("guarded", 12), ("cooling", 6), ("acme", 8))
)
BOUNDED: Final = [f"bounded-{number}" for number in range(2_000)]

RULES: Final = Rules(
    groups={"members": MEMBERS_AT_ONCE},
    bounds={TENANT: Bounds(at_once=TENANT_AT_ONCE)},
    wait=WAIT,
    can_ask=lambda caller: caller.subject == MONA.subject,
)

#: Signs the trails, with a key that anybody can make.
SIGNER: Final = Signer.of(
    Ed25519PrivateKey.from_private_bytes(b"guideway, replicas under load...")
    .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    .decode()
)
KEEPING: Final = Keeping(sealer=SIGNER, belief=Believed([SIGNER.public]), checkpoint_records=200)

_RUN: ContextVar[str] = ContextVar("run")


class Recorded:
    """A service that exists in the truth alone. One restart of many fails."""

    def __init__(self, name: str, key: str, bounds: Sequence[str], writer: Writer, random: Random) -> None:
        self._facts = {"service": name, "key": key, "bounds": bounds}
        self._writer = writer
        self._random = random
        self._instance = 0

    async def observe(self) -> Observation:
        """It runs."""
        return Observation(State.RUNNING, str(self._instance))

    async def restart(self, enter: Callable[[Phase], None], end: float) -> None:  # noqa: ARG002
        """Take some milliseconds."""
        number = next(_NUMBERS)
        how = "cancelled"
        self._writer.write("begin", number=number, run=_RUN.get(), **self._facts)
        try:
            enter(Phase.STOPPING)
            await anyio.sleep(self._random.choice((0.0, 0.005, 0.04)))
            if self._random.random() < 0.05:
                how = "failed"
                raise Fault(Reason.START_FAILED, "it does not start, this once")
            self._instance += 1
            enter(Phase.STARTING)
            await anyio.sleep(self._random.choice((0.0, 0.005)))
            how = "done"
        finally:
            self._writer.write("end", number=number, how=how)

    async def tail(self) -> str:
        """It writes nothing."""
        return ""

    async def close(self) -> None:
        """Nothing is held."""


_NUMBERS: Final[Iterator[int]] = itertools.count()


class Answers:
    """A host that answers."""

    async def probe(self) -> Echo:
        """Answer at once."""
        await anyio.lowlevel.checkpoint()
        return Echo("memory", 0.0)


class Telling:
    """Leases that tell the driver whose run it is."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases

    @asynccontextmanager
    async def hold(self, places: Sequence[Place], run_id: str, wait: float) -> AsyncIterator[Waited]:
        """Hold every place."""
        _RUN.set(run_id)
        async with self._leases.hold(places, run_id, wait) as waited:
            yield waited

    async def close(self) -> None:
        """Close the leases."""
        await self._leases.close()


@dataclass(frozen=True, slots=True)
class World:
    """A replica's part of the world."""

    pipeline: Pipeline
    store: Store
    leases: Leases

    async def close(self) -> None:
        """Close all of it."""
        await self.pipeline.close()


def open_world(where: Mapping[str, Any], writer: Writer, random: Random, *, reads_without_trail: bool = False) -> World:
    """Return a replica's part of the world over a store; nothing is opened yet."""
    store, leases = open_store(**where, keeping=KEEPING)
    if isinstance(leases, SqlLeases):
        leases = SqlLeases(store.opened, seconds=LEASE_SECONDS)

    def services(names: Sequence[str], *, bounds: Sequence[str] = (), **stated: Any) -> list[Service]:
        made = []
        for name in names:
            key = f"one-{int(name.split('-')[1]) // 2}" if names is ALIASED else name  # two names, one unit
            driver = Recorded(name, key, bounds, writer, random)
            made.append(Service(name, driver, settle=0.0, key=key, **stated))
        return made

    bounded = Risk(Impact.LOW, Reversibility.EASY, quota=Quota(per_hour=PER_HOUR))
    cooling = Risk(Impact.LOW, Reversibility.EASY, quota=Quota(cooldown=COOLDOWN))
    shared = [
        *services(PLAIN, risk=HARMLESS),
        *services(ALIASED, risk=HARMLESS),
        *services(MEMBERS, risk=HARMLESS, group="members", bounds=["group members"]),
        *services(GUARDED, risk=UNSTATED),
        *services(COOLING, risk=cooling),
        *services(BOUNDED, risk=bounded),
    ]
    theirs = services(THEIRS, risk=HARMLESS, bounds=[f"tenant {TENANT}"])
    hosts = [Host("gateway", Answers())]
    gate = ImpactGate(RULES, records=store, leases=Telling(leases))
    pipeline = Pipeline(
        Inventory(hosts, shared),
        tenants={TENANT: Inventory(hosts, theirs)},
        deadlines=DEADLINES,
        gate=gate,
        trail=store.trail,
        reads_without_trail=reads_without_trail,
    )
    return World(pipeline, store, leases)
