"""Logits of transformers' models and of Megatron-Core's GPTModels after a conversion, in float32."""
import json
import os
import sys
import tempfile

import gpt_on_cpu
import product
import reference
import torch
import transformers

# Changes of the fixtures' configs that Megatron has to be told: without any one of them the logits differ by far more
# than LARGEST. Megatron knows only Llama 3.1's own bounds of the rotary scaling.
LLAMA3 = dict(rope_type="llama3", rope_theta=5000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
CASES = {
    "llama": [dict(rms_norm_eps=1e-2, rope_parameters=dict(rope_type="default", rope_theta=500.0)),
              dict(rope_parameters=LLAMA3, max_position_embeddings=131072),
              dict(rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0))],
    "qwen2": [dict(rope_parameters=dict(rope_type="default", rope_theta=500.0)), dict(tie_word_embeddings=False)],
    "qwen3": [dict(rms_norm_eps=1e-2)],
    "qwen3_moe": [dict(norm_topk_prob=False), dict(norm_topk_prob=True, mlp_only_layers=[1]),
                  dict(num_experts_per_tok=3, decoder_sparse_step=2)],
    "mixtral": [{}, dict(num_experts_per_tok=3)],
}
LARGEST = 1e-4
TOKENS = 2, 128


def model_of(fixture, changes):
    """A model of transformers with random weights whose logits are of the order of 1."""
    with open(os.path.join(reference.DATA, fixture, "config.json")) as file:
        values = json.load(file) | changes | {"dtype": "float32"}
    (name,) = values["architectures"]
    architecture = getattr(transformers, name)
    model = architecture._from_config(architecture.config_class(**values), attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        random = torch.randn(parameter.shape, generator=generator)
        parameter.data = 1 + random / 4 if parameter.ndim == 1 else random / parameter.shape[-1] ** 0.5
    return model


def check(fixture, changes):
    model = model_of(fixture, changes)
    tokens = torch.randint(model.config.vocab_size, TOKENS, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = model(tokens).logits
    with tempfile.TemporaryDirectory() as scratch:
        source, target = os.path.join(scratch, "hf"), os.path.join(scratch, "mg")
        model.save_pretrained(source)
        product.mbc("convert", source, target, "--dtype", "keep")
        found = gpt_on_cpu.logits(gpt_on_cpu.load(os.path.join(target, "release")), tokens)
    largest = (found[..., :model.config.vocab_size] - expected).abs().max().item()
    print(f"{fixture} {changes}: logits up to {expected.abs().max():.1f}, largest difference {largest:.1e}")
    if not largest < LARGEST:
        sys.exit(f"{fixture}: logits differ by {largest}, allowed is {LARGEST}")


if __name__ == "__main__":
    transformers.utils.logging.disable_progress_bar()
    gpt_on_cpu.start()
    for fixture, cases in CASES.items():
        for changes in cases:
            check(fixture, changes)
