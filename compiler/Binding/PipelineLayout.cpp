#include "compiler/Binding/PipelineLayout.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <optional>

namespace mbc::compiler {

using dsl::Diagnostics;

/// The hybrid pattern's part for the decoder, before the first `/`.
static std::string mainPattern(const dsl::Model &model, std::string &rest) {
  for (const dsl::ConfigField &field : model.config)
    if (field.name == model.patternField)
      if (auto *text = std::get_if<std::string>(&field.value)) {
        size_t slash = text->find('/');
        rest = slash == std::string::npos ? "" : text->substr(slash);
        return text->substr(0, slash);
      }
  return {};
}

static std::vector<int64_t> segmentLengths(const std::string &pattern) {
  std::vector<int64_t> lengths(1, 0);
  for (char symbol : pattern)
    if (symbol == '|')
      lengths.push_back(0);
    else
      ++lengths.back();
  return lengths;
}

/// "--pp 2", with "--vpp 2" where there are virtual stages.
static std::string sizesText(const ParallelLayout &layout) {
  std::string text = fmt::format("--pp {}", layout.pp);
  if (layout.vpp != 1)
    text += fmt::format(" --vpp {}", layout.vpp);
  return text;
}

/// The cuts into `chunks` nearest to even among `candidates` (ascending); a cut
/// leaves enough candidates for the later ones.
static std::vector<int64_t> nearestCuts(const std::vector<int64_t> &candidates,
                                        int64_t layers, int64_t chunks) {
  std::vector<int64_t> cuts;
  size_t next = 0;
  for (int64_t chunk = 1; chunk < chunks; ++chunk) {
    size_t last = candidates.size() - (chunks - 1 - chunk);
    auto distance = [&](size_t i) {
      return std::abs(candidates[i] * chunks - layers * chunk);
    };
    size_t best = next;
    for (size_t i = next + 1; i < last; ++i)
      if (distance(i) < distance(best))
        best = i;
    cuts.push_back(candidates[best]);
    next = best + 1;
  }
  return cuts;
}

static void cutHybridEvenly(const dsl::Model &model, const std::string &main,
                            ParallelLayout &layout, Diagnostics &diagnostics) {
  std::vector<int64_t> candidates;
  for (size_t p = 1; p < main.size(); ++p)
    if (model.patternCutBefore.empty() ||
        model.patternCutBefore.find(main[p]) != std::string::npos)
      candidates.push_back(p);
  if (static_cast<int64_t>(candidates.size()) < layout.chunks() - 1) {
    std::string most = layout.vpp == 1
                           ? fmt::format("--pp {}", candidates.size() + 1)
                           : fmt::format("PP x VPP {}", candidates.size() + 1);
    diagnostics.error(
        {}, fmt::format("{}: stages of {} begin before \"{}\" layers only, "
                        "and the pattern \"{}\" has {} of them; at most "
                        "{} is possible",
                        sizesText(layout), model.name, model.patternCutBefore,
                        main, candidates.size(), most));
    layout.chunkLayers.assign(layout.chunks(), 0);
    return;
  }
  std::vector<int64_t> cuts =
      nearestCuts(candidates, main.size(), layout.chunks());
  cuts.push_back(main.size());
  int64_t begin = 0;
  for (int64_t end : cuts) {
    layout.chunkLayers.push_back(end - begin);
    if (begin != 0)
      layout.pattern += '|';
    layout.pattern.append(main, begin, end - begin);
    begin = end;
  }
}

static void wrongCount(const std::string &written, int64_t stages,
                       const ParallelLayout &layout, Diagnostics &diagnostics) {
  std::string wanted =
      layout.vpp == 1 ? fmt::format("--pp is {}", layout.pp)
                      : fmt::format("--pp {} times --vpp {} is {}", layout.pp,
                                    layout.vpp, layout.chunks());
  diagnostics.error({},
                    fmt::format("--pipeline-layout \"{}\" has {} stages, {}",
                                written, stages, wanted));
}

/// A pattern with separators, as the user wrote it.
static void checkWrittenPattern(const dsl::Model &model,
                                const std::string &main,
                                const std::string &written,
                                ParallelLayout &layout,
                                Diagnostics &diagnostics) {
  std::string plain = written.substr(0, written.find('/'));
  layout.pattern = plain;
  layout.chunkLayers = segmentLengths(plain);
  std::erase(plain, '|');
  if (plain != main)
    diagnostics.error({}, fmt::format("--pipeline-layout \"{}\" is not the "
                                      "model's pattern \"{}\" with `|` between "
                                      "stages",
                                      written, main));
  int64_t segments = layout.chunkLayers.size();
  if (segments != layout.chunks())
    wrongCount(written, segments, layout, diagnostics);
  for (size_t bar = layout.pattern.find('|'); bar != std::string::npos;
       bar = layout.pattern.find('|', bar + 1)) {
    char first =
        bar + 1 < layout.pattern.size() ? layout.pattern[bar + 1] : ' ';
    if (!model.patternCutBefore.empty() &&
        model.patternCutBefore.find(first) == std::string::npos)
      diagnostics.error(
          {}, fmt::format("--pipeline-layout \"{}\": a stage begins with '{}', "
                          "but stages of {} begin before \"{}\" layers only",
                          written, first, model.name, model.patternCutBefore));
  }
}

namespace {
/// Reads Megatron's pipeline layout text: stages divided by `|`, of the
/// symbols E (embedding), t (decoder layer), m (MTP) and L (loss), with
/// `x*3` and `(tt|)*3` for repetition; commas and blanks mean nothing.
class LayoutText {
public:
  explicit LayoutText(const std::string &text) : text_(text) {}

