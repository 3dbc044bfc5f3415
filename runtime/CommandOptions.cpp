#include "runtime/CommandOptions.h"

#include <charconv>

namespace mbc {
namespace {

const char *orNull(const std::string &text) {
  return text.empty() ? nullptr : text.c_str();
}

std::string checkSize(std::string &text) {
  Result<uint64_t> size = parseSize(text);
  return size ? std::string() : size.error().message;
}

} // namespace

Result<int> parseDevice(const std::string &text) {
  if (text == "cpu")
    return -1;
  if (text == "cuda")
    return 0;
  std::string_view number = text;
  int ordinal = -1;
  if (number.starts_with("cuda:")) {
    number.remove_prefix(5);
    auto [end, error] = std::from_chars(number.begin(), number.end(), ordinal);
    if (error == std::errc() && end == number.end() && ordinal >= 0)
      return ordinal;
  }
  return fail("'{}' is no device: cpu, cuda, or cuda:1 for the second GPU",
              text);
}

Result<uint64_t> parseSize(const std::string &text) {
  double number = 0;
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  std::string unit(rest, end);
  constexpr std::pair<const char *, double> units[] = {
      {"", 1},         {"B", 1},         {"K", 1024.0},   {"KiB", 1024.0},
      {"KB", 1e3},     {"M", 1048576.0}, {"MiB", 0x1p20}, {"MB", 1e6},
      {"G", 0x1p30},   {"GiB", 0x1p30},  {"GB", 1e9},     {"T", 0x1p40},
      {"TiB", 0x1p40}, {"TB", 1e12},
  };
  if (error == std::errc())
    for (auto [name, factor] : units)
      if (unit == name) {
        double bytes = number * factor;
        if (bytes >= 1 && bytes < 0x1p62)
          return static_cast<uint64_t>(bytes);
      }
  return fail("'{}' is not a size: write a number and a unit, as 4GiB or 5GB",
              text);
}

mbc_compile_options CompileOptions::given(const OutputOptions &output) const {
  mbc_compile_options options{};
  options.source = orNull(source);
  options.spec = orNull(spec);
  options.spec_path = orNull(specPath);
  options.config = orNull(config);
  options.to = orNull(to);
  options.format = orNull(format);
  options.experts = orNull(experts);
  options.hf_experts = orNull(hfExperts);
  options.forms = orNull(forms);
  options.dtype = orNull(dtype);
  options.quant = orNull(quant);
  options.copies = orNull(copies);
  options.hf_config = orNull(hfConfig);
  options.pipeline_layout = orNull(pipelineLayout);
  options.tp = tp;
  options.pp = pp;
  options.vpp = vpp;
  options.ep = ep;
  options.etp = etp;
  options.first_stage_layers = firstStageLayers;
  options.last_stage_layers = lastStageLayers;
  options.vocab_divisor = vocabDivisor;
  options.iteration = iteration;
  if (Result<uint64_t> size = parseSize(maxShardSize); size)
    options.max_shard_size = static_cast<int64_t>(*size);
  options.graph_stage = orNull(graphStage);
  options.graph_format = orNull(graphFormat);
  options.verbose = output.verbose;
  options.proof = proof;
  options.json = output.json;
  options.quiet = output.quiet;
  return options;
}

/// Ranks, layers and multiples: nobody has more, and products of two of them
/// stay far below 64 bits.
static std::string checkCount(const std::string &text) {
  constexpr int64_t most = 1 << 24;
  int64_t count = 0;
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, count);
  if (error == std::errc() && rest == end && count >= 1 && count <= most)
    return {};
  return fmt::format("{} is not a whole number from 1 to {}", text, most);
}

void addOutputOptions(CLI::App &command, OutputOptions &options, bool withQuiet,
                      bool withVerbose) {
  CLI::Option *quiet = nullptr, *verbose = nullptr;
  if (withQuiet)
    quiet = command.add_flag("-q,--quiet", options.quiet, "Errors only");
  if (withVerbose)
    verbose = command.add_flag("-v,--verbose", options.verbose, "Say more");
  if (quiet && verbose)
    verbose->excludes(quiet);
  command.add_flag("--json", options.json, "The result as one JSON document");
}

