"""One rank: fills real GPTModels with the reference's values and saves them with Megatron-Core.

usage: save_from_gpt.py TP PP FIXTURE CHECKPOINT [FIXTURE CHECKPOINT ...]    RANK and WORLD_SIZE from the environment
"""
import argparse
import os
import sys

import gpt_models
import numpy as np
import reference
import torch
import torch.distributed as dist
from megatron.core import dist_checkpointing


def arguments(config, tp, pp):
    """The part of a training run's arguments that belongs to the weights."""
    multiple = 128 * tp
    values = dict(
        num_layers=gpt_models.layers_of(config), hidden_size=config["hidden_size"],
        ffn_hidden_size=config["intermediate_size"], num_attention_heads=config["num_attention_heads"],
        group_query_attention=True, num_query_groups=config["num_key_value_heads"], kv_channels=config["head_dim"],
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, params_dtype=torch.bfloat16, bf16=True,
        swiglu="hybrid_override_pattern" not in config, hybrid_override_pattern=config.get("hybrid_override_pattern"),
        untie_embeddings_and_output_weights=True, max_position_embeddings=config["max_position_embeddings"],
        padded_vocab_size=-(-config["vocab_size"] // multiple) * multiple, iteration=7)
    return argparse.Namespace(**values)


def save(fixture, root, tp, pp):
    config, hf = reference.load(fixture)
    model = gpt_models.build(config, tp=tp, pp=pp)
    expected = reference.megatron(config, hf)
    for name, tensor in gpt_models.global_names(model).items():
        bits = np.ascontiguousarray(gpt_models.local(name, expected[name]))
        signed = bits.view({2: np.int16, 4: np.int32}[bits.itemsize])
        tensor.data.copy_(torch.from_numpy(signed).view(tensor.dtype))

    folder = os.path.join(root, "iter_0000007")
    if dist.get_rank() == 0:
        os.makedirs(folder)
    dist.barrier()
    metadata = {"singleton_local_shards": False}
    state = dict(model.sharded_state_dict(metadata=metadata), args=arguments(config, tp, pp), checkpoint_version=3.0,
                 iteration=7, content_metadata=metadata)
    dist_checkpointing.save(state, folder)
    dist.barrier()
    if dist.get_rank() == 0:
        with open(os.path.join(root, "latest_checkpointed_iteration.txt"), "w") as tracker:
            tracker.write("7")


if __name__ == "__main__":  # saving starts a process that imports this file again
    tp, pp, pairs = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    gpt_models.start()
    for fixture, checkpoint in zip(pairs[::2], pairs[1::2], strict=True):
        save(fixture, checkpoint, tp, pp)
    dist.destroy_process_group()
