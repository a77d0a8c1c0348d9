"""Which ways of a kubeconfig are followed, and that what is not followed is refused in words without secrets."""

import base64
import contextlib
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from tests.server.certificates import Authority

from guideway.interpreter.drivers import DRIVERS, kubernetes
from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.drivers.kubernetes.cluster import cluster_of
from guideway.interpreter.drivers.kubernetes.kubeconfig import read
from guideway.interpreter.drivers.kubernetes.tls import context_of
from guideway.interpreter.extras import install
from guideway.interpreter.results import Reason

SECRET = "s3cret-t0ken"  # noqa: S105  # of nothing
OPTIONS = {"name": "web", "namespace": "shop"}


def written(folder: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> Path:
    """Return a kubeconfig with two contexts, changed."""
    said = {
        "current-context": "shop",
        "contexts": [
            {"name": "shop", "context": {"cluster": "one", "user": "robot", "namespace": "shop"}},
            {"name": "test", "context": {"cluster": "two", "user": "robot"}},
        ],
        "clusters": [
            {"name": "one", "cluster": {"server": "https://one.test"}},
            {"name": "two", "cluster": {"server": "https://two.test"}},
        ],
        "users": [{"name": "robot", "user": {"token": SECRET}}],
    }
    change(said)
    file = folder / "config"
    file.write_text(yaml.safe_dump(said))
    return file


def refused(file: Path | None, context: str | None = None) -> Fault:
    with pytest.raises(Fault) as raised:
        read(file, context)
    fault = raised.value
    assert SECRET not in f"{fault.message}{fault.output}{fault.__cause__}"
    assert fault.__cause__ is None  # nor in what the log says of it
    return fault


def user(**keys: object) -> Callable[[dict[str, Any]], object]:
    return lambda said: said["users"][0]["user"].update(keys)


def cluster(**keys: object) -> Callable[[dict[str, Any]], object]:
    return lambda said: said["clusters"][0]["cluster"].update(keys)


def test_the_current_context_is_followed_or_the_one_that_is_named(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert read(file, None).cluster.server == "https://one.test"
    assert read(file, "test").cluster.server == "https://two.test"


def test_a_token_file_is_sought_beside_the_kubeconfig(tmp_path: Path) -> None:
    found = read(written(tmp_path, user(tokenFile="tokens/robot")), None)
    assert found.user is not None
    assert found.user.token_file == str(tmp_path / "tokens/robot")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        # Passed over, each of these would have us send more, to others, or as somebody else, than the file says.
        (user(exec={"command": "aws", "apiVersion": "client.authentication.k8s.io/v1"}), "runs a program"),
        (user(**{"auth-provider": {"name": "gcp"}}), "`auth-provider`"),
        (user(**{"as": "viewer"}), "acts as somebody else"),
        (user(**{"as-groups": ["viewers"]}), "acts as somebody else"),
        (cluster(**{"insecure-skip-tls-verify": True}), "to any server"),
        (cluster(**{"proxy-url": "http://proxy.test"}), "`proxy-url`"),
        (cluster(**{"tls-server-name": "other.test"}), "`tls-server-name`"),
        (cluster(server="http://one.test"), "must begin with `https://`"),
        (cluster(server="http://127.0.0.1.one.test"), "must begin with `https://`"),
        (cluster(server="ftp://one.test"), "must begin with `https://`"),
        (cluster(server=7), "must begin with `https://`"),
        (user(token=7), "wrong type"),
        (lambda said: said.pop("current-context"), "no current context"),
        (lambda said: said.update({"current-context": "gone"}), "the context is not in it"),
        (lambda said: said.update(clusters=[]), "its context's cluster is not in it"),
        (lambda said: said.update(users=[None]), "its context's user is not in it"),
        (lambda said: said.update(contexts=3), "the context is not in it"),
    ],
)
def test_what_is_not_followed_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    fault = refused(written(tmp_path, change))
    assert fault.reason is Reason.UNREACHABLE
    assert words in fault.message


