"""One rank: loads torch_dist checkpoints into real GPTModels and compares every parameter.

usage: load_into_gpt.py TP FIXTURE CHECKPOINT [FIXTURE CHECKPOINT ...]    RANK and WORLD_SIZE from the environment
"""
import sys

import gpt_models
import product
import reference
import torch.distributed as dist
from megatron.core import dist_checkpointing
from megatron.core.dist_checkpointing.validation import StrictHandling

# Newer loaders read common_state where 0.16.1 reads common.pt; hybrid models alone ask for the head's byte object, and
# versions until 0.14 for that of softmax attention.
FOR_OTHER_LOADERS = {"common_state", "output_layer._extra_state"}
FOR_OLDER_LOADERS = "core_attention._extra_state"


def load(fixture, model, checkpoint):
    """Fills the model; no key may be left over on either side."""
    requested = model.sharded_state_dict()
    names = set(requested)
    state, not_requested, absent = dist_checkpointing.load(requested, checkpoint, strict=StrictHandling.RETURN_ALL)
    not_requested = {name for name in not_requested if not name.endswith(FOR_OLDER_LOADERS)}
    if absent or not_requested != FOR_OTHER_LOADERS - names:
        sys.exit(f"{fixture}: requested but absent {sorted(absent)[:8]}, present but not requested "
                 f"{sorted(not_requested)[:8]}, expected of these only {sorted(FOR_OTHER_LOADERS - names)}")
    left = model.load_state_dict({name: state[name] for name in names}, strict=False)
    # Softmax attention has no part in a sharded state; its byte object stays as it is.
    missing = [k for k in left.missing_keys if not k.endswith(FOR_OLDER_LOADERS)]
    if missing or left.unexpected_keys:
        sys.exit(f"{fixture}: the model lacks {missing[:8]}, does not know {left.unexpected_keys[:8]}")


def check(fixture, checkpoint, tp):
    config, hf = reference.load(fixture)
    model = gpt_models.build(config, tp=tp)
    load(fixture, model, checkpoint)
    expected = reference.megatron(config, hf)
    found = gpt_models.global_names(model)
    if set(found) != set(expected):
        sys.exit(f"{fixture}: names differ: {sorted(set(found) ^ set(expected))[:8]}")
    for name, parameter in expected.items():
        product.require_equal(f"{fixture} {name}", found[name], gpt_models.local(name, parameter))
    dist.barrier()
    if dist.get_rank() == 0:
        print(f"{fixture} TP {tp}: {len(found)} parameters of the real model equal")


if __name__ == "__main__":
    tp, pairs = int(sys.argv[1]), sys.argv[2:]
    gpt_models.start()
    for fixture, checkpoint in zip(pairs[::2], pairs[1::2], strict=True):
        check(fixture, checkpoint, tp)
    dist.destroy_process_group()
