#include "compiler/Import/SideImporter.h"

#include "compiler/Import/RulesToMap.h"
#include "compiler/PairedRows.h"

#include <numeric>

using namespace mlir;

namespace mbc::compiler {
namespace {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

ArrayRef<int64_t> dimsOf(const Shape &shape) {
  return {shape.begin(), shape.end()};
}

} // namespace

Location locationOf(MLIRContext &context, const dsl::Mapping &mapping,
                    const dsl::SourceRange &where) {
  const dsl::SourceRange &range = where.file ? where : mapping.where;
  Location place = UnknownLoc::get(&context);
  if (range.file)
    place = FileLineColLoc::get(&context, range.file->path, range.line,
                                range.column);
  return NameLoc::get(StringAttr::get(&context, mapping.label), place);
}

SideImporter::SideImporter(OpBuilder &builder, const RuleClass &rule,
                           map::Side side, Type ruleElement)
    : builder(builder), rule(rule), side(side),
      nodes(side == map::Side::Hf ? rule.mapping->hf : rule.mapping->megatron),
      operands(side == map::Side::Hf ? rule.hf : rule.megatron),
      ruleElement(ruleElement), used(operands.size()), sliced(nodes.size()) {}

Location SideImporter::at(const dsl::Node &node) const {
  return locationOf(*builder.getContext(), *rule.mapping, node.where);
}

InFlightDiagnostic SideImporter::error(const dsl::Node &node) const {
  return emitError(at(node));
}

Value SideImporter::run() {
  for (size_t index = nodes.size(); index-- > 0;) // parents come last
    for (uint32_t child : nodes[index].children)
      sliced[child] = sliced[index] || nodes[index].kind == dsl::OpKind::Slice;
  for (const dsl::Node &node : nodes) {
    Value same = sameBefore(node);
    values.push_back(same ? same : build(node));
    if (!values.back() || !checkExtents(node))
      return {};
  }
  for (size_t operand = 0; operand != used.size(); ++operand)
    if (!used[operand]) {
      emitError(locationOf(*builder.getContext(), *rule.mapping, {}))
          << "tensor " << operand << " of the " << map::stringifySide(side)
          << " side does not appear in the rule";
      return {};
    }
  if (!nodes.empty() && nodes.back().extent &&
      !checkExtent(nodes.back(), 0, values.back()))
    return {};
  return values.empty() ? Value() : values.back();
}

/// The pieces of a tensor then are slices of one value.
Value SideImporter::sameBefore(const dsl::Node &node) const {
  auto sameChildren = [&](const dsl::Node &other) {
    return llvm::equal(
        node.children, other.children,
        [&](uint32_t a, uint32_t b) { return values[a] == values[b]; });
  };
  if (sliced[values.size()])
    for (size_t index = 0; index != values.size(); ++index) {
      const dsl::Node &other = nodes[index];
      if (sliced[index] && other.kind == node.kind &&
          other.operand == node.operand && other.ints == node.ints &&
          other.rest == node.rest && other.dim == node.dim &&
          other.value == node.value && sameChildren(other))
        return values[index];
    }
  return {};
}

Value SideImporter::build(const dsl::Node &node) {
  SmallVector<Value> children;
  for (uint32_t child : node.children)
    children.push_back(values[child]);
  FloatAttr constant = builder.getF64FloatAttr(node.value);
  switch (node.kind) {
  case dsl::OpKind::Tensor:
    return tensor(node);
  case dsl::OpKind::Fill:
    return builder.create<map::FillOp>(
        at(node), RankedTensorType::get(node.ints, ruleElement), constant);
  case dsl::OpKind::Concat:
    return concat(node, children);
  case dsl::OpKind::Stack:
    return stack(node, children);
  case dsl::OpKind::Reshape:
    return reshape(node, children[0]);
  case dsl::OpKind::Transpose:
    return transpose(node, children[0]);
  case dsl::OpKind::Slice:
    return slice(node, children[0]);
  case dsl::OpKind::Repeat:
    children.resize(node.ints[0], children[0]);
    return concat(node, children);
  case dsl::OpKind::Deinterleave:
    return deinterleave(node, children[0]);
  case dsl::OpKind::Add:
    return builder.create<map::AddOp>(at(node), children[0], constant);
  case dsl::OpKind::Scale:
    return builder.create<map::ScaleOp>(at(node), children[0], constant);
  }
  return {};
}

Value SideImporter::tensor(const dsl::Node &node) {
  if (used[node.operand])
    return error(node) << "a tensor appears twice in the rule; each element "
                          "has one place",
           Value();
  used[node.operand] = true;
  const OperandType &operand = operands[node.operand];
  if (operand.shape.elements() == 0)
    return error(node) << "the tensor has no elements (shape "
                       << toString(operand.shape) << ")",
           Value();
  Value value =
      operand.scale ? dequantized(node, operand) : leaf(node.operand, at(node));
  auto type = typeOf(value);
  if (typeOf(value).getElementType() != ruleElement)
    value =
        builder.create<map::CastOp>(at(node), type.clone(ruleElement), value,
                                    rule.exactCasts && !operand.scale);
  bool vocabulary = side == map::Side::Megatron && rule.vocabRows != 0 &&
                    rule.mapping->shard.kind == dsl::ShardKind::Vocab;
  if (!vocabulary || type.getDimSize(0) == rule.vocabRows)
    return value;
  if (type.getDimSize(0) < rule.vocabRows)
    return error(node) << "the vocabulary has " << rule.vocabRows
                       << " rows, but its Megatron tensor only "
                       << type.getDimSize(0),
           Value();
  SmallVector<int64_t> shape(type.getShape()), start(type.getRank(), 0);
  shape[0] = rule.vocabRows;
  return builder.create<map::SliceOp>(
      at(node), RankedTensorType::get(shape, ruleElement), value, start);
}

/// Codes and scales are matrices, whatever the shape of the values.
Value SideImporter::dequantized(const dsl::Node &node,
                                const OperandType &operand) {
  auto matrix = [&](int64_t rows, int64_t columns, DType dtype) {
    return RankedTensorType::get({rows, columns},
                                 elementType(*builder.getContext(), dtype));
  };
  auto create = [&](RankedTensorType type, Role role) {
    return builder.create<map::OperandOp>(
        at(node), type, side, node.operand, role == Role::Scales,
        role == Role::TensorScale, IntegerAttr(), ArrayAttr());
  };
  const BlockScale &scale = *operand.scale;
  int64_t columns = codeColumns(operand.shape, scale);
  auto type =
      matrix(operand.shape.elements() / columns, columns, operand.dtype);
  Value codes = create(type, Role::Values);
  Value scales =
      create(matrix(scale.shape[0], scale.shape[1], scale.dtype), Role::Scales);
  Value tensorScale;
  if (scale.tensor != TensorScale::None)
    tensorScale = create(matrix(1, 1, DType::F32), Role::TensorScale);
  int64_t block[] = {scale.blockRows, scale.blockColumns};
  Value value = builder.create<map::DequantOp>(
      at(node), type.clone(builder.getF32Type()), codes, scales, tensorScale,
      scale.tensor == TensorScale::Divides, block);
  if (pairsRows(scale))
    return unpaired(value, operand.shape, at(node));
  ArrayRef<int64_t> shape = dimsOf(operand.shape);
  if (typeOf(value).getShape() == shape)
    return value;
  return builder.create<map::ReshapeOp>(at(node), typeOf(value).clone(shape),
                                        value);
}

/// [.., in, out] as [.., in / 2, out, 2].
static SmallVector<int64_t> pairedShape(const Shape &shape) {
  SmallVector<int64_t> pairs(shape.begin(), shape.end());
  pairs[pairs.size() - 2] /= 2;
  pairs.push_back(2);
  return pairs;
}

Value SideImporter::leaf(uint32_t ordinal, Location location) {
  const OperandType &operand = operands[ordinal];
  auto type = RankedTensorType::get(
      dimsOf(operand.shape), elementType(*builder.getContext(), operand.dtype));
  if (!operand.order.empty())
    return reordered(ordinal, location, type);
  if (operand.encoding && pairsRows(operand.encoding->scale)) {
    Value bytes = builder.create<map::OperandOp>(
        location, type.clone(pairedShape(operand.shape)), side, ordinal, false,
        false, IntegerAttr(), ArrayAttr());
    return unpaired(bytes, operand.shape, location);
  }
  return builder.create<map::OperandOp>(location, type, side, ordinal, false,
                                        false, IntegerAttr(), partsOf(operand));
}

/// Values whose rows lie in pairs, in their own order.
Value SideImporter::unpaired(Value value, const Shape &shape,
                             Location location) {
  SmallVector<int64_t> pairs = pairedShape(shape), axes, rows = pairs;
  RankedTensorType type = typeOf(value);
  if (type.getShape() != ArrayRef<int64_t>(pairs))
    value = builder.create<map::ReshapeOp>(location, type.clone(pairs), value);
  for (size_t axis = 0; axis != pairs.size(); ++axis)
    axes.push_back(axis);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  std::swap(rows[rows.size() - 1], rows[rows.size() - 2]);
  value =
      builder.create<map::TransposeOp>(location, type.clone(rows), value, axes);
  return builder.create<map::ReshapeOp>(location, type.clone(dimsOf(shape)),
                                        value);
}

/// A tensor whose axes have another order in the file.
Value SideImporter::reordered(uint32_t ordinal, Location location,
                              RankedTensorType type) {
  ArrayRef<int64_t> order = dimsOf(operands[ordinal].order);
  SmallVector<int64_t> stored, back(order.size());
  for (auto [at, axis] : llvm::enumerate(order)) {
    stored.push_back(type.getDimSize(axis));
    back[axis] = at;
  }
  Value bytes = builder.create<map::OperandOp>(location, type.clone(stored),
                                               side, ordinal, false, false,
                                               IntegerAttr(), ArrayAttr());
  return builder.create<map::TransposeOp>(location, type, bytes, back);
}

ArrayAttr SideImporter::partsOf(const OperandType &operand) {
  if (operand.parts.empty())
    return {};
  MLIRContext *context = builder.getContext();
  SmallVector<Attribute> parts;
  for (const StoredPart &part : operand.parts) {
    SmallVector<map::PlacementAttr> placements;
    for (const Placement &placement : part.placements)
      placements.push_back(map::PlacementAttr::get(
          context, dimsOf(placement.local), dimsOf(placement.global),
          dimsOf(placement.shape)));
    parts.push_back(
        map::PartAttr::get(context, dimsOf(part.shape), placements));
  }
  return builder.getArrayAttr(parts);
}

Value SideImporter::concat(const dsl::Node &node, ValueRange parts) {
  SmallVector<int64_t> shape(typeOf(parts[0]).getShape());
  int64_t dim = node.dim;
  if (dim < 0 || dim >= static_cast<int64_t>(shape.size()))
    return error(node) << "concat along dimension " << dim << " of tensors "
                       << "with " << shape.size() << " dimensions",
           Value();
  shape[dim] = 0;
  for (auto [index, part] : llvm::enumerate(parts)) {
    auto type = typeOf(part);
    if (type.getRank() != static_cast<int64_t>(shape.size()))
      return error(node) << "concat of part 0 " << typeOf(parts[0])
                         << " and part " << index << " " << type
                         << ": the numbers of dimensions differ",
             Value();
    shape[dim] += type.getDimSize(dim);
  }
  auto result = RankedTensorType::get(shape, ruleElement);
  return builder.create<map::ConcatOp>(at(node), result, parts, dim);
}

Value SideImporter::stack(const dsl::Node &node, ValueRange parts) {
  SmallVector<int64_t> shape(typeOf(parts[0]).getShape());
  if (node.dim < 0 || node.dim > static_cast<int64_t>(shape.size()))
    return error(node) << "stack along dimension " << node.dim
                       << " of tensors with " << shape.size() << " dimensions",
           Value();
  shape.insert(shape.begin() + node.dim, parts.size());
  return builder.create<map::StackOp>(
      at(node), RankedTensorType::get(shape, ruleElement), parts, node.dim);
}

Value SideImporter::reshape(const dsl::Node &node, Value input) {
  ArrayRef<int64_t> from = typeOf(input).getShape();
  SmallVector<int64_t> shape{ArrayRef<int64_t>(node.ints)};
  int64_t wanted = std::accumulate(shape.begin(), shape.end(), int64_t{1},
                                   std::multiplies<>());
  if (node.rest) {
    int64_t product = 1;
    size_t axes = 0;
    while (axes != from.size() && (axes == 0 || product < wanted))
      product *= from[axes++];
    if (product != wanted)
      return error(node) << "the leading dimensions of " << typeOf(input)
                         << " do not multiply to " << wanted
                         << ", the product of the new ones",
             Value();
    shape.append(from.begin() + axes, from.end());
  } else if (wanted != typeOf(input).getNumElements()) {
    return error(node) << "reshape of " << typeOf(input) << " with "
                       << typeOf(input).getNumElements() << " elements to "
                       << wanted << " elements",
           Value();
  }
  return builder.create<map::ReshapeOp>(
      at(node), RankedTensorType::get(shape, ruleElement), input);
}

Value SideImporter::transpose(const dsl::Node &node, Value input) {
  ArrayRef<int64_t> from = typeOf(input).getShape();
  SmallVector<int64_t> shape, sorted{ArrayRef<int64_t>(node.ints)};
  llvm::sort(sorted);
  bool permutation = sorted.size() == from.size();
  for (size_t axis = 0; permutation && axis != sorted.size(); ++axis)
    permutation = sorted[axis] == static_cast<int64_t>(axis);
  if (!permutation)
    return error(node) << "transpose needs each of the " << from.size()
                       << " axes of " << typeOf(input) << " once",
           Value();
  for (int64_t axis : node.ints)
    shape.push_back(from[axis]);
  return builder.create<map::TransposeOp>(
      at(node), RankedTensorType::get(shape, ruleElement), input, node.ints);
}

Value SideImporter::slice(const dsl::Node &node, Value whole) {
  auto type = typeOf(whole);
  SmallVector<int64_t> shape(type.getShape()), start(type.getRank(), 0);
  int64_t from = node.ints[0], width = node.ints[1];
  if (node.dim >= type.getRank() || from < 0 || width < 1 ||
      from + width > shape[node.dim])
    return error(node) << "a slice " << width << " wide from " << from
                       << " on along dimension " << node.dim << " is not in "
                       << type,
           Value();
  shape[node.dim] = width;
  start[node.dim] = from;
  return builder.create<map::SliceOp>(
      at(node), RankedTensorType::get(shape, ruleElement), whole, start);
}

/// Each section is a slice of all groups.
Value SideImporter::deinterleave(const dsl::Node &node, Value input) {
  auto type = typeOf(input);
  ArrayRef<int64_t> sections = ArrayRef<int64_t>(node.ints).drop_front();
  const int64_t groups = node.ints[0],
                rows = std::accumulate(sections.begin(), sections.end(),
                                       int64_t{0});
  if (type.getRank() == 0 || type.getDimSize(0) != groups * rows)
    return error(node) << "deinterleave of " << type << ": " << groups
                       << " groups of " << rows << " rows",
           Value();
  if (groups == 1) // the sections are in place
    return input;
  SmallVector<int64_t> flat(type.getShape()), grouped{groups, rows};
  grouped.append(flat.begin() + 1, flat.end());
  Value whole =
      builder.create<map::ReshapeOp>(at(node), type.clone(grouped), input);
  SmallVector<int64_t> start(grouped.size(), 0);
  SmallVector<Value> parts;
  for (int64_t section : sections) {
    grouped[1] = section;
    flat[0] = groups * section;
    Value slice = builder.create<map::SliceOp>(at(node), type.clone(grouped),
                                               whole, start);
    parts.push_back(
        builder.create<map::ReshapeOp>(at(node), type.clone(flat), slice));
    start[1] += section;
  }
  return builder.create<map::ConcatOp>(at(node), type, parts, 0);
}

bool SideImporter::checkExtents(const dsl::Node &node) {
  int64_t dim =
      node.kind == dsl::OpKind::Concat || node.kind == dsl::OpKind::Slice
          ? node.dim
          : 0;
  for (uint32_t child : node.children)
    if (nodes[child].extent && !checkExtent(nodes[child], dim, values[child]))
      return false;
  return true;
}

bool SideImporter::checkExtent(const dsl::Node &child, int64_t dim,
                               Value value) {
  auto type = typeOf(value);
  int64_t found = dim < type.getRank() ? type.getDimSize(dim) : 1;
  // A scalar counts as one element, as the pieces of a vector do.
  if (found == *child.extent)
    return true;
  error(child) << "written with extent " << *child.extent
               << ", but the tensor is " << found << " wide in dimension "
               << dim;
  return false;
}

} // namespace mbc::compiler
