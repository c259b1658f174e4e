"""What the process says of itself: JSON lines on standard error and Prometheus figures."""

import logging
import sys
from collections.abc import Iterable
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from pydantic_core import to_json

LATENCY_BUCKETS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
BATCH_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class TallyCollector:
    """Counts in a plain dict, read only when Prometheus asks.

    A labelled counter of the client library takes a lock and a look-up per increment; on the
    path of every selection a dict costs a tenth of that.
    """

    def __init__(self, name: str, documentation: str, labels: tuple[str, ...]) -> None:
        self._name, self._documentation, self._labels = name, documentation, labels
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, *labels: str) -> None:
        """Count one event under its label values."""
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def collect(self) -> Iterable[CounterMetricFamily]:
        """The counts as Prometheus reads them."""
        family = CounterMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, count in list(self._counts.items()):
            family.add_metric(labels, count)
        yield family


class Metrics:
    """The figures of one HTTP process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.selections = TallyCollector(
            "canopy_selections",
            "Selections answered, by discipline, mode and first reason.",
            ("discipline", "mode", "reason"),
        )
        self.responses = TallyCollector(
            "canopy_http_responses", "Responses by route and status.", ("route", "status")
        )
        self.policy_failures = TallyCollector(
            "canopy_policy_failures",
            "Failures of policies while they scored, by policy and reason.",
            ("policy", "reason"),
        )
        for collector in (self.selections, self.responses, self.policy_failures):
            self.registry.register(collector)
        self.suspended = Gauge(
            "canopy_policies_suspended",
            "Policies that failed too often in a row and are left alone now.",
            registry=self.registry,
        )
        self.latency = Histogram(
            "canopy_selection_seconds",
            "Time from a selection's arrival to its durable answer.",
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.tick_size = Histogram(
            "canopy_selection_tick_size",
            "Selections that one tick of the event loop chose together.",
            buckets=BATCH_BUCKETS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "canopy_selections_in_flight",
            "Selections that wait for their durable answer.",
            registry=self.registry,
        )
        self.writer_batch = Histogram(
            "canopy_writer_batch_rows",
            "Decisions that one durable commit carried.",
            buckets=BATCH_BUCKETS,
            registry=self.registry,
        )


def _serialise(event: dict[str, Any], **_: Any) -> bytes:
    return to_json(event, fallback=str)


def configure_logging(least: int = logging.INFO) -> None:
    """Send structured log lines to standard error, one JSON object each.

    Args:
        least: Level below which nothing is said.
    """
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(least),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_serialise),
        ],
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
    )
