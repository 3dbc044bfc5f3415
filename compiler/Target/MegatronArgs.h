#pragma once

#include "compiler/Binding/Bind.h"
#include "compiler/Binding/Layout.h"
#include "runtime/Json.h"

namespace mbc::compiler {

/// The `args` that Megatron reads from a checkpoint: the spec's `config` block
/// plus what follows from layout, dtype and vocabulary.
Json megatronArgs(const dsl::Model &model, const ParallelLayout &layout,
                  const Options &options, DType dtype, int64_t paddedVocab);

/// The layout that a per-rank checkpoint was written with, from its args.
/// A missing size is an error that names the field.
Result<ParallelLayout> layoutFromArgs(const std::string &argsJson);

} // namespace mbc::compiler
