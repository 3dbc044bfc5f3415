"""Megatron-Core's own GPTModel of the local layer spec, which computes on a CPU: built from the arguments that a
checkpoint holds, as a training run with --use-checkpoint-args builds it."""
import contextlib
import dataclasses
import os

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

# Megatron-Core asks for these while its modules are imported, built and saved; without a GPU they have no meaning.
torch.cuda.current_device = lambda: "cpu"
torch.cuda.synchronize = lambda: None

from megatron.core import dist_checkpointing, parallel_state
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.tensor_parallel import random as parallel_random
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.moe.moe_layer import MoELayer
from megatron.core.transformer.transformer_config import TransformerConfig

import strides

# Arguments under other names than the fields of TransformerConfig, as Megatron-LM's training script translates them.
FIELD_OF_ARGUMENT = {"num_experts": "num_moe_experts", "norm_epsilon": "layernorm_epsilon"}

# What a CPU needs: experts one by one, tokens kept where they are, weights drawn without CUDA's random states.
ON_CPU = dict(moe_grouped_gemm=False, moe_token_dispatcher_type="allgather", use_cpu_initialization=True,
              gradient_accumulation_fusion=False)


class _CudaMeansCpu(TorchFunctionMode):
    """Tensors that are asked for on "cuda" are made on the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)


def start(rank=0, world_size=1):
    """One process of a group; alone it needs no address."""
    store = dist.HashStore() if world_size == 1 else None
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    parallel_random.CudaRNGStatesTracker.fork = lambda self, name="": contextlib.nullcontext()
    moe_utils.te_general_gemm = None
    strides.leave_out()
    cut()


def cut(tp=1, ep=1):
    """Models that are built from now on are one rank's part at these sizes."""
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(tp, expert_model_parallel_size=ep)


def load(checkpoint):
    """The model of a torch_dist checkpoint, ready for inference; no parameter may be absent from the files."""
    model = build(dist_checkpointing.load_common_state_dict(checkpoint)["args"])
    requested = model.sharded_state_dict()
    names = set(requested)
    state = dist_checkpointing.load(requested, checkpoint)
    model.load_state_dict({name: state[name] for name in names})
    return model.eval()


def _layers(config):
    """The local layers. They store the norm before any feed-forward block under linear_fc1; Transformer Engine's, and
    with them all checkpoints, do so in dense layers only."""
    block = get_gpt_decoder_block_spec(config, use_transformer_engine=False)
    for layer in block.layer_specs:
        if layer.submodules.mlp.module is MoELayer:
            keys = layer.submodules.sharded_state_dict_keys_map
            layer.submodules.sharded_state_dict_keys_map = {
                name: key for name, key in keys.items() if name != "pre_mlp_layernorm."}
    return block


def build(args):
    """The model that these arguments of a training run stand for; its logits are of the whole vocabulary."""
    config = _config(args)
    return GPTModel(
        config=config,
        transformer_layer_spec=_layers(config),
        vocab_size=args.padded_vocab_size,
        max_sequence_length=args.max_position_embeddings,
        parallel_output=False,
        share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
        position_embedding_type=args.position_embedding_type,
        rotary_base=args.rotary_base,
        rotary_percent=args.rotary_percent,
        rope_scaling=args.use_rope_scaling,
        rope_scaling_factor=args.rope_scaling_factor or 8.0,  # without scaling Megatron reads no factor
        seq_len_interpolation_factor=args.rotary_seq_len_interpolation_factor,
    )


def _config(args):
    names = {field.name for field in dataclasses.fields(TransformerConfig)}
    given = vars(args) | {field: getattr(args, name, None) for name, field in FIELD_OF_ARGUMENT.items()}
    fields = {name: value for name, value in given.items() if name in names and value is not None}
    if args.swiglu:
        fields.update(gated_linear_unit=True, activation_func=torch.nn.functional.silu, bias_activation_fusion=False)
    return TransformerConfig(**fields | ON_CPU)


def logits(model, tokens):
    """Of the model's own vocabulary, padding included."""
    positions = torch.arange(tokens.shape[1]).expand_as(tokens)
    with torch.no_grad(), _CudaMeansCpu():
        return model(tokens, positions, None)
