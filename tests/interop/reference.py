"""What Megatron must hold for a fixture, in numpy, from the fill and the published formulas alone.

Bit patterns are compared, so BF16 is uint16 and F32 is uint32.
"""
import json
import os

import numpy as np

DATA = os.path.join(os.path.dirname(__file__), "..", "data")
WORDS = {"BF16": np.uint16, "F32": np.uint32, "F8_E4M3": np.uint8}


def fill(name, dtype, shape):
    """The bits of a tensor; tests/fixtures/Fill.h has the definition."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    u = np.uint64
    index = np.arange(1, int(np.prod(shape)) + 1, dtype=u)
    with np.errstate(over="ignore"):
        z = u(seed) + index * u(0x9E3779B97F4A7C15)
        z = (z ^ z >> u(30)) * u(0xBF58476D1CE4E5B9)
        z = (z ^ z >> u(27)) * u(0x94D049BB133111EB)
    x = z ^ z >> u(31)
    if dtype == "BF16":
        bits = (x & u(0x80FF)) | u(0x3C00) | (x >> u(16) & u(0x0300))
    elif dtype == "F32":
        keep = u(0x007FFFFF) if name.endswith(("_scale_inv", "_scale")) else u(0x807FFFFF)
        bits = (x & keep) | (u(120) + (x >> u(32) & u(7))) << u(23)
    else:
        raise ValueError(f"{name}: {dtype} is not needed here")
    return bits.astype(WORDS[dtype]).reshape(shape)


def load(fixture):
    """config.json, and name -> bits of every Hugging Face tensor."""
    folder = os.path.join(DATA, fixture)
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    with open(os.path.join(folder, "manifest.json")) as file:
        files = json.load(file)["files"]
    tensors = {n: fill(n, d, s) for part in files.values() for n, (d, s) in part.items()}
    return config, tensors


class Parameter:
    """Whole bits and how tensor parallelism cuts them: None, "rows", "columns" or row counts of sections."""

    def __init__(self, whole, cut=None, vocabulary=False):
        self.whole, self.cut, self.vocabulary = whole, cut, vocabulary

    def padded(self, multiple):
        if not self.vocabulary:
            return self.whole
        rows = -self.whole.shape[0] % multiple
        return np.pad(self.whole, [(0, rows), (0, 0)])

    def local(self, rank, size, multiple=1):
        whole = self.padded(multiple * size)
        if self.cut is None:
            return whole
        if self.cut == "columns":
            return np.split(whole, size, axis=1)[rank]
        sections = [whole.shape[0]] if self.cut == "rows" else self.cut
        parts = np.split(whole, np.cumsum(sections)[:-1])
        return np.concatenate([np.split(part, size)[rank] for part in parts])


def megatron(config, hf):
    """Megatron parameter name -> Parameter, for llama, qwen3, qwen3_moe and deepseek_v3."""
    out = {
        "embedding.word_embeddings.weight": Parameter(hf["model.embed_tokens.weight"], "rows", True),
        "decoder.final_layernorm.weight": Parameter(hf["model.norm.weight"]),
        "output_layer.weight": Parameter(hf["lm_head.weight"], "rows", True),
    }
    layers = config["num_hidden_layers"]
    for i in range(layers):
        _layer(out, config, hf, f"decoder.layers.{i}.", f"model.layers.{i}.", _is_sparse(config, i))
    for t in range(config.get("num_nextn_predict_layers", 0)):
        mg, source = f"mtp.layers.{t}.", f"model.layers.{layers + t}."
        for name in ("enorm", "hnorm"):
            out[f"{mg}{name}.weight"] = Parameter(hf[f"{source}{name}.weight"])
        out[mg + "eh_proj.weight"] = Parameter(hf[source + "eh_proj.weight"], "rows")
        out[mg + "final_layernorm.weight"] = Parameter(hf[source + "shared_head.norm.weight"])
        _layer(out, config, hf, mg + "mtp_model_layer.", source, True)
    return out


def copies(config):
    """Hugging Face tensors of an MTP layer that repeat the embedding and the head."""
    layers, depths = config["num_hidden_layers"], config.get("num_nextn_predict_layers", 0)
    names = ("embed_tokens.weight", "shared_head.head.weight")
    return [f"model.layers.{layers + t}.{name}" for t in range(depths) for name in names]


def experts(config):
    return config.get("n_routed_experts") or config.get("num_local_experts") or 0


def _is_sparse(config, i):
    return bool(experts(config)) and i >= config.get("first_k_dense_replace", 0)


def _layer(out, config, hf, mg, source, sparse):
    a, s = mg + "self_attention.", source + "self_attn."
    if "kv_lora_rank" in config:
        out[mg + "input_layernorm.weight"] = Parameter(hf[source + "input_layernorm.weight"])
        out[a + "linear_q_down_proj.weight"] = Parameter(hf[s + "q_a_proj.weight"])
        out[a + "linear_q_up_proj.weight"] = Parameter(hf[s + "q_b_proj.weight"], "rows")
        out[a + "linear_q_up_proj.layer_norm_weight"] = Parameter(hf[s + "q_a_layernorm.weight"])
        out[a + "linear_kv_down_proj.weight"] = Parameter(hf[s + "kv_a_proj_with_mqa.weight"])
        out[a + "linear_kv_up_proj.weight"] = Parameter(hf[s + "kv_b_proj.weight"], "rows")
        out[a + "linear_kv_up_proj.layer_norm_weight"] = Parameter(hf[s + "kv_a_layernorm.weight"])
    else:
        out[a + "linear_qkv.layer_norm_weight"] = Parameter(hf[source + "input_layernorm.weight"])
        groups = config["num_key_value_heads"]
        q, k, v = (hf[f"{s}{x}_proj.weight"] for x in "qkv")
        width = q.shape[1]
        grouped = np.concatenate([x.reshape(groups, -1, width) for x in (q, k, v)], axis=1)
        out[a + "linear_qkv.weight"] = Parameter(grouped.reshape(-1, width), "rows")
        for x in "qk":
            if f"{s}{x}_norm.weight" in hf:
                out[f"{a}{x}_layernorm.weight"] = Parameter(hf[f"{s}{x}_norm.weight"])
    out[a + "linear_proj.weight"] = Parameter(hf[s + "o_proj.weight"], "columns")

    norm = Parameter(hf[source + "post_attention_layernorm.weight"])
    if not sparse:
        out[mg + "mlp.linear_fc1.layer_norm_weight"] = norm
        _gated(out, hf, mg + "mlp.linear_fc{}.weight", source + "mlp.")
        return
    out[mg + "pre_mlp_layernorm.weight"] = norm
    out[mg + "mlp.router.weight"] = Parameter(hf[source + "mlp.gate.weight"])
    bias = source + "mlp.gate.e_score_correction_bias"
    if bias in hf:
        out[mg + "mlp.router.expert_bias"] = Parameter(hf[bias])
    if config.get("n_shared_experts"):
        _gated(out, hf, mg + "mlp.shared_experts.linear_fc{}.weight", source + "mlp.shared_experts.")
    for e in range(experts(config)):
        _gated(out, hf, mg + "mlp.experts.linear_fc{}.weight" + str(e), f"{source}mlp.experts.{e}.")


def _gated(out, hf, name, source):
    gate, up = hf[source + "gate_proj.weight"], hf[source + "up_proj.weight"]
    out[name.format(1)] = Parameter(np.concatenate([gate, up]), [len(gate), len(up)])
    out[name.format(2)] = Parameter(hf[source + "down_proj.weight"], "columns")
