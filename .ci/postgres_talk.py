"""psycopg 3 against the server at a port: its types, transactions, pipelines, locks and errors.

Says what it did, a line each, and fails where it finds something else than PostgreSQL gives. With
`--lacks` the server is ours, and what it says it does not have is looked at as well.
"""

import asyncio
import datetime
import decimal
import sys
import threading
import time

import psycopg
from psycopg import errors

PORT, LACKS = int(sys.argv[1]), "--lacks" in sys.argv
WHERE = f"host=127.0.0.1 port={PORT} user=postgres dbname=postgres"


def connect(**settings):
    return psycopg.connect(WHERE, **settings)


def refused(kind, act):
    try:
        act()
    except kind as error:
        return error.sqlstate
    raise AssertionError(f"{kind.__name__} was to be raised")


def values_there_and_back():
    moment = datetime.datetime(2026, 12, 1, 4, 5, 6, 789000, tzinfo=datetime.timezone.utc)
    values = [None, True, 7, -(2**40), 1.5, decimal.Decimal("12.340"), "väärt", moment, [70000, 2, 3], ["a", "b"]]
    types = ["int", "bool", "int", "int8", "float8", "numeric", "text", "timestamptz", "int4[]", "text[]"]
    query = "SELECT " + ", ".join(f"%s::{one}" for one in types)
    with connect() as connection:
        for binary in (False, True):
            for prepare in (False, True):
                cursor = connection.cursor(binary=binary)
                found = cursor.execute(query, values, prepare=prepare).fetchone()
                assert list(found) == values, (binary, prepare, found)


def transactions_and_savepoints():
    with connect(autocommit=True) as connection:
        with connection.transaction():
            connection.execute("INSERT INTO sale VALUES (101, 5, 0)")
            try:
                with connection.transaction():
                    connection.execute("UPDATE sale SET stock = 0 WHERE id = 101")
                    raise psycopg.Rollback
            except psycopg.Rollback:
                pass
        assert connection.execute("SELECT stock FROM sale WHERE id = 101").fetchone() == (5,)
        assert refused(errors.UniqueViolation, lambda: connection.execute("INSERT INTO sale VALUES (101, 1, 0)")) == "23505"
        rows = [(200 + number, number, 0) for number in range(50)]
        connection.cursor().executemany("INSERT INTO sale VALUES (%s, %s, %s)", rows)
        assert connection.execute("SELECT count(*), sum(stock) FROM sale WHERE id >= 200").fetchone() == (50, 1225)
        cursor = connection.execute("DELETE FROM sale WHERE id >= 101 RETURNING id")
        assert cursor.rowcount == 51 and len(cursor.fetchall()) == 51


def a_failed_transaction():
    with connect() as connection:
        refused(errors.DivisionByZero, lambda: connection.execute("SELECT 1/0"))
        assert refused(errors.InFailedSqlTransaction, lambda: connection.execute("SELECT 1")) == "25P02"
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def a_pipeline():
    with connect(autocommit=True) as connection:
        with connection.pipeline() as pipeline:
            cursors = [connection.execute("SELECT %s::int", [number]) for number in range(100)]
            pipeline.sync()
            assert [cursor.fetchone()[0] for cursor in cursors] == list(range(100))


def row_locks():
    with connect() as one, connect() as other:
        one.execute("SELECT stock FROM sale WHERE id = 1 FOR UPDATE")
        ask = "SELECT stock FROM sale WHERE id = 1 FOR UPDATE "
        assert refused(errors.LockNotAvailable, lambda: other.execute(ask + "NOWAIT")) == "55P03"
        other.rollback()
        assert other.execute(ask + "SKIP LOCKED").fetchone() is None
        other.execute("SET LOCAL lock_timeout = '50ms'")
        assert refused(errors.LockNotAvailable, lambda: other.execute(ask)) == "55P03"


