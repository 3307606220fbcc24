"""Three servers with copies of a store, each in a network of its own, are killed and cut off while clients write.

`unshare -Urnm python3 tools/dev/cuts.py VICUS ROUNDS SEED` (as ./dev test copies does): no right of the system is needed
beyond user namespaces. Each round has a fault chosen by the seed: a server is killed, or packets of one server to one or
to all others are dropped, one way or both, or all servers are killed. If the writer can't be reached after that, another
copy is promoted as a person would do it, and the old writer comes back as a follower. What was acknowledged under
--sync-followers 1 must be there after each round; in the end all copies must be equal, and hold nothing that no client
has sent.
"""

import http.client
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

VICUS, ROUNDS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
TOKEN = "secret"
PATIENCE = 120.0
NAMES = ["n1", "n2", "n3"]
ADDRESSES = {name: f"10.77.0.{number + 1}" for number, name in enumerate(NAMES)}
PORT = 7878


def run(*words: str, check: bool = True) -> str:
    ran = subprocess.run(words, capture_output=True, text=True)
    if check and ran.returncode != 0:
        sys.exit(f"{' '.join(words)}: {ran.stderr}")
    return ran.stdout


def inside(name: str, *words: str, check: bool = True) -> str:
    return run("ip", "netns", "exec", name, *words, check=check)


