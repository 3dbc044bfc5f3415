"""What is quantised, and what it stands for, by the formulas of the programs that write and read such checkpoints, in torch.

Codes and scales are compared bit by bit: FP8 in blocks as transformers and DeepSeek have it, MXFP4 with scales E8M0,
NVFP4 as ModelOpt has it (a tensor scale that multiplies) and as compressed-tensors has it (one that divides).
"""
import json
import os
import sys
import tempfile

import product
import torch
from safetensors.torch import load_file, save_file

E2M1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
BOUNDS = torch.tensor([.25, .75, 1.25, 1.75, 2.5, 3.5, 5])
JOINT = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up"}


def fp8_block(weight):
    rows, columns = weight.shape
    padded = torch.zeros(-(-rows // 128) * 128, -(-columns // 128) * 128)
    padded[:rows, :columns] = weight.float()
    blocks = padded.view(padded.shape[0] // 128, 128, -1, 128)
    amax = blocks.abs().amax(dim=(1, 3))
    scale = torch.where(amax > 0, amax / 448, torch.ones(()))
    codes = (blocks / scale[:, None, :, None]).to(torch.float8_e4m3fn)
    return codes.view(padded.shape)[:rows, :columns].contiguous(), scale


def packed(codes):
    return codes[..., 0::2] | codes[..., 1::2] << 4


def e2m1(value, ties_to_even):
    """A tie is the lower code, or the even one: the upper at every second bound."""
    magnitude = value.abs()
    code = torch.searchsorted(BOUNDS, magnitude.contiguous())
    if ties_to_even:
        code += (magnitude[..., None] == BOUNDS[1::2]).any(-1)
    return (code + 8 * (value < 0)).to(torch.uint8)


def mxfp4(weight):
    groups = weight.float().unflatten(-1, (-1, 32))
    amax = groups.abs().amax(-1)
    scale = torch.where(amax > 0, amax / 6, torch.ones(()))
    exponent = torch.log2(scale).ceil().clamp(-127, 127)
    codes = e2m1(groups / torch.exp2(exponent)[..., None], False).flatten(-2)
    return packed(codes), (exponent + 127).to(torch.uint8)


def nvfp4(weight, largest):
    one = largest.float() / (6 * 448)
    groups = weight.unflatten(-1, (-1, 16))
    scale = groups.abs().amax(-1).float() / (6 * one)
    scale[scale == 0] = 1
    scale = scale.clamp(2 ** -9, 448).to(torch.float8_e4m3fn)
    codes = e2m1(groups / (scale.float() * one)[..., None], True).flatten(-2)
    return packed(codes), scale, one


def nvfp4_dividing(weight, largest):
    one = (448 * 6 / largest.float()).reshape(1)
    groups = weight.unflatten(-1, (-1, 16))
    scale = (one * (groups.abs().amax(-1).float() / 6)).clamp(-448, 448).to(torch.float8_e4m3fn)
    scale = torch.where(scale.float() == 0, torch.tensor(.125).to(torch.float8_e4m3fn), scale)
    codes = e2m1((groups / (scale.float() / one)[..., None]).clamp(-6, 6), True).flatten(-2)
    return packed(codes), scale, one


def values(codes, scale, one=None, divides=False):
    """BF16 values of packed E2M1: scales first, then codes, rounded once."""
    scale = scale.float()
    if one is not None:
        scale = scale / one if divides else scale * one
    numbers = E2M1[torch.stack([codes & 15, codes >> 4], -1).flatten(-2).long()]
    return (numbers.unflatten(-1, (scale.shape[-1], -1)) * scale[..., None]).flatten(-2).bfloat16()


def plain_model(scratch):
    """A Llama whose widths all formats divide, with numbers of many magnitudes; a row and a matrix of zeros."""
    hidden, width, heads, layers = 192, 320, 4, 2
    torch.manual_seed(3)

    def random(*shape):
        spread = torch.randn(shape) * 10 ** torch.randn(shape[0], *[1] * (len(shape) - 1))
        return spread.bfloat16()

    tensors = {"model.embed_tokens.weight": random(256, hidden), "lm_head.weight": random(256, hidden),
               "model.norm.weight": random(hidden)}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[at + name + ".weight"] = random(hidden)
        for name in "qkvo":
            tensors[f"{at}self_attn.{name}_proj.weight"] = random(hidden, hidden)
        tensors[at + "mlp.gate_proj.weight"] = random(width, hidden)
        tensors[at + "mlp.up_proj.weight"] = random(width, hidden)
        tensors[at + "mlp.down_proj.weight"] = random(hidden, width)
    tensors["model.layers.0.self_attn.o_proj.weight"][5] = 0
    tensors["model.layers.1.mlp.down_proj.weight"][:, 16:48] = 0
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": hidden,
              "intermediate_size": width, "num_attention_heads": heads, "num_key_value_heads": heads,
              "num_hidden_layers": layers, "vocab_size": 256, "hidden_act": "silu", "rms_norm_eps": 1e-6,
              "max_position_embeddings": 512, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False}
    write(os.path.join(scratch, "hf"), tensors, config)
    return tensors, config


def write(folder, tensors, config):
    os.makedirs(folder)
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)


def joint_largest(tensors):
    """The largest magnitude of each projection and of what Megatron holds with it."""
    def key(name):
        module, _, part = name.removesuffix(".weight").rpartition(".")
        return module, JOINT.get(part, part)

    largest = {}
    for name in projections(tensors):
        largest[key(name)] = max(largest.get(key(name), torch.zeros(())), tensors[name].abs().max().float())
    return {name: largest[key(name)] for name in projections(tensors)}


def projections(tensors):
    return [name for name in tensors if name.endswith("_proj.weight")]


def require(name, found, expected):
    if found.dtype != expected.dtype or found.shape != expected.shape:
        sys.exit(f"{name}: {found.dtype} {list(found.shape)}, expected {expected.dtype} {list(expected.shape)}")
    wrong = (found.contiguous().view(-1).view(torch.uint8) != expected.contiguous().view(-1).view(torch.uint8)).sum()
    if wrong:
        sys.exit(f"{name}: {wrong} bytes differ from torch's")


def fresh(scratch, tensors, quant, encode, endings):
    """An export with --quant: each projection as the formula has it, all else as it was."""
    back = os.path.join(scratch, quant)
    product.mbc("convert", os.path.join(scratch, "mg"), back, "--quant", quant)
    found = {name: tensor for name, (_, tensor) in product.read_safetensors(back).items()}
    for name in tensors:
        if not name.endswith("_proj.weight"):
            require(name, found.pop(name), tensors[name])
            continue
        for ending, expected in zip(endings, encode(name)):
            require(name + ending, found.pop(name + ending), expected)
    if found:
        sys.exit(f"--quant {quant} also writes {sorted(found)}")
    print(f"--quant {quant}: {len(projections(tensors))} weights are torch's, bit by bit")
    return back


def read_back(scratch, folder, decode):
    """An import of what was written, and its export: the values by torch."""
    product.mbc("convert", folder, folder + "-mg", "--tp", 2)
    product.mbc("convert", folder + "-mg", folder + "-back")
    stored = {name: tensor for name, (_, tensor) in product.read_safetensors(folder).items()}
    for name, (_, tensor) in product.read_safetensors(folder + "-back").items():
        require(name, tensor, decode(name, stored) if name.endswith("_proj.weight") else stored[name])


def main():
    with tempfile.TemporaryDirectory() as scratch:
        tensors, config = plain_model(scratch)
        product.mbc("convert", os.path.join(scratch, "hf"), os.path.join(scratch, "mg"), "--tp", 2)
        largest = joint_largest(tensors)

        fp8 = fresh(scratch, tensors, "fp8-block", lambda name: fp8_block(tensors[name]), ("", "_scale_inv"))

        def from_fp8(name, stored):
            rows, columns = stored[name].shape
            scale = stored[name + "_scale_inv"].repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :columns]
            return (stored[name].float() * scale).bfloat16()

        read_back(scratch, fp8, from_fp8)
        mx = fresh(scratch, tensors, "mxfp4", lambda name: mxfp4(tensors[name]), ("_packed", "_scale"))
        read_back(scratch, mx, lambda name, stored: values(
            stored[name + "_packed"], torch.exp2(stored[name + "_scale"].float() - 127)))
        nv = fresh(scratch, tensors, "nvfp4", lambda name: nvfp4(tensors[name], largest[name]),
                   ("", "_scale", "_scale_2"))
        read_back(scratch, nv, lambda name, stored: values(
            stored[name], stored[name + "_scale"], stored[name + "_scale_2"]))

        dividing = dict(tensors)
        for name in projections(tensors):
            weight = dividing.pop(name)
            encoded = nvfp4_dividing(weight, largest[name])
            for ending, tensor in zip(("_packed", "_scale", "_global_scale"), encoded):
                dividing[name + ending] = tensor.contiguous()
        source = os.path.join(scratch, "compressed-tensors")
        write(source, dividing, config | {"quantization_config": {"quant_method": "compressed-tensors"}})
        read_back(scratch, source, lambda name, stored: values(
            stored[name + "_packed"], stored[name + "_scale"], stored[name + "_global_scale"], True))
        print("values of FP8, MXFP4 and NVFP4, by either tensor scale, are torch's, bit by bit")


if __name__ == "__main__":
    main()
