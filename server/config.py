"""The configuration: one TOML file, found, read and checked whole. Every key has a default, and every default is safe.

Owns where the file is looked for, whom it is trusted from, and how its mistakes are told: all at once, each with file,
line and key. It makes nothing: putting parts together is ``wiring``'s.
"""

import codecs
import os
import stat
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError

from guideway.dsl.lexer import is_name
from guideway.dsl.parser import DEFAULT_LIMITS
from guideway.dsl.scopes import Scope
from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.base import DriverOptions, ProbeOptions
from guideway.interpreter.pipeline import DEFAULT_DEADLINES
from guideway.interpreter.probes import PROBES
from guideway.server import toml_places
from guideway.server.config_errors import ConfigError, Problem, dotted, explain, suggestion, syntax_problem

FILE_NAME: Final = "guideway.toml"
VARIABLE: Final = "GUIDEWAY_CONFIG"
SYSTEM_FOLDER: Final = Path("/etc/guideway")
MOST_BYTES: Final = 1024 * 1024

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class _Section(BaseModel):
    """A table of the file. Nothing is coerced, and a key that is not known is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _loopback(host: str) -> str:
    if host not in ("127.0.0.1", "::1", "localhost"):
        raise ValueError("must be 127.0.0.1, ::1 or localhost: this version does not authenticate who asks")
    return host


class CallerSection(_Section):
    """``[callers.NAME]``: somebody who may be asking. Without scopes they may do nothing."""

    scopes: Annotated[frozenset[Annotated[Scope, Strict(False)]], Strict(False)] = frozenset()


class ServerSection(_Section):
    """``[server]``: where HTTP is served. Only loopback, because this version does not authenticate who asks."""

    host: Annotated[str, AfterValidator(_loopback)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8765


class LimitsSection(_Section):
    """``[limits]``: the largest program that is read. The upper ends keep the parser's work and stack small."""

    bytes: Annotated[int, Field(ge=1, le=1_048_576)] = DEFAULT_LIMITS.bytes
    nesting: Annotated[int, Field(ge=1, le=100)] = DEFAULT_LIMITS.nesting
    commands: Annotated[int, Field(ge=1, le=10_000)] = DEFAULT_LIMITS.commands


class DeadlinesSection(_Section):
    """``[deadlines]``: seconds that a command, and a whole pipeline, may take."""

    ping: Seconds = DEFAULT_DEADLINES.ping
    get_status: Seconds = DEFAULT_DEADLINES.get_status
    if_running: Seconds = DEFAULT_DEADLINES.if_running
    restart: Seconds = DEFAULT_DEADLINES.restart
    pipeline: Seconds = DEFAULT_DEADLINES.pipeline


class HostSection(_Section):
    """The keys of ``[hosts.NAME]`` beside its probe's own. ``ping_seconds`` None takes ``[deadlines] ping``."""

    ping_seconds: Seconds | None = None


class ServiceSection(_Section):
    """The keys of ``[services.NAME]`` beside its driver's own. No ``restart_seconds``: ``[deadlines] restart``."""

    restartable: bool = True
    restart_seconds: Seconds | None = None
    settle_seconds: Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)] = 1.0
    health_seconds: Seconds = 2.0


class _Document(_Section):
    """The whole file, with hosts and services still to be read by what their probe or driver asks."""

    caller: str | None = None
    callers: dict[str, CallerSection] = Field(default_factory=dict)
    server: ServerSection = ServerSection()
    limits: LimitsSection = LimitsSection()
    deadlines: DeadlinesSection = DeadlinesSection()
    hosts: dict[str, dict[str, Any]] = Field(default_factory=dict)
    services: dict[str, dict[str, Any]] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A host as configured: which probe, with which options."""

    kind: str
    probe: ProbeOptions
    common: HostSection


@dataclass(frozen=True, slots=True)
class ServiceEntry:
    """A service as configured: which driver, with which options, and how its health is seen."""

    kind: str
    driver: DriverOptions
    health_kind: str | None
    health: ProbeOptions | None
    common: ServiceSection


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration that was checked. ``path`` is None where no file was found and the defaults hold."""

    path: Path | None
    caller: str | None
    callers: Mapping[str, CallerSection]
    server: ServerSection
    limits: LimitsSection
    deadlines: DeadlinesSection
    hosts: Mapping[str, HostEntry]
    services: Mapping[str, ServiceEntry]