def make_networks() -> None:
    Path("/run/netns").mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    Path("/run/netns").mkdir()
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "name", "bridge0", "type", "bridge")
    run("ip", "addr", "add", "10.77.0.100/24", "dev", "bridge0")
    run("ip", "link", "set", "bridge0", "up")
    for name in NAMES:
        run("ip", "netns", "add", name)
        run("ip", "link", "add", "name", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", f"to-{name}", "master", "bridge0", "up")
        inside(name, "ip", "addr", "add", f"{ADDRESSES[name]}/24", "dev", "eth0")
        inside(name, "ip", "link", "set", "eth0", "up")
        inside(name, "ip", "link", "set", "lo", "up")


class Server:
    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.store, self.said = name, folder / name, folder / f"{name}.txt"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{ADDRESSES[self.name]}:{PORT}"

    def start(self, *options: str) -> None:
        command = ["ip", "netns", "exec", self.name, VICUS, "serve", "--store", str(self.store), "--token", TOKEN]
        command += ["--bind", f"{ADDRESSES[self.name]}:{PORT}", "--sync-followers", "1", "--sync-timeout", "3"]
        command += ["--threads", "1", *options]
        with self.said.open("ab") as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=said)

    def follow(self, others: list["Server"]) -> None:
        self.start(*[word for other in others for word in ("--follow", other.url)])

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def ask(self, path: str, body: str | None = None, kind: str = "", timeout: float = 8.0) -> tuple[int, str]:
        """The status and text of an answer; 0 if there is none."""
        connection = http.client.HTTPConnection(ADDRESSES[self.name], PORT, timeout=timeout)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        if kind:
            headers["Content-Type"] = kind
        try:
            connection.request("POST" if body is not None else "GET", path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def insert(self, value: int) -> bool:
        update = f"INSERT DATA {{ <http://e/s> <http://e/p> {value} }}"
        return self.ask("/update", update, "application/sparql-update")[0] == 204

    def values(self) -> set[int] | None:
        query = "SELECT ?o { ?s ?p ?o }"
        status, text = self.ask("/sparql?format=csv", query, "application/sparql-query", timeout=30.0)
        return {int(line) for line in text.split()[1:]} if status == 200 else None

    def metric(self, name: str) -> float | None:
        for line in self.ask("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        return None


def wait(what: str, is_there) -> None:
    until = time.monotonic() + PATIENCE
    while not is_there():
        if time.monotonic() > until:
            sys.exit(f"{what} has not come about within {PATIENCE:.0f} s")
        time.sleep(0.05)


class Clients:
    """Clients that write one value after the other; those of acknowledged changes are noted."""

    def __init__(self) -> None:
        self.writer: Server | None = None
        self.next, self.sent, self.acknowledged = 0, set(), set()
        self.lock, self.is_over = threading.Lock(), False
        self.threads = [threading.Thread(target=self.work) for _ in range(3)]
        for thread in self.threads:
            thread.start()

    def work(self) -> None:
        while not self.is_over:
            with self.lock:
                writer, value = self.writer, self.next
                self.next += 1
                self.sent.add(value)
            if writer is not None and writer.insert(value):
                with self.lock:
                    self.acknowledged.add(value)
            else:
                time.sleep(0.02)

    def end(self) -> None:
        self.is_over = True
        for thread in self.threads:
            thread.join()


def cut(one: str, other: str) -> None:
    """Packets from one to the other are dropped."""
    inside(one, "ip", "route", "add", "blackhole", f"{ADDRESSES[other]}/32", check=False)


def heal() -> None:
    for one in NAMES:
        for other in [ADDRESSES[name] for name in NAMES if name != one] + ["10.77.0.100"]:
            inside(one, "ip", "route", "del", "blackhole", f"{other}/32", check=False)


def promote(servers: list[Server], old: Server) -> Server:
    """One of the others becomes the writer: the one that the command says if it is not the first."""
    first, second = [server for server in servers if server is not old]
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for server, other in [(first, second), (second, first)]:
            command = [VICUS, "promote", "--token", TOKEN, server.url, "--other", other.url]
            ran = subprocess.run(command, capture_output=True, text=True)
            if ran.returncode == 0:
                return server
        time.sleep(0.1)
    sys.exit(f"no copy can be promoted: {ran.stderr}")


def main() -> None:
    print(f"seed {SEED}", flush=True)
    chance = random.Random(SEED)
    make_networks()
    kinds: dict[str, int] = {}
    promotions = 0
    with tempfile.TemporaryDirectory() as folder:
        servers = [Server(name, Path(folder)) for name in NAMES]
        writer = servers[0]
        writer.start("--create")
        for server in servers[1:]:
            server.follow([writer])
        clients = Clients()
        try:
            for number in range(ROUNDS):
                clients.writer = writer
                before = len(clients.acknowledged)
                wait("an acknowledged change", lambda: len(clients.acknowledged) > before + 5)
                time.sleep(chance.random() * 0.1)
                others = [server for server in servers if server is not writer]
                other = chance.choice(others)
                kind = chance.choice(["kill writer", "kill follower", "kill all", "cut one way", "cut back", "cut off"])
                kinds[kind] = kinds.get(kind, 0) + 1
                if kind == "kill writer":
                    writer.kill()
                elif kind == "kill follower":
                    other.kill()
                elif kind == "kill all":
                    for server in servers:
                        server.kill()
                elif kind == "cut one way":
                    cut(writer.name, other.name)
                elif kind == "cut back":
                    cut(other.name, writer.name)
                else:
                    # From the copies; its clients still reach it.
                    for server in others:
                        cut(writer.name, server.name)
                time.sleep(chance.random() * 0.5)
                if kind in ("kill writer", "cut off") or (kind == "kill all" and chance.random() < 0.5):
                    old = writer
                    if kind == "kill all":
                        for server in others:
                            server.follow([other for other in servers if other is not server])
                    writer = promote(servers, old)
                    promotions += 1
                    heal()
                    old.kill()
                    clients.writer = writer
                    third = next(server for server in servers if server not in (old, writer))
                    third.kill()
                    third.follow([writer])
                    old.follow([writer, third])
                else:
                    heal()
                    for server in servers:
                        if server.process is None:
                            if server is writer:
                                server.start()
                            else:
                                server.follow([writer])
                found: set[int] | None = None

                def is_read() -> bool:
                    nonlocal found
                    with clients.lock:
                        wanted = set(clients.acknowledged)
                    found = writer.values()
                    if found is None:
                        return False
                    lost = wanted - found
                    if lost:
                        sys.exit(f"round {number}, {kind}: lost {sorted(lost)[:10]}")
                    return True

                wait("an answer of the writer", is_read)
                if sys.stdout.isatty():
                    print(f"\r{number + 1} of {ROUNDS} rounds", end="", flush=True)
            clients.end()
            # A last change is confirmed when followers have all before it.
            wait("a last change", lambda: writer.insert(-1))
            clients.sent.add(-1)
            wanted = writer.metric("vicus_sequence")
            for server in servers:
                wait("all records at " + server.name, lambda: server.metric("vicus_sequence") == wanted)
            contents = [server.values() for server in servers]
            if any(content != contents[0] for content in contents):
                sys.exit("copies differ")
            assert contents[0] is not None
            if contents[0] - clients.sent or clients.acknowledged - contents[0]:
                sys.exit("the copies have other values than were sent and acknowledged")
        except SystemExit as end:
            for server in servers:
                print(f"== {server.name}\n{server.said.read_text()[-3000:]}")
            print(end.code)
            os._exit(1)
        finally:
            clients.is_over = True
            for server in servers:
                server.kill()
    faults = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    print(f"\n{ROUNDS} rounds ({faults}), {promotions} promotions, {len(clients.acknowledged)} acknowledged changes: none lost")


main()
