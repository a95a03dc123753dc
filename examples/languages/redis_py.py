"""redis-py's own lock, found through sentinels, under plans/redis-failover.toml: app-1 takes it,
the master dies before its replicas know, and app-2 gets it too.

    lockstorm serve --plan plans/redis-failover.toml --ports ports.json
    python redis_py.py ports.json
"""

import json
import sys
import time

import redis
from redis.sentinel import Sentinel


def sentinels(ports, app):
    doors = [at.split(":") for server, at in ports[app].items() if server.startswith("sentinel-")]
    return Sentinel(
        [(host, int(port)) for host, port in doors],
        socket_timeout=1,
        sentinel_kwargs={"socket_timeout": 1},
    )


def lock_of(ports, app):
    master = sentinels(ports, app).master_for("mymaster")
    return master.lock("lock:stock", timeout=120, sleep=0.05)


def patiently(ask):
    """What it asks for, once it is there: a failover takes a while."""
    for _ in range(600):
        try:
            answer = ask()
            if answer:
                return answer
        except (redis.exceptions.RedisError, OSError):
            pass
        time.sleep(0.1)
    raise SystemExit("it never came")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        ports = json.load(file)
    first = sentinels(ports, "app-2")
    before = patiently(lambda: first.discover_master("mymaster"))
    mine = lock_of(ports, "app-1")
    patiently(lambda: mine.acquire(blocking=False))
    print("app-1 has the lock, and a timeout of two minutes")
    patiently(lambda: first.discover_master("mymaster") != before)
    print("sentinels name another master")
    other = lock_of(ports, "app-2")
    patiently(lambda: other.acquire(blocking=False))
    print("app-2 has the lock")


main()
