"""Builds Megatron-Core's own GPTModel for a fixture, with the real Transformer Engine layer spec."""
import transformer_engine_parameters as stand_in  # before anything of Megatron

stand_in.stub_packages("apex", "modelopt", "nvidia_resiliency_ext")

import os

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_mtp_block_spec
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

import reference
import strides


def start(tp=1, pp=1):
    strides.leave_out()
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    parallel_state.initialize_model_parallel(tp, pp)


def build(config, tp=1, pp=1):
    """The model of this rank, parameters zero."""
    megatron_config = _config(config, tp, pp)
    spec = get_gpt_decoder_block_spec(megatron_config, use_transformer_engine=True)
    depths = config.get("num_nextn_predict_layers", 0)
    last = parallel_state.is_pipeline_last_stage()
    mtp = get_gpt_mtp_block_spec(megatron_config, spec, use_transformer_engine=True) if depths and last else None
    multiple = 128 * tp
    return GPTModel(
        config=megatron_config,
        transformer_layer_spec=spec,
        vocab_size=-(-config["vocab_size"] // multiple) * multiple,
        max_sequence_length=config["max_position_embeddings"],
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=last,
        share_embeddings_and_output_weights=False,
        position_embedding_type="rope",
        mtp_block_spec=mtp,
    )


def _first_stage_layers(config, pp):
    """Set only where the layers cannot be dealt out evenly; for two stages."""
    layers = config["num_hidden_layers"]
    return None if layers % pp == 0 else layers // pp + 1


def _config(config, tp, pp):
    experts = reference.experts(config)
    fields = dict(
        num_layers=config["num_hidden_layers"],
        hidden_size=config["hidden_size"],
        ffn_hidden_size=config["intermediate_size"],
        num_attention_heads=config["num_attention_heads"],
        kv_channels=config["head_dim"],
        normalization="RMSNorm",
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        qk_layernorm=config["model_type"] != "llama",
        tensor_model_parallel_size=tp,
        pipeline_model_parallel_size=pp,
        num_layers_in_first_pipeline_stage=_first_stage_layers(config, pp),
        sequence_parallel=tp > 1,
        params_dtype=torch.bfloat16,
        bf16=True,
        pipeline_dtype=torch.bfloat16,
        use_cpu_initialization=True,
        perform_initialization=False,
        gradient_accumulation_fusion=False,
    )
    if experts:
        fields.update(num_moe_experts=experts, moe_ffn_hidden_size=config["moe_intermediate_size"],
                      moe_grouped_gemm=True, moe_router_topk=config["num_experts_per_tok"],
                      moe_token_dispatcher_type="alltoall", moe_router_load_balancing_type="none")
    if "kv_lora_rank" not in config:
        return TransformerConfig(num_query_groups=config["num_key_value_heads"], **fields)
    dense = config["first_k_dense_replace"]
    fields.update(
        multi_latent_attention=True,
        moe_layer_freq=[int(i >= dense) for i in range(config["num_hidden_layers"])],
        moe_shared_expert_intermediate_size=config["moe_intermediate_size"] * config["n_shared_experts"],
        moe_router_enable_expert_bias=True,
        moe_router_score_function="sigmoid",
        q_lora_rank=config["q_lora_rank"],
        kv_lora_rank=config["kv_lora_rank"],
        qk_head_dim=config["qk_nope_head_dim"],
        qk_pos_emb_head_dim=config["qk_rope_head_dim"],
        v_head_dim=config["v_head_dim"],
        mtp_num_layers=config["num_nextn_predict_layers"] or None,
    )
    return MLATransformerConfig(**fields)


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
