#include "compiler/Import/RulesToMap.h"

#include "compiler/Import/SideImporter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace mbc::compiler {

void prepareContext(MLIRContext &context) {
  context.disableMultithreading();
  context.loadDialect<map::MapDialect, arith::ArithDialect>();
}

Type elementType(MLIRContext &context, DType dtype) {
  Builder builder(&context);
  switch (dtype) {
  case DType::F64:
    return builder.getF64Type();
  case DType::F32:
    return builder.getF32Type();
  case DType::F16:
    return builder.getF16Type();
  case DType::BF16:
    return builder.getBF16Type();
  case DType::I64:
    return builder.getI64Type();
  case DType::I32:
    return builder.getI32Type();
  case DType::I16:
    return builder.getIntegerType(16);
  case DType::I8:
    return builder.getI8Type();
  case DType::U64:
    return builder.getIntegerType(64, false);
  case DType::U32:
    return builder.getIntegerType(32, false);
  case DType::U16:
    return builder.getIntegerType(16, false);
  case DType::U8:
    return builder.getIntegerType(8, false);
  case DType::BOOL:
    return builder.getI1Type();
  case DType::F8_E4M3:
    return builder.getFloat8E4M3FNType();
  case DType::F8_E5M2:
    return builder.getFloat8E5M2Type();
  case DType::F8_E4M3FNUZ:
    return builder.getFloat8E4M3FNUZType();
  case DType::F8_E5M2FNUZ:
    return builder.getFloat8E5M2FNUZType();
  // No types of their own in MLIR 19 (see mb.dequant):
  case DType::F8_E8M0:
    return builder.getIntegerType(8, true);
  case DType::F4_E2M1:
    return builder.getIntegerType(4, false);
  case DType::I4:
    return builder.getIntegerType(4, true);
  case DType::C64:
    return ComplexType::get(builder.getF32Type());
  }
  return {};
}

namespace {

map::ShardAttr shardOf(MLIRContext &context, const dsl::Shard &shard) {
  using dsl::ShardKind;
  int64_t dim = shard.kind == ShardKind::Row   ? 1
                : shard.kind == ShardKind::Dim ? shard.dim
                                               : 0;
  return map::ShardAttr::get(&context, static_cast<map::ShardKind>(shard.kind),
                             dim, shard.expert, !shard.sections.empty());
}

/// Builds the rule; false if an error was reported.
bool importRule(OpBuilder &builder, const RuleClass &rule, size_t index) {
  MLIRContext &context = *builder.getContext();
  Location location = locationOf(context, *rule.mapping, {});
  if (rule.megatron.empty()) {
    emitError(location) << "a rule needs a Megatron tensor";
    return false;
  }
  SmallVector<Attribute> sections;
  for (const std::vector<int64_t> &list : rule.sections)
    sections.push_back(builder.getDenseI64ArrayAttr(list));
  auto op = builder.create<map::RuleOp>(
      location, fmt::format("r{}", index),
      shardOf(context, rule.mapping->shard), builder.getArrayAttr(sections),
      builder.getStringAttr(rule.mapping->label));
  OpBuilder inside = OpBuilder::atBlockBegin(&op.getBody().emplaceBlock());
  Type element = elementType(context, rule.megatron[0].dtype);
  Value megatron =
      SideImporter(inside, rule, map::Side::Megatron, element).run();
  Value hf = SideImporter(inside, rule, map::Side::Hf, element).run();
  if (megatron && hf)
    inside.create<map::EquateOp>(location, megatron, hf);
  return megatron && hf;
}

} // namespace

OwningOpRef<ModuleOp> importRules(MLIRContext &context,
                                  const std::vector<RuleClass> &classes) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  bool whole = true;
  for (size_t index = 0; index != classes.size(); ++index) {
    if (!importRule(builder, classes[index], index)) {
      module->getBody()->back().erase();
      whole = false;
    }
  }
  if (failed(verify(*module)) || !whole)
    return {};
  return module;
}

} // namespace mbc::compiler
