"""One rank: small GPTModels of the Megatron-Core that PYTHONPATH names load what we wrote, and are saved with the rest of a
training run's state.

usage: save_with_version.py VERSION CASES    a JSON file; RANK and WORLD_SIZE from the environment

Written for Megatron-Core 0.9 to 0.16, so it asks for nothing that one of them lacks.
"""
import argparse
import dataclasses
import functools
import json
import os
import sys

import transformer_engine_parameters as stand_in  # before anything of Megatron

stand_in.stub_packages("apex", "modelopt", "nvidia_resiliency_ext", "grouped_gemm")

import numpy as np
import product
import reference
import torch
import torch.distributed as dist
import torch.utils.cpp_extension
from torch.distributed.checkpoint import filesystem


def _no_compiler(*_, **__):
    raise RuntimeError("nothing is compiled for a GPU here")


def _write_item(*arguments, **options):
    """torch's, which Megatron-Core 0.9 to 0.12 call without what it has been given since."""
    if len(arguments) == 4:
        arguments = filesystem._StorageWriterTransforms(), *arguments
    options.setdefault("serialization_format", filesystem.SerializationFormat.TORCH_SAVE)
    return _torch_write_item(*arguments, **options)


torch.utils.cpp_extension.load_inline = _no_compiler  # 0.15 compiles while it is imported
torch.serialization.add_safe_globals([argparse.Namespace])  # older ones were made for a torch that allows everything
_torch_write_item = filesystem._write_item
filesystem._write_item = functools.wraps(_torch_write_item)(_write_item)

import megatron.core
import strides
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.mapping import ShardedObject, ShardedTensor
from megatron.core.models.gpt import GPTModel, gpt_layer_specs
from megatron.core.transformer.transformer_config import TransformerConfig


def build(config, tp, freq):
    experts = reference.experts(config)
    fields = dict(
        num_layers=config["num_hidden_layers"], hidden_size=config["hidden_size"],
        ffn_hidden_size=config["intermediate_size"], num_attention_heads=config["num_attention_heads"],
        num_query_groups=config["num_key_value_heads"], kv_channels=config["head_dim"], normalization="RMSNorm",
        gated_linear_unit=True, activation_func=torch.nn.functional.silu, add_bias_linear=False,
        qk_layernorm=config["model_type"] != "llama", tensor_model_parallel_size=tp, sequence_parallel=tp > 1,
        params_dtype=torch.bfloat16, bf16=True, use_cpu_initialization=True, perform_initialization=False,
        gradient_accumulation_fusion=False)
    if experts:
        # 0.9 knows one width for all feed-forward blocks.
        fields.update(num_moe_experts=experts, ffn_hidden_size=config["moe_intermediate_size"], moe_grouped_gemm=True,
                      moe_router_topk=config["num_experts_per_tok"], moe_token_dispatcher_type="alltoall",
                      moe_router_load_balancing_type="none")
    if freq != 1:
        fields["moe_layer_freq"] = freq
    megatron_config = TransformerConfig(**fields)
    if freq != 1:
        spec = gpt_layer_specs.get_gpt_decoder_block_spec(megatron_config, use_transformer_engine=True)
    else:
        spec = gpt_layer_specs.get_gpt_layer_with_transformer_engine_spec(experts or None, bool(experts),
                                                                          megatron_config.qk_layernorm)
        if experts:  # 0.9 takes apex's norm for queries and keys, which is LayerNorm alone
            attention = spec.submodules.self_attention.submodules
            attention.q_layernorm = attention.k_layernorm = spec.submodules.pre_mlp_layernorm
    multiple = 128 * tp
    return GPTModel(config=megatron_config, transformer_layer_spec=spec,
                    vocab_size=-(-config["vocab_size"] // multiple) * multiple,
                    max_sequence_length=config["max_position_embeddings"], position_embedding_type="rope",
                    share_embeddings_and_output_weights=False)


def fill(model, expected, tp):
    rank = parallel_state.get_tensor_model_parallel_rank()
    left = set(expected)
    for name, tensor in model.state_dict().items():
        if isinstance(tensor, torch.Tensor) and not name.endswith("_extra_state"):
            bits = np.ascontiguousarray(expected[name].local(rank, tp, 128))
            tensor.data.copy_(torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16))
            left.remove(name)
    if left:
        sys.exit(f"the model has no {sorted(left)[:8]}")


