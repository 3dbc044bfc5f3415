"""Runs a script as the processes of one group."""
import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run(script, count, *arguments):
    """Runs `script` as `count` processes; every one must succeed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running = []
    for rank in range(count):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port), OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
        running.append(subprocess.Popen([sys.executable, os.path.join(HERE, script), *map(str, arguments)],
                                        env=environment, stderr=subprocess.PIPE, text=True))
    errors = [process.communicate()[1] for process in running]
    for rank, process in enumerate(running):
        if process.returncode:
            sys.exit(f"{script} {arguments}, rank {rank}:\n{errors[rank][-3000:]}")
