"""One rank: loads a torch_dist checkpoint into a real GPTModel and compares every parameter.

usage: load_into_gpt.py FIXTURE CHECKPOINT TP        RANK and WORLD_SIZE from the environment
"""
import sys

import gpt_models
import product
import reference
import torch.distributed as dist
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.validation import StrictHandling


def main(fixture, checkpoint, tp):
    config, hf = reference.load(fixture)
    gpt_models.start(tp=tp)
    model = gpt_models.build(config, tp=tp)
    state, missing, unexpected = dist_checkpointing.load(
        model.sharded_state_dict(), checkpoint, strict=StrictHandling.RETURN_ALL)
    if missing or unexpected:
        sys.exit(f"{fixture}: missing {sorted(missing)[:8]}, unexpected {sorted(unexpected)[:8]}")
    model.load_state_dict(state, strict=False)

    rank = parallel_state.get_tensor_model_parallel_rank()
    expected = reference.megatron(config, hf)
    found = gpt_models.global_names(model)
    if set(found) != set(expected):
        sys.exit(f"{fixture}: names differ: {sorted(set(found) ^ set(expected))[:8]}")
    for name, parameter in expected.items():
        product.require_equal(f"{fixture} {name}", found[name], parameter.local(rank, tp, 128))
    dist.barrier()
    if rank == 0:
        print(f"{fixture} TP {tp}: {len(found)} parameters of the real model equal")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
