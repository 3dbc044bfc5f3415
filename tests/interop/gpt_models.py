"""Builds Megatron-Core's own GPTModel for a fixture, with the real Transformer Engine layer spec."""
import transformer_engine_parameters as stand_in  # before anything of Megatron

# The last four are what gated delta nets and Mamba compute with; they ask for them before they make their parameters.
stand_in.stub_packages("apex", "modelopt", "nvidia_resiliency_ext", "fla", "causal_conv1d", "mamba_ssm", "einops")

import contextlib
import os

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.activations import quick_gelu, squared_relu
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.experimental_attention_variant_module_specs import (
    get_transformer_block_with_experimental_attention_variant_spec)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_mtp_block_spec
from megatron.core.models.mamba import MambaModel
from megatron.core.models.mamba.mamba_layer_specs import mamba_stack_spec
from megatron.core.tensor_parallel import random as parallel_random
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

import reference
import strides


def start():
    strides.leave_out()
    parallel_random.CudaRNGStatesTracker.fork = lambda self, name="": contextlib.nullcontext()  # nothing is drawn
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))


def build(config, tp=1, pp=1):
    """The model of this rank, parameters zero; the groups are cut for it."""
    experts_tp = 1 if config["model_type"] == "gpt_oss" else tp  # "Bias in Moe is only supported when ETP==1"
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(tp, pp, expert_tensor_parallel_size=experts_tp)
    megatron_config = _config(config, tp, pp)
    multiple = 128 * tp
    fields = dict(
        config=megatron_config,
        vocab_size=-(-config["vocab_size"] // multiple) * multiple,
        max_sequence_length=config["max_position_embeddings"],
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=False,
    )
    if "hybrid_override_pattern" in config:
        model = MambaModel(mamba_stack_spec=mamba_stack_spec, hybrid_override_pattern=config["hybrid_override_pattern"],
                           **fields)
    else:
        model = _gpt_model(config, megatron_config, fields)
    for parameter in model.parameters():  # as Float16Module does, whatever the modules asked for
        parameter.data = parameter.data.bfloat16()
    return model


def _gpt_model(config, megatron_config, fields):
    if megatron_config.experimental_attention_variant:
        spec = get_transformer_block_with_experimental_attention_variant_spec(megatron_config)
    else:
        spec = get_gpt_decoder_block_spec(megatron_config, use_transformer_engine=True)
    mtp = None
    if config.get("num_nextn_predict_layers") and fields["post_process"]:
        mtp = get_gpt_mtp_block_spec(megatron_config, spec, use_transformer_engine=True)
    return GPTModel(transformer_layer_spec=spec, position_embedding_type="rope", mtp_block_spec=mtp, **fields)


def layers_of(config):
    return config.get("num_hidden_layers") or len(config["hybrid_override_pattern"])


def _first_stage_layers(layers, pp):
    """Set only where the layers cannot be dealt out evenly; for two stages."""
    return None if layers % pp == 0 else layers // pp + 1


def _config(config, tp, pp):
    layers, family = layers_of(config), config["model_type"]
    fields = dict(
        num_layers=layers,
        hidden_size=config["hidden_size"],
        ffn_hidden_size=config["intermediate_size"],
        num_attention_heads=config["num_attention_heads"],
        kv_channels=config["head_dim"],
        normalization="RMSNorm",
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        add_qkv_bias=config.get("attention_bias", False),
        qk_layernorm=config.get("use_qk_norm", family.startswith(("qwen3", "deepseek", "kimi"))),
        tensor_model_parallel_size=tp,
        expert_tensor_parallel_size=parallel_state.get_expert_tensor_parallel_world_size(),
        pipeline_model_parallel_size=pp,
        num_layers_in_first_pipeline_stage=_first_stage_layers(layers, pp),
        sequence_parallel=tp > 1,
        params_dtype=torch.bfloat16,
        bf16=True,
        pipeline_dtype=torch.bfloat16,
        use_cpu_initialization=True,
        perform_initialization=False,
        gradient_accumulation_fusion=False,
        mtp_num_layers=config.get("num_nextn_predict_layers") or None,
    )
    if reference.experts(config):
        fields |= _expert_fields(config, layers)
    if "kv_lora_rank" in config:
        return MLATransformerConfig(**fields, **_latent_fields(config))
    return TransformerConfig(num_query_groups=config["num_key_value_heads"], **fields | _family_fields(config))


def _expert_fields(config, layers):
    fields = dict(num_moe_experts=reference.experts(config),
                  moe_ffn_hidden_size=config.get("moe_intermediate_size", config["intermediate_size"]),
                  moe_grouped_gemm=True, moe_router_topk=config["num_experts_per_tok"],
                  moe_token_dispatcher_type="alltoall", moe_router_load_balancing_type="none")
    if "first_k_dense_replace" in config:
        fields["moe_layer_freq"] = [int(i >= config["first_k_dense_replace"]) for i in range(layers)]
    if config.get("n_shared_experts"):
        fields["moe_shared_expert_intermediate_size"] = config["moe_intermediate_size"] * config["n_shared_experts"]
        fields.update(moe_router_enable_expert_bias=True, moe_router_score_function="sigmoid")
    return fields


def _latent_fields(config):
    return dict(
        multi_latent_attention=True,
        q_lora_rank=config["q_lora_rank"],
        kv_lora_rank=config["kv_lora_rank"],
        qk_head_dim=config["qk_nope_head_dim"],
        qk_pos_emb_head_dim=config["qk_rope_head_dim"],
        v_head_dim=config["v_head_dim"],
    )


def _family_fields(config):
    """What one family alone has."""
    if config["model_type"] == "gpt_oss":
        return dict(add_bias_linear=True, activation_func=quick_gelu, glu_linear_offset=1.0,
                    activation_func_clamp_value=config["swiglu_limit"], bias_activation_fusion=False,
                    softmax_type="learnable", window_size=(config["sliding_window"], 0), window_attn_skip_freq=2)
    if config["model_type"] == "qwen3_next":
        linear = [int(kind == "linear_attention") for kind in config["layer_types"]]
        return dict(experimental_attention_variant="gated_delta_net", linear_attention_freq=linear,
                    **{name: value for name, value in config.items() if name.startswith("linear_")},
                    layernorm_zero_centered_gamma=True, attention_output_gate=True,
                    moe_layer_freq=[1] * len(linear), moe_shared_expert_gate=True,
                    moe_shared_expert_intermediate_size=config["shared_expert_intermediate_size"])
    if config["model_type"] == "nemotron_h":
        return dict(is_hybrid_model=True, gated_linear_unit=False, activation_func=squared_relu,
                    mamba_num_heads=config["mamba_num_heads"], mamba_head_dim=config["mamba_head_dim"],
                    mamba_num_groups=config["n_groups"], mamba_state_dim=config["ssm_state_size"],
                    moe_shared_expert_intermediate_size=config["moe_shared_expert_intermediate_size"])
    return {}


def local(name, parameter):
    """What this rank holds of a parameter."""
    if ".mlp.experts." in name:
        return parameter.local(parallel_state.get_expert_tensor_parallel_rank(),
                               parallel_state.get_expert_tensor_parallel_world_size())
    return parameter.local(parallel_state.get_tensor_model_parallel_rank(),
                           parallel_state.get_tensor_model_parallel_world_size(), 128)


def global_names(model):
    """Name over the whole model -> tensor of this rank, for every parameter and buffer that is stored."""
    offset = model.decoder.layers[0].layer_number - 1 if len(model.decoder.layers) else 0
    result = {}
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, torch.Tensor) or name.endswith("_extra_state"):
            continue
        if name.startswith("decoder.layers."):
            index, rest = name[len("decoder.layers."):].split(".", 1)
            name = f"decoder.layers.{int(index) + offset}.{rest}"
        if name.endswith("local_tokens_per_expert"):
            continue  # a counter of the router, never stored
        result[name.replace("transformer_layer.", "mtp_model_layer.")] = tensor
    return result
