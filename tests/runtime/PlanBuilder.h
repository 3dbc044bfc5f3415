#pragma once

#include "runtime/Plan.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace mbc::test {

/// A plan put together by hand, one class at a time.
struct PlanBuilder {
  plan::PlanT plan;

  PlanBuilder(plan::TargetFormat format) { plan.format = format; }

  uint32_t sourceFile(std::string path, uint64_t size);
  uint32_t source(uint32_t file, uint64_t offset, std::string name = "w");
  uint32_t targetFile(std::string path, uint64_t size);
  uint32_t tensor(std::string key, DType dtype, std::vector<int64_t> shape);
  uint32_t item(uint32_t file, uint32_t tensor, uint64_t offset,
                std::vector<int64_t> start = {});
  void sidecar(std::string path, std::string_view bytes);

  /// The plan's bytes, unverified.
  std::vector<uint8_t> bytes() const;
  /// Verified; a refusal ends the test program with its message.
  Plan build() const;
};

plan::BoxT box(int32_t input, int64_t source, int64_t target,
               std::initializer_list<plan::Dim> dims);
plan::BoxT fillBox(uint64_t bits, int64_t target, int64_t count);
plan::InputT input(DType dtype, int64_t elements);
plan::OutputT output(DType dtype, std::vector<int64_t> shape,
                     std::vector<plan::BoxT> boxes);
/// One class; rows of `sources` and `items` are instances.
plan::ClassT classOf(std::vector<plan::InputT> inputs,
                     std::vector<plan::OutputT> outputs,
                     std::vector<uint32_t> sources,
                     std::vector<uint32_t> items);
void addClass(PlanBuilder &builder, plan::ClassT kind);

} // namespace mbc::test
