"""The way from the launcher down to the program: each process on it gives up something, and the last one is it.

Runs in children of the launcher, which has one thread, so that Python may go on after a fork. Whatever goes wrong is
written to a pipe that the program never has. Standard library only.
"""

import errno
import json
import os
import pwd
import resource
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

from guideway.interpreter.children import system
from guideway.interpreter.children.bounds import MEGABYTE, Bounds
from guideway.interpreter.children.cgroup import Group
from guideway.interpreter.children.order import Means, Order

_FAILED = 127
_COUNTED_BY_NAMESPACE = (5, 14)  # Linux: from here on RLIMIT_NPROC is counted in each user namespace
_HELPERS = 2  # the processes between the launcher and the program, which are of its user


class Descent:
    """One start of a program. ``tells`` is the pipe to the launcher, ``out`` and ``err`` what the program writes to."""

    def __init__(self, order: Order, group: Group | None, tells: int, out: int, err: int) -> None:
        self._order = order
        self._group = group
        self._tells = tells
        self._streams = (_input(order.stdin), out, err)
        self._processes: int | None = None

    def go(self) -> NoReturn:
        """Become what minds the program; never returns. Called in a child of the launcher's."""
        try:
            self._go()
        except BaseException as error:  # noqa: BLE001  # there is nobody above to whom it could be raised
            self._fail(str(error) or type(error).__name__)
        os._exit(_FAILED)

    def _go(self) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if self._group is not None:
            self._group.enter()
        user = self._user()
        inside = self._namespaces(user)
        self._bind_to_parent()
        if not inside:
            self._mind()
        child = os.fork()
        if child == 0:
            self._bind_to_parent()
            self._mind()  # as the first process of its namespace: with it everything in there ends
        os.waitpid(child, 0)
        os._exit(0)

    def _user(self) -> pwd.struct_passwd | None:
        """Return whom to become, None where this process stays who it is. Raises ``ValueError``."""
        name = self._order.user
        if os.geteuid() != 0:
            if name is not None and _known(name).pw_uid != os.geteuid():
                raise ValueError(f"only root can run a program as `{name}`")
            return None
        found = _known(name or "nobody")
        return found if found.pw_uid else None

    def _namespaces(self, user: pwd.struct_passwd | None) -> bool:
        """Become the user, go into namespaces; return whether the next child is the first process of one."""
        kinds = system.NEW_PID | system.NEW_IPC if system.LINUX and Means.NAMESPACES in self._order.means else 0
        is_root = os.geteuid() == 0
        uid = user.pw_uid if user is not None else os.geteuid()
        why = "not used" if system.LINUX else "this system has none"
        owns = False
        if kinds and uid != 0:  # root would lose in one of its own what makes it root
            flags = system.NEW_USER if is_root else system.NEW_USER | kinds
            number = _tried(user, flags)
            owns, why = number == 0, os.strerror(number).lower()
        inside = owns
        if is_root:
            if kinds:
                try:
                    system.unshare(kinds)
                    inside = True
                except OSError as error:
                    inside = False
                    why = os.strerror(error.errno or 0).lower()
            if user is not None:
                _become(user)
        if owns:
            _own_namespaces(flags)
        if not inside:
            self._tell(missing=[Means.NAMESPACES, f"the system refuses one: {why}" if kinds else why])
        self._processes = self._order.bounds.processes + _HELPERS
        if not owns or _release() < _COUNTED_BY_NAMESPACE:
            self._processes += _tasks_of(uid)
        return inside

    def _bind_to_parent(self) -> None:
        if system.LINUX:
            system.die_with_parent(signal.SIGKILL)

    def _mind(self) -> NoReturn:
        """Start the program, and tell how it ended."""
        child = os.fork()
        if child == 0:
            self._become()
        self._tell(program=child)
        for stream in self._streams:
            os.close(stream)
        while True:
            pid, status = os.wait()  # as the first process of a namespace it has everybody's orphans
            if pid == child:
                self._tell(status=status)
                os._exit(0)

    def _become(self) -> NoReturn:
        """Become the program."""
        try:
            os.setsid()
            self._bind_to_parent()
            os.chdir("/")
            os.umask(0o077)
            for number, stream in enumerate(self._streams):
                os.dup2(stream, number)
            limit(self._order.bounds, self._processes)
            if system.LINUX and Means.NO_NEW_PRIVS in self._order.means:
                system.gain_no_privileges()
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
                signal.signal(number, signal.SIG_DFL)
            program = self._order.program
            arguments = [program, *self._order.arguments]
            os.execve(program, arguments, dict(self._order.environment))  # noqa: S606  # a shell is what this avoids
        except OSError as error:
            self._fail(os.strerror(error.errno or 0).lower())
        except BaseException as error:  # noqa: BLE001  # see above
            self._fail(str(error) or type(error).__name__)
        os._exit(_FAILED)

    def _fail(self, why: str) -> None:
        self._tell(failed=why)

    def _tell(self, **said: Any) -> None:
        with suppress(OSError):  # the launcher has ended, and this process is about to
            os.write(self._tells, json.dumps(said).encode() + b"\n")


