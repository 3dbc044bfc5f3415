#include "tests/mutation/Conversion.h"

#include "runtime/Checkpoint.h"
#include "runtime/Executor.h"
#include "runtime/Plan.h"
#include "runtime/TensorBytes.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace mbc::test {
namespace {

using Json = nlohmann::json;

void toText(void *text, const char *bytes, size_t count) {
  static_cast<std::string *>(text)->append(bytes, count);
}

void toNowhere(void *, const char *, size_t) {}

/// Megatron takes an argument that is null for one that is absent.
std::string withoutNulls(const std::string &args) {
  if (args.empty())
    return args;
  Json json = Json::parse(args);
  for (Json &group : json)
    if (group.is_object())
      for (auto at = group.begin(); at != group.end();)
        at = at->is_null() ? group.erase(at) : std::next(at);
  return json.dump();
}

} // namespace

mbc_compile_options Conversion::options() const {
  mbc_compile_options given{};
  given.source = source.c_str();
  given.spec = spec.c_str();
  given.format = format.c_str();
  given.experts = experts.c_str();
  given.copies = "drop";
  given.tp = tp;
  given.pp = pp;
  given.ep = ep;
  given.json = 1;
  return given;
}

Findings check(const Conversion &conversion) {
  std::string text;
  mbc_compile_options options = conversion.options();
  int status = mbc_compiler_table()->check(&options, {toText, &text},
                                           {toNowhere, nullptr});
  Json report = Json::parse(text);
  Findings findings;
  findings.holds = status == 0;
  for (const Json &finding : report["findings"])
    findings.remarks.insert(finding["text"]);
  for (const Json &note : report["notes"])
    findings.remarks.insert(note);
  return findings;
}

std::vector<uint8_t> compile(const Conversion &conversion) {
  std::string text;
  mbc_compile_options options = conversion.options();
  int status = mbc_compiler_table()->compile(&options, {toText, &text},
                                             {toNowhere, nullptr});
  return status == 0 ? std::vector<uint8_t>(text.begin(), text.end())
                     : std::vector<uint8_t>();
}

std::string essence(const std::vector<uint8_t> &bytes) {
  plan::PlanT plan;
  plan::GetPlan(bytes.data())->UnPackTo(&plan);
  plan.spec_text.clear();
  plan.notes.clear();
  for (auto &kind : plan.classes)
    kind->where.clear();
  for (auto &sidecar : plan.sidecars)
    if (sidecar->path == "mbc/record.json") {
      Json record = Json::parse(sidecar->bytes);
      record["spec"].erase("sha256");
      std::string text = record.dump();
      sidecar->bytes.assign(text.begin(), text.end());
    }
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(plan::Plan::Pack(builder, &plan));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()),
          builder.GetSize()};
}

Result<Contents> convert(const Conversion &conversion,
                         const std::vector<uint8_t> &bytes,
                         const std::string &target) {
  std::filesystem::remove_all(target);
  Result<Plan> plan = Plan::fromBytes(bytes, "the plan");
  if (!plan)
    return std::unexpected(plan.error());
  RunOptions options;
  options.sync = false;
  options.threads = 1;
  if (auto done = run(*plan, conversion.source, target, options); !done)
    return std::unexpected(done.error());
  Result<Checkpoint> made = openCheckpoint(target);
  if (!made)
    return std::unexpected(made.error());
  Contents contents;
  contents.args = withoutNulls(made->argsJson);
  contents.config = made->configJson;
  for (const StoredObject &object : made->objects)
    contents.objects.insert(object.key);
  for (const StoredTensor &tensor : made->tensors) {
    TensorBox whole = wholeBox(tensor);
    Result<std::string> hash = hashBoxes(*made, tensor, {&whole, 1});
    if (!hash)
      return std::unexpected(hash.error());
    std::string name = fmt::format("{} {}", tensor.name, tensor.rank);
    contents.tensors[name] =
        fmt::format("{} {} {}", safetensorsName(tensor.dtype),
                    toString(*tensor.shape), *hash);
    std::string &places = contents.places[name];
    for (const StoredPiece &piece : tensor.pieces)
      places +=
          fmt::format("{} at {} in {}; ", toString(*piece.shape),
                      toString(*piece.start), made->files[piece.file].path);
  }
  return contents;
}

} // namespace mbc::test
