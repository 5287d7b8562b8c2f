"""Hostile code in real processes: each attempt ends as a named failure, and nothing gets out."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from threading import Thread

import pytest

from jobs.entrypoints.cgroups import Groups, find_groups
from jobs.entrypoints.keeper import OUTSIDE
from tests.factories.fork_server import ROOT, Server
from tests.factories.supervised import find_process
from tests.integration.jobs.conftest import SECRET, Home
from webapp.runtime.probes import answers_tcp, find_free_port

pytestmark = pytest.mark.integration
BASE_BYTES = 128 * 2**20
"""More than the libraries take, of which most is shared with the server."""
needs_sandbox = pytest.mark.usefixtures("confined")


@pytest.fixture
def confined(fork_server: Server) -> None:
    """Skip where this machine cannot confine anything."""
    if fork_server.status()["sandbox"] == "off":
        pytest.skip("neither root nor user namespaces here")


def attempt(home: Home, expression: str) -> str:
    """Run one attempt; return what it printed."""
    source = f"""
import glob, os, socket, subprocess, sys
def attempt():
    return {expression}
try:
    print("GOT", attempt())
except BaseException as error:
    print("REFUSED", type(error).__name__, error)
"""
    ended, _ = home.run(source)
    assert ended.code == 0, ended.log
    return ended.log


def test_code_runs_as_a_user_of_its_own(home: Home) -> None:
    log = attempt(home, "(os.getuid(), os.getgid(), os.getgroups())")
    if os.geteuid() == 0:
        assert f"({home.uid}, {home.uid}, [])" in log


@needs_sandbox
@pytest.mark.parametrize(
    "expression",
    [
        "open('{home}/db.sqlite3').read()",
        "open('{home}/secret_key').read()",
        "open('{home}/warehouse/other/rows.parquet').read()",
        "os.listdir('{home}/warehouse')",
        "open('{home}/warehouse/other/mine', 'w')",
        "open('{home}/code/abc/pipelines/module.py', 'a')",
        "open('/etc/shadow').read()",
        "open('/usr/mine', 'w')",
        "open('/mine', 'w')",
        "os.listdir('/root/.ssh')",
        "open('/proc/sys/kernel/hostname', 'w').write('x')",
        "os.kill({server}, 9)",
        "open('/proc/{server}/environ').read()",
        "os.setuid(0)",
        "os.chroot('/tmp')",
        "os.mknod('/tmp/disk', 0o60666, os.makedev(254, 0))",
        "socket.socket(socket.AF_UNIX).connect('{socket}')",
    ],
)
def test_what_a_job_may_not_do_is_refused(home: Home, expression: str) -> None:
    placed = expression.format(home=home.path, server=home.server.process.pid, socket=home.server.path)
    log = attempt(home, placed)
    assert "REFUSED" in log
    assert SECRET not in log


@needs_sandbox
def test_no_secret_is_found_anywhere_it_can_look(home: Home) -> None:
    ended, _ = home.run("""
import os
seen = []
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if (folder, name) not in {("/", "usr"), ("/", "lib")} and ".venv" not in name
                  and ".pyenv" not in name]
    for name in files:
        try:
            with open(os.path.join(folder, name), "rb") as file:
                if b"canary" + b"-5d0c1b" in file.read(200_000):
                    seen.append(os.path.join(folder, name))
        except OSError:
            continue
print("SEEN", seen)
""")
    assert "SEEN []" in ended.log


@needs_sandbox
def test_environment_and_processes_are_the_jobs_own(home: Home) -> None:
    os.environ["CANARY"] = SECRET
    try:
        log = attempt(
            home,
            "(sorted(os.environ), [open(p, 'rb').read() for p in glob.glob('/proc/[0-9]*/environ')], "
            "len(glob.glob('/proc/[0-9]*')))",
        )
    finally:
        del os.environ["CANARY"]
    assert "(['HOME', 'LANG', 'PATH', 'SPARK_CONNECT_MODE_ENABLED']" in log
    assert SECRET not in log
    assert log.rstrip().splitlines()[-2].endswith(", 1)") or ", 1)" in log


@needs_sandbox
def test_tmp_is_private_and_bounded(home: Home) -> None:
    log = attempt(home, "(os.listdir('/tmp'), os.statvfs('/tmp').f_blocks * os.statvfs('/tmp').f_frsize)")
    assert "GOT" in log
    assert str(1024**3) in log


def test_too_much_memory_fails(home: Home) -> None:
    ended, result = home.run("x = bytearray(4_000_000_000)", limits={"memory_bytes": 3_000_000_000})
    assert result is not None, ended.log
    assert result.errors[0].message.startswith("MemoryError")
    assert result.errors[0].line == 1


@needs_sandbox
def test_fork_bomb_meets_its_limit_and_leaves_nothing(home: Home) -> None:
    ended, result = home.run(
        """
