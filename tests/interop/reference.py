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
    """Megatron parameter name -> Parameter, for the fixtures that the stages name."""
    if config["model_type"] == "nemotron_h":
        return _nemotron_h(config, hf)
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


def exported(config, hf):
    """What comes back of a fixture that Megatron-Core has held in its own dtypes."""
    layers, depths = config.get("num_hidden_layers"), config.get("num_nextn_predict_layers", 0)
    # Megatron keeps one of each; the fixtures' differ from it.
    names = ("embed_tokens.weight", "shared_head.head.weight")
    copies = {f"model.layers.{layers + t}.{name}" for t in range(depths) for name in names}
    return {name: _plus(_plus(bits, -1), 1) if name.endswith("linear_attn.norm.weight") else bits
            for name, bits in hf.items() if name not in copies}


def _plus(bits, number):
    """BF16 values plus a number, rounded to the nearest, ties to even."""
    words = ((bits.astype(np.uint32) << 16).view(np.float32) + np.float32(number)).view(np.uint32)
    return (words + 0x7FFF + (words >> 16 & 1) >> 16).astype(np.uint16)


def experts(config):
    names = ("n_routed_experts", "num_local_experts", "num_experts")
    return next((config[name] for name in names if config.get(name)), 0)


def _is_sparse(config, i):
    return bool(experts(config)) and i >= config.get("first_k_dense_replace", 0)


def _layer(out, config, hf, mg, source, sparse):
    if "kv_lora_rank" in config:
        _latent_attention(out, hf, mg, source)
    elif source + "linear_attn.A_log" in hf:
        _gated_delta(out, config, hf, mg, source)
    else:
        out[mg + "self_attention.linear_qkv.layer_norm_weight"] = Parameter(hf[source + "input_layernorm.weight"])
        _attention(out, config, hf, mg + "self_attention.", source + "self_attn.")

    norm = Parameter(hf[source + "post_attention_layernorm.weight"])
    if not sparse:
        out[mg + "mlp.linear_fc1.layer_norm_weight"] = norm
        _gated(out, hf, mg + "mlp.linear_fc{}.weight", source + "mlp.")
        return
    out[mg + "pre_mlp_layernorm.weight"] = norm
    if config["model_type"] == "gpt_oss":
        _gpt_oss_experts(out, config, hf, mg + "mlp.", source + "mlp.")
        return
    out[mg + "mlp.router.weight"] = Parameter(hf[source + "mlp.gate.weight"])
    bias = source + "mlp.gate.e_score_correction_bias"
    if bias in hf:
        out[mg + "mlp.router.expert_bias"] = Parameter(hf[bias])
    for shared in ("shared_experts", "shared_expert"):
        if f"{source}mlp.{shared}.up_proj.weight" in hf:
            _gated(out, hf, mg + "mlp.shared_experts.linear_fc{}.weight", f"{source}mlp.{shared}.")
    gate = source + "mlp.shared_expert_gate.weight"
    if gate in hf:
        out[mg + "mlp.shared_experts.gate_weight"] = Parameter(hf[gate])
    for e in range(experts(config)):
        _gated(out, hf, mg + "mlp.experts.linear_fc{}.weight" + str(e), f"{source}mlp.experts.{e}.")


def _latent_attention(out, hf, mg, source):
    a, s = mg + "self_attention.", source + "self_attn."
    out[mg + "input_layernorm.weight"] = Parameter(hf[source + "input_layernorm.weight"])
    out[a + "linear_q_down_proj.weight"] = Parameter(hf[s + "q_a_proj.weight"])
    out[a + "linear_q_up_proj.weight"] = Parameter(hf[s + "q_b_proj.weight"], "rows")
    out[a + "linear_q_up_proj.layer_norm_weight"] = Parameter(hf[s + "q_a_layernorm.weight"])
    out[a + "linear_kv_down_proj.weight"] = Parameter(hf[s + "kv_a_proj_with_mqa.weight"])
    out[a + "linear_kv_up_proj.weight"] = Parameter(hf[s + "kv_b_proj.weight"], "rows")
    out[a + "linear_kv_up_proj.layer_norm_weight"] = Parameter(hf[s + "kv_a_layernorm.weight"])
    out[a + "linear_proj.weight"] = Parameter(hf[s + "o_proj.weight"], "columns")


def _attention(out, config, hf, mg, source):
    """Softmax attention; its input norm is the caller's."""
    heads, groups, d = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    for kind in ("weight", "bias"):
        if f"{source}q_proj.{kind}" not in hf:
            continue
        q, k, v = (hf[f"{source}{x}_proj.{kind}"] for x in "qkv")
        if len(q) == 2 * heads * d:  # of each head, query rows and then those of its gate
            q, gate = (x.reshape(-1, *q.shape[1:]) for x in np.split(q.reshape(heads, 2, d, -1), 2, axis=1))
            pieces = q, gate, k, v
        else:
            pieces = q, k, v
        of_groups = np.concatenate([x.reshape(groups, -1, *x.shape[1:]) for x in pieces], axis=1)
        out[f"{mg}linear_qkv.{kind}"] = Parameter(of_groups.reshape(-1, *q.shape[1:]), "rows")
    for x in "qk":
        if f"{source}{x}_norm.weight" in hf:
            out[f"{mg}{x}_layernorm.weight"] = Parameter(hf[f"{source}{x}_norm.weight"])
    out[mg + "linear_proj.weight"] = Parameter(hf[source + "o_proj.weight"], "columns")
    if source + "o_proj.bias" in hf:
        out[mg + "linear_proj.bias"] = Parameter(hf[source + "o_proj.bias"])
    if source + "sinks" in hf:
        out[mg + "core_attention.softmax_offset"] = Parameter(hf[source + "sinks"], "rows")


