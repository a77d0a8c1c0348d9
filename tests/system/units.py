"""Units of every kind that a restart can meet: those that work, and each way in which one does not."""


def _service(command: str, *settings: str, unit: str = "") -> str:
    return f"[Unit]\n{unit}\nStartLimitIntervalSec=0\n[Service]\nExecStart={command}\n" + "\n".join(settings) + "\n"


def _limited(command: str, *settings: str, burst: int = 3) -> str:
    text = _service(command, *settings)
    return text.replace("StartLimitIntervalSec=0", f"StartLimitIntervalSec=1h\nStartLimitBurst={burst}")


SLEEP = "/bin/sleep 100000"
DIES = "/bin/sh -c 'exit 3'"
DIES_LATER = "/bin/sh -c 'sleep 0.5; exit 3'"
IGNORES = "/bin/sh -c 'trap \"\" TERM; exec sleep 100000'"

#: A file's text by the unit's name, None for one that is masked.
UNITS: dict[str, str | None] = {
    "good.service": _service(SLEEP),
    "other.service": _service(SLEEP),
    "never.service": _service(SLEEP),
    "turncoat.service": _service(SLEEP),
    "worker@.service": _service(SLEEP),
    "exec.service": _service(SLEEP, "Type=exec"),
    "forks.service": _service("/bin/sh -c 'sleep 100000 &'", "Type=forking"),
    "ready.service": _service(
        "/bin/sh -c 'systemd-notify --ready --status=\"serving 3 customers\"; exec sleep 100000'",
        *("Type=notify", "NotifyAccess=all"),
    ),
    "reloads.service": _service(SLEEP, "ExecReload=/bin/sleep 100000"),
    # ends by itself
    "missing.service": _service("/nonexistent/program"),
    "missing_exec.service": _service("/nonexistent/program", "Type=exec"),
    "no_user.service": _service(SLEEP, "User=nosuchuser"),
    "no_folder.service": _service(SLEEP, "WorkingDirectory=/nonexistent"),
    "dies_at_once.service": _service(DIES),
    "dies_later.service": _service(DIES_LATER),
    "leaves.service": _service("/bin/sh -c 'sleep 0.3; exit 0'"),
    "crashes.service": _service("/bin/sh -c 'sleep 0.1; kill -SEGV $$$$'", "LimitCORE=0"),
    "dies_unready.service": _service("/bin/sh -c 'sleep 0.1; exit 3'", "Type=notify"),
    "leaves_unready.service": _service("/bin/sh -c 'sleep 0.1; exit 0'", "Type=notify"),
    "prepares_badly.service": _service(SLEEP, "ExecStartPre=/bin/false"),
    "barks.service": _service(
        "/bin/sh -c 'systemd-notify --ready; exec sleep 100000'",
        *("Type=notify", "NotifyAccess=all", "WatchdogSec=0.4", "WatchdogSignal=SIGKILL"),
    ),
    # and is started again
    "returns.service": _service(DIES_LATER, "Restart=always", "RestartSec=0.1"),
    "returns_at_once.service": _service(DIES, "Restart=always", "RestartSec=0.1"),
    "returns_late.service": _service(DIES, "Restart=always", "RestartSec=60"),
    "returns_unready.service": _service(DIES, "Type=notify", "Restart=always", "RestartSec=0.1"),
    "returns_limited.service": _limited(DIES, "Restart=always", "RestartSec=0.1"),
    # takes too long
    "hangs.service": _service(SLEEP, "Type=notify", "TimeoutStartSec=infinity"),
    "patient.service": _service(SLEEP, "TimeoutStopSec=200"),
    "late.service": _service(SLEEP, "Type=notify", "TimeoutStartSec=0.5"),
    "stubborn.service": _service(IGNORES, "TimeoutStopSec=infinity"),
    "dragging.service": _service(IGNORES, "TimeoutStopSec=0.5"),
    "drags_and_hangs.service": _service(IGNORES, "Type=notify", "TimeoutStartSec=infinity", "TimeoutStopSec=0.5"),
    # is not allowed to start
    "masked.service": None,
    "broken.service": "[Service]\nType=simple\n",
    "waits.service": _service(SLEEP, unit="Requires=hangs.service\nAfter=hangs.service"),
    "requires.service": _service(SLEEP, unit="Requires=task_bad.service\nAfter=task_bad.service"),
    "asserts.service": _service(SLEEP, unit="AssertPathExists=/nonexistent"),
    "conditional.service": _service(SLEEP, unit="ConditionPathExists=!/run/systemd/system/forbidden"),
    "conditional_kept.service": _service(SLEEP, unit="ConditionPathExists=!/run/systemd/system/forbidden"),
    "keeper.service": _service(SLEEP, unit="Wants=conditional_kept.service task_enabled.service"),
    "by_dependency.service": _service(SLEEP, unit="RefuseManualStart=yes\nRefuseManualStop=yes"),
    "limited.service": _limited(SLEEP),
    "limited_slow.service": _limited(SLEEP, burst=1),
    "limited_dragging.service": _limited(IGNORES, "TimeoutStopSec=0.3", burst=1),
    "limited_bad.service": _limited(DIES, burst=2),
    # runs to its end
    "task.service": _service("/bin/true", "Type=oneshot"),
    "task_enabled.service": _service("/bin/true", "Type=oneshot"),
    "task_slow.service": _service("/bin/sleep 0.4", "Type=oneshot"),
    "task_bad.service": _service(DIES, "Type=oneshot"),
    "task_stays.service": _service("/bin/true", "Type=oneshot", "RemainAfterExit=yes"),
    "task_conditional.service": _service("/bin/true", "Type=oneshot", unit="ConditionPathExists=/nonexistent"),
}
