#pragma once

#include "compiler/Binding/Layout.h"

namespace mbc::compiler {

/// Fills `layout.chunkLayers` (and, for hybrid models, `layout.pattern`) from
/// the options: even stages, uneven first and last stages, or a written
/// pipeline layout. A hybrid model is cut only before the symbols that its
/// spec names, as near to even as that allows.
void cutPipeline(const Options &options, const dsl::Model &model,
                 ParallelLayout &layout, dsl::Diagnostics &diagnostics);

} // namespace mbc::compiler
