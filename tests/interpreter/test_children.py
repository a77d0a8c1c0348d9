"""Child processes: what one is given, how its end is told, and that with it everything ends that it started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.interpreter.running import ALL, HELD, Script, marked, nothing_left, python

from guideway.interpreter.children import cgroup
from guideway.interpreter.children.bounds import LEAST, MEGABYTE, MOST, Bounds
from guideway.interpreter.children.cgroup import Group, delegation, examine
from guideway.interpreter.children.order import Ended, How, Means, Order
from guideway.interpreter.children.run import run
from guideway.interpreter.children.trust import distrust

pytestmark = pytest.mark.anyio

EVERY_WAY = pytest.mark.parametrize("means", HELD.values(), ids=HELD.keys())


async def shell(line: str, *, bounds: Bounds | None = None, means: tuple[Means, ...] = ALL) -> Ended:
    return await run(Order("/bin/sh", ("-c", line), bounds=bounds or Bounds(), means=means, checked=False))


# ---- what it is given


async def test_it_has_an_environment_of_its_own_and_no_descriptor_but_three() -> None:
    order = Order("/bin/sh", ("-c", "env; pwd; ls /proc/self/fd; cat"), {"ASKED": "yes"}, checked=False)
    said = (await run(order)).out.decode().split()
    assert {word for word in said if "=" in word} - {"PWD=/"} == {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG=C.UTF-8",
        "HOME=/nonexistent",
        "ASKED=yes",
    }
    assert said[-5:] == ["/", "0", "1", "2", "3"]  # the last is the folder that `ls` reads


@EVERY_WAY
async def test_it_has_limits_that_it_cannot_raise(means: tuple[Means, ...]) -> None:
    bounds = Bounds(seconds=30, cpu_seconds=3, memory_mb=200, processes=7, open_files=33, file_mb=2)
    text = """
import resource
for name in ('CPU', 'AS', 'NOFILE', 'FSIZE', 'CORE'):
    print(name, *resource.getrlimit(getattr(resource, 'RLIMIT_' + name)))
try:
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
except ValueError as error:
    print(error)
print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith(('NoNewPrivs', 'CapEff'))])
"""
    assert (await Script(text, bounds, means).run()).out.decode().splitlines() == [
        "CPU 3 4",
        f"AS {200 * MEGABYTE} {200 * MEGABYTE}",
        "NOFILE 33 33",
        f"FSIZE {2 * MEGABYTE} {2 * MEGABYTE}",
        "CORE 0 0",
        "not allowed to raise maximum limit",
        "0000000000000000 1",
    ]


@pytest.mark.parametrize("name", MOST)
def test_no_bound_can_be_had_beyond_its_upper_end(name: str) -> None:
    kind = type(getattr(Bounds(), name))
    assert getattr(Bounds(**{name: kind(MOST[name])}), name) == MOST[name]
    for beyond in (kind(MOST[name] + 1), kind(LEAST[name] - 1)):
        with pytest.raises(ValueError, match=name):
            Bounds(**{name: beyond})


async def test_what_it_reads_can_be_given_and_is_else_at_its_end() -> None:
    content = b"line\n" * 50_000
    order = Order("/usr/bin/sort", ("-u",), stdin=content, checked=False)
    assert (await run(order)).out == b"line\n"
    assert (await shell("cat")).how is How.EXITED


# ---- how its end is told


async def test_its_end_is_told_as_it_was() -> None:
    ended = await shell("echo out; echo err >&2; exit 3")
    assert (ended.how, ended.number, ended.out, ended.err) == (How.EXITED, 3, b"out\n", b"err\n")
    ended = await shell("kill -SEGV $$")
    assert (ended.how, ended.number) == (How.SIGNALLED, signal.SIGSEGV)
    for program, why in (("/no/such", "no such file or directory"), ("/etc/passwd", "permission denied")):
        ended = await run(Order(program, checked=False))
        assert (ended.how, ended.why) == (How.NOT_STARTED, why)


async def test_a_script_without_an_interpreter_is_given_to_no_shell(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo run by a shell\n")
    script.chmod(0o755)
    me = "root" if os.geteuid() == 0 else None  # nobody else gets into this folder
    ended = await run(Order(str(script), user=me, checked=False))
    assert (ended.how, ended.why, ended.out) == (How.NOT_STARTED, "exec format error", b"")


async def test_a_user_that_there_is_not_and_one_that_only_root_can_become() -> None:
    ended = await run(Order("/bin/true", user="no-such-user", checked=False))
    assert (ended.how, ended.why) == (How.NOT_STARTED, "this machine has no user `no-such-user`")
    ended = await run(Order("/usr/bin/id", ("-un",), user="root", checked=False))
    if os.geteuid() == 0:
        assert ended.out == b"root\n"
        assert (await run(Order("/usr/bin/id", ("-un",), checked=False))).out == b"nobody\n"
    else:
        assert ended.why == "only root can run a program as `root`"


def test_a_system_that_refuses_namespaces_and_a_root_that_can_be_nobody_else() -> None:
    """As in a container: the root of a user namespace, in which there may be no other namespace."""
    text = """
