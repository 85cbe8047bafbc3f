"""The stream of a broker as the source of `evidentia stream`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from evidentia.brokers.addresses import address_of, is_broker
from evidentia.brokers.source import BrokerSource, read
from evidentia.cli.columns import arrays_of, types_of
from evidentia.cli.stream.plan import Plan
from evidentia.data.form import PLAIN, UTF_8
from evidentia.errors import ConfigurationError


def is_live(sources: Sequence[str]) -> bool:
    """Whether the URL of a broker is among the sources."""
    return any(is_broker(source) for source in sources)


def open_stream(plan: Plan, stop: Callable[[], bool]) -> BrokerSource:
    """Open the stream of a broker.

    Raises:
        ConfigurationError: options that do not fit a broker, or no columns.
    """
    if len(plan.sources) > 1:
        raise ConfigurationError(f"the URL of a broker must be the only source; got {len(plan.sources)}.")
    (url,) = plan.sources
    name = address_of(url).name
    for option, is_given in (
        ("--follow", plan.follow),
        ("--encoding", plan.form.codec != UTF_8),
        ("--sep, --decimal, --na, --comment or --table", replace(plan.form, encoding=UTF_8) != PLAIN),
    ):
        if is_given:
            raise ConfigurationError(
                f"{option} is for files; {name} is a broker's stream, read as it arrives."
            )
    if plan.features is None:
        raise ConfigurationError(
            f"{name} has no header: name its columns with --features a,b,c (and the response with --target)."
        )
    names = [*plan.features, *([plan.target] if plan.target is not None else [])]
    return read(
        url,
        arrays_of(name, names, plan.target, plan.features),
        payload=plan.payload,
        missing=plan.missing,
        types=types_of(names, plan.target, list(plan.models.values())),
        dead_letters=plan.dead_letters,
        stop=stop,
    )
