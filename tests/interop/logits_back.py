"""Logits of Megatron-Core's GPTModels, saved by its own writer, and of what transformers loads after a conversion."""
import json
import os
import sys
import tempfile

import product
import ranks
import reference
import torch
import transformers

LLAMA3 = dict(rope_type="llama3", rope_theta=5000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
# Processes -> fixture, TP, EP, changes of config.json. Vocabularies of 500 are padded to 512, with random rows. Every
# other one is saved as newer versions do.
# Megatron-Core's local layers know no sequence parallelism, without which it refuses experts at TP 2.
CASES = {
    1: [("llama", 1, 1, dict(rope_parameters=LLAMA3, max_position_embeddings=131072)),
        ("qwen2", 1, 1, {}),  # tied
        ("qwen3_moe", 1, 1, dict(norm_topk_prob=True, mlp_only_layers=[1])),
        ("mixtral", 1, 1, {})],
    2: [("llama", 2, 1, dict(tie_word_embeddings=True)),
        ("qwen2", 2, 1, dict(tie_word_embeddings=False)),
        ("qwen3", 2, 1, {}),
        ("qwen3_moe", 1, 2, {}),
        ("mixtral", 1, 2, dict(num_local_experts=4))],
}
SEED = 4321  # an argument of the training run that has nothing to do with weights
LARGEST = 1e-4
TOKENS = 2, 128


def saved(scratch, processes):
    """The cases of a group, as Megatron-Core has saved them."""
    cases = []
    for number, (fixture, tp, ep, changes) in enumerate(CASES[processes]):
        folder = os.path.join(scratch, str(number))
        os.makedirs(folder)
        with open(os.path.join(reference.DATA, fixture, "config.json")) as file:
            config = json.load(file) | changes | {"dtype": "float32"}
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        tokens = torch.randint(config["vocab_size"], TOKENS, generator=torch.Generator().manual_seed(2))
        cases.append(dict(fixture=fixture, changes=changes, tp=tp, ep=ep, newer=number % 2 == 1, config=config,
                          seed=SEED, folder=folder, tokens=tokens.tolist(), saved=os.path.join(folder, "mg"),
                          logits=os.path.join(folder, "logits.pt")))
    path = os.path.join(scratch, "cases.json")
    with open(path, "w") as file:
        json.dump(cases, file)
    ranks.run("save_on_cpu.py", processes, path)
    return cases


def load(folder, config):
    """transformers' own model; no key may be missing, left over or of another shape."""
    (name,) = config["architectures"]
    model, found = getattr(transformers, name).from_pretrained(folder, attn_implementation="eager",
                                                               output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if found[kind]:
            sys.exit(f"{folder}: transformers has {kind} {sorted(found[kind])[:8]}")
    return model.eval()


def check(case, source, *options):
    """`source`: where config.json is from, for people."""
    target = tempfile.mkdtemp(dir=case["folder"])
    product.mbc("convert", case["saved"], target, *options)
    model = load(target, case["config"])
    with torch.no_grad():
        found = model(torch.tensor(case["tokens"])).logits
    expected = torch.load(case["logits"])[..., :found.shape[-1]]
    largest = (found - expected).abs().max().item()
    what = f"{case['fixture']} {case['changes']} from TP {case['tp']}, EP {case['ep']}"
    what += (", common state as an object" if case["newer"] else "") + f", {source}"
    print(f"{what}: logits up to {expected.abs().max():.1f}, largest difference {largest:.1e}")
    if not largest < LARGEST:
        sys.exit(f"{what}: logits differ by {largest}, allowed is {LARGEST}")


def rows_without_padding(case):
    """All of config.json that a training run does not know."""
    folder = os.path.join(case["folder"], "vocabulary")
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"vocab_size": case["config"]["vocab_size"]}, file)
    return folder


def require_arguments(case):
    """Those of the training run are found where they are saved, and go on into another layout."""
    target = os.path.join(case["folder"], "again")
    product.mbc("convert", case["saved"], target, "--to", "megatron", "--hf-config", case["folder"])
    found = product.read_archive(os.path.join(target, "release", "common.pt"))["args"]
    if getattr(found, "seed", None) != SEED:
        sys.exit(f"{case['fixture']}: seed is {getattr(found, 'seed', 'absent')} after a conversion, it was {SEED}")


if __name__ == "__main__":
    transformers.utils.logging.disable_progress_bar()
    for processes in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            for case in saved(scratch, processes):
                check(case, "its config.json", "--hf-config", case["folder"])
                check(case, "config.json from the arguments", "--spec", case["fixture"], "--hf-config",
                      rows_without_padding(case))
                require_arguments(case)
