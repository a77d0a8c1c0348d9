"""A real Kubernetes API server with RBAC and its controllers, on etcd, for tests; only the kubelets are played.

The programs are what ``build.sh`` leaves in a folder.
"""

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
from tests.server.certificates import Authority
from tests.system.kubernetes.kubelet import NODES, Kubelet
from tests.system.supervisord import wait_for

_ADMIN = "admin"


class ControlPlane:
    """A context manager. ``kubeconfig`` is the file of its administrator."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="gw-", dir="/tmp"))
        self._authority = Authority(self.folder)
        self.authority = self._authority.file
        self._pair = self._authority.server()
        self._keys = self._authority.client("accounts")
        self._etcd, self._peers, self._port = (_free_port() for _ in range(3))
        self._ran: dict[str, subprocess.Popen[bytes]] = {}
        self._kubelet: Kubelet | None = None
        self.server = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = self.folder / "admin.yaml"
        self.kubeconfig.write_text(json.dumps(kubeconfig(self.server, str(self._authority.file), _ADMIN)))

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._kubelet is not None:
            self._kubelet.close()
        for name in reversed(list(self._ran)):
            self._end(name)
        shutil.rmtree(self.folder)

    def end_api_server(self) -> None:
        """Have the API server die."""
        self._end("kube-apiserver")

    @property
    def is_ended(self) -> bool:
        """Whether the API server was made to die."""
        return "kube-apiserver" not in self._ran

    def start_api_server(self) -> None:
        """Start the API server, and wait until it answers."""
        (self.folder / "tokens").write_text(f"{_ADMIN},admin,1,system:masters\n")
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self.folder / 'certs'}",
            f"--tls-cert-file={self._pair.certificate}",
            f"--tls-private-key-file={self._pair.key}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder / 'tokens'}",
            "--service-account-issuer=https://issuer.test",
            f"--service-account-signing-key-file={self._keys.key}",
            f"--service-account-key-file={self._keys.certificate}",
            "--service-cluster-ip-range=10.96.0.0/24",
            # Pods have no account's token mounted, and nodes are not looked after.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        )
        wait_for(self._answers, "the API server to answer", self._log("kube-apiserver"), seconds=60)

    def _start(self) -> None:
        etcd = f"http://127.0.0.1:{self._etcd}"
        peers = f"http://127.0.0.1:{self._peers}"
        self._run(
            *("etcd", f"--data-dir={self.folder / 'etcd'}", f"--listen-client-urls={etcd}"),
            *(f"--advertise-client-urls={etcd}", f"--listen-peer-urls={peers}", "--unsafe-no-fsync"),
            *(f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}"),
        )
        self.start_api_server()
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--controllers=deployment,replicaset,statefulset,daemonset,garbagecollector,namespace",
            "--leader-elect=false",
            *("--port=0", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400"),
        )
        self._kubelet = Kubelet(self.client())
        with self.client() as client:
            for node in NODES:
                body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
                client.post("/api/v1/nodes", json=body).raise_for_status()
        self._kubelet.start()

    def client(self) -> httpx2.Client:
        """Return a plain client that is the administrator."""
        return httpx2.Client(
            base_url=self.server,
            verify=self._authority.trusting(),
            headers={"Authorization": f"Bearer {_ADMIN}"},
            trust_env=False,
            timeout=20,
        )

    def _run(self, name: str, *arguments: str) -> None:
        program = self._programs / name
        with (self.folder / f"{name}.log").open("ab") as out:
            self._ran[name] = subprocess.Popen(
                [str(program) if program.exists() else name, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _end(self, name: str) -> None:
        self._ran[name].send_signal(signal.SIGKILL)
        self._ran.pop(name).wait(20)

    def _log(self, name: str) -> Any:
        return lambda: (self.folder / f"{name}.log").read_text()[-3000:]

    def _answers(self) -> bool:
        assert self._ran["kube-apiserver"].poll() is None, self._log("kube-apiserver")()
        with contextlib.suppress(httpx2.TransportError), self.client() as client:
            return client.get("/readyz").status_code == 200
        return False


def kubeconfig(server: str, authority: str, token: str, **user: Any) -> dict[str, Any]:
    """Return a kubeconfig with one context; ``authority`` is the path of its certificate."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "test", "user": {"token": token, **user}}],
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
