#include "compiler/Binding/FindSpec.h"
#include "compiler/Compilation.h"
#include "compiler/DraftSpec.h"
#include "compiler/FindingsText.h"
#include "compiler/LanguageServer/Server.h"
#include "dsl/Format.h"
#include "runtime/CompilerInterface.h"
#include "runtime/Json.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace mbc;
using namespace mbc::compiler;

static std::string text(const char *value) { return value ? value : ""; }

static void send(mbc_sink sink, std::string_view bytes) {
  sink.write(sink.context, bytes.data(), bytes.size());
}

/// The words between commas.
static std::vector<std::string> wordsOf(const std::string &list) {
  std::vector<std::string> words;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');)
    words.push_back(word);
  return words;
}

static Options optionsOf(const mbc_compile_options &given) {
  Options options;
  options.source = text(given.source);
  options.spec = text(given.spec);
  options.specPath = text(given.spec_path);
  options.config = text(given.config);
  options.to = text(given.to);
  options.format = text(given.format);
  options.experts = text(given.experts);
  options.hfExperts = text(given.hf_experts);
  options.forms = wordsOf(text(given.forms));
  options.dtype = text(given.dtype);
  if (std::string quant = text(given.quant); quant != "none")
    options.quant = quant;
  options.copies = text(given.copies);
  options.hfConfig = text(given.hf_config);
  options.pipelineLayout = text(given.pipeline_layout);
  auto size = [](int64_t value) { return value == 0 ? 1 : value; };
  options.tp = size(given.tp);
  options.pp = size(given.pp);
  options.vpp = size(given.vpp);
  options.ep = size(given.ep);
  options.etp = given.etp;
  options.firstStageLayers = given.first_stage_layers;
  options.lastStageLayers = given.last_stage_layers;
  options.vocabDivisor = given.vocab_divisor;
  options.maxShardSize = given.max_shard_size;
  options.iteration = given.iteration;
  return options;
}

/// The findings, then the notes.
static void sendFindings(const dsl::Diagnostics &diagnostics,
                         const std::vector<std::string> &notes, mbc_sink sink,
                         bool all = false) {
  send(sink, findingsText(diagnostics, notes, all));
}

/// Findings and notes of a checkpoint, as they are asked for.
static void sendFindings(const Compilation &compilation,
                         const mbc_compile_options &given, bool withNotes,
                         mbc_sink sink) {
  if (given.quiet)
    return sendFindings(compilation.diagnostics.errors(), {}, sink);
  static const std::vector<std::string> none;
  sendFindings(compilation.diagnostics, withNotes ? compilation.notes : none,
               sink, given.verbose > 0);
}

static void sendJson(const Compilation &compilation, bool holds,
                     mbc_sink sink) {
  Json findings = Json::array();
  for (const dsl::Diagnostic &finding : compilation.diagnostics.all())
    findings.push_back(
        {{"severity",
          finding.severity == dsl::Severity::Error ? "error" : "warning"},
         {"text", finding.text},
         {"file", finding.where.file ? finding.where.file->path : ""},
         {"line", finding.where.line},
         {"column", finding.where.column}});
  send(sink,
       Json{{"ok", holds}, {"findings", findings}, {"notes", compilation.notes}}
               .dump(1) +
           "\n");
}

static int failed(const Error &error, mbc_sink sink) {
  send(sink, "error: " + error.message + "\n");
  return 1;
}

static int compilePlan(const mbc_compile_options *given, mbc_sink out,
                       mbc_sink diagnostics) {
  Compilation compilation(optionsOf(*given));
  bool prepared = compilation.prepare();
  Result<flatbuffers::DetachedBuffer> plan;
  if (prepared)
    plan = compilation.plan();
  if (prepared && !plan)
    compilation.diagnostics.error({}, plan.error().message);
  const bool failed = compilation.diagnostics.hasErrors();
  if (failed && given->json)
    sendJson(compilation, false, out);
  else // the plan brings the notes; the run shows them
    sendFindings(compilation, *given, false, diagnostics);
  if (failed)
    return 1;
  send(out, {reinterpret_cast<const char *>(plan->data()), plan->size()});
  return 0;
}

static int check(const mbc_compile_options *given, mbc_sink out,
                 mbc_sink diagnostics) {
  Compilation compilation(optionsOf(*given));
  bool alone = !given->source;
  bool holds = alone ? compilation.prepareSpecAlone() : compilation.prepare();
  if (given->proof && !alone && holds) {
    sendFindings(compilation, *given, false, diagnostics);
    Result<std::string> proof = compilation.proof(given->json);
    if (!proof)
      return failed(proof.error(), diagnostics);
    send(out, *proof);
    return 0;
  }
  if (given->json) {
    sendJson(compilation, holds, out);
    return holds ? 0 : 1;
  }
  sendFindings(compilation, *given, true, diagnostics);
  if (!holds)
    return 1;
  if (given->quiet)
    return 0;
  if (alone) {
    send(out, "the spec holds by itself; checkpoints are checked with `mbc "
              "check SRC`\n");
    return 0;
  }
  if (given->verbose > 0)
    send(out, compilation.mappingText());
  send(out, compilation.summary());
  return 0;
}

