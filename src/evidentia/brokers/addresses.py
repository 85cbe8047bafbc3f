"""Addresses of brokers: URLs, their credentials kept apart, and the client that each needs."""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from string import Template
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from evidentia.brokers.message import Subscription
from evidentia.errors import ConfigurationError
from evidentia.system.storage import SECRETS

# By scheme: module and class of the subscription, and the extra with its package.
CLIENTS = {
    "kafka": ("kafka", "KafkaTopic", "kafka"),
    **dict.fromkeys(("mqtt", "mqtts"), ("mqtt", "MqttTopics", "mqtt")),
    **dict.fromkeys(("redis", "rediss"), ("redis", "RedisStream", "redis")),
    **dict.fromkeys(("nats", "tls"), ("nats", "JetStream", "nats")),
    **dict.fromkeys(("http", "https"), ("http", "HttpStream", "events")),
    **dict.fromkeys(("ws", "wss"), ("websocket", "WebSocket", "events")),
}
FORMS = "kafka://host/topic, mqtt://host/topic, redis://host/stream, nats://host/stream, http://…, ws://…"


class Address(NamedTuple):
    """The parts of a broker's URL.

    Attributes:
        scheme: such as "kafka".
        hosts: host and port; for Kafka and NATS perhaps several, separated by commas.
        path: what comes after the hosts, without the slash in front, percent-decoded.
        username, password: the credentials; "" if there are none.
        options: the query of the URL and the options given in Python.
        name: the URL without credentials.
    """

    scheme: str
    hosts: str
    path: str
    username: str
    password: str
    options: Mapping[str, Any]
    name: str

    def host(self) -> str:
        """The one host of a broker that has only one."""
        return urlsplit(f"//{self.hosts}").hostname or "localhost"

    def port(self, default: int) -> int:
        """The port of a broker that has one host."""
        return urlsplit(f"//{self.hosts}").port or default

    def has_tls(self) -> bool:
        """Whether the scheme asks for an encrypted connection."""
        return self.scheme in ("mqtts", "rediss", "tls", "https", "wss")

    def checked_options(self, **defaults: Any) -> dict[str, Any]:
        """Options with their defaults; each is converted to the type of its default.

        Raises ConfigurationError for unknown options, and for values of other types.
        """
        if unknown := [name for name in self.options if name not in defaults]:
            known = ", ".join(defaults) or "none"
            raise ConfigurationError(
                f"{self.name}: {', '.join(unknown)} cannot be set for {self.scheme}://; known: {known}."
            )
        found = dict(defaults)
        for name, value in self.options.items():
            kind = type(defaults[name])
            try:
                found[name] = kind(value)
            except (TypeError, ValueError):
                raise ConfigurationError(
                    f"{self.name}: {name} must be of type {kind.__name__}; got {value!r}."
                ) from None
        return found


def is_broker(url: Any) -> bool:
    """Whether a name is the URL of a broker; of http(s), any except a file with a known ending."""
    if not isinstance(url, str) or "://" not in url:
        return False
    scheme = url.partition("://")[0].lower()
    return scheme in CLIENTS and not (scheme in ("http", "https") and _names_a_file(url))


def address_of(url: str, options: Mapping[str, Any] | None = None) -> Address:
    """Parse the URL of a broker. `$NAME` in its credentials stands for an environment variable.

    Raises:
        ConfigurationError: no such broker, no topic or stream, or a variable that is not set.

    Example:
        >>> address_of("redis://:secret@example.org/readings").name
        'redis://example.org/readings'
    """
    scheme = url.partition("://")[0].lower() if isinstance(url, str) else ""
    if scheme not in CLIENTS:
        raise ConfigurationError(f"the URL of a broker must be one of {FORMS}; got {_shown(url)}.")
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, _, password = (unquote(_filled(part)) for part in _split(credentials))
    path = unquote(parts.path.removeprefix("/"))
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    is_web = scheme in ("http", "https", "ws", "wss")
    public = {name: value for name, value in query.items() if not _is_secret(name)}
    name = f"{scheme}://{hosts}{parts.path}" + ("?" + urlencode(public) if public else "")
    if not hosts or not (path or is_web):
        raise ConfigurationError(f"the URL of a broker must be one of {FORMS}; got {name}.")
    try:
        bad_port = any(urlsplit(f"//{host}").port == 0 for host in hosts.split(","))
    except ValueError:
        bad_port = True
    if bad_port:
        raise ConfigurationError(f"{name}: a port must be a number from 1 to 65535.")
    return Address(
        scheme,
        hosts,
        path + (f"?{parts.query}" if is_web and parts.query else ""),
        username,
        password,
        {**({} if is_web else query), **(options or {})},
        name,
    )


def subscribe(url: str, **options: Any) -> Subscription:
    """Open a stream of a broker for reading; it connects when `messages` is called.

    Args:
        url: `kafka://host:port/topic`, `mqtt://host/topic/filter`, `redis://host/stream`,
            `nats://host/stream`, `http(s)://…` for server-sent events or lines of JSON, or
            `ws(s)://…`; `mqtts`, `rediss` and `tls` (NATS) for encrypted connections. Credentials
            stand before an @, and `$NAME` in them for an environment variable.
        options: of the client, as may also be in the query of the URL; see docs/brokers.md.

    Raises:
        ConfigurationError: an invalid URL or option, or a package that is not installed.

    Example:
        >>> subscription = subscribe("redis://:$REDIS_PASSWORD@host/readings")  # doctest: +SKIP
        >>> for message in subscription.messages(None):  # doctest: +SKIP
        ...     print(message)
    """
    address = address_of(url, options)
    module, name, extra = CLIENTS[address.scheme]
    try:
        client: Callable[[Address], Subscription] = getattr(
            import_module(f"evidentia.brokers.{module}"), name
        )
    except ImportError as error:
        raise ConfigurationError(
            f"{address.scheme}:// needs a package that is not installed: pip install 'evidentia[{extra}]'."
        ) from error
    return client(address)


def _split(credentials: str) -> tuple[str, str, str]:
    return credentials.partition(":")


def _filled(text: str) -> str:
    """Text with the values of environment variables."""
    try:
        return Template(text).substitute(os.environ)
    except KeyError as error:
        raise ConfigurationError(
            f"the credentials of the URL name the environment variable {error.args[0]}, which is not set."
        ) from None
    except ValueError:
        raise ConfigurationError(
            "a $ in the credentials of a URL begins the name of an environment variable; write %24 for the character."
        ) from None


def _is_secret(name: str) -> bool:
    return any(secret in name.lower() for secret in SECRETS)


def _shown(url: Any) -> str:
    """A URL that cannot be parsed, without anything before an @."""
    return repr(url.rpartition("@")[2].partition("?")[0] if isinstance(url, str) else url)


def _names_a_file(url: str) -> bool:
    from evidentia.data.formats import COMPRESSED, READERS

    endings = (".parquet", ".pq", *READERS, *COMPRESSED)
    return urlsplit(url).path.lower().endswith(tuple(ending for ending in endings if ending))
