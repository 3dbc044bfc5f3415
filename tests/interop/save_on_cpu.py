"""One rank: models of Megatron-Core with random weights, saved by its own writer beside the logits that they compute.

usage: save_on_cpu.py CASES    a JSON file; RANK and WORLD_SIZE from the environment
"""
import argparse
import json
import os
import sys
import zlib

import gpt_on_cpu
import torch
import torch.distributed as dist
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.mapping import ShardedObject


def arguments(config, tp, ep):
    """What a training run of this config.json would have been started with, on Megatron-LM's command line."""
    heads, rope = config["num_attention_heads"], config["rope_parameters"]
    llama3, linear = rope["rope_type"] == "llama3", rope["rope_type"] == "linear"
    multiple = 128 * tp
    values = dict(
        num_layers=config["num_hidden_layers"], hidden_size=config["hidden_size"],
        ffn_hidden_size=config["intermediate_size"], num_attention_heads=heads, group_query_attention=True,
        num_query_groups=config["num_key_value_heads"],
        kv_channels=config.get("head_dim") or config["hidden_size"] // heads,
        normalization="RMSNorm", norm_epsilon=config["rms_norm_eps"], swiglu=True, add_bias_linear=False,
        add_qkv_bias=config["model_type"] == "qwen2", qk_layernorm=config["model_type"].startswith("qwen3"),
        untie_embeddings_and_output_weights=not config["tie_word_embeddings"],
        padded_vocab_size=-(-config["vocab_size"] // multiple) * multiple,
        max_position_embeddings=config["max_position_embeddings"], position_embedding_type="rope",
        rotary_base=rope["rope_theta"], rotary_percent=1.0, use_rope_scaling=llama3,
        rope_scaling_factor=rope["factor"] if llama3 else None,
        rotary_seq_len_interpolation_factor=rope["factor"] if linear else None,
        params_dtype=torch.float32, tensor_model_parallel_size=tp, pipeline_model_parallel_size=1,
        expert_model_parallel_size=ep, expert_tensor_parallel_size=1, iteration=3)
    if "num_local_experts" in config:
        values.update(num_experts=config["num_local_experts"], moe_router_topk=config["num_experts_per_tok"],
                      moe_ffn_hidden_size=config.get("moe_intermediate_size", config["intermediate_size"]),
                      moe_router_pre_softmax=config.get("norm_topk_prob") is False,
                      moe_layer_freq=layer_freq(config), moe_router_load_balancing_type="none")
    return argparse.Namespace(**values)


def layer_freq(config):
    """A list numbers the keys of the layers, 1 gives them an axis."""
    dense = config.get("mlp_only_layers")
    return [int(i not in dense) for i in range(config["num_hidden_layers"])] if dense else 1


def fill(model):
    """Logits of the order of 1; what several ranks hold is the same on each, what they share out is not."""
    for name, parameter in model.named_parameters():
        words = [name]
        if getattr(parameter, "tensor_model_parallel", False):
            words.append(parallel_state.get_tensor_model_parallel_rank())
        if ".local_experts." in name:
            words.append(parallel_state.get_expert_model_parallel_rank())
        generator = torch.Generator().manual_seed(zlib.crc32(repr(words).encode()))
        random = torch.randn(parameter.shape, generator=generator)
        parameter.data = 1 + random / 4 if name.endswith("norm.weight") else random / parameter.shape[-1] ** 0.5


def save(model, args, folder, newer):
    """One iteration; the trackers beside it are the training script's. `newer`: as Megatron-Core writes from 0.17 on,
    the common state among the tensors and not in common.pt, with the configuration that Megatron-Bridge leaves."""
    first = dist.get_rank() == 0
    if first:
        os.makedirs(folder)
    dist.barrier()
    metadata = {"singleton_local_shards": False}
    common = dict(args=args, checkpoint_version=3.0, iteration=3, content_metadata=metadata)
    state = model.sharded_state_dict(metadata=dict(metadata))  # which adds process groups to it
    if newer:
        state["common_state"] = ShardedObject("common_state", common, (1,), (0,), replica_id=dist.get_rank())
    dist_checkpointing.save(state if newer else {**state, **common}, folder)
    if newer and first:
        os.remove(os.path.join(folder, "common.pt"))
        with open(os.path.join(folder, "run_config.yaml"), "w") as file:
            file.write("model:\n  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider\n")


if __name__ == "__main__":  # saving starts a process that imports this file again
    with open(sys.argv[1]) as file:
        cases = json.load(file)
    gpt_on_cpu.start(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    for case in cases:
        gpt_on_cpu.cut(case["tp"], case["ep"])
        args = arguments(case["config"], case["tp"], case["ep"])
        args.seed = case["seed"]
        model = gpt_on_cpu.build(args).eval()
        fill(model)
        logits = gpt_on_cpu.logits(model, torch.tensor(case["tokens"]))
        save(model, args, case["saved"], case["newer"])
        if dist.get_rank() == 0:
            torch.save(logits, case["logits"])
    dist.destroy_process_group()
