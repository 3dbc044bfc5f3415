"""The tensors of transformers' own classes are those that the specs read.

Of each fixture whose architecture transformers has: transformers loads it with nothing missing, and `mbc check` accepts
headers of what save_pretrained writes, but misses each kind of tensor that is taken away. Of each class: `mbc check`
accepts headers of its default config, a model of full size.
"""
import json
import os
import re
import sys
import tempfile
from unittest import mock

import headers
import product
import reference
import torch
import transformers
from transformers import (CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
                          modeling_utils)

# Fixtures that the class does not load or save in their form, with the reason.
QUANTISED = {
    "deepseek_v3_fp8", "deepseek_v4_mxfp4", "glm5_next_fp8", "glm_moe_dsa_fp8", "gpt_oss_mxfp4", "kimi_k25_int4",
}
NOT_COMPARED = QUANTISED | {
    "kimi_k2",  # transformers maps names by model_type, and does not know kimi_k2
    "qwen3_asr",  # published below thinker., which the class does not know
}
NOT_LOADED = {"qwen2_5_omni"}  # the class wants the voices' file, too
NOT_SAVED = {
    "deepseek_v4",  # saved under other names: kv_norm as norm, all below model.
    "kimi_k25",  # the text's layers saved as blocks, as the tower's are
    "step3p7",  # config.json saved with other fields: num_key_value_heads for num_attention_groups and more
}
FUSED = {"glm_moe_dsa_fused"}  # experts as the class holds them, not as it saves them

# What models are published with and the classes do not have: MTP layers, constants of old versions.
EXTRA = re.compile(r"mtp\.|model\.mtp\.|language_model\.mtp\.|model\.(language_model\.)?layers\.(?P<layer>\d+)\.|.*\.rotary_emb\.inv_freq$")

# Fields that a class reads and the published config, written for other code, does not have.
CLASS_FIELDS = {
    "mimo_v2_flash": dict(layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
                          mlp_layer_types=["dense", "sparse", "sparse", "sparse"]),
}

# Fields of the text's config that the class saves in a form that specs cannot read: per_layer_config, by layer.
KEPT_FIELDS = {"gemma4": ("global_head_dim", "num_global_key_value_heads"), "gemma4_moe": ("global_head_dim",),
               "gemma4_vl": ("global_head_dim",)}

# Towers and what joins them to the text: a rule takes all tensors below a prefix, however many there are.
SUBTREE = re.compile(r"(.*\.)?(visual|(vision|audio)_(tower|model)|embed_(vision|audio)|sound_encoder|multi_modal_projector|"
                     r"patch_merge_mlp|resampler_model)\.")

# Fields without which a class's default config is no model, as published.
DEFAULTS = {
    "deepseek_v2": dict(num_experts_per_tok=6),
    "dots1": dict(n_routed_experts=128, n_shared_experts=2, num_experts_per_tok=6),
    "glm4_moe": dict(head_dim=128),
    "glm4v_moe": dict(text_config=dict(head_dim=128)),
    "nemotron": dict(num_key_value_heads=8),
}

NOT_BUILT = {"qwen3_omni_moe"}  # by its defaults: the talker's config lacks fields

DTYPES = {torch.bfloat16: "BF16", torch.float32: "F32", torch.int64: "I64"}


def fixtures():
    """Name -> (class, its config's class) of each fixture that transformers has a class for: by architecture, else by
    model_type, as some families take another's class."""
    found = {}
    for name in sorted(os.listdir(reference.DATA)):
        if not os.path.exists(os.path.join(reference.DATA, name, "config.json")):
            continue  # full/
        config = read(reference.DATA, name, "config.json")
        (architecture,) = config["architectures"]
        if hasattr(transformers, architecture):
            architecture = getattr(transformers, architecture)
            found[name] = architecture, architecture.config_class
        elif config["model_type"] in CONFIG_MAPPING:
            config_class = CONFIG_MAPPING[config["model_type"]]
            for mapping in MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
                if config_class in mapping:
                    found[name] = mapping[config_class], config_class
    return found


def require_every_architecture(known):
    listed = {name for row in json.loads(product.output("specs", "--json")) for name in row["architectures"]}
    untested = {name for name in listed if hasattr(transformers, name)}
    untested -= {architecture.__name__ for architecture, _ in known}
    if untested:
        sys.exit(f"specs and transformers know {sorted(untested)}, and there is no fixture of them")


def read(*path):
    with open(os.path.join(*path)) as file:
        return json.load(file)