import os, time
while True:
    if os.fork() == 0:
        time.sleep(600)
""",
        limits={"nproc": 40},
    )
    assert result is not None, ended.log
    assert result.errors[0].message.startswith("BlockingIOError")
    assert count_processes(home.uid) == 0


@needs_sandbox
def test_nothing_survives_the_job(home: Home) -> None:
    ended, _ = home.run("""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
    os._exit(0)
""")
    assert ended.code == 0
    assert count_processes(home.uid) == 0


def test_too_large_a_file_fails(home: Home) -> None:
    ended, result = home.run(
        f"open({str(home.job / 'large')!r}, 'wb').write(bytes(3_000_000))", limits={"fsize": 1_000_000}
    )
    assert result is None or result.errors, ended.log
    assert (home.job / "large").stat().st_size <= 1_000_000


GREEDY = {
    "many files": "open(f'{folder}/{n}', 'wb').write(bytes(1_000_000))",
    "room without content": "os.posix_fallocate(os.open(f'{folder}/{n}', os.O_CREAT | os.O_RDWR), 0, 1_000_000)",
    "files without a name": "kept.append(take(f'{folder}/{n}'))",
    "names alone": "[os.mkdir(f'{folder}/{n}-{m}') for m in range(10)]",
}


@pytest.mark.parametrize("way", GREEDY)
@needs_sandbox
def test_what_writes_more_than_it_may_is_ended_and_its_files_are_gone(home: Home, way: str) -> None:
    source = f"""
import os, time
folder, kept = {str(home.job)!r}, []
def take(path):
    file = os.open(path, os.O_CREAT | os.O_RDWR)
    os.posix_fallocate(file, 0, 1_000_000)
    os.unlink(path)
    return file
for n in range(60):
    {GREEDY[way]}
