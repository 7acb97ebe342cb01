"""Where a FalkorDB server is: ``falkor://[[user]:password@]host[:port][,host[:port]...][?option=value&...]``.

``falkors://`` is the same over TLS. Several hosts are the nodes of one cluster, or the Sentinels of one server: the
first that answers tells the rest. The options are those of TLS, `service` for the server's name at its Sentinels, and
``sentinel_username`` and ``sentinel_password`` (perhaps empty) where these want other ones than the server.
"""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs

from zapomni.errors import ConfigError

DEFAULT_PORT = 6379
SCHEMES = {"falkor": False, "falkors": True}
TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
OPTIONS = ("service", "sentinel_username", "sentinel_password", *TLS_OPTIONS)


@attrs.frozen
class Address:
    """A parsed URL."""

    hosts: tuple[tuple[str, int], ...]
    tls: bool = False
    username: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    service: str | None = None
    sentinel_credentials: dict[str, Any] | None = attrs.field(default=None, repr=False)
    tls_options: dict[str, Any] = attrs.field(factory=dict)

    def __str__(self) -> str:
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)


def parse_address(url: str) -> Address:
    """Take a URL apart; raises `ConfigError`, whose message never shows the password."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ConfigError("falkordb_url must begin with falkor:// or falkors://")
    tls = SCHEMES[scheme]
    rest, _, query = rest.partition("?")
    credentials, _, location = rest.rpartition("@")
    username, _, password = credentials.partition(":")
    hosts, _, path = location.partition("/")
    if path:
        raise ConfigError("falkordb_url ends with the port: FalkorDB has no numbered databases")
    options = dict(parse_qsl(query, keep_blank_values=True))
    service = options.pop("service", None)
    sentinel = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    if not options.keys() <= set(TLS_OPTIONS):
        # Its name is left out: behind a password with a question mark, it would be the rest of that.
        raise ConfigError(
            f"falkordb_url has an unknown option; it has {', '.join(OPTIONS)}; in a password, ? is written %3F"
        )
    if options and not tls:
        raise ConfigError("the TLS options of falkordb_url need falkors://")
    return Address(
        hosts=tuple(_host(text) for text in hosts.split(",")),
        tls=tls,
        username=unquote(username) or None,
        password=unquote(password) or None,
        service=service,
        sentinel_credentials=None if sentinel["password"] is None else {k: v or None for k, v in sentinel.items()},
        tls_options={name: _tls_value(name, value) for name, value in options.items()},
    )


def _host(text: str) -> tuple[str, int]:
    # The text is not shown, nor kept in the error's chain: in a URL without a host it would be the password.
    with contextlib.suppress(ValueError):
        parts = urlsplit("//" + text)
        if not parts.hostname:
            raise ConfigError("falkordb_url names no host")
        return parts.hostname, parts.port or DEFAULT_PORT
    raise ConfigError("falkordb_url has a host or port that cannot be read")


def _tls_value(name: str, value: str) -> str | bool:
    if name == "ssl_cert_reqs" and value not in ("none", "optional", "required"):
        raise ConfigError("ssl_cert_reqs must be none, optional or required")
    if name != "ssl_check_hostname":
        return value
    if value not in ("true", "false"):
        raise ConfigError("ssl_check_hostname must be true or false")
    return value == "true"