@pytest.mark.parametrize("server", ["http://127.0.0.1:8001", "http://[::1]:8001", "http://localhost:8001"])
def test_a_proxy_on_this_machine_needs_no_tls(tmp_path: Path, server: str) -> None:
    assert read(written(tmp_path, cluster(server=server)), None).cluster.server == server


@pytest.mark.parametrize("content", [b"a: [", b"\xff\xfe\x00", b"- 1", b"", b"#" * (1 << 21)])
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config"
    file.write_bytes(content)
    assert refused(file).reason is Reason.UNREACHABLE


def test_a_file_that_is_not_there_is_told_as_that(tmp_path: Path) -> None:
    assert refused(tmp_path / "none").message == "the kubeconfig does not exist"


def test_outside_of_a_cluster_a_kubeconfig_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "give `kubeconfig`" in refused(None).message


@pytest.mark.anyio
@pytest.mark.parametrize(
    "keys",
    [
        {"certificate-authority": "/none"},
        {"certificate-authority-data": "bm90IGEgY2VydGlmaWNhdGU="},
        {"certificate-authority-data": "?"},
    ],
)
async def test_an_authority_that_cannot_be_read_is_told(tmp_path: Path, keys: dict[str, str]) -> None:
    with pytest.raises(Fault) as raised:
        await cluster_of(written(tmp_path, cluster(**keys)), None).call(object(), lambda client: client.close())
    assert "a certificate or key of it cannot be read" in raised.value.message


@pytest.mark.parametrize("inside", [True, False], ids=["in the file", "beside it"])
def test_a_client_certificate_is_shown_and_left_nowhere(
    tmp_path: Path, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python reads keys from files alone, so that one in the kubeconfig is in a file of its own for a moment."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    authority = Authority(tmp_path)
    pair, server = authority.client(), authority.server()
    named = {"client-certificate": pair.certificate, "client-key": pair.key, "certificate-authority": authority.file}

    def change(said: dict[str, Any]) -> None:
        for key, file in named.items():
            entry = said["clusters" if "authority" in key else "users"][0]["cluster" if "authority" in key else "user"]
            entry.update({f"{key}-data": base64.b64encode(file.read_bytes()).decode()} if inside else {key: file.name})

    ours = context_of(read(written(tmp_path, change), None))
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.file)
    theirs.verify_mode = ssl.CERT_REQUIRED
    theirs.load_cert_chain(server.certificate, server.key)
    assert shown(ours, theirs) == pair.certificate.read_bytes()
    assert not list((tmp_path / "tmp").iterdir())


def shown(client: ssl.SSLContext, server: ssl.SSLContext) -> bytes:
    """Return the certificate that a client shows, after a handshake in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(down, up, server_hostname="localhost")
    theirs = server.wrap_bio(up, down, server_side=True)
    for side in (ours, theirs, ours, theirs):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    certificate = theirs.getpeercert(binary_form=True)
    assert certificate
    return ssl.DER_cert_to_PEM_cert(certificate).encode()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "../secrets"}, "must be the name of an object of Kubernetes"),
        ({"name": "Web"}, "must be the name of an object of Kubernetes"),
        ({"name": "a" * 254}, "must be the name of an object of Kubernetes"),
        ({"namespace": "a/b"}, "must be the name of a namespace"),
        ({"namespace": "a.b"}, "must be the name of a namespace"),
        ({"kind": "pod"}, "'deployment', 'statefulset' or 'daemonset'"),
        ({"kubeconfig": "config"}, "must be an absolute path"),
        ({"context": "shop"}, "give that too"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValidationError) as raised:
        DRIVERS["kubernetes"].model_validate({**OPTIONS, **options})
    assert words in str(raised.value)


def test_a_missing_library_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "_library_is_there", lambda: False)
    with pytest.raises(ValidationError) as raised:
        DRIVERS["kubernetes"].model_validate(OPTIONS)
    assert install("kubernetes") in str(raised.value)
