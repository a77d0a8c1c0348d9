"""What the tables of the configuration hold that say how the server is seen: ``[metrics]`` and ``[telemetry]``."""

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from guideway.server.section import FilePath, Section, Text, address, is_loopback


def _collector(text: str) -> str:
    """Check the URL of a collector. Nothing secret comes from it, so that it may be plain HTTP within a network."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("must be a URL") from None
    if parts.scheme not in ("https", "http") or not host or parts.username is not None:
        raise ValueError("must be a URL such as `http://127.0.0.1:4318`, without user or password")
    if parts.query or parts.fragment or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must be a plain URL without query or fragment")
    return text


class MetricsSection(Section):
    """``[metrics]``: where metrics are served for Prometheus, on a port of their own, where this table stands."""

    host: Annotated[str, AfterValidator(address)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 9464


class TelemetrySection(Section):
    """``[telemetry]``: where traces are sent, by OTLP over HTTP. They are where this table stands.

    What is None is as the ``OTEL_`` environment variables say, else as the SDK has it. ``endpoint`` is the collector's
    base URL. The headers stand in their file as in ``OTEL_EXPORTER_OTLP_HEADERS``.
    """

    endpoint: Annotated[Text, AfterValidator(_collector)] | None = None
    headers_file: FilePath | None = None
    service_name: Text | None = None
    sample_ratio: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _no_secret_in_the_clear(self) -> Self:
        if self.headers_file is not None and self.endpoint is not None:
            parts = urlsplit(self.endpoint)
            if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
                raise ValueError(
                    "has `headers_file` and an `endpoint` that is plain HTTP: what it holds would be readable"
                )
        return self
