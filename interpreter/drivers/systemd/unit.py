"""What systemd says of a unit, taken from its properties: its state as one of ours, and why it ended, in words.

Owns the meaning of systemd's states, results and exit statuses (org.freedesktop.systemd1(5), systemd.exec(5)). Reaches
nothing.
"""

import math
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from guideway.interpreter.drivers.base import Fault, Observation
from guideway.interpreter.results import Reason, State

NO_JOB: Final = "/"
_NEVER: Final = 2**64 - 1  # how systemd says that a span has no end

NOT_BY_HAND: Final = "its unit file lets nobody stop or start it by hand (`RefuseManualStart=`, `RefuseManualStop=`)"
NEW_INSTANCE: Final = (
    "it is an instance of a template that is not enabled, and systemd knows of no start of it: its name may be misspelt"
)
# The states of a unit file of which somebody stated that the unit is to be there, under this very name.
_STATED: Final = frozenset({"enabled", "enabled-runtime", "generated", "transient"})
_WANTED_BY: Final = ("WantedBy", "RequiredBy", "RequisiteOf", "BoundBy", "UpheldBy", "TriggeredBy")
_TIMES: Final = ("InactiveExit", "ActiveEnter", "ActiveExit", "InactiveEnter", "ExecMainStart")

START_LIMIT: Final = "it was started too often in a short time (start limit), and systemd does not start it for now"

_STATES: Final = {
    "active": State.RUNNING,
    "reloading": State.RUNNING,  # it serves meanwhile, and is the same instance afterwards
    "refreshing": State.RUNNING,
    "activating": State.STARTING,
    "deactivating": State.STOPPING,
    "inactive": State.STOPPED,
    "failed": State.FAILED,
    "maintenance": State.STOPPED,
}

_RESULTS: Final = {
    "timeout": "it took longer than its unit allows",
    "watchdog": "it did not report to systemd's watchdog in time",
    "start-limit-hit": START_LIMIT,
    "oom-kill": "the kernel killed it because memory ran out",
    "resources": "systemd could not set up what it needs to run",
    "protocol": "it did not do what its `Type=` asks for, such as saying that it is ready",
    "exec-condition": "its `ExecCondition=` was not met",
}

# Exit statuses that are systemd's own: it failed before the command could run.
_STATUSES: Final = {
    200: "its working directory cannot be entered",
    203: "its command cannot be executed",
    208: "its standard input cannot be set up",
    209: "its standard output cannot be set up",
    210: "its root directory cannot be entered",
    216: "its group does not exist or cannot be taken",
    217: "its user does not exist or cannot be taken",
    219: "its control group cannot be set up",
    226: "its namespaces cannot be set up",
    233: "its runtime directory cannot be set up",
    238: "its state directory cannot be set up",
    239: "its cache directory cannot be set up",
    240: "its log directory cannot be set up",
    241: "its configuration directory cannot be set up",
    243: "its credentials cannot be set up",
}
_EXITED, _KILLED, _DUMPED = 1, 2, 3  # ExecMainCode: CLD_EXITED, CLD_KILLED, CLD_DUMPED (sigaction(2))


