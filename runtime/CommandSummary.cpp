#include "runtime/CommandSummary.h"
#include "runtime/Json.h"
#include "runtime/Units.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace mbc {
namespace {

std::string textOr(const flatbuffers::String *text, const char *otherwise) {
  return text && text->size() != 0 ? text->str() : otherwise;
}

const char *formatName(const plan::Plan &plan) {
  switch (plan.format()) {
  case plan::TargetFormat_TorchDist:
    return "torch_dist";
  case plan::TargetFormat_TorchRanks:
    return "torch";
  case plan::TargetFormat_Safetensors:
    return "hf";
  }
  return "unknown";
}

const char *directionName(const plan::Plan &plan) {
  switch (plan.direction()) {
  case plan::Direction_Import:
    return "import";
  case plan::Direction_Export:
    return "export";
  case plan::Direction_Reshard:
    return "reshard";
  }
  return "unknown";
}

/// "llama: Hugging Face to Megatron (torch_dist), TP 2, PP 2".
std::string headline(const plan::Plan &plan) {
  std::string text = fmt::format(
      "{}: {} to {}", textOr(plan.family(), "unnamed family"),
      plan.direction() == plan::Direction_Import ? "Hugging Face" : "Megatron",
      plan.format() == plan::TargetFormat_Safetensors
          ? "Hugging Face"
          : fmt::format("Megatron ({})", formatName(plan)));
  std::string layout = textOr(plan.summary(), "");
  return layout.empty() ? text : text + ", " + layout;
}

std::vector<std::string> planNotes(const plan::Plan &plan) {
  std::vector<std::string> notes;
  for (size_t index = 0; index != length(plan.notes()); ++index)
    notes.push_back(plan.notes()->Get(index)->str());
  return notes;
}

nlohmann::ordered_json headJson(const plan::Plan &plan) {
  return {{"ok", true},
          {"family", textOr(plan.family(), "")},
          {"direction", directionName(plan)},
          {"format", formatName(plan)},
          {"layout", textOr(plan.summary(), "")}};
}

} // namespace

void printRun(const plan::Plan &plan, const RunSummary &summary, bool verbose) {
  fmt::print("{}\n", headline(plan));
  double rate =
      summary.seconds > 0 ? summary.bytesWritten / summary.seconds : 0;
  fmt::print("  {} tensors, {} in {} files, {} ({}/s)\n", summary.tensors,
             humanBytes(summary.bytesWritten), summary.files,
             humanSeconds(summary.seconds),
             humanBytes(static_cast<uint64_t>(rate)));
  if (verbose)
    fmt::print("  {} read, {} bytes written\n", humanBytes(summary.bytesRead),
               summary.bytesWritten);
  fmt::print("  in {}\n", summary.where);
}

void printNotes(const plan::Plan &plan, const std::vector<std::string> &notes) {
  for (const std::string &note : planNotes(plan))
    fmt::print(stderr, "note: {}\n", note);
  for (const std::string &note : notes)
    fmt::print(stderr, "note: {}\n", note);
}

void printRunJson(const plan::Plan &plan, const RunSummary &summary) {
  nlohmann::ordered_json json = headJson(plan);
  json["tensors"] = summary.tensors;
  json["files"] = summary.files;
  json["bytes_read"] = summary.bytesRead;
  json["bytes_written"] = summary.bytesWritten;
  json["seconds"] = summary.seconds;
  json["where"] = summary.where;
  std::vector<std::string> notes = planNotes(plan);
  notes.insert(notes.end(), summary.notes.begin(), summary.notes.end());
  json["notes"] = notes;
  fmt::print("{}\n", json.dump());
}

void printFailureJson(std::string_view text) {
  const nlohmann::ordered_json finding = {{"severity", "error"},
                                          {"text", text},
                                          {"file", ""},
                                          {"line", 0},
                                          {"column", 0}};
  const nlohmann::ordered_json json = {{"ok", false},
                                       {"findings", {finding}},
                                       {"notes", nlohmann::json::array()}};
  // A name that is no UTF-8 is shown as well as can be.
  fmt::print("{}\n",
             json.dump(1, ' ', false,
                       nlohmann::ordered_json::error_handler_t::replace));
}

void printPlan(const plan::Plan &plan, uint64_t memory) {
  PlanTotals all = totals(plan);
  fmt::print("{}\n", headline(plan));
  fmt::print("  reads   {} in {} files\n", humanBytes(all.sourceBytes),
             length(plan.source_files()));
  fmt::print("  writes  {} ({} bytes) in {} files, {} tensors, by {} ranks\n",
             humanBytes(all.targetBytes), all.targetBytes, length(plan.files()),
             length(plan.tensors()), all.ranks);
  if (all.ranks > 1)
    fmt::print("  a rank  {} to {}\n", humanBytes(all.leastOfRank),
               humanBytes(all.mostOfRank));
  fmt::print("  plan    {} classes, {} instances, {} kernels\n",
             length(plan.classes()), all.instances, length(plan.kernels()));
  if (memory != 0)
    fmt::print("  memory  {} of buffers at most\n", humanBytes(memory));
  if (uint64_t whole = wholeTensorBytes(plan); whole != 0)
    fmt::print("          {} of them for the largest tensor in NVFP4, which is "
               "held whole\n",
               humanBytes(whole));
  printNotes(plan, {});
}

void printPlanJson(const plan::Plan &plan, uint64_t memory) {
  PlanTotals all = totals(plan);
  nlohmann::ordered_json json = headJson(plan);
  json["source_files"] = length(plan.source_files());
  json["source_bytes"] = all.sourceBytes;
  json["files"] = length(plan.files());
  json["bytes"] = all.targetBytes;
  json["tensors"] = length(plan.tensors());
  json["ranks"] = all.ranks;
  json["least_of_rank"] = all.leastOfRank;
  json["most_of_rank"] = all.mostOfRank;
  json["classes"] = length(plan.classes());
  json["instances"] = all.instances;
  json["kernels"] = length(plan.kernels());
  if (memory != 0)
    json["peak_memory"] = memory;
  if (uint64_t whole = wholeTensorBytes(plan); whole != 0)
    json["largest_whole_tensor"] = whole;
  json["notes"] = planNotes(plan);
  fmt::print("{}\n", json.dump());
}

} // namespace mbc
