"""Where the store of an installation is: a folder of this machine, or a PostgreSQL database; and what is there without.

A store is opened by the first program that needs it. One that cannot be had is told then, and by ``guideway doctor``.
"""

import logging
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NoReturn

from guideway.interpreter.approvals import Binding, Question, Ticket, TicketState, Who
from guideway.interpreter.audit.entry import Entry
from guideway.interpreter.leases import Leases, Place, Waited
from guideway.interpreter.notices import Event
from guideway.interpreter.quotas import Allowance, Overrun
from guideway.interpreter.records import Mutation, StoreUnavailable
from guideway.interpreter.secret import read_secret
from guideway.interpreter.store import Store, open_store
from guideway.interpreter.store.folder import FILE
from guideway.server.audit_keeping import keeping
from guideway.server.config import Config
from guideway.server.state import NoStateError, state_folder

FOLDER: Final = "store"

_log = logging.getLogger(__name__)


def store_folder(config: Config, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the store's folder: the configured one, that of systemd's ``StateDirectory=``, or in the person's state.

    Raises ``NoStateError``.
    """
    if config.store.folder is not None:
        return config.store.folder
    given = environment.get("STATE_DIRECTORY", "").partition(":")[0]  # systemd.exec(5): several are parted by colons
    return Path(given) if given.startswith("/") else state_folder(environment) / FOLDER


def is_shared(config: Config) -> bool:
    """Say whether the store is a database, which replicas share."""
    return config.store.url_file is not None or config.store.url_env is not None


def is_there(config: Config, environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether there is a store that can be looked at without making one."""
    try:
        return is_shared(config) or (store_folder(config, environment) / FILE).exists()
    except (NoStateError, OSError):
        return False


def store_url(config: Config) -> str:
    """Return the URL of the database, with its password. Raises ``ValueError``: which key of ``[store]`` is wrong."""
    key = "url_file" if config.store.url_file is not None else "url_env"
    try:
        return read_secret(config.store.url_file, config.store.url_env)
    except ValueError as error:
        raise ValueError(f"what `{key}` of [store] names {error}") from None


def open_configured(config: Config, environment: Mapping[str, str] = os.environ) -> tuple["Store | NoStore", Leases]:
    """Return the store and what gives leases. Nothing is opened yet."""
    webhooks = {
        name: frozenset(Event(event) for event in section.events) for name, section in config.approvals.webhooks.items()
    }
    try:
        kept = keeping(config.audit)
        if is_shared(config):
            return open_store(url=store_url(config), webhooks=webhooks, keeping=kept)
        return open_store(folder=store_folder(config, environment), webhooks=webhooks, keeping=kept)
    except ValueError as error:
        nothing = NoStore(str(error), is_shared=True)
    except NoStateError as error:
        nothing = NoStore(f"{error}; {error.help}, or name a `folder` in [store]")
    return nothing, nothing


class NoTrail:
    """The audit trail of a store that cannot be had: nothing is written, and each record is missed in the log."""

    def __init__(self, why: str) -> None:
        self.failing = why

    def put(self, entries: Sequence[Entry]) -> None:
        """Keep nothing, and say so."""
        for entry in entries:
            _log.error("no audit trail has a record of %s: %s", entry.kind.value, self.failing)

    async def written(self) -> NoReturn:
        """Raise ``StoreUnavailable``."""
        raise StoreUnavailable(self.failing)


class NoStore:
    """A store that cannot be had: every call says why. So whatever needs one is refused, and nothing else."""

    # ruff: noqa: ARG002  # it takes what a store takes, and does nothing with it

    def __init__(self, why: str, *, is_shared: bool = False) -> None:
        """``is_shared`` is whether it would be one of replicas: then no proof of possession can be said to be new."""
        self.why = why
        self.trail = NoTrail(why)
        self.proofs = _NoProofs(why) if is_shared else None

    def _fail(self) -> NoReturn:
        raise StoreUnavailable(self.why)

    async def ask(self, question: Question, now: float, *, lifetime: float, most_open: int) -> Ticket:
        """Raise ``StoreUnavailable``, as all of them do."""
        self._fail()

    async def ticket(self, ticket_id: str, now: float) -> Ticket | None:
        """See ``ask``."""
        self._fail()

    async def tickets(
        self,
        tenant: str | None,
        now: float,
        *,
        states: Collection[TicketState] = (),
        most: int = 50,
    ) -> list[Ticket]:
        """See ``ask``."""
        self._fail()

    async def decide(self, ticket_id: str, *, approve: bool, by: Who, reason: str, now: float) -> Ticket:
        """See ``ask``."""
        self._fail()

    async def use(
        self,
        ticket_id: str,
        binding: Binding,
        run_id: str,
        allowances: Sequence[Allowance],
        now: float,
    ) -> NoReturn:
        """See ``ask``."""
        self._fail()

    async def reserve(self, run_id: str, allowances: Sequence[Allowance], now: float) -> list[Overrun]:
        """See ``ask``."""
        self._fail()

    async def overruns(self, allowances: Sequence[Allowance], now: float) -> list[Overrun]:
        """See ``ask``."""
        self._fail()

    async def uses(self, keys: Collection[str], now: float) -> NoReturn:
        """See ``ask``."""
        self._fail()

    async def settle(self, run_id: str, used: Mapping[str, int], outcome: str, now: float) -> None:
        """See ``ask``."""
        self._fail()

    def note(self, mutations: Sequence[tuple[str | None, Mutation]]) -> None:
        """Keep nothing: no mutation gets through without a lease, and there is none."""

    async def history(
        self,
        tenant: str | None,
        services: Collection[str],
        *,
        most: int = 5,
    ) -> list[Mutation]:
        """See ``ask``."""
        self._fail()

    @asynccontextmanager
    async def hold(self, places: Sequence[Place], run_id: str, wait: float) -> AsyncIterator[Waited]:
        """See ``ask``."""
        self._fail()
        yield Waited(0.0)

    async def sweep(self, now: float) -> None:
        """See ``ask``."""
        self._fail()

    async def check(self, now: float) -> None:
        """See ``ask``."""
        self._fail()

    async def close(self) -> None:
        """Nothing is held open."""


class _NoProofs:
    """What replicas would remember together, and cannot."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def put(self, digest: str, until: float) -> bool:
        """Raise ``StoreUnavailable``."""
        raise StoreUnavailable(self._why)
