"""Megatron-Bridge itself builds the model that run_config.yaml describes and loads the checkpoint beside it."""
import transformer_engine_parameters as stand_in  # before anything of Megatron

# Bridge imports what trains and talks too; none of it has a part in loading.
stand_in.stub_packages("apex", "causal_conv1d", "datasets", "einops", "fla", "google", "mamba_ssm", "modelopt",
                       "nvidia_resiliency_ext", "six", "tensorboard")

import logging
import os
import sys
import tempfile

import product
import reference
from megatron.bridge.training.model_load_save import load_megatron_model
from megatron.core.tensor_parallel.random import initialize_rng_tracker
from torch.distributed.checkpoint.api import CheckpointException

# Fixtures with a run_config.yaml whose models Megatron-Core 0.16.1 does not build, and its words.
BEYOND_CORE = {
    "ernie4_5_moe": "Expert bias for aux-loss-free routing only supports sigmoid",
    "minimax_m2": "Global shape mismatch",  # one norm over all heads: a layer spec of its own
    "olmoe": "Global shape mismatch",
}
COMPARED = ("llama", "qwen3", "qwen3_moe", "deepseek_v3", "gpt_oss", "qwen3_next", "nemotron_h")
# What a model asks of Transformer Engine, which the next one must not find.
ATTENTION_BACKENDS = ("NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN", "NVTE_UNFUSED_ATTN")


class Warnings(logging.Handler):
    """Bridge warns of fields that it leaves out, and goes on."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def parameters(state):
    """Our names: MTP layers have another inner name in a torch_dist and in a model."""
    return {name.replace("transformer_layer.", "mtp_model_layer."): tensor
            for name, tensor in state.items() if not name.endswith("_extra_state")}


def compare(fixture, state):
    config, hf = reference.load(fixture)
    expected, found = reference.megatron(config, hf), parameters(state)
    if set(found) != set(expected):
        sys.exit(f"{fixture}: names differ: {sorted(set(found) ^ set(expected))[:8]}")
    for name, parameter in expected.items():
        product.require_equal(f"{fixture} {name}", found[name], parameter.padded(128))
    return len(expected)


def check(fixture, scratch, warnings):
    """Whether the fixture has a run_config.yaml."""
    source = product.make(fixture, os.path.join(scratch, "hf"))
    product.mbc("convert", source, os.path.join(scratch, "mg"), "--iteration", 3, "--copies", "drop", "--tp", 1,
                "--make-vocab-size-divisible-by", 128)
    folder = os.path.join(scratch, "mg", "iter_0000003")
    if not os.path.exists(os.path.join(folder, "run_config.yaml")):
        return False
    warnings.texts.clear()
    for name in ATTENTION_BACKENDS:
        os.environ.pop(name, None)
    try:
        state = load_megatron_model(folder, use_cpu_init=True, return_state_dict=True)["model"]
    except (Exception, CheckpointException) as error:
        if BEYOND_CORE.get(fixture, "no reason") not in repr(error):
            sys.exit(f"{fixture}: {error!r}")
        print(f"{fixture}: not a model of this Megatron-Core: {BEYOND_CORE[fixture]}")
        return True
    if fixture in BEYOND_CORE:
        sys.exit(f"{fixture} loads: take it off BEYOND_CORE")
    dropped = [text for text in warnings.texts if "Dropping" in text]
    if dropped:
        sys.exit(f"{fixture}: {dropped}")
    count = f", {compare(fixture, state)} parameters equal" if fixture in COMPARED else ""
    print(f"{fixture}: loaded{count}")
    return True


def main():
    initialize_rng_tracker(inference_rng_tracker=True)  # Mamba draws from it; Bridge seeds one on a GPU alone
    warnings = Warnings()
    logging.getLogger().handlers = [warnings]
    missing = set(COMPARED)
    for fixture in sorted(os.listdir(reference.DATA)):
        if not os.path.exists(os.path.join(reference.DATA, fixture, "config.json")):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            if check(fixture, scratch, warnings):
                missing.discard(fixture)
    if missing:
        sys.exit(f"no run_config.yaml for {sorted(missing)}")


if __name__ == "__main__":
    main()