def find(explicit: str | None = None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the configuration file: the one that is named, else the first of the usual places that has one.

    Raises ``ConfigError`` where a file in the current folder belongs to somebody else: whoever may write there could
    otherwise choose what this user restarts.
    """
    named = explicit or environment.get(VARIABLE)
    if named:
        return Path(named)
    here = Path(FILE_NAME)
    if here.is_file():
        for owner in (here.lstat().st_uid, here.stat().st_uid):  # a link is a choice of file too
            if owner not in (0, os.geteuid()):
                raise ConfigError(here, [Problem(f"belongs to user {owner}", help=f"name it with --config {here}")])
        return here
    users = (environment.get("XDG_CONFIG_HOME", ""), f"{environment.get('HOME', '')}/.config")
    # A relative one would be looked for in the current folder, whoever that belongs to.
    folders = [Path(folder, "guideway") for folder in users if folder.startswith("/")][:1]
    return next((path for base in (*folders, SYSTEM_FOLDER) if (path := base / FILE_NAME).is_file()), None)


def load(path: Path | None) -> Config:
    """Return the configuration of a file, or the defaults for None. Raises ``ConfigError``."""
    if path is None:
        return _config(None, _Document(), {}, {})
    text = _read(path)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path, [syntax_problem(error, text)]) from None
    except RecursionError:
        raise ConfigError(path, [Problem("is nested too deeply")]) from None
    return _Reader(path, text, raw).config()


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ConfigError(path, [Problem(f"cannot be read: {reason}")]) from None
    if stat.S_ISREG(mode) and mode & stat.S_IWOTH:
        raise ConfigError(path, [Problem("can be written by anybody", help=f"chmod o-w {path}")])
    if len(content) > MOST_BYTES:
        raise ConfigError(path, [Problem(f"is larger than {MOST_BYTES:,} bytes")])
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(path, [Problem("is not UTF-8", line)]) from None


def _config(
    path: Path | None, document: _Document, hosts: dict[str, HostEntry], services: dict[str, ServiceEntry]
) -> Config:
    return Config(
        path=path,
        caller=document.caller,
        callers=MappingProxyType(document.callers),
        server=document.server,
        limits=document.limits,
        deadlines=document.deadlines,
        hosts=MappingProxyType(hosts),
        services=MappingProxyType(services),
    )


_Model = TypeVar("_Model", bound=BaseModel)


class _Reader:
    """Reads one document, and gathers every mistake in it."""

    def __init__(self, path: Path, text: str, raw: dict[str, Any]) -> None:
        self._path = path
        self._raw = raw
        self._text = text
        self._problems: list[tuple[toml_places.Path, str, str | None]] = []

    def config(self) -> Config:
        """Return the configuration. Raises ``ConfigError``."""
        document = self._check(_Document, self._raw, ())
        hosts = self._hosts(document.hosts if document else _tables(self._raw.get("hosts")))
        services = self._services(document.services if document else _tables(self._raw.get("services")))
        caller, callers = self._raw.get("caller"), self._raw.get("callers", {})
        if isinstance(callers, dict):
            for name in callers:
                self._require_name(("callers", name))
            if isinstance(caller, str) and caller not in callers:
                self._choose(("caller",), caller, callers, "is not a caller")
        if self._problems or document is None:
            raise ConfigError(self._path, self._told())
        return _config(self._path, document, hosts, services)

    def _hosts(self, tables: Mapping[str, dict[str, Any]]) -> dict[str, HostEntry]:
        entries = {}
        for name, table in tables.items():
            path = ("hosts", name)
            self._require_name(path)
            common = self._common(HostSection, table, path)
            read = self._backend(PROBES, "probe", table, path, HostSection)
            if common and read:
                entries[name] = HostEntry(*read, common)
        return entries

    def _services(self, tables: Mapping[str, dict[str, Any]]) -> dict[str, ServiceEntry]:
        entries = {}
        for name, table in tables.items():
            path = ("services", name)
            self._require_name(path)
            table = dict(table)  # noqa: PLW2901  # a copy to take from
            health = table.pop("health", None)
            common = self._common(ServiceSection, table, path)
            read = self._backend(DRIVERS, "driver", table, path, ServiceSection, "health")
            checked: tuple[str, ProbeOptions] | None = None
            if isinstance(health, dict):
                checked = self._backend(PROBES, "probe", health, (*path, "health"))
            elif health is not None:
                self._say((*path, "health"), "must be a table", 'health = { probe = "tcp", … }')
            if common and read:
                health_kind, probe = checked or (None, None)
                entries[name] = ServiceEntry(*read, health_kind, probe, common)
        return entries

    def _common(self, model: type[_Model], table: dict[str, Any], path: toml_places.Path) -> _Model | None:
        return self._check(model, {key: table[key] for key in model.model_fields if key in table}, path)

    def _backend(
        self,
        kinds: Mapping[str, type[_Model]],
        chooser: str,
        table: dict[str, Any],
        path: toml_places.Path,
        common: type[BaseModel] = _Section,
        *more: str,
    ) -> tuple[str, _Model] | None:
        """Return the kind that a table chooses and its options; ``common`` and ``more`` are the keys of others."""
        kind = table.get(chooser)
        rest = _rest_of_name(table, chooser)
        if rest and len(path) == 2:
            self._say(path, "holds a table", f'a name with dots stands in quotes: [{path[0]}."{path[1]}.{rest}"]')
            return None
        if not isinstance(kind, str):
            what = "is missing" if kind is None else "must be a string"
            self._say((*path, chooser), what, suggestion("", kinds))
            return None
        if kind not in kinds:
            self._choose((*path, chooser), kind, kinds, f"is not a {chooser}")
            return None
        model = kinds[kind]
        others = {chooser, *common.model_fields}
        options = {
            key: self._absolute(value) if isinstance(value, str) and _is_path(model, key) else value
            for key, value in table.items()
            if key not in others
        }
        checked = self._check(model, options, path, also=(*others, *more))
        return None if checked is None else (kind, checked)

    def _absolute(self, value: str) -> str:
        """Return a path of the file as an absolute one: it is relative to the file, not to who reads it."""
        return str(Path(os.path.abspath(self._path)).parent / value)

    def _check(
        self, model: type[_Model], table: dict[str, Any], path: toml_places.Path, also: Iterable[str] = ()
    ) -> _Model | None:
        try:
            return model.model_validate(table)
        except ValidationError as errors:
            for error in errors.errors(include_url=False):
                place = _existing(self._raw, (*path, *error["loc"]), missing=error["type"] == "missing")
                self._say(place, *explain(error, model, also))
        return None

    def _require_name(self, path: toml_places.Path) -> None:
        if not is_name(str(path[-1])):
            self._say(
                path,
                "is not a name that a program can spell",
                "a name is at most 253 letters, digits and `. _ : @ -`, and starts with a letter or digit",
            )

    def _choose(self, path: toml_places.Path, value: str, allowed: Iterable[str], what: str) -> None:
        self._say(path, f"{what}: `{value}`", suggestion(value, allowed))

    def _say(self, path: toml_places.Path, message: str, mend: str | None = None) -> None:
        self._problems.append((path, message, mend))

    def _told(self) -> list[Problem]:
        """Return the problems in the order of the file, several about one key as one."""
        lines = toml_places.key_lines(self._text)
        merged: dict[toml_places.Path, tuple[list[str], str | None]] = {}
        for path, message, mend in self._problems:
            messages, _ = merged.setdefault(path, ([], mend))
            if message not in messages:
                messages.append(message)
        problems = [
            Problem(" or ".join(messages), toml_places.line_of(lines, path), dotted(path), mend)
            for path, (messages, mend) in merged.items()
        ]
        return sorted(problems, key=lambda problem: problem.line or 0)


def _tables(value: Any) -> dict[str, dict[str, Any]]:
    """Return the tables of a table that may be anything; what else it holds has been told already."""
    return {name: table for name, table in value.items() if isinstance(table, dict)} if isinstance(value, dict) else {}


def _existing(raw: Any, path: toml_places.Path, *, missing: bool) -> toml_places.Path:
    """Return the part of a path that the document has, and the missing key behind it: pydantic adds parts of its own,
    for the arms of a union.
    """
    for depth, key in enumerate(path):
        try:
            raw = raw[key]
        except (KeyError, IndexError, TypeError):
            return path[: depth + missing]
    return path


def _rest_of_name(table: dict[str, Any], chooser: str) -> str:
    """Return what was meant as more of a name: the keys down to the table that has a ``chooser``, empty where none."""
    keys: list[str] = []
    while chooser not in table:
        inner = [(key, value) for key, value in table.items() if isinstance(value, dict)]
        if len(inner) != 1:
            return ""
        key, table = inner[0]
        keys.append(key)
    return ".".join(keys)


def _is_path(model: type[BaseModel], key: str) -> bool:
    """Say whether an option is a path."""
    field_of_model = model.model_fields.get(key)
    return field_of_model is not None and _mentions_path(field_of_model.annotation)


def _mentions_path(annotation: Any) -> bool:
    return annotation is Path or any(_mentions_path(part) for part in typing.get_args(annotation))