@dataclass(frozen=True, slots=True)
class Unit:
    """A service unit at one moment. Times are in microseconds of the monotonic clock, 0 for never, as far as known.

    systemd forgets all about a unit that does not run and that nothing refers to.
    """

    name: str
    load: str
    load_error: str
    active: str
    sub: str
    result: str
    kind: str
    job: str
    pid: int
    started: int
    invocation: bytes
    code: int
    status: int
    restarts: int
    condition_met: bool
    condition_checked: int
    has_conditions: bool
    status_text: str
    start_limit_us: int
    stop_limit_us: int
    by_hand: bool
    ever_started: bool
    stated: bool

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "Unit":
        """Return the unit of its properties by name, as the library hands them out. Raises ``Fault``."""
        try:
            value = {name: variant.value for name, variant in said.items()}
            error = value["LoadError"]
            unit = cls(
                name=_typed(str, value["Id"]),
                load=_typed(str, value["LoadState"]),
                load_error=_typed(str, error[1]),
                active=_typed(str, value["ActiveState"]),
                sub=_typed(str, value["SubState"]),
                result=_typed(str, value["Result"]),
                kind=_typed(str, value["Type"]),
                job=_typed(str, value["Job"][1]),
                pid=_typed(int, value["MainPID"]),
                started=_typed(int, value["ExecMainStartTimestampMonotonic"]),
                invocation=_typed(bytes, value.get("InvocationID", b"")),  # since 232
                code=_typed(int, value["ExecMainCode"]),
                status=_typed(int, value["ExecMainStatus"]),
                restarts=_typed(int, value.get("NRestarts", 0)),  # since 235
                condition_met=_typed(bool, value["ConditionResult"]),
                condition_checked=_typed(int, value["ConditionTimestampMonotonic"]),
                has_conditions=bool(value["Conditions"]),
                status_text=_typed(str, value["StatusText"]),
                start_limit_us=_typed(int, value.get("TimeoutStartUSec", 0)),
                stop_limit_us=_typed(int, value.get("TimeoutStopUSec", 0)),
                by_hand=not (_typed(bool, value["RefuseManualStart"]) or _typed(bool, value["RefuseManualStop"])),
                ever_started=max(_typed(int, value[f"{time}TimestampMonotonic"]) for time in _TIMES)
                > 0,  # each has to be there
                stated=_is_stated(value),
            )
        except (AttributeError, IndexError, KeyError, TypeError):
            raise Fault(Reason.UNKNOWN, "what answers on the bus does not speak as systemd does") from None
        if unit.active not in _STATES:
            raise Fault(Reason.UNKNOWN, "systemd gives the unit a state that is not known here", unit.active)
        return unit

    @property
    def state(self) -> State:
        """The state, as one of ours. One that waits to be started, or to be started again, is starting."""
        waits = self.ended_and_returns or (self.active in {"inactive", "failed"} and self.job != NO_JOB)
        return State.STARTING if waits else _STATES[self.active]

    @property
    def ended_and_returns(self) -> bool:
        """Whether it ended, and systemd is about to start it again because of its ``Restart=``."""
        return "auto-restart" in self.sub

    @property
    def is_up(self) -> bool:
        """Whether a restart would take something down."""
        return self.active not in {"inactive", "failed"}

    @property
    def is_new_instance(self) -> bool:
        """Whether any name would do as well: an instance that its template makes of each name, and nobody asked for.

        systemd forgets an instance that ended well and that nothing wants, so that such a one counts as new again.
        """
        idle = (self.load, self.active, self.job) == ("loaded", "inactive", NO_JOB)
        return "@" in self.name and idle and not self.ever_started and not self.stated

    def was_not_started_since(self, before: "Unit") -> bool:
        """Whether it failed, and not because of a start after ``before``: systemd refused to start it.

        That is how a start limit shows. ``Result`` says so only where nothing else had gone wrong, in the stop say.
        """
        return (
            (self.active, self.job) == ("failed", NO_JOB)
            and (self.invocation, self.started) == (before.invocation, before.started)
        )  # fmt: skip

    @property
    def is_task(self) -> bool:
        """Whether it is meant to run to its end."""
        return self.kind == "oneshot"

    @property
    def identity(self) -> str | None:
        """What is another after each start, None where nothing runs."""
        if self.state in {State.STOPPED, State.FAILED} or self.ended_and_returns:
            return None
        return self.invocation.hex() or f"{self.pid}@{self.started}"

    def seconds_allowed(self, usual_start_us: int, usual_stop_us: int) -> float:
        """Return how long its unit lets a restart take, infinite where it sets no bound.

        What is usual on its system nobody stated for it, and says nothing of how long it takes: that counts as 0, and
        so does a task that may run for as long as it likes.
        """
        starts_for_ever = self.is_task and self.start_limit_us == _NEVER
        start = 0 if starts_for_ever or self.start_limit_us == usual_start_us else self.start_limit_us
        stop = 0 if self.stop_limit_us == usual_stop_us else self.stop_limit_us
        return math.inf if _NEVER in {start, stop} else (start + stop) / 1e6

    def observation(self) -> Observation:
        """Return what systemd says, in our words. Raises ``Fault`` where there is no such unit."""
        if self.load == "not-found" and self.active == "inactive":
            raise Fault(Reason.NOT_FOUND, "systemd has no unit of the configured name")
        return Observation(self.state, self.identity, self.description())

    def description(self) -> str:
        """Return all that there is to say of it, the service's own words last."""
        about = f"{self.active} ({self.sub})" + (f", pid {self.pid}" if self.pid else "")
        about += f", started again {self.restarts} times by systemd" if self.restarts else ""
        doubt = self.obstacle() or (NEW_INSTANCE if self.is_new_instance else "")
        return "\n".join(line for line in (about, doubt, self.why(), self.status_text) if line)

    def why(self) -> str:
        """Return why it last ended or failed, in words; empty where that was well."""
        if self.result == "success":
            return ""
        if self.result in _RESULTS:
            return _RESULTS[self.result]
        match self.code:
            case code if code == _EXITED:
                return f"its main process exited with status {self.status}" + (
                    f": {_STATUSES[self.status]}" if self.status in _STATUSES else ""
                )
            case code if code in {_KILLED, _DUMPED}:
                dumped = " and dumped core" if code == _DUMPED else ""
                return f"its main process was killed by {_signal(self.status)}{dumped}"
            case _:
                return f"one of its commands failed ({self.result})"

    def obstacle(self) -> str | None:
        """Return why systemd would not start it, as far as its unit file says."""
        match self.load:
            case "loaded":
                return None
            case "masked":
                return "it is masked: nothing can start it until it is unmasked"
            case "not-found":
                return "its unit file does not exist"
            case _:
                return f"its unit file cannot be used: {self.load_error or self.load}"


def _is_stated(value: Mapping[str, Any]) -> bool:
    """Say whether a unit is enabled, wanted by another, or has a file of its own, if only to add to its template's."""
    name = value["Id"]
    files = (value["FragmentPath"], *(path.rpartition("/")[0] for path in value.get("DropInPaths", ())))
    return (
        value["UnitFileState"] in _STATED
        or any(value.get(relation) for relation in _WANTED_BY)
        or any(file.rpartition("/")[2].removesuffix(".d") == name for file in files)
    )


def _typed(kind: type[Any], value: object) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
