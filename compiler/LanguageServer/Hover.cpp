#include "compiler/LanguageServer/Hover.h"

#include "compiler/Binding/InferShapes.h"
#include "compiler/Binding/QuantizedTensors.h"
#include "dsl/Expression.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mbc::compiler {
namespace {

using Kind = dsl::SymbolUse::Kind;

/// More are counted, not listed.
constexpr size_t maxListed = 8;

std::string code(std::string_view text) {
  return fmt::format("```mbspec\n{}\n```\n", text);
}

std::string textOf(const dsl::Value &value);

std::string textOf(const dsl::ValueList &list) {
  std::vector<std::string> items;
  for (size_t i = 0; i != std::min(list.size(), maxListed); ++i)
    items.push_back(textOf(list[i]));
  if (list.size() > maxListed)
    items.push_back(fmt::format("... ({} in all)", list.size()));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string textOf(const dsl::Value &value) {
  struct Visitor {
    std::string operator()(std::monostate) { return "null"; }
    std::string operator()(bool truth) { return truth ? "true" : "false"; }
    std::string operator()(int64_t integer) { return fmt::to_string(integer); }
    std::string operator()(double number) { return fmt::to_string(number); }
    std::string operator()(const std::string &text) {
      return fmt::format("\"{}\"", text);
    }
    std::string operator()(const std::shared_ptr<const dsl::ValueList> &list) {
      return textOf(*list);
    }
  };
  return std::visit(Visitor{}, static_cast<const dsl::Value::variant &>(value));
}

/// The findings of an evaluation that gave nothing.
std::string problems(const dsl::Diagnostics &diagnostics) {
  std::string text;
  for (const dsl::Diagnostic &diagnostic : diagnostics.all())
    if (diagnostic.severity == dsl::Severity::Error)
      text += diagnostic.text + "\n\n";
  return text;
}

std::string letValue(const dsl::Spec &spec, dsl::Symbol symbol,
                     const Subject &subject) {
  Result<dsl::ConfigNode> config = dsl::parseConfig(subject.config);
  if (!config)
    return config.error().message;
  dsl::Diagnostics diagnostics;
  dsl::Reporter reporter(diagnostics);
  const dsl::NameOracle oracle = subject.oracle();
  dsl::Expressions values(spec, *config, oracle, reporter);
  std::optional<dsl::Datum> value =
      values.evaluate(*spec.lets.at(symbol).value);
  if (!value)
    return problems(diagnostics);
  return code(fmt::format("= {}", value->isObject() ? dsl::describe(*value)
                                                    : textOf(value->value)));
}

std::string declarationText(const dsl::SourceRange &where) {
  std::string_view line = lineOf(where.file->text, where.line);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return std::string(line);
}

std::string symbolText(const Document &document, const dsl::SymbolUse &use,
                       const Subject *subject) {
  if (use.kind == Kind::File)
    return use.declaration.file->path;
  std::string text = code(declarationText(use.declaration));
  if (use.kind == Kind::Let && subject)
    text += letValue(*document.spec(), use.symbol, *subject);
  return text;
}

/// The tensors of one side with what is known of them.
std::string tensorsText(const std::vector<std::string> &names,
                        const std::vector<Shape> *shapes,
                        const Checkpoint *stored) {
  std::vector<std::string> lines;
  for (size_t i = 0; i != names.size(); ++i) {
    lines.push_back(fmt::format("  {}", names[i]));
    if (shapes)
      lines.back() += fmt::format(" {}", toString((*shapes)[i]));
    if (stored)
      lines.back() += fmt::format(
          " {}",
          safetensorsName(stored->tensors[stored->find(names[i])].dtype));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

/// One use of a rule: its names, and the shapes of both sides if the known
/// side's are in the headers.
std::string instanceText(const dsl::Mapping &mapping,
                         const dsl::RuleInstance &instance,
                         const Subject &subject) {
  bool fromHf = subject.known() == dsl::Side::Hf;
  const auto &known = fromHf ? instance.hf : instance.megatron;
  const auto &other = fromHf ? instance.megatron : instance.hf;
  const Checkpoint *stored =
      subject.checkpoint ? &*subject.checkpoint : nullptr;
  std::vector<Shape> knownShapes;
  for (const std::string &name : known) {
    uint32_t tensor = stored ? stored->find(name) : Checkpoint::none;
    if (tensor != Checkpoint::none)
      knownShapes.push_back(shapeOfValues(*stored, stored->tensors[tensor]));
  }
  if (knownShapes.size() != known.size())
    stored = nullptr;
  std::optional<std::vector<Shape>> otherShapes;
  if (stored)
    if (auto whole =
            inferUp(fromHf ? mapping.hf : mapping.megatron, knownShapes, known))
      if (auto shapes =
              inferDown(fromHf ? mapping.megatron : mapping.hf, *whole, other))
        otherShapes = std::move(*shapes);
  std::string knownText =
      tensorsText(known, stored ? &knownShapes : nullptr, stored);
  std::string otherText =
      tensorsText(other, otherShapes ? &*otherShapes : nullptr, nullptr);
  return fmt::format("{}\n<-\n{}", fromHf ? otherText : knownText,
                     fromHf ? knownText : otherText);
}

/// The rule that starts in a line, as it is for the subject.
std::optional<std::string> ruleText(const Document &document, uint32_t line,
                                    const Subject &subject) {
  const dsl::Spec *spec = document.spec();
  if (!spec || !spec->model)
    return std::nullopt;
  dsl::Diagnostics diagnostics;
  dsl::Model model =
      dsl::evaluate(*spec, subject.config, subject.oracle(), diagnostics);
  std::string text;
  size_t count = 0;
  for (const dsl::RuleInstance &instance : model.instances) {
    const dsl::Mapping &mapping = model.mappings[instance.mapping];
    if (!document.isHere(mapping.where) || mapping.where.line != line)
      continue;
    if (count++ < maxListed)
      text += code(instanceText(mapping, instance, subject));
  }
  if (count > maxListed)
    text += fmt::format("and {} more\n", count - maxListed);
  if (count != 0)
    return text;
  return diagnostics.hasErrors() ? std::optional(problems(diagnostics))
                                 : std::nullopt;
}

} // namespace

std::optional<std::string> hover(const Document &document, Place place,
                                 const Subject *subject) {
  if (const dsl::SymbolUse *use = document.symbolAt(place.line, place.column))
    return symbolText(document, *use, subject);
  return subject ? ruleText(document, place.line, *subject) : std::nullopt;
}

} // namespace mbc::compiler