  /// The symbols with every repetition written out; nothing if malformed.
  std::optional<std::string> expand() {
    std::optional<std::string> all = sequence();
    return all && at_ == text_.size() ? all : std::nullopt;
  }

private:
  std::optional<std::string> sequence() {
    std::string all;
    while (at_ < text_.size() && text_[at_] != ')') {
      std::optional<std::string> part = item();
      if (!part || all.size() + part->size() > 100000)
        return std::nullopt;
      all += *part;
    }
    return all;
  }

  std::optional<std::string> item() {
    std::string part;
    char symbol = text_[at_++];
    if (symbol == ',' || symbol == ' ')
      return part;
    if (symbol == '(') {
      std::optional<std::string> inner = sequence();
      if (!inner || at_ == text_.size())
        return std::nullopt;
      ++at_; // the closing bracket
      part = *inner;
    } else if (std::string_view("EtmL|").find(symbol) !=
               std::string_view::npos) {
      part = symbol;
    } else {
      return std::nullopt;
    }
    return repeated(part);
  }

  std::optional<std::string> repeated(const std::string &part) {
    if (at_ == text_.size() || text_[at_] != '*')
      return part;
    size_t count = 0, begin = ++at_;
    while (at_ < text_.size() && std::isdigit(text_[at_]) && count < 10000)
      count = count * 10 + (text_[at_++] - '0');
    if (at_ == begin || count * part.size() > 100000)
      return std::nullopt;
    std::string all;
    for (size_t i = 0; i != count; ++i)
      all += part;
    return all;
  }

