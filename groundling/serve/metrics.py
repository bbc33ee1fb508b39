"""What a server counts, for Prometheus. A registry of its own: two servers in one process do not share numbers."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.01, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 30.0)


class Metrics:
    """Counters by their names. Routes are those of the server, never the addresses that clients made up."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        by = ("route", "method", "status")
        self.requests = Counter("groundling_requests", "Responses sent", by, registry=self.registry)
        self.seconds = Histogram(
            "groundling_request_seconds", "From first byte to last", ("route",), buckets=SECONDS, registry=self.registry
        )
        self.open = Gauge("groundling_requests_open", "Requests under way, slow senders too", registry=self.registry)
        self.waiting = Gauge("groundling_waiting", "Requests that wait or are worked on", registry=self.registry)
        self.received = Counter("groundling_received_bytes", "Bytes of request bodies", registry=self.registry)
        self.batch = Histogram(
            "groundling_batch_images", "Images inferred together", buckets=(1, 2, 4, 8, 16), registry=self.registry
        )
        self.stage = Histogram(
            "groundling_stage_seconds", "Time in each stage", ("stage",), buckets=SECONDS, registry=self.registry
        )
        self.remembered = Counter(
            "groundling_remembered", "Requests about an image whose regions were cached", registry=self.registry
        )
        self.dropped = Counter(
            "groundling_dropped", "Requests that nobody waited for any more", ("why",), registry=self.registry
        )

    def text(self) -> bytes:
        return generate_latest(self.registry)
