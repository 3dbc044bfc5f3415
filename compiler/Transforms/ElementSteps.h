#pragma once

#include "compiler/Map/MapOps.h"

namespace mbc::compiler {

/// What happens to every element on its way: one operation of the chain.
struct ElementStep {
  enum Kind { Dequant, Cast, Add, Scale } kind;
  mlir::Type type;      ///< after the step
  bool exact = false;   ///< Cast
  double value = 0;     ///< Add, Scale
  bool divides = false; ///< Dequant: by the tensor scale

  friend bool operator==(const ElementStep &, const ElementStep &) = default;
};

/// The step of an element operation; nothing for every other operation.
std::optional<ElementStep> stepOf(mlir::Operation *op);

/// The bits of a constant after `step`, computed as the kernels compute.
uint64_t foldConstant(uint64_t bits, mlir::Type from, const ElementStep &step);

/// Writes the chain as the body of an `mb.fused`, whose arguments are an
/// element and, if a step is a Dequant, its scale and perhaps a tensor scale.
void buildBody(mlir::OpBuilder &builder, mlir::Location location,
               llvm::ArrayRef<ElementStep> steps, mlir::Block &body);

} // namespace mbc::compiler