time.sleep(60)
"""
    (home.job / "before").write_bytes(bytes(30_000_000))
    ended, _ = home.run(source, limits={"disk_bytes": 2_000_000 if way == "names alone" else 20_000_000})
    assert ended.code == 122, ended.log
    assert count_processes(home.uid) == 0
    if os.geteuid() == 0:
        assert {path.name for path in home.job.iterdir()} == {"before", "manifest.json"}


def test_what_writes_as_much_as_it_may_is_left_alone(home: Home) -> None:
    source = f"open({str(home.job / 'large')!r}, 'wb').write(bytes(10_000_000)); import time; time.sleep(0.7)"
    ended, result = home.run(source, limits={"disk_bytes": 20_000_000})
    assert ended.code == 0, ended.log
    assert result is not None


def test_endless_computing_is_ended(home: Home) -> None:
    ended, result = home.run("while True: pass", limits={"cpu_s": 1})
    assert ended.code in (128 + 9, 128 + 24)
    assert result is None


def test_code_that_ignores_sigterm_is_killed(home: Home) -> None:
    running = home.start(
        "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(600)"
    )
    time.sleep(0.5)
    running.send({"kill": "TERM"})
    time.sleep(0.3)
    assert find_process(running.started["pid"])
    running.send({"kill": "KILL"})
    ended = running.wait()
    assert ended.code == 128 + 9
    assert "deaf" in ended.log


def test_a_caller_that_goes_away_takes_its_job_along(home: Home) -> None:
    running = home.start("import time\ntime.sleep(600)")
    pid = running.started["pid"]
    running.close()
    assert wait_until(lambda: not find_process(pid))


def test_the_death_of_the_server_ends_its_jobs(make_home: Callable[[], Home], tmp_path: Path) -> None:
    home = make_home()
    server = Server(Path(home.path))
    server.wait_ready()
    home.server = server
    running = home.start("import time\ntime.sleep(600)")
    pid = running.started["pid"]
    server.process.kill()
    server.process.wait()
    assert wait_until(lambda: not find_process(pid))
    assert wait_until(lambda: count_processes(home.uid) == 0)
    running.close()


def test_a_server_without_free_descriptors_refuses_jobs_and_keeps_those_it_has(
    make_home: Callable[[], Home], tmp_path: Path
) -> None:
    server = Server(tmp_path)
    try:
        server.wait_ready()
        home, other = make_home(), make_home()
        home.server = other.server = server
        running = home.start("import time\ntime.sleep(60)\n")
        limit = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        used = {int(path.name) for path in Path(f"/proc/{server.process.pid}/fd").iterdir()}
        free = [number for number in range(len(used) + 2) if number not in used]
        # room for a caller and its log, and none for watching its process
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (free[1] + 1, limit[1]))
        refused = other.start("")
        assert "no process can be started" in refused.started["error"]
        refused.close()
        with ExitStack() as callers:
            for _ in range(4):  # more than it can take
                callers.enter_context(closing(server.connect()))
            time.sleep(0.3)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limit)
        assert server.status()["jobs"] == 1
        running.send({"kill": "KILL"})
        assert running.wait().code == 137
    finally:
        server.stop()


def test_a_folder_that_is_not_there_is_named(home: Home) -> None:
    request = home.request()
    request["sandbox"] = {"readonly": ["/no/such/folder"]}
    ended = home.server.start(request).wait()
    if home.server.status()["sandbox"] != "off":
        assert ended.code == 125
        assert "/no/such/folder" in ended.log


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ({"entrypoint": "shell", "manifest": "/x"}, "unknown entrypoint"),
        ({"entrypoint": "run", "manifest": "x"}, "absolute"),
        ({"entrypoint": "run", "manifest": "/x", "env": {"A": 1}}, "env"),
        ({"entrypoint": "run", "manifest": "/x", "sandbox": {"root": True}}, "root"),
        ({"entrypoint": "run", "manifest": "/x", "limits": []}, "limits"),
        (
            {"entrypoint": "run", "manifest": "/x", "sandbox": {"hosts": ["store"]}},
            "'store' is not a host with its port",
        ),
    ],
)
def test_bad_requests_are_answered(fork_server: Server, message: dict[str, object], complaint: str) -> None:
    running = fork_server.start(message)
    assert complaint in running.started["error"]
    running.close()


def test_starting_a_job_is_quick(home: Home) -> None:
    home.run("")
    began = time.monotonic()
    for _ in range(5):
        home.run("")
    assert (time.monotonic() - began) / 5 < 0.5


def count_processes(uid: int) -> int:
    """How many processes run as a user."""
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found += folder.stat().st_uid == uid
        except FileNotFoundError:
            continue
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed to be not root")
def test_without_root_a_user_namespace_confines() -> None:
    """With the machine's own Python, since ours may lie where only root can read."""
    folder = Path(tempfile.mkdtemp(prefix="user"))
    folder.chmod(0o755)
    shutil.copytree(ROOT / "jobs", folder / "jobs", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "secret").write_text(SECRET)
    (folder / "shown").write_text("shown")
    hostile = (
        "import os\n"
        "print(os.getuid(), open('/proc/self/status').read().split('CapEff:')[1].split()[0])\n"
        f"print(sorted(os.listdir({str(folder)!r})), open({str(folder / 'shown')!r}).read())\n"
        "try: open('/usr/mine', 'w')\n"
        "except OSError as error: print(error.strerror)\n"
        "print(sum(name.isdigit() for name in os.listdir('/proc')))\n"
    )
    command = [
        "/usr/bin/python3",
        "-m",
        "jobs.entrypoints.sandbox",
        "--mode",
        "user",
        "--readonly",
        str(folder / "shown"),
    ]
    ended = subprocess.run(
        [*command, "--", "/usr/bin/python3", "-c", hostile],
        cwd=folder,
        user=65534,
        group=65534,
        extra_groups=[],
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(folder)
    if "Operation not permitted" in ended.stderr:
        pytest.skip("no user namespaces here")
    assert ended.stdout.splitlines() == [
        "65534 0000000000000000",
        "['jobs', 'shown'] shown",
        "Read-only file system",
        "1",
    ], ended.stderr


def test_where_nothing_can_be_confined_it_says_so(make_home: Callable[[], Home]) -> None:
    home = make_home()
    home.server = Server(Path(home.path), mode="off")
    assert home.server.wait_ready()["sandbox"] == "off"
    ended, result = home.run("x = 1")
    assert (ended.code, result is not None and result.errors) == (0, ()), ended.log
    running = home.start("import time\ntime.sleep(600)")
    pid = running.started["pid"]
    running.send({"kill": "KILL"})
    assert running.wait().code == 128 + 9
    assert not find_process(pid)
    home.server.stop()


class Echo:
    """A server on loopback that sends back what it gets, in another case."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.senders: set[str] = set()
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, (sender, _) = self.listener.accept()
            except OSError:
                return
            self.senders.add(sender)
            with connection:
                while data := connection.recv(65536):
                    connection.sendall(data.upper())


NETWORK = """
import socket
def ask(port, data=b"hello"):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            got = b""
            while chunk := connection.recv(65536):
                got += chunk
            return len(got), got[:5]
    except OSError as error:
        return error.strerror
"""


@needs_sandbox
def test_only_the_named_ports_are_reached(home: Home) -> None:
    one, other = Echo(), Echo()
    request = home.request()
    source = f"{NETWORK}\nprint(ask({one.port}), ask({one.port}, b'x' * 3_000_000), ask({other.port}))\n"
    source += "print(open('/proc/net/dev').read().count(':'))"
    ended, _ = home.run(source, sandbox={**request["sandbox"], "ports": [one.port]})  # type: ignore[dict-item]
    assert ended.code == 0, ended
    assert ended.log.splitlines()[:2] == ["(5, b'HELLO') (3000000, b'XXXXX') Connection refused", "1"]
    assert one.senders == {OUTSIDE}, "a proxy on this machine, which is believed, has another address"
    ended, _ = home.run(source, sandbox={**request["sandbox"], "ports": []})  # type: ignore[dict-item]
    assert ended.log.splitlines()[0] == "Connection refused Connection refused Connection refused"
    ended, _ = home.run(source)
    assert "HELLO" in ended.log.splitlines()[0]
    assert "refused" not in ended.log
    one.listener.close()
    other.listener.close()


CANARIES = """
import socket
def connect(host, port):
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.sendall(b"hello")
            return connection.recv(5)
    except OSError as error:
        return type(error).__name__
def send(host, port):
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", (host, port))
    except OSError as error:
        return type(error).__name__
"""


@needs_sandbox
@pytest.mark.allow_hosts(["127.0.0.0/8", "192.0.2.1"])
def test_neither_other_addresses_nor_the_broker_nor_names_are_reached(home: Home) -> None:
    allowed, broker = Echo(), Echo()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # asks for the way only
            own = probe.getsockname()[0]
        except OSError:
            own = "192.0.2.1"
    elsewhere = socket.create_server(("0.0.0.0", 0))  # noqa: S104 - a canary on every address of this machine
    port = elsewhere.getsockname()[1]
    source = f"""{CANARIES}
print(connect("127.0.0.1", {allowed.port}), connect("localhost", {allowed.port}))
print(connect("127.0.0.1", {broker.port}), connect("127.0.0.2", {port}), connect("{own}", {port}))
print(connect("169.254.169.254", 80), send("{own}", 53), send("169.254.169.254", 53), send("2001:db8::1", 53))
print(connect("database", 5432), connect("example.org", 443))
print(sorted(line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line))
print(socket.gethostbyname(socket.gethostname()))
"""
    sandbox: dict[str, object] = {**home.request()["sandbox"], "hosts": [f"localhost:{allowed.port}"]}  # type: ignore[dict-item]
    ended, _ = home.run(source, sandbox=sandbox)
    refused, away, unknown = "ConnectionRefusedError", "OSError", "gaierror"
    assert ended.log.splitlines()[:6] == [
        "b'HELLO' b'HELLO'",
        f"{refused} {refused} {away}",
        " ".join([away] * 4),
        f"{unknown} {unknown}",
        "['lo']",
        "127.0.0.1",
    ]
    for listener in (allowed.listener, broker.listener, elsewhere):
        listener.close()


REPLACE = 'mount --bind "$0" /etc/hosts && mount --bind "$1" /etc/host.conf && shift && exec "$@"'


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="another hosts file takes root")
def test_a_named_host_is_resolved_outside_and_reached_by_its_name(tmp_path: Path) -> None:
    """A name, this machine's own too, and an address that is not this machine's, each with one port and no other."""
    named, other, own = Echo(), Echo(), socket.gethostname()
    hosts, first_only = tmp_path / "hosts", tmp_path / "host.conf"
    hosts.write_text(f"127.0.0.1 store.example bucket.store.example {own}\n")
    first_only.touch()  # of the addresses of a name
    source = f"""{CANARIES}
print(connect("store.example", {named.port}), connect("Bucket.Store.Example", {named.port}), connect("{own}", {named.port}))
print(connect("store.example", {other.port}), connect("127.0.0.1", {named.port}), connect("198.51.100.7", 80))
print(open("/etc/hosts").read().split())
"""
    inside = [sys.executable, "-m", "jobs.entrypoints.sandbox"]
    for host in (
        f"store.example:{named.port}",
        f"bucket.store.example:{named.port}",
        f"{own}:{named.port}",
        "198.51.100.7:81",
        "[2001:db8::7]:81",
    ):
        inside += ["--host", host]
    inside += ["--", sys.executable, "-c", source]
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", REPLACE, str(hosts), str(first_only), *inside],
        cwd=ROOT,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.splitlines() == [
        "b'HELLO' b'HELLO' b'HELLO'",
        "ConnectionRefusedError ConnectionRefusedError ConnectionRefusedError",
        f"['127.0.0.1', 'localhost', '127.66.0.3', '{own.lower()}', "
        "'127.66.0.1', 'store.example', '127.66.0.2', 'bucket.store.example', '::1', 'localhost']",
    ], ended.stderr
    named.listener.close()
    other.listener.close()


@needs_sandbox
def test_a_server_inside_is_reached_at_its_port_once_it_listens_and_reaches_nothing() -> None:
    other = Echo()
    port = find_free_port()
    source = f"""{CANARIES}
import time
time.sleep(0.5)
print(connect("127.0.0.1", {other.port}), flush=True)
server = socket.create_server(("127.0.0.1", {port}))
word = b""
while word != b"HELLO":
    connection, _ = server.accept()
    try:
        word = connection.recv(5).upper()
        connection.sendall(word)
    except ConnectionError:
        pass  # who only looked whether it listens is gone
    connection.close()
"""
    command = [
        sys.executable,
        "-m",
        "jobs.entrypoints.sandbox",
        "--host",
        f"127.0.0.1:{find_free_port()}",
        "--serve",
        str(port),
    ]
    process = subprocess.Popen(
        [*command, "--", sys.executable, "-c", source], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert wait_until(lambda: answers_tcp("127.0.0.1", port), seconds=30)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"hello")
        assert connection.recv(5) == b"HELLO"
    assert process.communicate(timeout=30)[0] == "ConnectionRefusedError\n"
    assert wait_until(lambda: not answers_tcp("127.0.0.1", port), seconds=10)
    other.listener.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_a_job_leaves_is_not_its_own_any_more(home: Home) -> None:
    """The next job on the table reads it, and can neither change nor remove it."""
    home.run(f"""
import os
os.makedirs({str(home.job / "data" / "part")!r})
open({str(home.job / "data" / "part" / "file")!r}, "w").write("rows")
os.symlink("/etc/shadow", {str(home.job / "data" / "link")!r})
""")
    file = home.job / "data" / "part" / "file"
    assert (file.stat().st_uid, file.stat().st_mode & 0o7777) == (0, 0o644)
    assert (file.parent.stat().st_uid, file.parent.stat().st_mode & 0o7777) == (0, 0o755)
    assert Path("/etc/shadow").stat().st_mode & 0o007 == 0
    home.uid += 1
    for attempted in (f"open({str(file)!r}, 'a')", f"os.remove({str(file)!r})", f"os.rename({str(file)!r}, '/tmp/x')"):
        assert "REFUSED" in attempt(home, attempted)
    assert "GOT rows" in attempt(home, f"open({str(file)!r}).read()")
    assert "REFUSED" in attempt(home, f"open({str(file.parent / 'another')!r}, 'w').write('mine')")


HOARDS = {
    "twenty processes with a quarter each": """
for _ in range(20):
    if os.fork() == 0:
        kept = bytearray(b"x") * (64 * 2**20)
        time.sleep(60)
        os._exit(0)
""",
    "orphans of orphans": """
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            kept = bytearray(b"x") * (64 * 2**20)
            time.sleep(60)
        os._exit(0)
""",
    "files without a name": """
for _ in range(20):
    file = os.memfd_create("")
    for _ in range(64):
        os.write(file, bytes(2**20))
""",
}


LIMIT_BYTES = 256 * 2**20 + BASE_BYTES


@needs_sandbox
@pytest.mark.parametrize("hoard", HOARDS)
def test_memory_is_limited_for_all_processes_together(home: Home, hoard: str) -> None:
    source = f"import os, time{HOARDS[hoard]}time.sleep(60)\n"
    started = time.monotonic()
    ended, result = home.run(source, limits={"total_memory_bytes": LIMIT_BYTES})
    assert (ended.code, result) == (123, None), ended.log
    assert time.monotonic() - started < 45
    assert count_processes(home.uid) == 0


CONFINED_ALONE = """
import os, sys
from jobs.entrypoints import sandbox

def hoard():
    exec(sys.argv[2])

parent, child = os.getpid(), os.fork()
if child == 0:
    limits = sandbox.Limits(total_memory_bytes=int(sys.argv[1]))
    sandbox.confine(hoard, sandbox.Confinement(ports=()), limits, mode=sandbox.detect_mode(), parent=parent)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@needs_sandbox
@pytest.mark.parametrize("hoard", HOARDS)
def test_without_groups_of_the_kernel_the_sum_over_the_processes_is_watched(hoard: str) -> None:
    source = f"import os, time{HOARDS[hoard]}time.sleep(60)\n"
    command = [sys.executable, "-c", CONFINED_ALONE, str(LIMIT_BYTES), source]
    assert subprocess.run(command, cwd=ROOT, timeout=45, check=False).returncode == 123


@pytest.fixture(params=["v1", "v2"])
def groups(request: pytest.FixtureRequest, fork_server: Server) -> Groups:
    """Where the fork server makes the groups of its jobs."""
    groups = find_groups()
    if groups is None or groups.version != request.param or fork_server.status()["memory"] != groups.name:
        pytest.skip(f"this machine has no memory groups of cgroup {request.param} in which groups can be made")
    return groups


FLOOD = """
import os, time
for _ in range(12):
    if os.fork() == 0:
        kept = []
        for _ in range(160):
            kept.append(bytearray(b"x") * 2**20)
        time.sleep(60)
        os._exit(0)
try:
    kept = open("/tmp/hoard", "wb").write(bytes(160 * 2**20))
finally:
    time.sleep(60)
"""
"""Each process, and the folder in memory, has less than is allowed; all of them have it within a tenth of a second."""


@needs_sandbox
def test_the_kernel_gives_a_job_no_byte_above_its_limit_and_the_whole_job_ends(home: Home, groups: Groups) -> None:
    """A watcher sees what is held between two looks too late."""
    running = home.start(FLOOD, limits={"total_memory_bytes": LIMIT_BYTES})
    folder = groups.folder / f"tributary-job-{running.started['pid']}"
    most = 0
    while not running.has_answered(0.02):
        with suppress(OSError):
            most = max(most, int((folder / PEAKS[groups.version]).read_text()))
    ended = running.wait()
    assert (ended.code, (home.job / "result.json").exists()) == (123, False), ended.log
    assert LIMIT_BYTES // 2 < most <= LIMIT_BYTES
    assert count_processes(home.uid) == 0
    assert wait_until(lambda: not folder.exists())


PEAKS = {"v1": "memory.max_usage_in_bytes", "v2": "memory.peak"}


@needs_sandbox
def test_groups_of_killed_fork_servers_are_removed_by_the_next(home: Home, groups: Groups, tmp_path: Path) -> None:
    home.server = Server(tmp_path)
    running = home.start("import time\ntime.sleep(600)", limits={"total_memory_bytes": LIMIT_BYTES})
    folder = groups.folder / f"tributary-job-{running.started['pid']}"
    assert wait_until(lambda: folder.exists() and count_processes(home.uid) == 1)
    home.server.process.kill()
    home.server.process.wait(10)
    running.close()
    assert wait_until(lambda: not find_process(running.started["pid"]))
    assert folder.exists()

    (tmp_path / "again").mkdir()
    again = Server(tmp_path / "again")
    assert not folder.exists()
    again.stop()


@needs_sandbox
def test_memory_that_processes_share_counts_once(home: Home) -> None:
    source = """
import os, time
kept = bytearray(b"x") * (128 * 2**20)
children = []
for _ in range(6):
    child = os.fork()
    if child == 0:
        time.sleep(1)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"""
    ended, _ = home.run(source, limits={"total_memory_bytes": LIMIT_BYTES})
    assert ended.code == 0, ended.log