def add_fields(folder, fields):
    """To the text's part of config.json."""
    config = read(folder, "config.json")
    config.get("text_config", config).update(fields)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)


def manifest_of(fixture):
    """Name -> [dtype, shape]."""
    files = read(reference.DATA, fixture, "manifest.json")["files"]
    return {name: entry for part in files.values() for name, entry in part.items()}


def is_extra(name, config):
    text = config.get_text_config()
    match = EXTRA.match(name)
    return bool(match) and (match["layer"] is None or int(match["layer"]) >= text.num_hidden_layers)


def require_loads(fixture, architecture, folder, config):
    _, info = architecture.from_pretrained(folder, config=config, dtype=torch.bfloat16, output_loading_info=True)
    unexpected = [name for name in info["unexpected_keys"] if not is_extra(name, config)]
    if info["missing_keys"] or info["mismatched_keys"] or unexpected:
        sys.exit(f"{fixture}: transformers misses {sorted(info['missing_keys'])[:8]}, expects other shapes of "
                 f"{sorted(info['mismatched_keys'])[:8]}, does not know {sorted(unexpected)[:8]}")


def save(architecture, config, folder, **options):
    """Builds the model without data and lets it save itself: writes config.json, returns name -> [dtype, shape]."""
    with torch.device("meta"):
        model = architecture._from_config(config, dtype=torch.bfloat16)
    found = {}

    def keep(tensors, *_, **__):
        found.update({name: [DTYPES[tensor.dtype], list(tensor.shape)] for name, tensor in tensors.items()})

    with mock.patch.object(modeling_utils, "safe_save_file", keep):
        model.save_pretrained(folder, **options)
    index = os.path.join(folder, "model.safetensors.index.json")
    if os.path.exists(index):  # of the files that were not written
        os.remove(index)
    return found


def require_accepted(folder, tensors):
    headers.write(folder, tensors)
    product.mbc("check", folder)


def require_each_is_missed(folder, tensors, extra):
    """One tensor of each kind, in the last layer that has it, is taken away. Returns how many."""
    kinds = {re.sub(r"\d+", "N", name): name for name in tensors if not SUBTREE.match(name)}
    for name in kinds.values():
        headers.write(folder, {other: entry for other, entry in tensors.items() if other != name} | extra)
        status, said = product.attempt("check", folder)
        if status != 1 or name not in said:
            sys.exit(f"{name} was taken away, and `mbc check` does not name it (status {status}):\n{said}")
    return len(kinds)


def check_fixture(fixture, architecture, config_class):
    manifest = manifest_of(fixture)
    with tempfile.TemporaryDirectory() as scratch:
        published, saved = product.make(fixture, os.path.join(scratch, "hf")), os.path.join(scratch, "saved")
        add_fields(published, CLASS_FIELDS.get(fixture, {}))
        config = config_class.from_pretrained(published)
        if fixture not in NOT_LOADED:
            require_loads(fixture, architecture, published, config)
        if fixture in NOT_SAVED:
            return print(f"{fixture}: {len(manifest)} tensors loaded by {architecture.__name__}")
        tensors = save(architecture, config, saved, save_original_format=fixture not in FUSED)
        kept = read(published, "config.json")
        kept = kept.get("text_config", kept)
        add_fields(saved, {name: kept[name] for name in KEPT_FIELDS.get(fixture, ())})
        extra = {name: entry for name, entry in manifest.items() if name not in tensors and is_extra(name, config)}
        require_accepted(saved, tensors | extra)
        kinds = require_each_is_missed(saved, tensors, extra)
    print(f"{fixture}: {len(tensors)} tensors of {architecture.__name__} and {len(extra)} more, {kinds} kinds")


def check_default(architecture, config_class):
    with tempfile.TemporaryDirectory() as folder:
        tensors = save(architecture, config_class(**DEFAULTS.get(config_class.model_type, {})), folder)
        require_accepted(folder, tensors)
    print(f"{architecture.__name__}: {len(tensors)} tensors of {config_class.__name__}'s defaults")


if __name__ == "__main__":
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    known = fixtures()
    require_every_architecture(known.values())
    compared = {fixture: classes for fixture, classes in known.items() if fixture not in NOT_COMPARED}
    for fixture, classes in compared.items():
        check_fixture(fixture, *classes)
    defaults = (classes for fixture, classes in compared.items() if fixture not in NOT_SAVED | NOT_BUILT)
    for classes in dict.fromkeys(defaults):
        check_default(*classes)
