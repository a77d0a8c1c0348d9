"""The command probe: does a program of the operator's say that all is well? Its words are those of monitoring plugins.

The program is run as an argument list by ``guideway.interpreter.children``: no shell, an environment of its own, within
bounds, and nothing of it is left when the call is over. What it is told stands in the inventory; of a program's text it
never gets more than a name that the inventory's pattern allows. What it writes is untrusted output.
"""

import logging
import re
import signal
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final

import anyio
from pydantic import AfterValidator, Field, Strict, field_validator

from guideway.interpreter.children.bounds import LEAST, MOST, Bounds
from guideway.interpreter.children.order import ENVIRONMENT, Ended, How, Order
from guideway.interpreter.children.run import AT_ONCE, run
from guideway.interpreter.drivers.base import Echo, Fault, FromName, Probe, ProbeOptions
from guideway.interpreter.probes import sockets
from guideway.interpreter.results import Reason

#: The answer to a caller; why, with the program's path, is for the operator.
NOT_STARTED: Final = "the check was not started: its program cannot be run, or must not be"

logger = logging.getLogger(__name__)

# The exit statuses of the Monitoring Plugins' guidelines, which Nagios, Icinga and Sensu follow.
_OK, _WARNING, _CRITICAL, _UNKNOWN = range(4)

_DEFAULT: Final = Bounds()
_SPARE_SECONDS: Final = 0.2
_MOST_ARGUMENTS: Final = 64
_LONGEST: Final = 4096


@dataclass(frozen=True, slots=True)
class CommandProbe:
    """Runs a program. ``user`` is whom it runs as where this process is root, None for ``nobody``.

    ``warning_passes``: a warning counts as an answer. It does not unless somebody says so, because what ends a script
    in many languages, an exception that nobody catches, has the same exit status.
    """

    program: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    user: str | None = None
    warning_passes: bool = False
    bounds: Bounds = _DEFAULT

    async def probe(self) -> Echo:
        """Return the time that the program took, and what it warns of. Raises ``Fault``."""
        began = anyio.current_time()
        # It ends before the deadline, so that there is time to say what it wrote until then.
        left = anyio.current_effective_deadline() - began
        seconds = max(LEAST["seconds"], min(self.bounds.seconds, left - min(_SPARE_SECONDS, left / 10)))
        values: dict[str, Any] = {field.name: getattr(self.bounds, field.name) for field in fields(Bounds)}
        order = Order(
            self.program,
            self.arguments,
            dict(self.environment),
            self.user,
            bounds=Bounds(**values | {"seconds": seconds}),
        )
        try:
            ended = await run(order)
        except OSError as error:
            raise Fault(Reason.CANNOT_PROBE, f"the check was not started: {sockets.words(error)}") from error
        if ended.left:
            logger.error("%s: processes %s cannot be ended; the kernel holds them", self.program, ended.left)
        return self._echo(ended, anyio.current_time() - began, seconds)

    def _echo(self, ended: Ended, took: float, seconds: float) -> Echo:
        output = _words(ended)
        match ended.how:
            case How.NOT_STARTED:
                raise Fault(Reason.CANNOT_PROBE, NOT_STARTED, output, f"{ended.why} (`program` {self.program})")
            case How.NO_ROOM:
                raise Fault(Reason.CANNOT_PROBE, f"the check was not started: {AT_ONCE} others went on running")
            case How.TIMED_OUT | How.CANCELLED:
                raise Fault(Reason.NO_ANSWER, f"the check had not ended within {seconds:.3g} s", output)
            case How.SIGNALLED:
                raise Fault(Reason.CANNOT_PROBE, self._of_signal(ended), output)
            case How.EXITED if ended.number == _OK:
                return Echo("command", took)
            case How.EXITED if ended.number == _WARNING and self.warning_passes:
                return Echo("command", took, output or "(it wrote nothing)")
            case How.EXITED if ended.number == _WARNING:
                raise Fault(Reason.NO_ANSWER, "the check warns, or has failed itself (exit status 1)", output)
            case How.EXITED if ended.number == _CRITICAL:
                raise Fault(Reason.NO_ANSWER, "the check says critical (exit status 2)", output)
            case How.EXITED if ended.number == _UNKNOWN:
                raise Fault(Reason.CANNOT_PROBE, "the check could not tell (exit status 3)", output)
            case _:
                message = f"the check ended with exit status {ended.number}, which says nothing of what it checks"
                raise Fault(Reason.CANNOT_PROBE, message, output)

    def _of_signal(self, ended: Ended) -> str:
        if ended.out_of_memory:
            return f"the check took more than `memory_mb` = {self.bounds.memory_mb}, and was ended"
        if ended.number == signal.SIGXCPU:
            return f"the check took more than `cpu_seconds` = {self.bounds.cpu_seconds}, and was ended"
        if ended.number == signal.SIGXFSZ:
            return f"the check wrote a file larger than `file_mb` = {self.bounds.file_mb}, and was ended"
        try:
            name = signal.Signals(ended.number).name
        except ValueError:
            name = f"signal {ended.number}"
        return f"the check was ended by {name}"


