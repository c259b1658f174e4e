"""The asking side where `wrk` is not installed: kept connections, a unique id per request.

Arguments: port, path, seconds, connections, salt, selections per request, tenants, features,
discipline. Prints one line of JSON, as `selections.lua` does.
"""

import asyncio
import json
import random
import sys
import time

import uvloop

N_CONTEXTS = 64


class Caller(asyncio.Protocol):
    """One kept connection."""

    def __init__(self, next_request, latencies_s, until_s):
        self.next_request, self.latencies_s, self.until_s = next_request, latencies_s, until_s
        self.done = asyncio.get_running_loop().create_future()
        self.seen = b""

    def connection_made(self, transport):
        self.transport = transport
        self.send()

    def send(self):
        self.sent_s = time.perf_counter()
        self.transport.write(self.next_request())

    def data_received(self, chunk):
        self.seen += chunk
        head = self.seen.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self.seen.find(b"content-length: ") + 16
        length = int(self.seen[at : self.seen.find(b"\r\n", at)])
        if len(self.seen) < head + 4 + length:
            return
        assert self.seen.startswith(b"HTTP/1.1 200"), self.seen
        now_s = time.perf_counter()
        self.latencies_s.append(now_s - self.sent_s)
        self.seen = b""
        if now_s < self.until_s:
            self.send()
        elif not self.done.done():
            self.done.set_result(None)
            self.transport.close()

    def connection_lost(self, error):
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("closed"))


def bodies(salt, batch, n_tenants, n_features, discipline):
    """Unique requests over prepared contexts."""
    rng = random.Random(0)
    contexts = [
        json.dumps({f"x{i}": round(rng.gauss(0.0, 1.0), 6) for i in range(n_features)})
        for _ in range(N_CONTEXTS)
    ]
    number = 0

    def one():
        nonlocal number
        number += 1
        return (
            f'{{"request_id":"{salt}-{number}","tenant":"t{number % n_tenants}",'
            f'"discipline":"{discipline}","unit_id":"unit-{number % 977}",'
            f'"context":{contexts[number % N_CONTEXTS]}}}'
        )

    return one if batch == 1 else lambda: f'{{"items":[{",".join(one() for _ in range(batch))}]}}'


async def drive(port, path, seconds, clients, body):
    latencies_s: list[float] = []

    def next_request():
        raw = body().encode()
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(raw)}\r\n\r\n"
        return head.encode() + raw

    started_s = time.perf_counter()
    loop = asyncio.get_running_loop()
    callers = []
    for _ in range(clients):
        _, caller = await loop.create_connection(
            lambda: Caller(next_request, latencies_s, started_s + seconds), "127.0.0.1", port
        )
        callers.append(caller)
    await asyncio.gather(*(caller.done for caller in callers))
    took_s = time.perf_counter() - started_s
    latencies_s.sort()
    answered = len(latencies_s)
    print(
        json.dumps({
            "answered": answered,
            "failed": 0,
            "took_s": took_s,
            "p50_ms": latencies_s[answered // 2] * 1e3,
            "p99_ms": latencies_s[answered * 99 // 100] * 1e3,
        })
    )


if __name__ == "__main__":
    port, path, seconds, clients, salt, batch, n_tenants, n_features, discipline = sys.argv[1:]
    body = bodies(salt, int(batch), int(n_tenants), int(n_features), discipline)
    uvloop.run(drive(int(port), path, float(seconds), int(clients), body))