import anyio
from guideway.interpreter.children.order import Order
from guideway.interpreter.children.run import run

async def main():
    for user in (None, "root"):
        ended = await run(Order("/bin/echo", ("hello",), user=user, checked=False))
        print(ended.how, ended.why, ended.out, ended.missing.get("namespaces"), sep="|")

anyio.run(main)
"""
    limit = 'for kind in pid user; do echo 0 >/proc/sys/user/max_${kind}_namespaces; done; exec "$@"'
    done = subprocess.run(
        ["unshare", "--map-root-user", "sh", "-c", limit, "sh", sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=True,
    )
    nobody, root = done.stdout.splitlines()
    assert nobody.startswith(
        "not_started|root here cannot become `nobody`: operation not permitted; `user` names another"
    )
    assert root == "exited||b'hello\\n'|the system refuses one: no space left on device"


async def test_processor_time_and_file_size_end_it_by_a_signal_that_says_so() -> None:
    ended = await Script("while True: pass", Bounds(seconds=30, cpu_seconds=1)).run()
    assert (ended.how, ended.number) == (How.SIGNALLED, signal.SIGXCPU)
    text = """
import signal, tempfile
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which Python ignores
tempfile.TemporaryFile().write(bytes(99))
"""
    ended = await Script(text, Bounds(file_mb=0)).run()
    assert (ended.how, ended.number) == (How.SIGNALLED, signal.SIGXFSZ)


# ---- what ends with it


TROUBLE = """
import signal, time
def forked(work):
    if os.fork() == 0:
        work()
        while True: time.sleep(100)
def deaf():
    for number in range(1, signal.NSIG):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
def daemon():
    os.setsid()
    if os.fork(): os._exit(0)
def stopped(): os.kill(os.getpid(), signal.SIGSTOP)
def closed():
    for stream in (0, 1, 2): os.close(stream)
for work in (deaf, daemon, stopped, closed): forked(work)
deaf()
"""


@EVERY_WAY
async def test_a_cancelled_call_leaves_nothing(means: tuple[Means, ...]) -> None:
    """Not what is deaf to signals, stopped, closed its output, or is a daemon of a session of its own."""
    script = Script(TROUBLE + "up()\ntime.sleep(1000)", Bounds(seconds=60), means)
    async with nothing_left(script), anyio.create_task_group() as tasks:
        tasks.start_soon(script.run)
        await script.meet()
        with anyio.fail_after(20):
            while len(script.alive()) != 5:  # the last of them may still be on its way
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


@EVERY_WAY
async def test_neither_does_one_whose_time_is_over(means: tuple[Means, ...]) -> None:
    script = Script(TROUBLE + "print('so far', flush=True)\ntime.sleep(1000)", Bounds(seconds=0.5), means)
    async with nothing_left(script):
        ended = await script.run()
        assert ended.how is How.TIMED_OUT
        assert ended.left == ()
        assert ended.out in (b"so far\n", b"")  # empty where half a second does not start it


@EVERY_WAY
async def test_nor_one_that_ends_by_itself(means: tuple[Means, ...]) -> None:
    script = Script(TROUBLE + "print('done', flush=True)\nos._exit(0)", means=means)
    async with nothing_left(script):
        ended = await script.run()
        assert (ended.how, ended.number, ended.out, ended.left) == (How.EXITED, 0, b"done\n", ())


async def test_when_this_process_is_killed_its_children_end_too() -> None:
    """Nobody is there to cancel then; the end of a pipe does it."""
    mark = "mark-of-an-orphan"
    text = f"""