void addCompileOptions(CLI::App &command, CompileOptions &options,
                       bool withFormat) {
  using CLI::IsMember;
  auto number = [&](const char *name, int64_t &value, const char *help) {
    command.add_option(name, value, help)
        ->check(CLI::Validator(checkCount, ""))
        ->type_name("N")
        ->group("Layout of a Megatron target");
  };
  number("--tp", options.tp, "Tensor parallel size (default 1)");
  number("--pp", options.pp, "Pipeline parallel size (default 1)");
  number("--vpp", options.vpp,
         "Virtual pipeline size: model chunks of a stage (default 1)");
  number("--ep", options.ep, "Expert parallel size (default 1)");
  number("--etp", options.etp, "Expert tensor parallel size (default: TP)");
  number("--first-stage-layers", options.firstStageLayers,
         "Layers of the first pipeline stage");
  number("--last-stage-layers", options.lastStageLayers,
         "Layers of the last pipeline stage");
  number("--make-vocab-size-divisible-by", options.vocabDivisor,
         "Vocabulary padding, times TP (default: the spec's)");
  command
      .add_option("--pipeline-layout", options.pipelineLayout,
                  "Uneven pipelines, as Megatron writes them")
      ->group("Layout of a Megatron target");
  number("--iteration", options.iteration,
         "Publish a torch_dist as this iteration (default: as a release)");
  command
      .add_option("--to", options.to,
                  "megatron: a Megatron source goes to Megatron again, in "
                  "another layout or format (default: hf)")
      ->check(IsMember({"megatron", "hf"}));
  if (withFormat)
    command
        .add_option("--format", options.format,
                    "Format of the target (default torch_dist, or hf)")
        ->check(IsMember({"torch_dist", "torch", "hf"}));
  command.add_option("--experts", options.experts, "Megatron's expert layout")
      ->check(IsMember({"grouped", "sequential"}));
  command
      .add_option("--hf-experts", options.hfExperts,
                  "Hugging Face's expert layout")
      ->check(IsMember({"per-expert", "fused"}));
  command
      .add_option(
          "--form", options.forms,
          "Form of the target that an `either` of the spec names, where "
          "it has several; separate more by commas")
      ->type_name("NAME");
  command
      .add_option(
          "--dtype", options.dtype,
          "Dtype of parameters that the spec does not pin (default keep)")
      ->check(IsMember({"keep", "bf16", "f16", "f32"}));
  command
      .add_option("--quant", options.quant,
                  "Quantisation of an HF target (default none); keep also "
                  "with an import, which then keeps the originals")
      ->check(IsMember({"none", "keep", "fp8-block", "mxfp4", "nvfp4"}));
  command
      .add_option("--copies", options.copies,
                  "Tensors tied to another: compare, or leave out")
      ->check(IsMember({"check", "drop"}));
  command.add_option("--hf-config", options.hfConfig,
                     "Directory with config.json and tokenizer for a Megatron "
                     "source that has no record of them");
  command
      .add_option("--max-shard-size", options.maxShardSize,
                  "Largest weight file of an HF target, as 5GB")
      ->check(CLI::Validator(checkSize, "SIZE"));
  command.add_option("--spec", options.spec,
                     "Spec instead of the one that is found: a file, or the "
                     "name of a shipped one");
  command.add_option("--spec-path", options.specPath,
                     "Directory of specs instead of the shipped ones");
}

void addExecutionOptions(CLI::App &command, ExecutionOptions &options) {
  command
      .add_option("--memory", options.memory,
                  "Bound on buffers, as 4GiB (default 4GiB)")
      ->check(CLI::Validator(checkSize, "SIZE"));
  command
      .add_option("--device", options.device,
                  "Where values are computed: cpu (default), cuda, cuda:N")
      ->check(CLI::Validator(
          [](std::string &text) {
            Result<int> device = parseDevice(text);
            return device ? std::string() : device.error().message;
          },
          "DEVICE"));
  command
      .add_option("--device-memory", options.deviceMemory,
                  "Bound on the GPU's memory, as 8GiB (default: half of what "
                  "is free)")
      ->check(CLI::Validator(checkSize, "SIZE"));
  command
      .add_option("--threads", options.threads,
                  "Threads (default: one a processor)")
      ->check(CLI::Range(1, 4096));
  command.add_flag("--force", options.force,
                   "Replace the checkpoint that is in the target");
  command.add_flag("--no-sync", options.noSync,
                   "Leave it to the system when bytes reach the disk");
}

} // namespace mbc
