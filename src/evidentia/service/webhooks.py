"""Delivery of alarms to webhooks as CloudEvents, with retries.

An alarm is sent until the receiver answers with a status of 2xx: at once, then after 1, 2, 4, ...
seconds, at most 5 minutes, each shortened at random by up to half, or after the `Retry-After` that
the receiver asks for. A status that says that the request itself is wrong (3xx, 4xx other than
408, 425 and 429) ends it, and so do 10,000 newer alarms that wait. An alarm may come twice, with
the same id: after a crash between the delivery and the next checkpoint.

Source: CloudEvents 1.0.2, its JSON event format and HTTP protocol binding, structured mode.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx

from evidentia.service import settings as schema
from evidentia.service.engine import Alarm
from evidentia.service.logs import log

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0  # seconds
AGAIN = {408, 425, 429}  # and 5xx: statuses after which another attempt may succeed
CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"


def cloud_event(alarm: Alarm) -> dict[str, Any]:
    """An alarm as a CloudEvent in JSON.

    Example:
        >>> alarm = Alarm("s/m/k/120", "s", "m", "k", "2026-01-01T00:00:00+00:00", {"row": 100})
        >>> cloud_event(alarm)["source"], cloud_event(alarm)["data"]["row"]
        ('/evidentia/streams/s/monitors/m', 100)
    """
    return {
        "specversion": "1.0",
        "id": alarm.id,
        "source": f"/evidentia/streams/{alarm.stream}/monitors/{alarm.monitor}",
        "type": "evidentia.change",
        "subject": alarm.key,
        "time": alarm.time,
        "datacontenttype": "application/json",
        "data": {"stream": alarm.stream, "monitor": alarm.monitor, "key": alarm.key, **alarm.change},
    }


class Deliverer(threading.Thread):
    """Sends alarms to one webhook, in order, in a thread of its own.

    Attributes:
        counts: numbers of requests by result: "delivered", "retried", "given up".

    Args:
        name: of the webhook, which stands for its URL in logs.
        settings: of the webhook.
        delivered: called with an alarm that was delivered or given up.
        first_pause: seconds after the first failure.
        most_waiting: alarms that wait; with more, the oldest is given up.
    """

    def __init__(
        self,
        name: str,
        settings: schema.Webhook,
        delivered: Callable[[Alarm], None],
        first_pause: float = FIRST_PAUSE,
        most_waiting: int = 10_000,
    ):
        super().__init__(name=f"evidentia-webhook-{name}", daemon=True)
        self._webhook, self._delivered, self._first_pause = name, delivered, first_pause
        self._most_waiting = most_waiting
        key = f"webhooks.{name}"
        url = settings.url or schema.secret(settings.url_env or "", f"{key}.url_env")
        self._url = url
        headers = {"Content-Type": CONTENT_TYPE}
        if settings.token_env is not None:
            headers["Authorization"] = f"Bearer {schema.secret(settings.token_env, f'{key}.token_env')}"
        self._client = httpx.Client(headers=headers, timeout=settings.timeout, follow_redirects=False)
        self._waiting: queue.SimpleQueue[Alarm | None] = queue.SimpleQueue()
        self._is_ending = threading.Event()
        self.counts: Counter[str] = Counter()

    def send(self, alarm: Alarm) -> None:
        """Add an alarm to those that wait; gives the oldest up if they are too many."""
        self._waiting.put(alarm)
        if self._waiting.qsize() > self._most_waiting:
            with suppress(queue.Empty):
                oldest = self._waiting.get_nowait()
                if oldest is not None:
                    self._give_up(oldest, f"{self._most_waiting:,} newer ones wait")
                    self._delivered(oldest)

    def stop(self) -> None:
        """End the thread; alarms that wait are in the checkpoint."""
        self._is_ending.set()
        self._waiting.put(None)

    def run(self) -> None:
        """The thread."""
        with self._client:
            while (alarm := self._waiting.get()) is not None and not self._is_ending.is_set():
                if self._attempted(alarm):
                    self._delivered(alarm)

    def _attempted(self, alarm: Alarm) -> bool:
        """Whether an alarm was delivered or given up; False if the service stopped before."""
        pause = self._first_pause
        while not self._is_ending.is_set():
            wait, reason = self._post(alarm)
            if reason is None:
                self.counts["delivered"] += 1
                return True
            if wait is None:
                self._give_up(alarm, reason)
                return True
            self.counts["retried"] += 1
            wait = max(wait, pause * random.uniform(0.5, 1.0))
            log(
                "alarm not delivered",
                logging.WARNING,
                webhook=self._webhook,
                alarm=alarm.id,
                reason=reason,
                again_in=round(wait, 1),
            )
            self._is_ending.wait(wait)
            pause = min(2 * pause, LONGEST_PAUSE)
        return False

    def _give_up(self, alarm: Alarm, reason: str) -> None:
        self.counts["given up"] += 1
        log("alarm given up", logging.ERROR, webhook=self._webhook, alarm=alarm.id, reason=reason)

    def _post(self, alarm: Alarm) -> tuple[float | None, str | None]:
        """Seconds to wait at least, None for no other attempt; and the reason of a failure."""
        try:
            answer = self._client.post(self._url, json=cloud_event(alarm))
        except httpx.InvalidURL:
            return None, "the URL is invalid"
        except httpx.HTTPError as error:  # its text may hold the URL
            return 0.0, type(error).__name__
        if answer.is_success:
            return 0.0, None
        reason = f"status {answer.status_code}"
        if answer.status_code not in AGAIN and answer.status_code < 500:
            return None, reason
        asked = answer.headers.get("Retry-After", "")
        return (min(float(asked), LONGEST_PAUSE) if asked.isdecimal() else 0.0), reason
