"""A site with `django-oauth-toolkit` on it, as a program: opaque tokens, and introspection for those who may ask.

``python -m tests.interop.oauth.django_site FOLDER PORT`` keeps its database in a folder, so that it can be started anew
where it was. It writes one line, ``{"issuer": …}``, and ends with its standard input. A proxy in front of it has signed
everybody in as alice (``REMOTE_USER``), and its operator has entered two clients: one that people use, and the one that
asks about tokens, whose secret is the environment variable ``SECRET``.
"""

import json
import os
import sys
import threading
import warnings
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import django
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.urls import include, path

from tests.interop.oauth.browser import REDIRECT
from tests.interop.oauth.django_provider import ASKS_AS, PEOPLE_USE


def _configure(folder: Path, issuer: str) -> None:
    settings.configure(
        ALLOWED_HOSTS=["127.0.0.1"],
        AUTHENTICATION_BACKENDS=["django.contrib.auth.backends.RemoteUserBackend"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": folder / "site.sqlite3"}},
        INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "oauth2_provider"],
        LOGGING_CONFIG=None,
        MIGRATION_MODULES=dict.fromkeys(("auth", "contenttypes", "oauth2_provider")),  # tables as they are today
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.auth.middleware.RemoteUserMiddleware",
        ],
        OAUTH2_PROVIDER={
            "ACCESS_TOKEN_EXPIRE_SECONDS": 600,
            "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
            "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
            "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": True,
            "OIDC_ISS_ENDPOINT": issuer,
            "SCOPES": {"mcp:diag:read": "look", "mcp:diag:write": "restart", "introspection": "ask about tokens"},
        },
        ROOT_URLCONF=__name__,
        SECRET_KEY=os.environ["SECRET"],
        SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
        USE_TZ=True,
    )
    django.setup()


def _enter_clients() -> None:
    from oauth2_provider.models import Application

    common = {"skip_authorization": True, "redirect_uris": REDIRECT}
    Application.objects.get_or_create(
        client_id=PEOPLE_USE,
        client_type=Application.CLIENT_PUBLIC,
        authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
        **common,
    )
    Application.objects.get_or_create(
        client_id=ASKS_AS,
        client_type=Application.CLIENT_CONFIDENTIAL,
        authorization_grant_type=Application.GRANT_CLIENT_CREDENTIALS,
        defaults={"client_secret": os.environ["SECRET"]},
    )


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_address = True


class _Handler(WSGIRequestHandler):
    def get_environ(self) -> dict[str, Any]:
        return super().get_environ() | {"REMOTE_USER": "alice"}

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class names it
        """Say nothing."""


urlpatterns: list[Any] = []


def main(folder: str, port: str) -> None:
    """Serve until standard input ends."""
    with _Server(("127.0.0.1", int(port)), _Handler) as server:
        issuer = f"http://127.0.0.1:{server.server_port}"
        _configure(Path(folder), issuer)
        call_command("migrate", run_syncdb=True, verbosity=0)
        _enter_clients()
        urlpatterns.append(path("", include("oauth2_provider.urls", namespace="oauth2_provider")))
        server.set_app(get_wsgi_application())
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        print(json.dumps({"issuer": issuer}), flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