  const std::string &text_;
  size_t at_ = 0;
};
} // namespace

/// What Megatron's arguments say; 0 without.
static int64_t mtpLayers(const dsl::Model &model) {
  for (const dsl::ConfigField &field : model.config)
    if (field.name == "mtp_num_layers")
      if (const int64_t *count = std::get_if<int64_t>(&field.value))
        return *count;
  return 0;
}

static void readLayoutText(const Options &options, const dsl::Model &model,
                           ParallelLayout &layout, Diagnostics &diagnostics) {
  const std::string &text = options.pipelineLayout;
  std::optional<std::string> symbols = LayoutText(text).expand();
  layout.chunkLayers.assign(layout.chunks(), 0);
  if (!symbols) {
    diagnostics.error({}, fmt::format("--pipeline-layout \"{}\" is not made of "
                                      "E, t, m, L and `|` with `x*N` or "
                                      "`(...)*N`",
                                      text));
    return;
  }
  std::string layersOnly = *symbols;
  std::erase_if(layersOnly, [](char c) { return c != 't' && c != '|'; });
  std::vector<int64_t> lengths = segmentLengths(layersOnly);
  int64_t total = std::count(symbols->begin(), symbols->end(), 't');
  if (static_cast<int64_t>(lengths.size()) != layout.chunks())
    wrongCount(text, lengths.size(), layout, diagnostics);
  else if (total != model.layers)
    diagnostics.error({}, fmt::format("--pipeline-layout \"{}\" has {} decoder "
                                      "layers (t), the model has {}",
                                      text, total, model.layers));
  else
    layout.chunkLayers = lengths;
  int64_t mtpTotal = std::count(symbols->begin(), symbols->end(), 'm');
  if (mtpTotal != mtpLayers(model))
    diagnostics.error({}, fmt::format("--pipeline-layout \"{}\" has {} MTP "
                                      "layers (m), the model has {}",
                                      text, mtpTotal, mtpLayers(model)));
  size_t first = symbols->find('|'), last = symbols->rfind('|');
  size_t embedding = symbols->find('E'), mtp = symbols->find('m');
  if (embedding != std::string::npos && embedding > first)
    diagnostics.error(
        {}, "--pipeline-layout: the embedding (E) belongs to the first stage");
  if (mtp != std::string::npos && last != std::string::npos && mtp < last)
    diagnostics.error(
        {}, "--pipeline-layout: MTP layers (m) belong to the last stage");
}

/// The sizes that divide the layers evenly, and what to say where none is
/// wanted.
static std::string otherSizes(const dsl::Model &model,
                              const ParallelLayout &layout) {
  if (layout.vpp == 1)
    return fmt::format("legal values are {}, or give --first-stage-layers and "
                       "--last-stage-layers",
                       legalValues(model.layers, [](int64_t) { return true; }));
  return fmt::format("legal values of PP x VPP are {}, or give "
                     "--pipeline-layout",
                     legalValues(model.layers, [](int64_t) { return true; }));
}

static void cutByCounts(const Options &options, const dsl::Model &model,
                        ParallelLayout &layout, Diagnostics &diagnostics) {
  int64_t first = options.firstStageLayers, last = options.lastStageLayers;
  int64_t fixed = (first != 0) + (last != 0);
  int64_t chunks = layout.chunks() - fixed,
          layers = model.layers - first - last;
  layout.chunkLayers.assign(layout.chunks(), 0);
  if (fixed != 0 && layout.vpp != 1) {
    diagnostics.error(
        {}, fmt::format("--vpp {}: --first-stage-layers and "
                        "--last-stage-layers count the layers of stages; say "
                        "those of each virtual stage with --pipeline-layout",
                        layout.vpp));
    return;
  }
  if (layers < 0 || chunks < 0 || (chunks == 0 && layers != 0)) {
    diagnostics.error(
        {}, fmt::format("--first-stage-layers {} and --last-stage-layers {} do "
                        "not fit {} layers on {} stages",
                        first, last, model.layers, layout.pp));
    return;
  }
  if (chunks != 0 && layers % chunks != 0) {
    diagnostics.error(
        {}, fmt::format("{} layers do not divide by {} {}stages ({}); {}",
                        layers, chunks, layout.vpp == 1 ? "" : "virtual ",
                        sizesText(layout),
                        fixed == 0 ? otherSizes(model, layout)
                                   : "choose other stage sizes"));
    return;
  }
  for (int64_t &count : layout.chunkLayers)
    count = chunks == 0 ? 0 : layers / chunks;
  if (first != 0)
    layout.chunkLayers.front() = first;
  if (last != 0)
    layout.chunkLayers.back() = last;
}

void cutPipeline(const Options &options, const dsl::Model &model,
                 ParallelLayout &layout, Diagnostics &diagnostics) {
  std::string rest;
  std::string main = model.patternField.empty() ? "" : mainPattern(model, rest);
  bool counts = options.firstStageLayers != 0 || options.lastStageLayers != 0;
  if (main.empty()) {
    if (options.pipelineLayout.empty())
      return cutByCounts(options, model, layout, diagnostics);
    if (counts)
      diagnostics.error({}, "--pipeline-layout and --first-stage-layers or "
                            "--last-stage-layers exclude each other");
    return readLayoutText(options, model, layout, diagnostics);
  }
  if (counts)
    diagnostics.error({}, fmt::format("{} is cut by its pattern \"{}\"; "
                                      "--first-stage-layers and "
                                      "--last-stage-layers do not apply, use "
                                      "--pipeline-layout",
                                      model.name, main));
  if (options.pipelineLayout.empty())
    cutHybridEvenly(model, main, layout, diagnostics);
  else
    checkWrittenPattern(model, main, options.pipelineLayout, layout,
                        diagnostics);
  layout.pattern += rest;
}

} // namespace mbc::compiler
