"""Another Megatron-Core loads what we wrote; what it saves goes to Hugging Face and into another layout, every tensor
equal. Run by the script `other_versions`.

usage: other_versions.py VERSION    PYTHONPATH begins with the folder of that version
"""
import json
import os
import sys
import tempfile

import product
import ranks
import reference
import torch_dist

PROCESSES = 2

# Fixture, moe_layer_freq (a list numbers the keys of layers), and whether the rest of a training run's state is there.
CASES = [("llama", 1, False), ("llama", 1, True), ("qwen3_moe", 1, True), ("qwen3_moe", [1, 1, 1], True)]


def cases_of(version, scratch):
    for number, (fixture, freq, training) in enumerate(CASES):
        if freq == 1 or version >= (0, 10):  # 0.9 has no moe_layer_freq
            yield dict(fixture=fixture, freq=freq, training=training,
                       saved=os.path.join(scratch, str(number), "iter_0000005"))


def make(case):
    """The fixture, and what we make of it where that has the case's keys."""
    folder = os.path.dirname(case["saved"])
    product.make(case["fixture"], os.path.join(folder, "hf"))
    if case["freq"] == 1:
        product.mbc("convert", os.path.join(folder, "hf"), os.path.join(folder, "ours"))
        case["ours"] = os.path.join(folder, "ours", "release")


def require_hf(case, folder, said):
    expected = reference.load(case["fixture"])[1]
    found = product.read_safetensors(folder)
    if set(found) != set(expected):
        sys.exit(f"{case}: names differ: {sorted(set(found) ^ set(expected))[:8]}")
    for key, (_, tensor) in found.items():
        product.require_equal(f"{case} {key}", tensor, expected[key])
    if case["training"] and "optimizer" not in said.lower():
        sys.exit(f"{case}: nothing is said of the optimizer that stays behind:\n{said}")


def require_megatron(case, folder):
    """A layers axis where the model's own rule gives one, whichever form the source had."""
    config, hf = reference.load(case["fixture"])
    expected = torch_dist.expected_keys(config, reference.megatron(config, hf), 128)
    found = torch_dist.read_all(folder)
    if set(found) != set(expected):
        sys.exit(f"{case}: keys differ: {sorted(set(found) ^ set(expected))[:8]}")
    for key, bits in expected.items():
        product.require_equal(f"{case} {key}", found[key], bits)


def check(case, version):
    scratch = os.path.dirname(case["saved"])
    source, back, again = (os.path.join(scratch, name) for name in ("hf", "back", "again"))
    said = product.mbc("convert", case["saved"], back, "--hf-config", source)
    require_hf(case, back, said)
    product.mbc("convert", case["saved"], again, "--to", "megatron", "--hf-config", source,
                "--make-vocab-size-divisible-by", 128)
    require_megatron(case, os.path.join(again, "release"))
    what = "numbered layers" if case["freq"] != 1 else "a layers axis"
    print(f"megatron-core {version}: {case['fixture']}, {what}{', optimizer' * case['training']}: "
          f"{'loaded, ' * ('ours' in case)}saved, equal both ways")


if __name__ == "__main__":
    version = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        cases = list(cases_of(tuple(map(int, version.split(".")[:2])), scratch))
        for case in cases:
            make(case)
        path = os.path.join(scratch, "cases.json")
        with open(path, "w") as file:
            json.dump(cases, file)
        ranks.run("save_with_version.py", PROCESSES, version, path)
        for case in cases:
            check(case, version)
