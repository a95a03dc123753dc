"""kazoo's lock on an ensemble whose leader dies (plans/zookeeper-leader.toml): app-1 keeps it, and
app-2 gets it when app-1 gives it back.

    lockstorm serve --plan plans/zookeeper-leader.toml --ports ports.json
    python kazoo_lock.py ports.json
"""

import json
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout


def client(ports, app):
    hosts = ",".join(at for server, at in ports[app].items() if server.startswith("zk-"))
    client = KazooClient(hosts=hosts, timeout=10)
    client.start(timeout=30)
    return client


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        ports = json.load(file)
    one, two = client(ports, "app-1"), client(ports, "app-2")
    mine, other = one.Lock("/locks/stock", "app-1"), two.Lock("/locks/stock", "app-2")
    assert mine.acquire(timeout=30)
    print("app-1 has the lock; the leader dies")
    time.sleep(3)
    try:
        other.acquire(timeout=5)
        print("app-2 has the lock too")
    except LockTimeout:
        print("app-2 does not get it")
    mine.release()
    assert other.acquire(timeout=30)
    print("app-1 gave it back, and app-2 has it")
    other.release()
    for each in (one, two):
        each.stop()


main()