static int graph(const mbc_compile_options *given, mbc_sink out,
                 mbc_sink diagnostics) {
  Compilation compilation(optionsOf(*given));
  bool isPlan = std::filesystem::is_regular_file(text(given->source));
  bool prepared = isPlan ? compilation.preparePlan(text(given->source))
                         : compilation.prepare();
  sendFindings(compilation.diagnostics, {}, diagnostics);
  if (!prepared)
    return 1;
  Result<std::string> graph =
      compilation.graph(text(given->graph_stage), text(given->graph_format));
  if (!graph)
    return failed(graph.error(), diagnostics);
  send(out, *graph);
  return 0;
}

/// A row a family, and below it what is uncertain of its spec.
static std::string specsText(const std::vector<SpecEntry> &entries) {
  size_t names = 0, parts = 0;
  auto partsOf = [](const SpecEntry &entry) {
    return entry.support.parts.empty()
               ? std::string("text")
               : fmt::format("{}", fmt::join(entry.support.parts, ", "));
  };
  for (const SpecEntry &entry : entries) {
    names = std::max(names, entry.header.name.size());
    parts = std::max(parts, partsOf(entry).size());
  }
  std::string text;
  for (const SpecEntry &entry : entries) {
    text += fmt::format("{:{}}  {:11}  {:{}}  {}\n", entry.header.name, names,
                        entry.header.megatron, partsOf(entry), parts,
                        fmt::join(entry.header.architectures, ", "));
    for (const std::string &uncertain : entry.support.uncertain)
      text += fmt::format("{:{}}  uncertain: {}\n", "", names, uncertain);
  }
  return text;
}

static std::string specsJson(const std::vector<SpecEntry> &entries) {
  Json rows = Json::array();
  for (const SpecEntry &entry : entries)
    rows.push_back({{"name", entry.header.name},
                    {"architectures", entry.header.architectures},
                    {"model_type", entry.header.modelType},
                    {"megatron", entry.header.megatron},
                    {"supports", entry.support.parts},
                    {"forms", entry.support.forms},
                    {"uncertain", entry.support.uncertain},
                    {"file", entry.path}});
  return rows.dump(1) + "\n";
}

static int specs(const mbc_compile_options *given, mbc_sink out,
                 mbc_sink diagnostics) {
  dsl::Diagnostics findings;
  std::vector<SpecEntry> entries =
      listSpecs(specDirectory(text(given->spec_path)), findings);
  sendFindings(findings, {}, diagnostics);
  send(out, (given->json ? specsJson : specsText)(entries));
  return findings.hasErrors() ? 1 : 0;
}

static int draft(const mbc_compile_options *given, mbc_sink out,
                 mbc_sink diagnostics) {
  dsl::Diagnostics findings;
  Result<std::string> spec = draftSpec(optionsOf(*given), findings);
  sendFindings(findings, {}, diagnostics);
  if (!spec)
    return failed(spec.error(), diagnostics);
  send(out, *spec);
  return findings.hasErrors() ? 1 : 0;
}

static int format(const char *path, mbc_text spec, mbc_sink out,
                  mbc_sink diagnostics) {
  dsl::Diagnostics findings;
  std::optional<std::string> formatted =
      dsl::format({spec.bytes, spec.count}, path, findings);
  sendFindings(findings, {}, diagnostics);
  if (!formatted)
    return 1;
  send(out, *formatted);
  return 0;
}

static int serve(const char *specPath, mbc_source in, mbc_sink out, mbc_sink) {
  return serveLanguage(specDirectory(text(specPath)), in, out);
}

/// No exception leaves the library.
template <auto function, typename... Arguments>
static int guarded(Arguments... arguments, mbc_sink out, mbc_sink diagnostics) {
  try {
    return function(arguments..., out, diagnostics);
  } catch (const std::exception &failure) {
    return failed({fmt::format("internal error: {}", failure.what())},
                  diagnostics);
  }
}

extern "C" __attribute__((visibility("default"))) const mbc_compiler *
mbc_compiler_table(void) {
  using Options = const mbc_compile_options *;
  static const mbc_compiler table{MBC_COMPILER_ABI,
                                  guarded<compilePlan, Options>,
                                  guarded<check, Options>,
                                  guarded<graph, Options>,
                                  guarded<specs, Options>,
                                  guarded<draft, Options>,
                                  guarded<format, const char *, mbc_text>,
                                  guarded<serve, const char *, mbc_source>};
  return &table;
}