def load(case, tp):
    """Every parameter of a model must come from our checkpoint, and every byte object that it asks for."""
    config, hf = reference.load(case["fixture"])
    model = build(config, tp, case["freq"])
    requested = model.sharded_state_dict()
    names = set(requested)
    state = dist_checkpointing.load(requested, case["ours"])
    left = model.load_state_dict({name: state[name] for name in names}, strict=False)
    missing = [name for name in left.missing_keys if not name.endswith("core_attention._extra_state")]
    if missing or left.unexpected_keys:
        sys.exit(f"{case}: the model lacks {missing[:8]}, does not know {left.unexpected_keys[:8]}")
    rank = parallel_state.get_tensor_model_parallel_rank()
    parameters = dict(model.named_parameters())
    for name, parameter in reference.megatron(config, hf).items():
        product.require_equal(f"{case} {name}", parameters.pop(name), parameter.local(rank, tp, 128))
    if parameters:
        sys.exit(f"{case}: the reference has no {sorted(parameters)[:8]}")


def training_state(weights):
    """What training runs with the distributed optimizer save beside the weights, by its names: a tensor for each weight,
    and the older form, buckets and objects of one group of ranks, of two optimizers in a chain."""
    averages = {}
    for name, weight in weights.items():
        if isinstance(weight, ShardedTensor):
            for slot in ("exp_avg", "exp_avg_sq", "fp32_param"):
                averages[f"{slot}.{name}"] = dataclasses.replace(
                    weight, key=f"optimizer.state.{slot}.{weight.key}", data=weight.data.float(), dtype=torch.float32)
    rank, size = parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_tensor_model_parallel_world_size()
    states = [{"random_rng_state": (3, (1, 2, 3), None), "np_rng_state": np.random.get_state(),
               "torch_rng_state": torch.get_rng_state(), "cuda_rng_state": torch.get_rng_state(),
               "rng_tracker_states": {"model-parallel-rng": torch.get_rng_state()}}]
    chain = {}
    for i in range(2):
        group = f"chained_{i}.optimizer.distributed.dp_group_idx_{i}"
        bucket = f"{group}.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_0.exp_avg"
        chain[bucket] = ShardedTensor.from_rank_offsets(bucket, torch.ones(16), (0, rank, size))
        chain[group] = ShardedObject(f"{group}.param_state", {"step": 5, "exp_avg": torch.ones(3)}, (1,), (0,),
                                     replica_id=rank)
    random = ShardedObject("rng_state", states, (1, size), (0, rank), replica_id=0)
    return dict(
        optimizer={"sharded": averages, "chain": chain, "param_state_sharding_type": "fully_sharded_model_space",
                   "optimizer": {"param_groups": [{"lr": 1e-4, "betas": (0.9, 0.95), "step": 5}]}},
        rng_state=random, opt_param_scheduler={"max_lr": 1e-4, "num_steps": 640, "lr_decay_style": "cosine"},
        rerun_state_machine={"mode": "disabled", "sharded": {}}, num_floating_point_operations_so_far=1.5e12)


def save(case, tp):
    config, hf = reference.load(case["fixture"])
    model = build(config, tp, case["freq"])
    fill(model, reference.megatron(config, hf), tp)
    args = argparse.Namespace(
        num_layers=config["num_hidden_layers"], hidden_size=config["hidden_size"], swiglu=True,
        num_attention_heads=config["num_attention_heads"], num_query_groups=config["num_key_value_heads"],
        group_query_attention=True, kv_channels=config["head_dim"], ffn_hidden_size=config["intermediate_size"],
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=1, params_dtype=torch.bfloat16,
        untie_embeddings_and_output_weights=True, iteration=5, moe_layer_freq=case["freq"],
        use_distributed_optimizer=True)
    weights = model.sharded_state_dict()
    if dist.get_rank() == 0:
        os.makedirs(case["saved"])
    dist.barrier()
    state = dict(weights, args=args, checkpoint_version=3.0, iteration=5)
    if case["training"]:
        state.update(training_state(weights))
    dist_checkpointing.save(state, case["saved"], ("torch_dist", 1))


if __name__ == "__main__":  # saving starts a process that imports this file again
    if megatron.core.__version__ != sys.argv[1]:
        sys.exit(f"{megatron.core.__file__} is {megatron.core.__version__}, not {sys.argv[1]}")
    with open(sys.argv[2]) as file:
        cases = json.load(file)
    size = int(os.environ["WORLD_SIZE"])
    strides.leave_out()
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=size)
    parallel_state.initialize_model_parallel(size)
    for case in cases:
        save(case, size)
        if "ours" in case:
            load(case, size)
    dist.destroy_process_group()
