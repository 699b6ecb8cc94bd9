"""Hand a command over and wait for it: what make runs where it would have run a stage.

The command goes to the program that make was started by (``python -m lib.cluster``), with what of
the environment a stage reads. One line each way, in JSON: what to run, and the exit code. If this
process ends before it, the command is cancelled.

    python3 lib/cluster/hand.py SOCKET CPUS GPUS TARGET COMMAND ...

Only the standard library, and none of ``lib``: there may be hundreds of these waiting.
"""

import json
import os
import socket
import sys

READ = ("NO_COLOR", "TGRAPH_NATIVE")  # of the environment; W&B's as well


def main(address: str, cpus: str, gpus: str, target: str, *command: str) -> int:
    """Wait for the command's exit code; 1 if nobody is there to run it any more."""
    named = {k: v for k, v in os.environ.items() if k in READ or k.startswith("WANDB_")}
    about = {"target": target, "cpus": cpus, "gpus": gpus, "command": command}
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address)
            connection.sendall(json.dumps({**about, "environment": named}).encode() + b"\n")
            answer = connection.makefile().readline()
        except OSError:
            return 1
    return int(answer or 1)


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