def _gated_delta(out, config, hf, mg, source):
    """Sections of all heads; Hugging Face packs what belongs to one key head."""
    a, s = mg + "self_attention.", source + "linear_attn."
    key_heads, value_heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    dk, dv, shared = config["linear_key_head_dim"], config["linear_value_head_dim"], value_heads // key_heads
    packed = hf[s + "in_proj_qkvz.weight"].reshape(key_heads, -1, config["hidden_size"])
    gates = hf[s + "in_proj_ba.weight"].reshape(key_heads, -1, config["hidden_size"])
    sections = np.split(packed, np.cumsum([dk, dk, shared * dv]), axis=1) + np.split(gates, 2, axis=1)
    sections = [section.reshape(-1, config["hidden_size"]) for section in sections]
    out[a + "in_proj.layer_norm_weight"] = Parameter(hf[source + "input_layernorm.weight"])
    out[a + "in_proj.weight"] = Parameter(np.concatenate(sections), [len(section) for section in sections])
    out[a + "conv1d.weight"] = Parameter(hf[s + "conv1d.weight"], [key_heads * dk, key_heads * dk, value_heads * dv])
    for name in ("A_log", "dt_bias"):
        out[a + name] = Parameter(hf[s + name], "rows")
    out[a + "out_norm.weight"] = Parameter(_plus(hf[s + "norm.weight"], -1))
    out[a + "out_proj.weight"] = Parameter(hf[s + "out_proj.weight"], "columns")


def _gpt_oss_experts(out, config, hf, mg, source):
    """Matrices are stored as [in, out]; columns of gate and up alternate."""
    for kind in ("weight", "bias"):
        out[f"{mg}router.{kind}"] = Parameter(hf[f"{source}router.{kind}"])
    width = config["intermediate_size"]
    for e in range(experts(config)):
        for kind, suffix in (("weight", ""), ("bias", "_bias")):
            up = hf[f"{source}experts.gate_up_proj{suffix}"][e].T
            out[f"{mg}experts.linear_fc1.{kind}{e}"] = Parameter(np.concatenate([up[0::2], up[1::2]]), [width, width])
        out[f"{mg}experts.linear_fc2.weight{e}"] = Parameter(hf[source + "experts.down_proj"][e].T, "columns")
        out[f"{mg}experts.linear_fc2.bias{e}"] = Parameter(hf[source + "experts.down_proj_bias"][e])


def _gated(out, hf, name, source):
    gate, up = hf[source + "gate_proj.weight"], hf[source + "up_proj.weight"]
    out[name.format(1)] = Parameter(np.concatenate([gate, up]), [len(gate), len(up)])
    out[name.format(2)] = Parameter(hf[source + "down_proj.weight"], "columns")


def _plain(out, hf, name, source):
    out[name.format(1)] = Parameter(hf[source + "up_proj.weight"], "rows")
    out[name.format(2)] = Parameter(hf[source + "down_proj.weight"], "columns")


def _nemotron_h(config, hf):
    out = {
        "embedding.word_embeddings.weight": Parameter(hf["backbone.embeddings.weight"], "rows", True),
        "decoder.final_norm.weight": Parameter(hf["backbone.norm_f.weight"]),
        "output_layer.weight": Parameter(hf["lm_head.weight"], "rows", True),
    }
    norms = {"M": "mixer.in_proj.layer_norm_weight", "*": "self_attention.linear_qkv.layer_norm_weight",
             "-": "mlp.linear_fc1.layer_norm_weight", "E": "pre_mlp_layernorm.weight"}
    for i, kind in enumerate(config["hybrid_override_pattern"]):
        mg, source = f"decoder.layers.{i}.", f"backbone.layers.{i}."
        out[mg + norms[kind]] = Parameter(hf[source + "norm.weight"])
        source += "mixer."
        if kind == "M":
            _mamba(out, config, hf, mg + "mixer.", source)
        elif kind == "*":
            _attention(out, config, hf, mg + "self_attention.", source)
        elif kind == "-":
            _plain(out, hf, mg + "mlp.linear_fc{}.weight", source)
        else:
            out[mg + "mlp.router.weight"] = Parameter(hf[source + "gate.weight"])
            out[mg + "mlp.router.expert_bias"] = Parameter(hf[source + "gate.e_score_correction_bias"])
            _plain(out, hf, mg + "mlp.shared_experts.linear_fc{}.weight", source + "shared_experts.")
            for e in range(experts(config)):
                _plain(out, hf, mg + "mlp.experts.linear_fc{}.weight" + str(e), f"{source}experts.{e}.")
    return out


def _mamba(out, config, hf, mg, source):
    heads, groups = config["mamba_num_heads"], config["n_groups"]
    inner, state = heads * config["mamba_head_dim"], groups * config["ssm_state_size"]
    out[mg + "in_proj.weight"] = Parameter(hf[source + "in_proj.weight"], [inner, inner, state, state, heads])
    for kind in ("weight", "bias"):
        out[f"{mg}conv1d.{kind}"] = Parameter(hf[f"{source}conv1d.{kind}"], [inner, state, state])
    for name in ("A_log", "D", "dt_bias", "norm.weight"):
        out[mg + name] = Parameter(hf[source + name], "rows")
    out[mg + "out_proj.weight"] = Parameter(hf[source + "out_proj.weight"], "columns")
