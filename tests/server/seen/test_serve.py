"""``guideway serve`` as it is started: watched where the configuration says so, and else nothing of it is there."""

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import httpx2
import pytest

from guideway.server import config
from guideway.server.cli import watching
from guideway.server.cli.command import Complaint
from guideway.server.config_errors import ConfigError
from guideway.server.listen import listen
from guideway.server.telemetry.opened import open_telemetry
from guideway.server.tool import TOOL_NAME, ToolServer
from tests.server.oauth.door import NO_AUTHORITIES, a_call
from tests.server.seen.collector import attributes, collecting
from tests.server.world import World

NOT_LOADED = (
    *("prometheus_client", "opentelemetry.sdk", "opentelemetry.exporter", "google.protobuf", "requests"),
    "guideway.server.telemetry.",
)
TRACE = "0af7651916cd43dd8448eb211c80319c"


def configured(folder: Path, more: str) -> Path:
    """Write the configuration of a small installation, and more; return its file."""
    World().command(folder)
    file = folder / "guideway.toml"
    file.write_text(f'{file.read_text()}\n[store]\nfolder = "store"\n{more}')
    return file


def test_nothing_of_it_is_loaded_where_nobody_asks_for_it(tmp_path: Path) -> None:
    program = f"""
        import sys
        from guideway.server.cli import main
        status = main(["serve", "--stdio", "--config", {str(configured(tmp_path, ""))!r}])
        print(status, sorted(name for name in sys.modules if name.startswith({NOT_LOADED})))
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout == "0 []\n", ended.stderr


def test_a_server_that_is_watched_from_its_start_to_its_end(tmp_path: Path) -> None:
    """Logs in JSON and nothing else, metrics on a port of their own, and the last span sent before it ends."""
    with collecting() as collector:
        more = f'[server]\nlog_format = "json"\n[metrics]\nport = 0\n[telemetry]\nendpoint = "{collector.url}"\n'
        command = [str(Path(sys.executable).with_name("guideway")), "serve", "--http", "127.0.0.1:0", "--config"]
        with subprocess.Popen([*command, str(configured(tmp_path, more))], stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            said: list[str] = []
            urls: dict[str, str] = {}
            for line in server.stderr:
                said.append(line)
                words = json.loads(line)["message"].split()
                if words[0] == "serving" or words[:3] == ["metrics", "are", "at"]:
                    urls[words[0]] = next(word for word in words if word.startswith("http"))
                if len(urls) == 2:
                    break
            try:
                body, headers = a_call('PING "api.internal" GET_STATUS "database"')
                with httpx2.Client(verify=NO_AUTHORITIES, trust_env=False) as http:
                    traced = headers | {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
                    assert not http.post(urls["serving"], json=body, headers=traced).json()["result"]["isError"]
                    metrics = http.get(urls["metrics"]).text
                    probe = urls["serving"].replace("/mcp", "/readyz")
                    assert any(http.get(probe).text == "ok\n" for _ in range(20)), "a busy machine may take its time"
            finally:
                server.send_signal(signal.SIGTERM)
                said += server.stderr.read().splitlines()
            assert server.wait(30) == 0
    assert 'guideway_runs_total{status="completed"} 1.0' in metrics
    assert 'guideway_audit_records_total{kind="run.begun"} 1.0' in metrics
    assert 'guideway_gate_duration_seconds_count{gate="record"}' in metrics
    [run] = [record for record in map(json.loads, said) if "run_id" in record]
    [span] = collector.named(f"tools/call {TOOL_NAME}")
    assert run["trace_id"] == span.trace_id.hex() == TRACE
    assert run["span_id"] == span.span_id.hex()
    assert run["run_id"] == attributes(span)["guideway.run.id"]
    assert (run["status"], run["steps"], run["subject"]) == ("completed", 2, "tester")
    assert "gate record" in {one.name for one in collector.spans}


def test_an_address_of_metrics_that_is_taken_is_told_and_a_complaint_stays_one(tmp_path: Path) -> None:
    said: list[str] = []

    async def complain(_: ToolServer) -> None:
        raise Complaint("of the door's own")

    def serve(port: int) -> str:
        telemetry = open_telemetry(config.load(configured(tmp_path, f"[metrics]\nport = {port}\n")))
        with pytest.raises(Complaint) as told:
            anyio.run(watching.serving(complain, telemetry, said.append), World().server)
        return str(told.value)

    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        assert serve(taken.getsockname()[1]) == "cannot listen on the address of [metrics]: address already in use"
    assert said == []
    assert serve(0) == "of the door's own"
    assert said[0].startswith("metrics are at http://127.0.0.1:")


@pytest.mark.parametrize(
    ("table", "package"),
    [
        ("metrics", "prometheus_client"),
        ("telemetry", "opentelemetry.sdk"),
        ("telemetry", "opentelemetry.exporter.otlp.proto.http"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError) as told:
        open_telemetry(config.load(configured(tmp_path, f"[{table}]\n")))
    assert f"[{table}] needs the package `{package}`; pip install '.[{table}]'" in str(told.value)


def test_a_file_of_headers_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[telemetry\] `headers_file`: what it names cannot be read"):
        open_telemetry(config.load(configured(tmp_path, '[telemetry]\nheaders_file = "nowhere"\n')))