def limit(bounds: Bounds, processes: int | None) -> None:
    """Limit this process and what it starts. Nobody without rights can raise these again."""
    memory, files = bounds.memory_mb * MEGABYTE, bounds.file_mb * MEGABYTE
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, files)
    _limit(resource.RLIMIT_NOFILE, bounds.open_files)
    _limit(resource.RLIMIT_CPU, bounds.cpu_seconds, bounds.cpu_seconds + 1)  # SIGXCPU, and then SIGKILL
    if processes is not None:
        _limit(resource.RLIMIT_NPROC, processes)
    if sys.platform == "linux":
        _limit(resource.RLIMIT_MSGQUEUE, 0)
    _limit(resource.RLIMIT_AS, memory)


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    _, most = resource.getrlimit(kind)
    hard = soft if hard is None else hard
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))


def _input(content: bytes | None) -> int:
    """Return a descriptor to read the content from: its end at once where there is none."""
    if content is None:
        return os.open(os.devnull, os.O_RDONLY)
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.close(reads)
        with suppress(OSError), open(writes, "wb") as pipe:
            pipe.write(content)
        os._exit(0)
    os.close(writes)
    return reads


def _become(user: pwd.struct_passwd) -> None:
    """Be another user, for good. Raises ``ValueError``."""
    try:
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    except OSError as error:  # a container's root may not, or has no such user
        why = os.strerror(error.errno or 0).lower()
        raise ValueError(f"root here cannot become `{user.pw_name}`: {why}; `user` names another, or `root`") from None


def _tried(user: pwd.struct_passwd | None, flags: int) -> int:
    """Try in a child whether a user can have namespaces; return 0, or why not, as a number of the system's.

    Some systems let one go in and then do nothing there (AppArmor's restriction), and there is no way back.
    """
    child = os.fork()
    if child == 0:
        try:
            if user is not None:
                _become(user)
            _own_namespaces(flags)
        except OSError as error:
            os._exit(min(error.errno or errno.EPERM, 255))
        except BaseException:  # noqa: BLE001  # it is tried again, and told, outside
            os._exit(errno.EPERM)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else errno.EPERM


def _own_namespaces(flags: int) -> None:
    """Go into namespaces, of users among them, in which this user is itself and nobody else. Raises ``OSError``."""
    uid, gid = os.geteuid(), os.getegid()
    system.set_dumpable(True)  # the files below are root's otherwise (proc_pid(5))
    system.unshare(flags)
    _write("/proc/self/setgroups", b"deny")  # user_namespaces(7): before gid_map
    _write("/proc/self/uid_map", b"%d %d 1" % (uid, uid))
    _write("/proc/self/gid_map", b"%d %d 1" % (gid, gid))
    system.set_dumpable(False)  # this process has more rights in there than the program


def _known(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise ValueError(f"this machine has no user `{name}`") from None


def _tasks_of(uid: int) -> int:
    """Return how many tasks a user has on this system: what its own limit counts, beside the program's."""
    found = 0
    for name in os.listdir("/proc") if system.LINUX else ():
        if name.isdigit():
            with suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    found += os.stat(f"/proc/{name}/task").st_nlink - 2
    return found


def _release() -> tuple[int, int]:
    major, minor, *_ = os.uname().release.split(".")
    return int(major), int("".join(digit for digit in minor if digit.isdigit()))


def _write(path: str, text: bytes) -> None:
    with open(path, "wb", buffering=0) as file:  # the user may not be able to load what text needs
        file.write(text)
