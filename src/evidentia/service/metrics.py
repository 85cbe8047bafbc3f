"""Metrics of a service in Prometheus' text format.

Numbers are sums or means over the keys of a stream, so that their number does not grow with the
keys. They are collected when they are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evidentia.service.records import Records
from evidentia.service.running import Service


class ServiceCollector(Collector):
    """Collects the metrics of a service.

    Args:
        service: the service.
    """

    def __init__(self, service: Service):
        self._service = service

    def collect(self) -> Iterable[Metric]:
        """The metrics now."""
        yield from self._of_streams()
        yield from self._of_monitors()
        yield self._of_webhooks()

    def _of_streams(self) -> Iterator[Metric]:
        counters = {
            "messages": "Messages read.",
            "rows": "Rows that monitors were given.",
            "rejected": "Rows and messages that cannot be used.",
            "alarms": "Changes found.",
        }
        families = {
            name: CounterMetricFamily(f"evidentia_{name}", what, labels=["stream"])
            for name, what in counters.items()
        }
        gauges = {
            "up": "Whether the stream is being read.",
            "waiting_rows": "Rows that wait for their batch to be complete.",
            "keys": "Keys seen.",
            "lag_seconds": "Age of the last row processed, or time that the oldest complete batch has waited.",
            "checkpoint_timestamp_seconds": "When the last checkpoint was written.",
            "checkpoint_seconds": "Time that the last checkpoint took.",
            "undelivered_alarms": "Alarms that webhooks have not got.",
        }
        others = {
            name: GaugeMetricFamily(f"evidentia_{name}", what, labels=["stream"])
            for name, what in gauges.items()
        }
        for name, worker in self._service.workers.items():
            engine = worker.engine
            with engine.lock:
                for counter, family in families.items():
                    family.add_metric([name], getattr(engine.counts, counter))
                values = {
                    "up": float(worker.state == "running"),
                    "waiting_rows": engine.rows.num_waiting,
                    "keys": max(map(len, engine.records.values())),
                    "lag_seconds": worker.lag(),
                    "checkpoint_timestamp_seconds": worker.checkpoint_time,
                    "checkpoint_seconds": worker.checkpoint_seconds,
                    "undelivered_alarms": len(engine.undelivered),
                }
            for gauge, value in values.items():
                if not math.isnan(value):
                    others[gauge].add_metric([name], value)
        yield from families.values()
        yield from others.values()

    def _of_monitors(self) -> Iterator[Metric]:
        labels = ["stream", "monitor", "model"]
        evidence = GaugeMetricFamily(
            "evidentia_log_evidence", "Log evidence, summed over keys, in nats.", labels=labels
        )
        per_row = GaugeMetricFamily(
            "evidentia_log_evidence_per_row", "Log evidence per row, in nats.", labels=labels
        )
        weight = GaugeMetricFamily(
            "evidentia_model_weight", "Probability of a model, mean over keys.", labels=labels
        )
        alarms = CounterMetricFamily("evidentia_monitor_alarms", "Changes found.", labels=labels[:2])
        seconds = CounterMetricFamily("evidentia_update_seconds", "Time spent on batches.", labels=labels[:2])
        refused = CounterMetricFamily(
            "evidentia_refused_rows", "Rows in batches that a monitor refused.", labels=labels[:2]
        )
        for name, worker in self._service.workers.items():
            engine = worker.engine
            with engine.lock:
                for monitor, records in engine.records.items():
                    for model, total, mean, share in _totals(records):
                        evidence.add_metric([name, monitor, model], total)
                        per_row.add_metric([name, monitor, model], mean)
                        weight.add_metric([name, monitor, model], share)
                    alarms.add_metric([name, monitor], sum(one.num_alarms for _, one in records.items()))
                    seconds.add_metric([name, monitor], engine.seconds[monitor])
                    refused.add_metric([name, monitor], engine.refused[monitor])
        yield from (evidence, per_row, weight, alarms, seconds, refused)

    def _of_webhooks(self) -> Metric:
        family = CounterMetricFamily(
            "evidentia_webhook_requests", "Requests to webhooks, by result.", labels=["webhook", "result"]
        )
        for name, deliverer in self._service.deliverers.items():
            for result in ("delivered", "retried", "given up"):
                family.add_metric([name, result], deliverer.counts[result])
        return family


def registry_of(service: Service) -> CollectorRegistry:
    """A registry with the metrics of a service and nothing else."""
    registry = CollectorRegistry()
    registry.register(ServiceCollector(service))
    return registry


def _totals(records: Records) -> Iterator[tuple[str, float, float, float]]:
    """Of each model: log evidence, log evidence per row, and mean weight, over all keys."""
    every = [record for _, record in records.items()]
    rows = sum(record.num_observations for record in every)
    if not rows:
        return
    for at, model in enumerate(records.models):
        total = math.fsum(record.log_evidence[at] for record in every)
        share = math.fsum(record.probabilities[at] for record in every) / len(every)
        yield model, total, total / rows, share