def a_deadlock():
    codes = []
    with connect() as one, connect() as other:
        one.execute("UPDATE sale SET stock = stock WHERE id = 1")
        other.execute("UPDATE sale SET stock = stock WHERE id = 2")

        def cross(connection, row):
            try:
                connection.execute("UPDATE sale SET stock = stock WHERE id = %s", [row])
            except psycopg.Error as error:
                codes.append(error.sqlstate)
            connection.rollback()

        threads = [threading.Thread(target=cross, args=pair) for pair in ((one, 2), (other, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert codes == ["40P01"], codes


def repeatable_read():
    with connect() as one, connect(autocommit=True) as other:
        one.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        one.execute("SELECT stock FROM sale WHERE id = 1")
        other.execute("UPDATE sale SET version = version + 1 WHERE id = 1")
        update = "UPDATE sale SET version = version + 1 WHERE id = 1"
        assert refused(errors.SerializationFailure, lambda: one.execute(update)) == "40001"


def advisory_locks():
    with connect(autocommit=True) as one, connect(autocommit=True) as other:
        ask = "SELECT pg_try_advisory_lock(%s)"
        assert one.execute(ask, [7]).fetchone() == (True,)
        assert other.execute(ask, [7]).fetchone() == (False,)
        one.close()
        for _ in range(100):
            if other.execute(ask, [7]).fetchone() == (True,):
                return
            time.sleep(0.02)
        raise AssertionError("the lock of a closed session is still held")


def a_cancelled_statement():
    with connect(autocommit=True) as connection:
        threading.Timer(0.2, connection.cancel).start()
        assert refused(errors.QueryCanceled, lambda: connection.execute("SELECT pg_sleep(20)")) == "57014"
        connection.execute("SET statement_timeout = '50ms'")
        assert refused(errors.QueryCanceled, lambda: connection.execute("SELECT pg_sleep(20)")) == "57014"


def notifications():
    with connect(autocommit=True) as one, connect(autocommit=True) as other:
        one.execute("LISTEN sold")
        other.execute("NOTIFY sold, 'unit 7'")
        heard = next(iter(one.notifies(timeout=5, stop_after=1)))
        assert (heard.channel, heard.payload, heard.pid) == ("sold", "unit 7", other.info.backend_pid)


def an_event_loop():
    async def buyer():
        async with await psycopg.AsyncConnection.connect(WHERE) as connection:
            for _ in range(10):
                await connection.execute("UPDATE sale SET version = version + 1 WHERE id = 3")
                await connection.commit()

    async def all_of_them():
        await asyncio.gather(*(buyer() for _ in range(8)))

    asyncio.run(all_of_them())
    with connect() as connection:
        assert connection.execute("SELECT version FROM sale WHERE id = 3").fetchone() == (80,)


def what_it_says_it_lacks():
    with connect(autocommit=True) as connection:
        for statement in (
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
            "DECLARE c CURSOR FOR SELECT 1",
            "COPY sale TO STDOUT",
            "CREATE VIEW seen AS SELECT 1",
        ):
            assert refused(errors.FeatureNotSupported, lambda: connection.execute(statement)) == "0A000"
            connection.execute("SELECT 1")


def main():
    with connect(autocommit=True) as connection:
        connection.execute("CREATE TABLE sale (id int PRIMARY KEY, stock int NOT NULL, version int NOT NULL)")
        connection.execute("INSERT INTO sale SELECT id, 1000000, 0 FROM generate_series(1, 10) AS id")
    acts = [
        values_there_and_back, transactions_and_savepoints, a_failed_transaction, a_pipeline, row_locks, a_deadlock,
        repeatable_read, advisory_locks, a_cancelled_statement, notifications, an_event_loop,
    ]
    for act in acts + ([what_it_says_it_lacks] if LACKS else []):
        act()
        print(act.__name__.replace("_", " "))
    with connect(autocommit=True) as connection:
        connection.execute("DROP TABLE sale")


main()
