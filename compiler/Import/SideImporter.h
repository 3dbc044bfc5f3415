#pragma once

#include "compiler/Map/MapOps.h"
#include "compiler/RuleClass.h"

namespace mbc::compiler {

/// A place of a rule: the line of the spec within the rule's label.
mlir::Location locationOf(mlir::MLIRContext &context,
                          const dsl::Mapping &mapping,
                          const dsl::SourceRange &where);

/// Builds the operations of one side of a rule. Shapes are inferred from the
/// leaves upwards.
class SideImporter {
public:
  SideImporter(mlir::OpBuilder &builder, const RuleClass &rule, map::Side side,
               mlir::Type ruleElement);

  /// The side's root, or null if an error was reported.
  mlir::Value run();

private:
  mlir::Value build(const dsl::Node &node);
  mlir::Value tensor(const dsl::Node &node);
  mlir::Value dequantized(const dsl::Node &node, const OperandType &operand);
  mlir::Value leaf(uint32_t ordinal, mlir::Location location);
  mlir::Value unpaired(mlir::Value value, const Shape &shape,
                       mlir::Location location);
  mlir::Value reordered(uint32_t ordinal, mlir::Location location,
                        mlir::RankedTensorType type);
  mlir::Value concat(const dsl::Node &node, mlir::ValueRange parts);
  mlir::Value stack(const dsl::Node &node, mlir::ValueRange parts);
  mlir::Value reshape(const dsl::Node &node, mlir::Value input);
  mlir::Value transpose(const dsl::Node &node, mlir::Value input);
  mlir::Value deinterleave(const dsl::Node &node, mlir::Value input);
  mlir::Value slice(const dsl::Node &node, mlir::Value whole);
  /// The value of an earlier node that is the same expression below a slice.
  mlir::Value sameBefore(const dsl::Node &node) const;
  /// Checks the extents that are written at `node`'s children.
  bool checkExtents(const dsl::Node &node);
  bool checkExtent(const dsl::Node &child, int64_t dim, mlir::Value value);
  mlir::ArrayAttr partsOf(const OperandType &operand);
  mlir::Location at(const dsl::Node &node) const;
  mlir::InFlightDiagnostic error(const dsl::Node &node) const;

  mlir::OpBuilder &builder;
  const RuleClass &rule;
  map::Side side;
  const std::vector<dsl::Node> &nodes;
  const std::vector<OperandType> &operands;
  mlir::Type ruleElement;          ///< type that both sides are compared in
  std::vector<mlir::Value> values; ///< of the nodes so far
  std::vector<bool> used;          ///< operands so far
  std::vector<bool> sliced;        ///< nodes below a slice
};

} // namespace mbc::compiler
