"""Per-rank files, read with torch.load under its safe rules."""
import argparse
import os
import sys
import tempfile

import product
import reference
import torch


def check(fixture, tp):
    config, hf = reference.load(fixture)
    expected = reference.megatron(config, hf)
    with tempfile.TemporaryDirectory() as scratch:
        source = product.make(fixture, os.path.join(scratch, "hf"))
        target = os.path.join(scratch, "mg")
        product.mbc("convert", source, target, "--format", "torch", "--tp", tp,
                    "--make-vocab-size-divisible-by", 128, *product.import_options(fixture))
        for rank in range(tp):
            path = os.path.join(target, "release", f"mp_rank_{rank:02d}", "model_optim_rng.pt")
            with torch.serialization.safe_globals([argparse.Namespace]):
                state = torch.load(path, map_location="cpu", weights_only=True)
            if state["checkpoint_version"] != 3.0 or state["args"].tensor_model_parallel_size != tp:
                sys.exit(f"{path}: checkpoint_version or args are not those of Megatron")
            found = {k: v for k, v in state["model"].items() if isinstance(v, torch.Tensor) and "_extra_state" not in k}
            if set(found) != set(expected):
                sys.exit(f"{path}: names differ: {sorted(set(found) ^ set(expected))[:8]}")
            for name, parameter in expected.items():
                product.require_equal(f"{path} {name}", found[name], parameter.local(rank, tp, 128))
    print(f"{fixture} TP {tp}: {tp} per-rank files, {len(expected)} tensors each")


if __name__ == "__main__":
    for fixture in ("llama", "qwen3", "qwen3_moe", "deepseek_v3"):
        for tp in (1, 2):
            check(fixture, tp)
