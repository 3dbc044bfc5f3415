#pragma once

#include "compiler/Map/MapOps.h"
#include "compiler/RuleClass.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace mbc::compiler {

#define GEN_PASS_DECL
#include "compiler/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/Transforms/Passes.h.inc"

/// The whole way from equations to classified fused operations.
void buildPipeline(mlir::OpPassManager &passes, Direction direction,
                   const ShardLayout &layout);

/// Registers the passes and the pipeline `mb-compile` for mbc-opt.
void registerGraphPasses();

} // namespace mbc::compiler
