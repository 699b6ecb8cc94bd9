"""A Ray cluster of two nodes on this machine, each of one core, for as long as its input is open.

Runs in the environment of ``lib/cluster``. Prints the address and the process of each node's
raylet, in JSON, or why there is none; ends the node whose number it reads, as if its machine had
gone.
"""

import json
import sys

from ray.cluster_utils import Cluster

SOON_MISSED = {  # a node that is gone: in a second, not in half a minute; a slow one has its time
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 100,
    "health_check_failure_threshold": 8,
    "health_check_timeout_ms": 20_000,
}
UNUSED = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
ATTEMPTS = 3  # Ray allows a node half a minute to start, which a loaded machine may not have
MEMORY = 80 << 20  # bytes of each node's object store, which nothing is put into


def started() -> tuple[Cluster, list]:
    """The cluster, and its two nodes beside the head, which runs nothing."""
    head = {"num_cpus": 0, "_system_config": SOON_MISSED, **UNUSED}
    for left in reversed(range(ATTEMPTS)):
        cluster = Cluster()
        try:
            cluster.add_node(**head, object_store_memory=MEMORY)
            return cluster, [
                cluster.add_node(num_cpus=1, object_store_memory=MEMORY) for _ in range(2)
            ]
        except Exception:  # Ray's is no more than that
            cluster.shutdown()
            if not left:
                raise


def main() -> None:
    """Serve until there is no more to read."""
    try:
        cluster, nodes = started()
    except Exception as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
    print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
    for line in sys.stdin:
        cluster.remove_node(nodes[int(line)], allow_graceful=False)
    cluster.shutdown()


main()
