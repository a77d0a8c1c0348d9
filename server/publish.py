"""What is published to a caller: their own copies of the grammar, each made once and kept for a while.

Whoever hands out a copy (the tool's listing, a resource, ``GET /grammar``) has it from here. Nothing here decides what
may run, and nothing here speaks a protocol.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import urlencode

import anyio
from anyio import to_thread

from guideway.dsl.ast import Target
from guideway.dsl.patterns import Spelling
from guideway.dsl.scopes import PROGRAM_SCOPES, Scope
from guideway.grammar import DIALECTS, GrammarCopy, Layout, NoGrammar, NothingToName, Wrap, copy_for
from guideway.interpreter.inventory import Inventory
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.server.engines import refusal
from guideway.server.kept import Kept

RESOURCE: Final = "guideway://grammar"
"""What the resources of copies are named under."""

KEPT: Final = 64
"""How many copies a publisher keeps."""

Names = Mapping[Target, tuple[Spelling, ...]]
"""What can be named, by the kind of the name: patterns of names, and names."""

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "dialect": DIALECTS,
    "layout": tuple(Layout),
    "wrap": tuple(Wrap),
}
"""What can be asked for, and the values of each."""


_MEDIA_TYPES: Final = {
    "svg": "image/svg+xml",
    "structural-tag": "application/json",
    "json-schema": "application/json",
}


@dataclass(frozen=True, slots=True)
class Audience:
    """Whom a copy is for: the scopes that they hold now and that let a program run, and what they may name."""

    scopes: frozenset[Scope]
    inventory: Inventory


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of a caller's copies is asked for."""

    dialect: str = "lark"
    layout: Layout = Layout.ONE_LINE
    wrap: Wrap = Wrap.NONE


class NoCopy(Exception):  # noqa: N818  # it is an answer, not a fault
    """There is no such copy for this caller; the message says why."""

    class Why(StrEnum):
        """Which of the reasons it is."""

        NOTHING_ALLOWED = "insufficient_scope"
        NOTHING_TO_NAME = "nothing_to_name"
        NOT_IN_DIALECT = "no_such_copy"
        ENGINE_REFUSES = "engine_refuses"

    def __init__(self, why: Why, message: str) -> None:
        super().__init__(message)
        self.why = why


class Publisher:
    """Makes and keeps the copies of whoever is asking. Safe to use from many tasks of one event loop."""

    def __init__(self, pipeline: Pipeline, caller: Callable[[], Principal]) -> None:
        self._pipeline = pipeline
        self._caller = caller
        self._kept = Kept[tuple[Audience, Wanted], GrammarCopy | NoCopy](KEPT)
        # One at a time: a copy for ten thousand names takes seconds, and nobody may have several made for them at once.
        self._making = anyio.Lock()

    def audience(self) -> Audience:
        """Return the audience that the caller is, now."""
        caller, now = self._caller(), time.time()
        scopes = frozenset(scope for scope in PROGRAM_SCOPES if caller.holds(scope, now))
        return Audience(scopes, self._pipeline.inventory_of(caller))

    async def copy(self, audience: Audience, wanted: Wanted) -> GrammarCopy:
        """Return the copy for an audience. Raises ``NoCopy``.

        Where an engine that reads the dialect is installed, it has compiled the copy.
        """
        key = (audience, wanted)
        found = self._kept.get(key)
        if found is None:
            async with self._making:
                found = self._kept.get(key) or await self._make(*key)
                if not (isinstance(found, NoCopy) and found.why is NoCopy.Why.ENGINE_REFUSES):
                    self._kept.keep(key, found)  # what an engine says is kept with its verdicts
        if isinstance(found, NoCopy):
            raise NoCopy(found.why, str(found))
        return found

    async def _make(self, audience: Audience, wanted: Wanted) -> GrammarCopy | NoCopy:
        """Return a copy, or why there is none, which is kept like one: finding out takes as long."""

        def make() -> GrammarCopy:
            return copy_for(
                audience.scopes,
                wanted.dialect,
                names=nameable(audience.inventory),
                layout=wanted.layout,
                wrap=wanted.wrap,
                limits=self._pipeline.limits,
            )

        try:
            copy = await to_thread.run_sync(make)
        except NothingToName as none:
            return NoCopy(NoCopy.Why.NOTHING_TO_NAME, str(none))
        except NoGrammar as none:
            return NoCopy(NoCopy.Why.NOTHING_ALLOWED, str(none))
        except ValueError as error:
            return NoCopy(NoCopy.Why.NOT_IN_DIALECT, str(error))
        refused = await refusal(copy)
        return copy if refused is None else NoCopy(NoCopy.Why.ENGINE_REFUSES, refused)


def nameable(inventory: Inventory) -> Names:
    """Return what programs can name in an inventory."""
    return {kind: inventory.spellings(kind) for kind in Target}


def wanted(parameters: Iterable[tuple[str, str]]) -> Wanted:
    """Return which copy a query asks for. Raises ``ValueError`` that says what can be asked for."""
    chosen: dict[str, str] = {}
    for name, value in parameters:
        if name not in CHOICES:
            raise ValueError(f"there is no parameter `{name[:100]}`; there are: {', '.join(CHOICES)}")
        if name in chosen:
            raise ValueError(f"`{name}` stands there twice")
        if value not in CHOICES[name]:
            raise ValueError(f"`{name}` cannot be `{value[:100]}`; it can be: {', '.join(CHOICES[name])}")
        chosen[name] = value
    return Wanted(
        chosen.get("dialect", "lark"),
        Layout(chosen.get("layout", Layout.ONE_LINE)),
        Wrap(chosen.get("wrap", Wrap.NONE)),
    )


def resource_uri(asked: Wanted) -> str:
    """Return the resource of a copy; what is as it is by default is left out."""
    default = Wanted(asked.dialect)
    query = {name: getattr(asked, name) for name in CHOICES if getattr(asked, name) != getattr(default, name)}
    return f"{RESOURCE}/{asked.dialect}" + (f"?{urlencode(query)}" if query else "")


def media_type(dialect: str) -> str:
    """Return the media type of a copy's text, without a charset."""
    return _MEDIA_TYPES.get(dialect, "text/plain")
