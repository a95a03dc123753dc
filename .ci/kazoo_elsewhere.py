"""A plugin for pytest: kazoo's own tests ask servers that run already.

`ZOOKEEPERS` has their addresses. kazoo's harness would start a cluster of Java processes; here
starting and ending one does nothing.
"""

import os

import kazoo.testing.harness as harness


class Running:
    """A server that somebody else started."""

    running = True

    def __init__(self, address):
        self.address = self.secure_address = address
        self.client_port = int(address.rsplit(":", 1)[1])

    def nothing(self):
        """What a test cannot do to it."""

    run = stop = destroy = reset = nothing


class Cluster(list):
    """Several of them."""

    def nothing(self):
        """What a test cannot do to them."""

    start = stop = terminate = reset = nothing

    def get_logs(self):
        return []


CLUSTER = Cluster(Running(address) for address in os.environ["ZOOKEEPERS"].split(","))
harness.get_global_cluster = lambda: CLUSTER
harness.KazooTestHarness.cluster = property(lambda self: CLUSTER)
