"""torch_dist output, read with torch.distributed.checkpoint alone."""
import os
import sys
import tempfile

import numpy as np
import torch
import torch.distributed.checkpoint as dcp

import product
import reference


def read_all(folder):
    """Every tensor of a checkpoint by its key."""
    reader = dcp.FileSystemReader(folder)
    metadata = reader.read_metadata().state_dict_metadata
    state = {
        key: torch.empty(entry.size, dtype=entry.properties.dtype)
        for key, entry in metadata.items()
        if hasattr(entry, "size")
    }
    dcp.load(state, storage_reader=reader, no_dist=True)
    return state


def expected_keys(config, parameters, multiple):
    """torch_dist key -> bits: experts share one key, and a uniform decoder's layers do."""
    count, layers = reference.experts(config), config["num_hidden_layers"]
    stacked = not config.get("first_k_dense_replace")
    parts = {}
    for name, parameter in parameters.items():
        key, index = name.replace("mtp_model_layer", "transformer_layer"), ()
        if ".experts.linear_fc" in key:
            key, expert = key.rsplit(".weight", 1)
            key = key.replace(".experts.linear", ".experts.experts.linear") + ".weight"
            index = (int(expert),)
        if stacked and key.startswith("decoder.layers."):
            layer, rest = key[len("decoder.layers."):].split(".", 1)
            key, index = "decoder.layers." + rest, (int(layer), *index)
        parts.setdefault(key, {})[index] = parameter.padded(multiple)
    whole = {}
    for key, pieces in parts.items():
        first = pieces[min(pieces)]
        axes = tuple(np.max(list(pieces), axis=0) + 1) if min(pieces) else ()
        assert not axes or axes[-1] in (count, layers), key
        whole[key] = np.stack([pieces[i] for i in sorted(pieces)]).reshape(axes + first.shape)
    return whole


def check(fixture, layout):
    config, hf = reference.load(fixture)
    tp = layout[layout.index("--tp") + 1] if "--tp" in layout else 1
    with tempfile.TemporaryDirectory() as scratch:
        source = product.make(fixture, os.path.join(scratch, "hf"))
        target = os.path.join(scratch, "mg")
        product.mbc("convert", source, target, "--make-vocab-size-divisible-by", 128, *layout,
                    *product.import_options(fixture))
        found = read_all(os.path.join(target, "release"))
        expected = expected_keys(config, reference.megatron(config, hf), 128 * tp)
        if set(found) != set(expected):
            sys.exit(f"{fixture} {layout}: missing {sorted(set(expected) - set(found))[:5]}, "
                     f"not asked for {sorted(set(found) - set(expected))[:5]}")
        for key, bits in expected.items():
            product.require_equal(f"{fixture} {layout} {key}", found[key], bits)
    print(f"{fixture} {' '.join(map(str, layout)) or 'one rank'}: {len(expected)} keys equal")


if __name__ == "__main__":
    for layout in ([], ["--tp", 2], ["--tp", 2, "--etp", 2, "--ep", 2]):
        for fixture in ("llama", "qwen3", "qwen3_moe", "deepseek_v3"):
            if "--ep" in layout and fixture in ("llama", "qwen3"):
                continue
            check(fixture, layout)