def _words(ended: Ended) -> str:
    """Return what a program wrote, standard output first."""
    streams = (
        f"[{cut} bytes cut]\n{text}" if cut else text
        for kept, cut in zip((ended.out, ended.err), ended.cut, strict=True)
        if (text := kept.decode(errors="replace").strip("\n"))
    )
    return "\n".join(streams)


_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\$?")


def _program(text: str) -> str:
    if not text.startswith("/") or text.endswith("/"):
        raise ValueError("must be the absolute path of a program, and not a line for a shell")
    return _plain(text)


def _plain(text: str) -> str:
    if "\0" in text or len(text) > _LONGEST:
        raise ValueError(f"must be at most {_LONGEST:,} characters, and none of them zero")
    return text


def _user(text: str) -> str:
    if not _USER.fullmatch(text):
        raise ValueError("must be the name of a user")
    return text


_Argument = Annotated[str, AfterValidator(_plain)]


def _bound(name: str) -> Any:
    return Field(ge=LEAST[name], le=MOST[name], allow_inf_nan=False)


class CommandOptions(ProbeOptions):
    """A program that has to say that all is well. Each bound can be set up to an end that nothing can raise."""

    shown = ("program",)

    program: Annotated[str, AfterValidator(_program)]
    arguments: Annotated[
        tuple[_Argument, ...], Strict(False), FromName(is_argument=True), Field(max_length=_MOST_ARGUMENTS)
    ] = ()
    environment: dict[str, _Argument] = Field(default={}, max_length=_MOST_ARGUMENTS)
    user: Annotated[str, AfterValidator(_user)] | None = None
    warning_passes: bool = False
    seconds: Annotated[float, _bound("seconds")] = _DEFAULT.seconds
    cpu_seconds: Annotated[int, _bound("cpu_seconds")] = _DEFAULT.cpu_seconds
    memory_mb: Annotated[int, _bound("memory_mb")] = _DEFAULT.memory_mb
    processes: Annotated[int, _bound("processes")] = _DEFAULT.processes
    open_files: Annotated[int, _bound("open_files")] = _DEFAULT.open_files
    output_bytes: Annotated[int, _bound("output_bytes")] = _DEFAULT.output_bytes
    file_mb: Annotated[int, _bound("file_mb")] = _DEFAULT.file_mb

    @field_validator("environment")
    @classmethod
    def _check(cls, environment: dict[str, str]) -> dict[str, str]:
        for name in environment:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"has `{name[:64]}`, which is no name of a variable")
            if name in ENVIRONMENT:
                raise ValueError(f"cannot set `{name}`: that is `{ENVIRONMENT[name]}` for every check")
        return environment

    def build(self) -> Probe:
        """Make the probe."""
        bounds = Bounds(**{field.name: getattr(self, field.name) for field in fields(Bounds)})
        environment = tuple(self.environment.items())
        return CommandProbe(self.program, self.arguments, environment, self.user, self.warning_passes, bounds)
