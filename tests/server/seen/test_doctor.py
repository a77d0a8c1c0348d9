"""What doctor says of metrics and traces: what is on, whether it can be reached, and nothing of what is off."""

import sys
from pathlib import Path

import pytest
from anyio import to_thread

from guideway.server import config
from guideway.server.cli.finding import Finding, Grade
from guideway.server.cli.telemetry_findings import look_at_telemetry
from guideway.server.listen import listen
from guideway.server.telemetry.exposition import serving
from guideway.server.telemetry.metrics import Metrics
from guideway.server.telemetry_sections import MetricsSection
from tests.server.seen.collector import collecting

pytestmark = pytest.mark.anyio


def found(folder: Path, text: str) -> list[Finding]:
    file = folder / "guideway.toml"
    file.write_text(text)
    return list(look_at_telemetry(config.load(file)))


def free_port() -> int:
    with listen("127.0.0.1", 0) as listener:
        port: int = listener.getsockname()[1]
    return port


def test_what_is_off_is_not_told_of(tmp_path: Path) -> None:
    assert found(tmp_path, "") == []


async def test_a_server_that_has_metrics_is_seen(tmp_path: Path) -> None:
    async with serving(Metrics(), MetricsSection(port=0), None) as url:
        port = int(url.split(":")[2].split("/")[0])
        [one] = await to_thread.run_sync(found, tmp_path, f"[metrics]\nport = {port}\n")
    assert (one.grade, one.about, one.message) == (Grade.OK, "metrics", f"a server has them at {url}")


def test_where_metrics_would_be_is_told(tmp_path: Path) -> None:
    port = free_port()
    [one] = found(tmp_path, f"[metrics]\nport = {port}\n")
    assert one.grade is Grade.OK
    assert one.message.startswith(f"`guideway serve` will have them at http://127.0.0.1:{port}/metrics")
    [one] = found(tmp_path, "[metrics]\nport = 0\n")
    assert one.grade is Grade.OK


def test_what_keeps_metrics_from_being_there_is_told(tmp_path: Path) -> None:
    with collecting() as other:
        port = other.url.rpartition(":")[2]
        [one] = found(tmp_path, f"[metrics]\nport = {port}\n")
    assert (one.grade, one.message) == (Grade.WRONG, f"something else answers at 127.0.0.1:{port}")


def test_a_collector_is_asked_with_no_span(tmp_path: Path) -> None:
    with collecting() as collector:
        [one] = found(tmp_path, f'[telemetry]\nendpoint = "{collector.url}"\n')
        assert (one.grade, one.message) == (Grade.OK, f"traces can be sent to {collector.url}/v1/traces")
        assert collector.spans == []
        assert len(collector.requests) == 1
        collector.status = 401
        [one] = found(tmp_path, f'[telemetry]\nendpoint = "{collector.url}/"\n')
    assert one.grade is Grade.WRONG
    assert "401" in one.message


def test_a_collector_that_is_away_is_told_with_the_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    [one] = found(tmp_path, f'[telemetry]\nendpoint = "http://127.0.0.1:{free_port()}"\n')
    assert one.grade is Grade.WRONG
    assert "refused" in one.message
    assert len(one.message) < 400
    assert caplog.records == [], "said once, by doctor"


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    metrics, telemetry = found(tmp_path, '[metrics]\n[telemetry]\nheaders_file = "nowhere"\n')
    assert metrics.grade is telemetry.grade is Grade.WRONG
    assert metrics.message.startswith("[metrics] needs the package `prometheus_client`; pip install")
    assert telemetry.message.startswith("[telemetry] `headers_file`: what it names cannot be read")
