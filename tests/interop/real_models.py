"""Real GPTModels load what we wrote; what they saved goes back to Hugging Face and into other layouts."""
import filecmp
import os
import sys
import tempfile

import product
import ranks
import reference
import torch

# What Megatron-Bridge wants in train_state.pt: every key, no axes.
TRAIN_STATE = {
    **dict.fromkeys(("step", "consumed_train_samples", "skipped_train_samples", "consumed_valid_samples"),
                    (torch.int64, 0)),
    "floating_point_operations_so_far": (torch.float32, 0),
    **dict.fromkeys(("do_train", "do_valid", "do_test"), (torch.bool, 0)),
}
# What Megatron-Core 0.16.1 builds. It does not know MTP of hybrid models (nemotron_h_mtp: "In hybrid override pattern,
# '/' is not one of {'E', 'M', '-', '*'}"), Kimi's delta attention nor hyper-connections (glm5_next: the same of 'K').
FIXTURES = ("llama", "qwen3", "qwen3_moe", "deepseek_v3", "kimi_k2", "glm4_moe", "gpt_oss", "qwen3_next", "nemotron_h")


def load_ours(tp):
    """One group of processes for all families: importing Megatron-Core takes longer than the rest."""
    with tempfile.TemporaryDirectory() as scratch:
        pairs = []
        for fixture in FIXTURES:
            source = product.make(fixture, os.path.join(scratch, fixture, "hf"))
            target = os.path.join(scratch, fixture, "mg")
            product.mbc("convert", source, target, "--tp", tp, "--make-vocab-size-divisible-by", 128,
                        *product.import_options(fixture))
            pairs += [fixture, os.path.join(target, "release")]
        ranks.run("load_into_gpt.py", tp, tp, *pairs)


def reshard(saved, target, *options):
    """Their checkpoint in one rank's layout; says whether arguments and trackers are those of a loader."""
    product.mbc("convert", saved, target, "--to", "megatron", "--iteration", 9, *options)
    folder = os.path.join(target, "iter_0000009")
    found = vars(product.read_archive(os.path.join(folder, "common.pt"))["args"])
    given = vars(product.read_archive(os.path.join(saved, "iter_0000007", "common.pt"))["args"])
    layout = {"tensor_model_parallel_size", "pipeline_model_parallel_size", "padded_vocab_size"}
    if any(found[name] != 1 for name in layout - {"padded_vocab_size"}):
        sys.exit(f"{target}: arguments of the source's layout: {found}")
    changed = {name for name, value in given.items() if found.get(name) != value} - layout
    if changed:
        sys.exit(f"{target}: arguments that training had differ: {sorted(changed)}")
    for state in (os.path.join(target, "latest_train_state.pt"), os.path.join(folder, "train_state.pt")):
        state = product.read_archive(state)
        kinds = {name: (value.dtype, value.ndim) for name, value in state.items()}
        if state["step"] != 9 or kinds != TRAIN_STATE:
            sys.exit(f"{target}: the train state is {state}")
    return folder


def export_theirs(tp, pp):
    with tempfile.TemporaryDirectory() as scratch:
        saved = {fixture: os.path.join(scratch, fixture, "saved") for fixture in FIXTURES}
        ranks.run("save_from_gpt.py", tp * pp, tp, pp, *(word for pair in saved.items() for word in pair))
        for fixture, folder in saved.items():
            count = compare_export(fixture, folder, os.path.join(scratch, fixture))
            print(f"{fixture}: saved by Megatron-Core at TP {tp}, PP {pp}, {count} tensors equal in Hugging Face form")
        pairs = []
        for fixture, folder in saved.items():
            source = os.path.join(scratch, fixture, "hf")
            pairs += [fixture, reshard(folder, os.path.join(scratch, fixture, "one"), "--hf-config", source,
                                       "--make-vocab-size-divisible-by", 128)]
        ranks.run("load_into_gpt.py", 1, 1, *pairs)


def compare_export(fixture, saved, scratch):
    """Exports to Hugging Face; returns how many tensors equal the fixture's."""
    source = product.make(fixture, os.path.join(scratch, "hf"))
    back = os.path.join(scratch, "back")
    product.mbc("convert", saved, back, "--hf-config", source)
    if not filecmp.cmp(os.path.join(source, "config.json"), os.path.join(back, "config.json"), shallow=False):
        sys.exit(f"{fixture}: config.json is not the one given by --hf-config")
    expected = reference.exported(*reference.load(fixture))
    found = product.read_safetensors(back)
    if set(found) != set(expected):
        sys.exit(f"{fixture}: names differ: {sorted(set(found) ^ set(expected))[:8]}")
    for key, (_, tensor) in found.items():
        product.require_equal(f"{fixture} {key}", tensor, expected[key])
    return len(found)


if __name__ == "__main__":
    for tp in (1, 2):
        load_ours(tp)
    export_theirs(2, 2)
