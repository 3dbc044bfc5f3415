"""Exported safetensors, read with the safetensors library."""
import json
import os
import sys
import tempfile

import product
import reference


def check(fixture):
    _, expected = reference.load(fixture)
    with tempfile.TemporaryDirectory() as scratch:
        source = product.make(fixture, os.path.join(scratch, "hf"))
        middle, back = os.path.join(scratch, "mg"), os.path.join(scratch, "back")
        product.mbc("convert", source, middle, "--tp", 2)
        product.mbc("convert", middle, back)
        found = product.read_safetensors(back)
        if set(found) != set(expected):
            sys.exit(f"{fixture}: names differ: {sorted(set(found) ^ set(expected))[:8]}")
        for key, (_, tensor) in found.items():
            product.require_equal(f"{fixture} {key}", tensor, expected[key])
        index = os.path.join(back, "model.safetensors.index.json")
        if os.path.exists(index):
            with open(index) as file:
                if json.load(file)["weight_map"] != {key: name for key, (name, _) in found.items()}:
                    sys.exit(f"{fixture}: the index and the files disagree")
    print(f"{fixture}: {len(found)} tensors read by safetensors")


if __name__ == "__main__":
    for fixture in ("llama", "qwen2", "qwen3", "qwen3_moe", "glm_moe_dsa", "glm5_next"):
        check(fixture)
