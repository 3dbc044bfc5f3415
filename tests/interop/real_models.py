"""Real GPTModels load what we wrote, and what they saved goes back to Hugging Face."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile

import product
import reference
from safetensors import safe_open

HERE = os.path.dirname(os.path.abspath(__file__))


def ranks(script, count, *arguments):
    """Runs a script as `count` processes of one group; every one must succeed."""
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


def load_ours(fixture, tp, scratch):
    source = product.make(fixture, os.path.join(scratch, "hf"))
    target = os.path.join(scratch, f"mg{tp}")
    product.mbc("convert", source, target, "--tp", tp, "--make-vocab-size-divisible-by", 128,
                *product.import_options(fixture))
    ranks("load_into_gpt.py", tp, fixture, os.path.join(target, "release"), tp)


def export_theirs(fixture, tp, pp, scratch):
    source = product.make(fixture, os.path.join(scratch, "hf"))
    saved, back = os.path.join(scratch, "saved"), os.path.join(scratch, "back")
    shutil.rmtree(saved, ignore_errors=True)
    ranks("save_from_gpt.py", tp * pp, fixture, saved, tp, pp)
    product.mbc("convert", saved, back, "--hf-config", source)
    _, expected = reference.load(fixture)
    compared = set()
    for name in sorted(os.listdir(back)):
        if not name.endswith(".safetensors"):
            continue
        with safe_open(os.path.join(back, name), framework="pt") as file:
            for key in file.keys():
                product.require_equal(f"{fixture} {key}", file.get_tensor(key), expected[key])
                compared.add(key)
    missing = {k for k in set(expected) - compared if not k.endswith(("layers.4.embed_tokens.weight", "shared_head.head.weight"))}
    if missing:
        sys.exit(f"{fixture}: not exported: {sorted(missing)[:8]}")
    print(f"{fixture}: saved by Megatron-Core at TP {tp}, PP {pp}, {len(compared)} tensors equal in Hugging Face form")


if __name__ == "__main__":
    for fixture in ("llama", "qwen3", "qwen3_moe", "deepseek_v3"):
        with tempfile.TemporaryDirectory() as scratch:
            for tp in (1, 2):
                load_ours(fixture, tp, scratch)
    for fixture, tp, pp in (("llama", 2, 1), ("qwen3_moe", 2, 1), ("deepseek_v3", 2, 2)):
        with tempfile.TemporaryDirectory() as scratch:
            export_theirs(fixture, tp, pp, scratch)
