#include "compiler/Target/PlanReader.h"

#include "runtime/Json.h"
#include "runtime/Plan.h"

#include <nlohmann/json.hpp>

namespace mbc::compiler {

std::string writeOptions(const Options &options, const Checkpoint &checkpoint) {
  Json json{{"format", options.format},
            {"forms", options.forms},
            {"dtype", options.dtype},
            {"quant", options.quant},
            {"copies", options.copies},
            {"pipeline_layout", options.pipelineLayout},
            {"tp", options.tp},
            {"pp", options.pp},
            {"vpp", options.vpp},
            {"ep", options.ep},
            {"etp", options.etp},
            {"first_stage_layers", options.firstStageLayers},
            {"last_stage_layers", options.lastStageLayers},
            {"vocab_divisor", options.vocabDivisor},
            {"to", options.to},
            {"iteration", options.iteration},
            {"source_format", static_cast<int>(checkpoint.format)},
            {"source_args", checkpoint.argsJson}};
  return json.dump();
}

static Options optionsOf(const Json &json) {
  Options options;
  auto text = [&](const char *key) { return json.value(key, std::string()); };
  auto number = [&](const char *key) { return json.value(key, int64_t{0}); };
  options.format = text("format");
  options.forms = json.value("forms", std::vector<std::string>());
  options.dtype = text("dtype");
  options.quant = text("quant");
  options.copies = text("copies");
  options.pipelineLayout = text("pipeline_layout");
  options.tp = number("tp");
  options.pp = number("pp");
  options.vpp = number("vpp");
  options.ep = number("ep");
  options.etp = number("etp");
  options.firstStageLayers = number("first_stage_layers");
  options.lastStageLayers = number("last_stage_layers");
  options.vocabDivisor = number("vocab_divisor");
  options.to = text("to");
  options.iteration = number("iteration");
  return options;
}

static Shape shapeOf(const flatbuffers::Vector<int64_t> *dims) {
  Shape shape;
  if (dims)
    for (int64_t extent : *dims)
      shape.push_back(extent);
  return shape;
}

namespace {
/// Puts the tensors of a checkpoint together from the inputs of the classes.
class Tensors {
public:
  Tensors(const plan::Plan &plan, Checkpoint &checkpoint)
      : plan(plan), checkpoint(checkpoint) {}

  void collect() {
    for (const plan::Class *kind : *plan.classes()) {
      size_t inputs = kind->inputs()->size();
      for (size_t at = 0; at != kind->sources()->size(); ++at)
        add(*kind->inputs()->Get(at % inputs), kind->sources()->Get(at));
    }
    for (size_t i = 0; i != pieces.size(); ++i)
      checkpoint.tensors[i].pieces =
          store->keep(std::span<const StoredPiece>(pieces[i]));
    checkpoint.stores.push_back(store);
    checkpoint.indexNames();
  }

private:
  /// A source's name is the tensor's, with the rank in brackets if it has one.
  void add(const plan::Input &input, uint32_t source) {
    std::string_view full = plan.source_names()->Get(source)->string_view();
    auto [it, isNew] = known.try_emplace(full, checkpoint.tensors.size());
    if (isNew) {
      std::string_view name = store->keep(full), rank;
      if (size_t bracket = name.find(" ("); bracket != name.npos) {
        rank = name.substr(bracket + 2, name.size() - bracket - 3);
        name = name.substr(0, bracket);
      }
      StoredTensor &tensor = checkpoint.tensors.emplace_back();
      tensor.name = name;
      tensor.rank = rank;
      tensor.dtype = static_cast<DType>(input.stored());
      tensor.shape = store->keep(shapeOf(input.whole()));
      if (input.order())
        tensor.order = store->keep(shapeOf(input.order()));
      pieces.emplace_back();
    }
    const plan::Source *place = plan.sources()->Get(source);
    StoredPiece piece{place->file(), place->offset(),
                      store->keep(shapeOf(input.start())),
                      store->keep(shapeOf(input.shape()))};
    for (const StoredPiece &other : pieces[it->second])
      if (other.start == piece.start) // equal shapes are kept once
        return;
    pieces[it->second].push_back(piece);
  }

  const plan::Plan &plan;
  Checkpoint &checkpoint;
  std::shared_ptr<HeaderStore> store = std::make_shared<HeaderStore>();
  std::unordered_map<std::string_view, size_t> known; ///< names with ranks
  std::vector<std::vector<StoredPiece>> pieces;       ///< of each tensor
};
} // namespace

/// The dtypes in which an export's tensors leave, in a record's form.
static Record recordOf(const plan::Plan &plan) {
  Record record;
  for (const plan::TargetTensor *tensor : *plan.tensors())
    record.tensors.push_back(
        {tensor->key()->str(), static_cast<DType>(tensor->dtype()), ""});
  for (uint32_t i = 0; i != record.tensors.size(); ++i)
    record.byName.emplace(record.tensors[i].name, i);
  return record;
}

Result<PlanSource> readPlanSource(const std::string &path) {
  Result<Plan> opened = Plan::open(path);
  if (!opened)
    return std::unexpected(opened.error());
  const plan::Plan &plan = **opened;
  PlanSource source;
  source.specText = plan.spec_text() ? plan.spec_text()->str() : "";
  source.configJson = plan.config_json() ? plan.config_json()->str() : "";
  Result<Json> json =
      parseJson(plan.options_json() ? plan.options_json()->str() : "{}", path);
  if (!json)
    return std::unexpected(json.error());
  source.options = optionsOf(*json);
  source.checkpoint.root = path;
  source.checkpoint.format =
      static_cast<Format>(json->value("source_format", 0));
  source.checkpoint.argsJson = json->value("source_args", std::string());
  for (const plan::SourceFile *file : *plan.source_files())
    source.checkpoint.files.push_back({file->path()->str(), file->size()});
  Tensors(plan, source.checkpoint).collect();
  if (plan.format() == plan::TargetFormat_Safetensors)
    source.record = recordOf(plan);
  return source;
}

} // namespace mbc::compiler
