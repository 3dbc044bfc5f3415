"""Lets Megatron-Core 0.16.1 read checkpoints under torch 2.15."""
from megatron.core.dist_checkpointing.strategies.torch import TorchDistLoadShardedStrategy


def leave_out():
    """Megatron-Core 0.16.1 gives every field of TensorProperties to torch.empty, which knows no strides; torch 2.15 has
    that field. Without this a checkpoint of Megatron-Core's own is not readable either."""
    original = TorchDistLoadShardedStrategy.load_tensors_metadata

    def load_tensors_metadata(self, checkpoint_dir, metadata):
        for entry in metadata.state_dict_metadata.values():
            vars(getattr(entry, "properties", entry)).pop("strides", None)
        return original(self, checkpoint_dir, metadata)

    TorchDistLoadShardedStrategy.load_tensors_metadata = load_tensors_metadata
