#pragma once

#include "compiler/Binding/Bind.h"
#include "compiler/Binding/BindCommon.h"

namespace mbc::compiler {

/// A Megatron operand of an export, put together from what the checkpoint
/// stores: its whole type with parts, and the piece behind each part.
struct StoredOperand {
  OperandType type;
  std::vector<SourceRef> refs; ///< one for each part
};

/// Of a torch_dist: the parts are its chunks.
StoredOperand chunkParts(const Checkpoint &checkpoint, uint32_t tensor);

/// Of per-rank files: the parts are the local tensors of the ranks that the
/// shard is cut over, but for those without elements. `sections` are the whole
/// tensor's section extents where the rule's shard has sections. Fails if a
/// rank's tensor is missing or misshapen.
Result<StoredOperand> rankParts(const Checkpoint &checkpoint, uint32_t tensor,
                                const dsl::Shard &shard,
                                const ParallelLayout &layout,
                                const std::vector<int64_t> &sections);

} // namespace mbc::compiler
