"""An advisory lock of psycopg. Under plans/postgres-promotion.toml its server falls silent and the
standby is promoted: app-2 gets the lock there while app-1 was told nothing. Under
plans/postgres-restart.toml the server's process dies and app-1 sees its connection end.

    lockstorm serve --plan plans/postgres-promotion.toml --ports ports.json
    python psycopg_advisory.py ports.json
"""

import json
import sys
import time

import psycopg

NUMBER = 42


def connect(ports, app, server):
    host, port = ports[app][server].split(":")
    where = f"host={host} port={port} user=postgres dbname=postgres sslmode=disable"
    return psycopg.connect(where + f" application_name={app} connect_timeout=2", autocommit=True)


def take(ports, app):
    """A connection that has the lock, at the server that can be written to."""
    for _ in range(300):
        for server in sorted(server for server in ports[app] if server.startswith("pg-")):
            try:
                connection = connect(ports, app, server)
                if connection.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
                    continue
                taken = connection.execute("SELECT pg_try_advisory_lock(%s)", (NUMBER,))
                if taken.fetchone()[0]:
                    print(f"{app} has the lock, at {server}", flush=True)
                    return connection
            except psycopg.Error:
                pass
        time.sleep(0.1)
    raise SystemExit(f"{app} never got it")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        ports = json.load(file)
    mine = take(ports, "app-1")
    other = take(ports, "app-2")
    print("app-1's connection is", "closed" if mine.closed else "as it was: nobody used it since")
    other.close()


main()
