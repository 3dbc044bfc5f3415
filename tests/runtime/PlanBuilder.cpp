#include "tests/runtime/PlanBuilder.h"

#include <cstdio>
#include <cstdlib>

namespace mbc::test {

uint32_t PlanBuilder::sourceFile(std::string path, uint64_t size) {
  auto file = std::make_unique<plan::SourceFileT>();
  file->path = std::move(path);
  file->size = size;
  plan.source_files.push_back(std::move(file));
  return plan.source_files.size() - 1;
}

uint32_t PlanBuilder::source(uint32_t file, uint64_t offset, std::string name) {
  plan.sources.emplace_back(file, offset);
  plan.source_names.push_back(std::move(name));
  return plan.sources.size() - 1;
}

uint32_t PlanBuilder::targetFile(std::string path, uint64_t size) {
  auto file = std::make_unique<plan::TargetFileT>();
  file->path = std::move(path);
  file->size = size;
  plan.files.push_back(std::move(file));
  return plan.files.size() - 1;
}

uint32_t PlanBuilder::tensor(std::string key, DType dtype,
                             std::vector<int64_t> shape) {
  auto row = std::make_unique<plan::TargetTensorT>();
  row->key = std::move(key);
  row->dtype = static_cast<uint8_t>(dtype);
  row->shape = std::move(shape);
  plan.tensors.push_back(std::move(row));
  return plan.tensors.size() - 1;
}

uint32_t PlanBuilder::item(uint32_t file, uint32_t tensor, uint64_t offset,
                           std::vector<int64_t> start) {
  plan.items.emplace_back(file, tensor, 0, plan.starts.size(), offset);
  plan.starts.insert(plan.starts.end(), start.begin(), start.end());
  return plan.items.size() - 1;
}

void PlanBuilder::sidecar(std::string path, std::string_view bytes) {
  auto row = std::make_unique<plan::SidecarT>();
  row->path = std::move(path);
  row->bytes.assign(bytes.begin(), bytes.end());
  plan.sidecars.push_back(std::move(row));
}

std::vector<uint8_t> PlanBuilder::bytes() const {
  flatbuffers::FlatBufferBuilder builder;
  plan::FinishPlanBuffer(builder, plan::Plan::Pack(builder, &plan));
  std::vector<uint8_t> bytes(builder.GetBufferPointer(),
                             builder.GetBufferPointer() + builder.GetSize());
  std::string seal = planSeal(bytes);
  bytes.insert(bytes.end(), seal.begin(), seal.end());
  return bytes;
}

Plan PlanBuilder::build() const {
  Result<Plan> built = Plan::fromBytes(bytes(), "test.mbc");
  if (!built) {
    std::fprintf(stderr, "%s\n", built.error().message.c_str());
    std::abort();
  }
  return std::move(*built);
}

plan::BoxT box(int32_t input, int64_t source, int64_t target,
               std::initializer_list<plan::Dim> dims) {
  plan::BoxT result;
  result.input = input;
  result.source_offset = source;
  result.target_offset = target;
  result.dims = dims;
  return result;
}

plan::BoxT fillBox(uint64_t bits, int64_t target, int64_t count) {
  plan::BoxT result = box(-1, 0, target, {{count, 0, 1}});
  result.fill = bits;
  return result;
}

plan::InputT input(DType dtype, int64_t elements) {
  plan::InputT result;
  result.dtype = static_cast<uint8_t>(dtype);
  result.elements = elements;
  return result;
}

plan::OutputT output(DType dtype, std::vector<int64_t> shape,
                     std::vector<plan::BoxT> boxes) {
  plan::OutputT result;
  result.dtype = static_cast<uint8_t>(dtype);
  result.elements = 1;
  for (int64_t extent : shape)
    result.elements *= extent;
  result.shape = std::move(shape);
  for (plan::BoxT &part : boxes)
    result.boxes.push_back(std::make_unique<plan::BoxT>(std::move(part)));
  return result;
}

plan::ClassT classOf(std::vector<plan::InputT> inputs,
                     std::vector<plan::OutputT> outputs,
                     std::vector<uint32_t> sources,
                     std::vector<uint32_t> items) {
  plan::ClassT result;
  result.label = "test class";
  for (plan::InputT &part : inputs)
    result.inputs.push_back(std::make_unique<plan::InputT>(part));
  for (plan::OutputT &part : outputs)
    result.outputs.push_back(std::make_unique<plan::OutputT>(std::move(part)));
  result.sources = std::move(sources);
  result.items = std::move(items);
  return result;
}

void addClass(PlanBuilder &builder, plan::ClassT kind) {
  builder.plan.classes.push_back(
      std::make_unique<plan::ClassT>(std::move(kind)));
}

} // namespace mbc::test