import anyio
from guideway.interpreter.children.order import Order
from guideway.interpreter.children.run import run
anyio.run(run, Order("/bin/sh", ("-c", "sleep 1000; true", "{mark}"), checked=False))
"""
    guideway = subprocess.Popen([sys.executable, "-c", text])  # noqa: ASYNC220  # it is killed, and not waited for
    try:
        with anyio.fail_after(30):
            while not (children := [pid for pid in marked(mark) if pid != guideway.pid]):
                await anyio.sleep(0.01)
        watched = [os.pidfd_open(pid) for pid in children]
    finally:
        guideway.kill()
        guideway.wait()
    for one in watched:
        with anyio.fail_after(30):
            await anyio.wait_readable(one)
        os.close(one)
    assert marked(mark) == []


@EVERY_WAY
async def test_when_what_watches_is_killed_the_program_ends_and_that_is_told(
    means: tuple[Means, ...], caplog: pytest.LogCaptureFixture
) -> None:
    script = Script("up(str(os.getpid()).encode())\nimport time\ntime.sleep(1000)", Bounds(seconds=60), means)
    ended: list[Ended] = []

    async def start() -> None:
        ended.append(await script.run())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start)
        await script.meet()
        (program,) = script.alive()
        watched = os.pidfd_open(program)
        (launcher,) = (pid for pid in _children(os.getpid()) if program in _below(pid))
        os.kill(launcher, signal.SIGKILL)
    with anyio.fail_after(30):
        await anyio.wait_readable(watched)
    os.close(watched)
    assert (ended[0].how, ended[0].why) == (How.NOT_STARTED, "what was to start and watch it was ended from outside")
    assert "what watches a child process ended with -9" in caplog.text


async def test_programs_beyond_those_that_may_run_at_once_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guideway.interpreter.children.run.AT_ONCE", 2)
    scripts = [Script("up()\nimport time\ntime.sleep(1000)", Bounds(seconds=60)) for _ in range(2)]
    async with anyio.create_task_group() as tasks:
        for script in scripts:
            tasks.start_soon(script.run)
        for script in scripts:
            await script.meet()
        with anyio.move_on_after(0.05) as scope:
            await shell("true")
        assert scope.cancelled_caught
        tasks.cancel_scope.cancel()
    assert (await shell("true")).how is How.EXITED


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _below(pid: int) -> set[int]:
    return {pid}.union(*map(_below, _children(pid)))


# ---- control groups


async def test_a_control_group_alone_ends_everything_and_is_gone_itself() -> None:
    given = delegation()
    script = Script(TROUBLE + "os._exit(0)", means=(Means.CGROUP,))
    if given.folder is None:
        assert given.lacking
        assert (await Script("", means=(Means.CGROUP,)).run()).missing[Means.CGROUP] == given.lacking
        return
    async with nothing_left(script):
        ended = await script.run()
        assert ended.how is How.EXITED
        assert ended.missing.get(Means.CGROUP) == given.lacking
    assert [name for name in os.listdir(given.folder) if name.startswith(f"guideway-{os.getpid()}-")] == []


def _hierarchy(folder: Path, controllers: str) -> None:
    for name, text in (("cgroup.procs", ""), ("cgroup.controllers", controllers), ("cgroup.subtree_control", "")):
        (folder / name).write_text(text)


def test_only_a_part_of_the_tree_that_was_given_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marked_as_given: set[str] = set()
    monkeypatch.setattr(cgroup, "_is_marked", lambda folder: folder in marked_as_given)
    unit = tmp_path / "guideway.service"
    below = unit / "server"
    below.mkdir(parents=True)
    for folder in (tmp_path, unit, below):
        _hierarchy(folder, "memory pids")
    assert examine(str(tmp_path), "/guideway.service").folder is None
    marked_as_given.add(str(unit))
    assert examine(str(tmp_path), "/guideway.service").folder == str(unit)
    assert examine(str(tmp_path), "/guideway.service/server").folder == str(unit)
    (unit / "cgroup.subtree_control").write_text("memory pids")
    given = examine(str(tmp_path), "/guideway.service/server")
    assert (given.controllers, given.lacking) == (("memory", "pids"), None)


def test_a_group_states_the_bounds_that_its_hierarchy_has(tmp_path: Path) -> None:
    for name in ("memory.max", "pids.max"):
        (tmp_path / name).write_text("max")
    Group(str(tmp_path)).bound(Bounds(memory_mb=64, processes=5))
    found = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert found == {"memory.max": str(64 * MEGABYTE), "pids.max": "7"}


# ---- whether a program can be replaced


def test_a_program_is_trusted_that_only_its_owner_and_root_can_replace() -> None:
    assert distrust("/bin/sh") is None  # a link, on most systems through another one
    assert distrust(python()) is None
    assert distrust("/bin") == f"`{os.path.realpath('/bin')}` is no file"
    assert distrust("/etc/passwd") == "`/etc/passwd` is not executable"
    assert distrust("/no/such") == "`/no` cannot be looked at: no such file or directory"
