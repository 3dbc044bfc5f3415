#pragma once

#include "compiler/Binding/Bind.h"
#include "compiler/Binding/Layout.h"
#include "runtime/Json.h"
#include "runtime/Result.h"

namespace mbc::compiler {

/// The `args` that Megatron reads from a checkpoint: the spec's `config` block
/// plus what follows from layout, dtype and vocabulary. Of a Megatron source,
/// its own arguments come before the spec's: training may have changed them.
Json megatronArgs(const dsl::Model &model, const ParallelLayout &layout,
                  const Options &options, DType dtype, int64_t paddedVocab,
                  const Json &sourceArgs);

/// A value of the language as an argument.
Json argumentJson(const dsl::Value &value);

/// Arguments that say how a model is trained, or that nothing of it reads.
bool saysNothingOfTheModel(std::string_view name, const Json &args);

/// Warns of arguments of a Megatron source that are not what config.json gives:
/// an export writes that, and the weights may need the others.
void checkSourceArgs(const dsl::Model &model, const Json &sourceArgs,
                     const std::string &source, dsl::Diagnostics &diagnostics);

/// Refuses a Megatron source that keeps gate and up in alternate blocks of rows,
/// as newer versions do on request: each rank in its own, which rules, whose
/// tensors are whole, do not see.
Result<void> requireWholeHalves(const Json &sourceArgs,
                                const std::string &source);

} // namespace mbc::compiler
